// One conversation with `dmv api` (docs/api.md). It knows messages, and neither commands nor the editor.

const { spawn } = require('child_process')

/** @typedef {{exit: number, output: any[], notes: {type: string, message: string}[], data?: string}} Result */
/** @typedef {{resolve: (result: Result) => void, reject: (error: Error) => void, event?: (event: any) => void}} Call */

/** What a command says when it fails. */
class DmvError extends Error {
  /** @param {{message: string, data?: any}} error */
  constructor(error) {
    super(error.message)
    this.code = error.data?.code
    this.hint = error.data?.hint
  }
}

class Client {
  /**
   * Starts the program, without a shell.
   * @param {string} program
   * @param {string} directory
   */
  constructor(program, directory) {
    /** @type {Map<number, Call>} */
    this.calls = new Map()
    this.last = 0
    /** @type {Buffer[]} */
    this.line = []
    this.isOver = false
    this.process = spawn(program, ['-C', directory, 'api'], { stdio: ['pipe', 'pipe', 'ignore'] })
    /** The first message: its `root` is the worktree, or null. @type {Promise<{version: number, root: string | null}>} */
    this.hello = new Promise((resolve, reject) => {
      this.begin = resolve
      this.fail = reject
    })
    // Whoever waits for it hears of it.
    this.hello.catch(() => {})
    this.process.stdout.on('data', (bytes) => this.take(bytes))
    this.process.on('error', (error) => this.end(error))
    this.process.on('close', () => this.end(new Error('dmv api has ended')))
    // A broken pipe is followed by the end of the process.
    this.process.stdin.on('error', () => {})
  }

  /**
   * Runs a command. `event` hears what it tells before it ends.
   * @param {string} method
   * @param {object} [params]
   * @param {(event: any) => void} [event]
   * @returns {Promise<Result>}
   */
  call(method, params = {}, event) {
    return new Promise((resolve, reject) => {
      if (this.isOver) {
        reject(new Error('dmv api has ended'))
        return
      }
      const id = ++this.last
      this.calls.set(id, { resolve, reject, event })
      this.process.stdin.write(JSON.stringify({ jsonrpc: '2.0', id, method, params }) + '\n')
    })
  }

  /** @param {Buffer} bytes */
  take(bytes) {
    for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10)) {
      this.line.push(bytes.subarray(0, end))
      bytes = bytes.subarray(end + 1)
      const line = Buffer.concat(this.line).toString()
      this.line = []
      this.answer(JSON.parse(line))
    }
    this.line.push(bytes)
  }

  /** @param {any} message */
  answer(message) {
    if (message.method === 'hello') {
      this.begin?.(message.params)
      return
    }
    const id = message.method ? message.params.id : message.id
    const call = this.calls.get(id)
    if (message.method) {
      if (message.method === 'event') call?.event?.(message.params.event)
      return
    }
    this.calls.delete(id)
    if (message.error) call?.reject(new DmvError(message.error))
    else call?.resolve(message.result)
  }

  /** @param {Error} error */
  end(error) {
    this.isOver = true
    this.fail?.(error)
    this.calls.forEach((call) => call.reject(error))
    this.calls.clear()
  }

  /** Ends the process when it has answered everything. */
  dispose() {
    this.process.stdin.end()
  }
}

module.exports = { Client, DmvError }
