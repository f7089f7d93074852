// The style and the script of exported pages, built into the package: small, and in the colours of tokens.css.
import { readFileSync, writeFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { transform } from 'lightningcss'
import { minifySync } from 'rolldown/experimental'

const here = import.meta.dirname
const out = process.env.RECOLLECT_FRAME_OUT ?? join(here, '../../src/recollect/services/export/frame')
const read = (path) => readFileSync(join(here, path), 'utf8')

/** Sheets with the tokens they use. */
function style(...names) {
  const text = names.map((name) => read(name)).join('\n')
  const [, values, themes] = /:root \{([^}]*)\}([^]*)/.exec(read('../src/tokens.css').replace(/\/\*[^]*?\*\//g, ''))
  const kept = [...values.matchAll(/(--[a-z0-9-]+): *([^;]+);/g)].filter(([, name]) => text.includes(`var(${name})`))
  const sheet = `:root { color-scheme: light dark; ${kept.map(([rule]) => rule).join(' ')} }${themes}${text}`
  return transform({ filename: 'page.css', code: Buffer.from(sheet), minify: true }).code.toString().trim()
}

mkdirSync(out, { recursive: true })
writeFileSync(join(out, 'page.css'), style('page.css'))
writeFileSync(join(out, 'index.css'), style('page.css', 'charts.css'))
writeFileSync(join(out, 'page.js'), minifySync('page.js', `(() => {${read('page.js')}})()`).code.trim())
