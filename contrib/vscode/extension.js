// A DMV repository as source control of VS Code: what has changed, commits, newer versions elsewhere, claims.

const fs = require('fs')
const path = require('path')
const vscode = require('vscode')
const { Client, DmvError } = require('./client')

/** The letter and the color of a change. @type {Record<string, [string, string]>} */
const BADGES = {
  added: ['A', 'gitDecoration.addedResourceForeground'],
  modified: ['M', 'gitDecoration.modifiedResourceForeground'],
  deleted: ['D', 'gitDecoration.deletedResourceForeground'],
  type: ['T', 'gitDecoration.modifiedResourceForeground'],
  conflict: ['C', 'gitDecoration.conflictingResourceForeground'],
}

/** Files change in groups; so many milliseconds after the first one, the state is asked for. */
const CALM = 100

class Repository {
  /**
   * @param {Client} client
   * @param {string} root
   */
  constructor(client, root) {
    this.client = client
    this.root = root
    const uri = vscode.Uri.file(root)
    this.control = vscode.scm.createSourceControl('dmv', 'DMV', uri)
    this.control.inputBox.placeholder = 'What you have done'
    this.control.acceptInputCommand = { command: 'dmv.commit', title: 'Commit', arguments: [this.control] }
    this.control.quickDiffProvider = { provideOriginalResource: (file) => this.original(file) }
    this.conflicts = this.control.createResourceGroup('conflicts', 'Conflicts')
    this.conflicts.hideWhenEmpty = true
    this.changes = this.control.createResourceGroup('changes', 'Changes')
    /** The change of each path. @type {Map<string, string>} */
    this.states = new Map()
    /** @type {any} */
    this.status = {}
    /** Warnings that were shown. @type {Set<string>} */
    this.shown = new Set()
    this.changed = new vscode.EventEmitter()
    /** @type {NodeJS.Timeout | undefined} */
    this.timer = undefined
    this.isDisposed = false
    client.call('watch', {}, () => this.soon()).catch((error) => this.isDisposed || show(error))
  }

  /** Returns the path of a file from the root, or null if it is elsewhere. @param {vscode.Uri} uri */
  pathOf(uri) {
    if (uri.scheme !== 'file' && uri.scheme !== 'dmv') return null
    const inside = (/** @type {string} */ file) => {
      const found = path.relative(this.root, file)
      const isOutside = found === '' || found.split(path.sep)[0] === '..' || path.isAbsolute(found)
      return isOutside || found.split(path.sep)[0] === '.dmv' ? null : found.split(path.sep).join('/')
    }
    const given = inside(uri.fsPath)
    if (given !== null) return given
    try {
      // The root is a path without symlinks.
      return inside(path.join(fs.realpathSync(path.dirname(uri.fsPath)), path.basename(uri.fsPath)))
    } catch {
      return null
    }
  }

  /** The version of a file in the commit. @param {vscode.Uri} uri */
  original(uri) {
    const at = this.pathOf(uri)
    const isNew = at === null || this.states.get(at) === 'added'
    return isNew || uri.scheme !== 'file' ? undefined : uri.with({ scheme: 'dmv', query: this.status.commit ?? '' })
  }

  /** @param {vscode.Uri} uri */
  async content(uri) {
    const found = await this.client.call('cat', { place: `${uri.query || '@'}:${this.pathOf(uri)}` })
    return Buffer.from(found.data ?? '', 'base64').toString()
  }

  soon() {
    this.timer ??= setTimeout(() => {
      this.timer = undefined
      this.refresh().catch(show)
    }, CALM)
  }

  async refresh() {
    this.status = (await this.client.call('status')).output[0]
    if (this.isDisposed) return
    this.states = new Map(this.status.changes.map((/** @type {any} */ one) => [one.path, one.change]))
    // A name that is no text has no place in the editor.
    const shown = (/** @type {any} */ one) => !('path_b64' in one)
    const conflicts = this.status.conflicts.filter(shown)
    conflicts.forEach((/** @type {any} */ one) => this.states.set(one.path, 'conflict'))
    const changes = this.status.changes.filter(shown).filter((/** @type {any} */ one) => this.states.get(one.path) !== 'conflict')
    this.conflicts.resourceStates = conflicts.map((/** @type {any} */ one) => this.resource(one.path))
    this.changes.resourceStates = changes.map((/** @type {any} */ one) => this.resource(one.path))
    this.control.count = conflicts.length + changes.length
    const title = `$(git-branch) ${this.status.branch ?? 'no branch'}`
    this.control.statusBarCommands = [{ command: 'dmv.refresh', title, tooltip: 'DMV: look for changes' }]
    this.changed.fire(undefined)
  }

  /** @param {string} at */
  resource(at) {
    const resourceUri = vscode.Uri.file(path.join(this.root, at))
    const state = this.states.get(at) ?? ''
    const decorations = { strikeThrough: state === 'deleted', tooltip: state }
    return { resourceUri, decorations, command: { command: 'dmv.compare', title: 'Compare', arguments: [resourceUri] } }
  }

  /** Warns of what somebody who begins to work on a file should know. @param {vscode.Uri} uri */
  async warn(uri) {
    const at = this.pathOf(uri)
    if (at === null || uri.scheme !== 'file') return
    const state = (await this.client.call('states', { paths: [':/' + at] })).output[0]
    for (const one of state?.newer ?? []) {
      const where = one.remote ? `${one.remote}/${one.branch}` : one.branch
      this.warnOnce(`${at}: ${where} has a newer version, by ${one.author}`, one.commit)
    }
    const claimed = state?.claimed
    if (claimed && !claimed.mine) this.warnOnce(`${at} is claimed by ${claimed.by}`, claimed.since)
  }

  /**
   * @param {string} text
   * @param {string} what
   */
  warnOnce(text, what) {
    if (this.shown.has(text + what)) return
    this.shown.add(text + what)
    vscode.window.showWarningMessage(text)
  }

  async commit() {
    const message = this.control.inputBox.value.trim()
    if (message === '') {
      vscode.window.showInformationMessage('Write a message for the commit first.')
      return
    }
    await this.refresh()
    const newer = this.status.newer.map((/** @type {any} */ one) => one.path)
    if (newer.length > 0) {
      const text = `Another branch has a newer version of ${newer.slice(0, 3).join(', ')}${newer.length > 3 ? ', ...' : ''}`
      if ((await vscode.window.showWarningMessage(text, { modal: true }, 'Commit')) !== 'Commit') return
    }
    const done = await this.client.call('commit', { message })
    if (done.output[0]?.commit) this.control.inputBox.value = ''
    else vscode.window.showInformationMessage('There is nothing to commit.')
    await this.refresh()
  }

  /**
   * Claims files or releases them.
   * @param {'claim' | 'release'} method
   * @param {vscode.Uri[]} files
   */
  async claim(method, files) {
    const paths = files.map((file) => this.pathOf(file)).filter((at) => at !== null).map((at) => ':/' + at)
    if (paths.length === 0) return
    const done = await this.client.call(method, { paths })
    done.notes.forEach((note) => vscode.window.showInformationMessage(note.message))
  }

  dispose() {
    this.isDisposed = true
    clearTimeout(this.timer)
    this.client.dispose()
    this.control.dispose()
    this.changed.dispose()
  }
}

/** @param {unknown} error */
function show(error) {
  const hint = error instanceof DmvError && error.hint ? ` (${error.hint})` : ''
  const text = error instanceof Error ? error.message : String(error)
  vscode.window.showErrorMessage(`DMV: ${text}${hint}`)
}

/** All open repositories. */
class Repositories {
  constructor() {
    /** @type {Map<string, Repository>} */
    this.byRoot = new Map()
    /** The root of each folder that is in a repository. @type {Map<string, string>} */
    this.roots = new Map()
    this.decorated = new vscode.EventEmitter()
  }

  /** Opens the repository of a folder, if it is in one. @param {string} folder */
  async open(folder) {
    const client = new Client(vscode.workspace.getConfiguration('dmv').get('program', 'dmv'), folder)
    const hello = await client.hello
    if (hello.version === 1 && hello.root !== null) this.roots.set(folder, hello.root)
    if (hello.version !== 1 || hello.root === null || this.byRoot.has(hello.root)) {
      client.dispose()
      return
    }
    const repository = new Repository(client, hello.root)
    this.byRoot.set(hello.root, repository)
    repository.changed.event(() => this.decorated.fire(undefined))
    await repository.refresh()
    await Promise.all(vscode.workspace.textDocuments.map((document) => repository.warn(document.uri)))
  }

  /** Opens those of all folders of the window, and closes the others. One whose process has ended begins anew. */
  async openAll() {
    const files = (vscode.workspace.workspaceFolders ?? []).filter((folder) => folder.uri.scheme === 'file')
    const folders = new Set(files.map((folder) => folder.uri.fsPath))
    for (const [folder, root] of this.roots) {
      if (!folders.has(folder) || this.byRoot.get(root)?.client.isOver) this.roots.delete(folder)
    }
    const wanted = new Set(this.roots.values())
    for (const [root, repository] of this.byRoot) {
      if (!wanted.has(root)) {
        repository.dispose()
        this.byRoot.delete(root)
      }
    }
    for (const folder of folders) {
      if (!this.roots.has(folder)) await this.open(folder)
    }
  }

  /** @param {vscode.Uri | undefined} uri */
  of(uri) {
    const found = [...this.byRoot.values()].filter((one) => uri && one.pathOf(uri) !== null)
    return found.sort((a, b) => b.root.length - a.root.length)[0]
  }

  /** @param {vscode.Uri} uri */
  decoration(uri) {
    const repository = this.of(uri)
    const state = repository?.states.get(repository.pathOf(uri) ?? '')
    const badge = BADGES[state ?? '']
    return badge && new vscode.FileDecoration(badge[0], state, new vscode.ThemeColor(badge[1]))
  }

  dispose() {
    this.byRoot.forEach((one) => one.dispose())
    this.byRoot.clear()
  }
}

/** @param {vscode.ExtensionContext} context */
async function activate(context) {
  const all = new Repositories()
  const guarded = (/** @type {(...args: any[]) => Promise<unknown>} */ work) => (/** @type {any[]} */ ...args) =>
    work(...args).catch(show)
  const command = (/** @type {string} */ name, /** @type {(...args: any[]) => Promise<unknown>} */ work) =>
    vscode.commands.registerCommand(`dmv.${name}`, guarded(work))
  // From a menu of the view come resources, from the palette nothing.
  const claim = (/** @type {'claim' | 'release'} */ method) => async (/** @type {any[]} */ ...resources) => {
    const given = resources.flat().map((one) => one?.resourceUri).filter((uri) => uri)
    const active = vscode.window.activeTextEditor?.document.uri
    const files = given.length > 0 || !active ? given : [active]
    const repositories = new Set(files.map((file) => all.of(file)))
    await Promise.all([...repositories].map((one) => one?.claim(method, files.filter((file) => all.of(file) === one))))
  }
  context.subscriptions.push(
    all,
    command('refresh', async () => {
      await all.openAll()
      await Promise.all([...all.byRoot.values()].map((one) => one.refresh()))
    }),
    command('commit', async (control) => {
      const one = [...all.byRoot.values()].find((one) => one.control === control || one.root === control?.rootUri?.fsPath)
      await (one ?? all.of(vscode.window.activeTextEditor?.document.uri) ?? [...all.byRoot.values()][0])?.commit()
    }),
    command('compare', async (uri) => {
      const original = all.of(uri)?.original(uri)
      if (!original) await vscode.commands.executeCommand('vscode.open', uri)
      else await vscode.commands.executeCommand('vscode.diff', original, uri, `${path.basename(uri.fsPath)} (commit and now)`)
    }),
    command('claim', claim('claim')),
    command('release', claim('release')),
    vscode.workspace.registerTextDocumentContentProvider('dmv', {
      provideTextDocumentContent: async (uri) => (await all.of(uri)?.content(uri)) ?? '',
    }),
    vscode.window.registerFileDecorationProvider({
      onDidChangeFileDecorations: all.decorated.event,
      provideFileDecoration: (uri) => (uri.scheme === 'file' ? all.decoration(uri) : undefined),
    }),
    vscode.workspace.onDidOpenTextDocument((document) => all.of(document.uri)?.warn(document.uri).catch(show)),
    vscode.workspace.onDidSaveTextDocument((document) => all.of(document.uri)?.soon()),
    vscode.workspace.onDidChangeWorkspaceFolders(guarded(() => all.openAll())),
  )
  await guarded(() => all.openAll())()
}

module.exports = { activate }
