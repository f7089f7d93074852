// The exported page's script and style, built into the package: parts of the local page in one file each.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { svelte } from '@sveltejs/vite-plugin-svelte'
import { build } from 'vite'

const here = import.meta.dirname
const out = process.env.RECOLLECT_FRAME_OUT ?? join(here, '../../src/recollect/share/export/frame')
await build({
  root: join(here, '..'),
  configFile: false,
  logLevel: 'warn',
  plugins: [svelte()],
  publicDir: false,
  build: {
    outDir: out,
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: false,
    cssCodeSplit: false,
    reportCompressedSize: false,
    rolldownOptions: { input: join(here, 'main.ts'), output: { format: 'iife', entryFileNames: 'page.js', assetFileNames: 'page[extname]' } },
  },
})
// Inside a script element these would change where it ends.
const script = join(out, 'page.js')
writeFileSync(script, readFileSync(script, 'utf8').replace(/<(?=!--|\/?script)/gi, '\\x3C').trim())
const style = join(out, 'page.css')
writeFileSync(style, readFileSync(style, 'utf8').trim())
