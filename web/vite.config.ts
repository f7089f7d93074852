// The page is built into the package: no Node where it is installed, the same bytes from the same source.
import { svelte } from '@sveltejs/vite-plugin-svelte'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  plugins: [svelte()],
  resolve: process.env.VITEST ? { conditions: ['browser'] } : {},
  build: {
    outDir: process.env.RECOLLECT_WEB_OUT ?? '../src/recollect/web/static',
    emptyOutDir: true,
    target: 'es2022',
    // The content policy forbids data: in style sheets and inline scripts, so nothing is inlined.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: { proxy: { '/api': 'http://127.0.0.1:8123' } },
  test: { environment: 'jsdom', include: ['tests/**/*.test.ts'] },
})
