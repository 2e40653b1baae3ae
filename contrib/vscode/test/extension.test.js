// The extension against the real `dmv api`, without an editor: a stand-in takes the place of the module `vscode`.

const assert = require('assert')
const fs = require('fs')
const os = require('os')
const path = require('path')
const test = require('node:test')
const { execFileSync } = require('child_process')
const { standIn } = require('./stand-in')

const program = process.env.DMV ?? 'dmv'
const top = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'dmv-vscode-')))
const root = path.join(top, 'film')
Object.assign(process.env, { HOME: top, XDG_CONFIG_HOME: top, DMV_USER_NAME: 'a', DMV_USER_EMAIL: 'a@x' })
const dmv = (...words) => execFileSync(program, ['-C', root, ...words], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
const write = (file, text) => fs.writeFileSync(path.join(root, file), text)

execFileSync(program, ['init', root], { stdio: 'ignore' })
fs.mkdirSync(path.join(root, 'shots'))
write('shots/a.txt', 'one\n')
write('gone.txt', 'g\n')
write('title.txt', 't\n')
dmv('commit', '-qm', 'first')
dmv('checkout', '-b', 'side')
write('shots/a.txt', 'two\n')
dmv('commit', '-qm', 'second')
dmv('checkout', 'main')

const plain = path.join(top, 'plain')
fs.mkdirSync(plain)
const seen = standIn(program, [root, path.join(root, 'shots'), plain])
const { activate } = require('../extension')
const context = { subscriptions: [] }
const uri = (file) => seen.vscode.Uri.file(path.join(root, file))
const run = (name, ...args) => seen.commands.get(`dmv.${name}`)(...args)
const shown = (group) => group.resourceStates.map((one) => path.relative(root, one.resourceUri.fsPath))

async function until(fact) {
  for (const end = Date.now() + 20000; !fact(); await new Promise((resolve) => setTimeout(resolve, 20))) {
    assert(Date.now() < end, `it has not come: ${fact}`)
  }
}

test.after(() => {
  context.subscriptions.forEach((one) => one?.dispose())
  fs.rmSync(top, { recursive: true, force: true })
})

test('a repository in the editor', async (t) => {
  await activate(context)
  const [control] = seen.controls
  await t.test('folders of one repository share it, and one without a repository has none', () => {
    assert.deepStrictEqual(seen.controls.length, 1)
    assert.strictEqual(control.rootUri.fsPath, root)
    assert.match(control.statusBarCommands[0].title, /main/)
    assert.strictEqual(control.count, 0)
  })
  await t.test('changes appear by themselves', async () => {
    write('shots/new.txt', 'n\n')
    write('title.txt', 'changed\n')
    fs.rmSync(path.join(root, 'gone.txt'))
    await until(() => control.count === 3)
    assert.deepStrictEqual(shown(control.changes), ['gone.txt', 'shots/new.txt', 'title.txt'])
    assert.strictEqual(control.changes.resourceStates[0].decorations.strikeThrough, true)
    const badge = (file) => seen.providers.decoration.provideFileDecoration(uri(file))?.badge
    assert.deepStrictEqual(['gone.txt', 'shots/new.txt', 'title.txt', 'shots/a.txt'].map(badge), ['D', 'A', 'M', undefined])
  })
  await t.test('a file is compared with its version in the commit, and a new one is opened', async () => {
    await run('compare', uri('title.txt'))
    const [[command, original, now]] = seen.executed
    assert.strictEqual(command, 'vscode.diff')
    assert.strictEqual(now.fsPath, uri('title.txt').fsPath)
    assert.strictEqual(await seen.providers.dmv.provideTextDocumentContent(original), 't\n')
    await run('compare', uri('shots/new.txt'))
    assert.strictEqual(seen.executed[1][0], 'vscode.open')
    assert.strictEqual(control.quickDiffProvider.provideOriginalResource(uri('../elsewhere')), undefined)
  })
  await t.test('an opened file of which another branch has a newer version warns, once', async () => {
    const warnings = () => seen.said.filter((text) => text.startsWith('warning'))
    for (const file of ['shots/a.txt', 'title.txt', 'shots/a.txt']) await seen.opened.fire({ uri: uri(file) })
    assert.deepStrictEqual(warnings(), ['warning: shots/a.txt: side has a newer version, by a'])
  })
  await t.test('a claim is made and released', async () => {
    await run('claim', control.changes.resourceStates[2], [control.changes.resourceStates[2]])
    assert.match(dmv('claims', '--json'), /"path":"title.txt"/)
    seen.vscode.window.activeTextEditor = { document: { uri: uri('title.txt') } }
    await run('release')
    assert.strictEqual(dmv('claims', '--json'), '')
  })
  await t.test('a commit needs a message, and has all changes', async () => {
    await run('commit', control)
    assert.match(seen.said.pop(), /Write a message/)
    control.inputBox.value = 'from the editor'
    await run('commit', control)
    assert.strictEqual(control.inputBox.value, '')
    assert.strictEqual(control.count, 0)
    assert.match(dmv('log', '--oneline'), /from the editor/)
    control.inputBox.value = 'nothing'
    await run('commit', control)
    assert.match(seen.said.pop(), /nothing to commit/)
  })
  await t.test('a commit of a file with a newer version elsewhere asks first', async () => {
    write('shots/a.txt', 'three\n')
    control.inputBox.value = 'over it'
    await run('commit', control)
    assert.match(seen.said.pop(), /newer version of shots\/a.txt/)
    assert.strictEqual(control.inputBox.value, 'over it')
    assert.doesNotMatch(dmv('log', '--oneline'), /over it/)
    seen.answer = 'Commit'
    await run('commit', control)
    assert.match(dmv('log', '--oneline'), /over it/)
  })
  await t.test('conflicts have a group of their own', async () => {
    assert.throws(() => dmv('merge', 'side'))
    await until(() => control.conflicts.resourceStates.length === 1)
    assert.deepStrictEqual(shown(control.conflicts), ['shots/a.txt'])
    dmv('undo')
    await until(() => control.conflicts.resourceStates.length === 0)
  })
  await t.test('failures are said', async () => {
    control.inputBox.value = 'x'
    seen.vscode.workspace.workspaceFolders.pop()
    fs.renameSync(path.join(root, '.dmv'), path.join(top, 'away'))
    await run('commit', control)
    fs.renameSync(path.join(top, 'away'), path.join(root, '.dmv'))
    assert.match(seen.said.pop(), /^error: DMV: /)
  })
  await t.test('a folder that goes closes its repository', async () => {
    seen.vscode.workspace.workspaceFolders = []
    seen.changedFolders.fire()
    await until(() => !control.isOpen)
  })
})
