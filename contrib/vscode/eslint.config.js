const js = require('@eslint/js')

const globals = { require: 'readonly', module: 'writable', process: 'readonly', Buffer: 'readonly', setTimeout: 'readonly' }

module.exports = [
  js.configs.recommended,
  {
    languageOptions: { sourceType: 'commonjs', globals: { ...globals, clearTimeout: 'readonly' } },
    rules: { eqeqeq: 'error', 'prefer-const': 'error', 'no-var': 'error' },
  },
]
