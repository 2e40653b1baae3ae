// As much of the module `vscode` as the extension uses. Tests look at what it was given, and answer for the user.

const Module = require('module')
const path = require('path')

class Uri {
  constructor(scheme, fsPath, query = '') {
    Object.assign(this, { scheme, fsPath, query })
  }
  static file(fsPath) {
    return new Uri('file', path.normalize(fsPath))
  }
  with({ scheme = this.scheme, query = this.query }) {
    return new Uri(scheme, this.fsPath, query)
  }
  toString() {
    return `${this.scheme}:${this.fsPath}?${this.query}`
  }
}

class EventEmitter {
  constructor() {
    this.listeners = new Set()
    this.event = (listener) => {
      this.listeners.add(listener)
      return { dispose: () => this.listeners.delete(listener) }
    }
  }
  fire(value) {
    return Promise.all([...this.listeners].map((listener) => listener(value)))
  }
  dispose() {
    this.listeners.clear()
  }
}

function standIn(program, folders) {
  const said = []
  const seen = { said, controls: [], commands: new Map(), executed: [], answer: undefined, providers: {} }
  const say = (kind) => async (text) => {
    said.push(`${kind}: ${text}`)
    return seen.answer
  }
  const opened = new EventEmitter()
  const saved = new EventEmitter()
  const changedFolders = new EventEmitter()
  Object.assign(seen, { opened, saved, changedFolders })
  seen.vscode = {
    Uri,
    EventEmitter,
    FileDecoration: class {
      constructor(badge, tooltip, color) {
        Object.assign(this, { badge, tooltip, color })
      }
    },
    ThemeColor: class {},
    scm: {
      createSourceControl(id, label, rootUri) {
        const group = (id) => ({ id, resourceStates: [] })
        const control = { id, label, rootUri, inputBox: { value: '' }, createResourceGroup: group, isOpen: true }
        control.dispose = () => (control.isOpen = false)
        control.createResourceGroup = (id) => (control[id] = group(id))
        seen.controls.push(control)
        return control
      },
    },
    window: {
      showErrorMessage: say('error'),
      showWarningMessage: say('warning'),
      showInformationMessage: say('information'),
      registerFileDecorationProvider(provider) {
        seen.providers.decoration = provider
        return { dispose() {} }
      },
    },
    workspace: {
      workspaceFolders: folders.map((folder) => ({ uri: Uri.file(folder) })),
      textDocuments: [],
      getConfiguration: () => ({ get: () => program }),
      onDidOpenTextDocument: opened.event,
      onDidSaveTextDocument: saved.event,
      onDidChangeWorkspaceFolders: changedFolders.event,
      registerTextDocumentContentProvider(scheme, provider) {
        seen.providers[scheme] = provider
        return { dispose() {} }
      },
    },
    commands: {
      registerCommand(name, work) {
        seen.commands.set(name, work)
        return { dispose() {} }
      },
      executeCommand: async (...call) => seen.executed.push(call),
    },
  }
  const load = Module._load
  Module._load = (name, ...more) => (name === 'vscode' ? seen.vscode : load(name, ...more))
  return seen
}

module.exports = { standIn }
