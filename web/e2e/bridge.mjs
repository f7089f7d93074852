// Drives Chromium for the tests in tests/browser: reads {"step", "args"} a line, answers {"value"} or {"error"} a line.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { chromium } from 'playwright-core'
import * as steps from './steps.mjs'

const profile = mkdtempSync(join(tmpdir(), 'recollect-chromium-'))
const flags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync']
const context = await chromium.launchPersistentContext(profile, {
  executablePath: process.argv[2],
  headless: true,
  args: flags,
  viewport: { width: 1280, height: 820 },
  acceptDownloads: true,
  permissions: ['clipboard-read', 'clipboard-write'],
  // The page's own requests are what is counted; nothing else may hide one.
  serviceWorkers: 'block',
})
context.setDefaultTimeout(Number(process.env.RECOLLECT_PATIENCE ?? 60) * 1000)
const page = context.pages()[0] ?? (await context.newPage())
const seen = { requests: [], problems: [], dialogs: 0 }
context.on('request', (request) => seen.requests.push(request.url()))
page.on('pageerror', (error) => seen.problems.push(String(error.stack ?? error)))
page.on('console', (message) => message.type() === 'error' && seen.problems.push(`${message.text()} ${message.location().url}`))
page.on('dialog', (dialog) => {
  seen.dialogs++
  void dialog.dismiss()
})

/** What a person would see now, for whoever has to find out why a step failed. */
async function shown() {
  const text = await page.evaluate(() => document.body.innerText.slice(0, 2000)).catch((error) => `(no text: ${error})`)
  return [`at ${page.url()}`, text, 'last requests:', ...seen.requests.slice(-12), 'problems:', ...seen.problems.slice(-6)].join('\n')
}

for await (const line of createInterface({ input: process.stdin })) {
  const { step, args } = JSON.parse(line)
  let answer
  try {
    answer = { value: (await steps[step]({ page, context, seen }, args)) ?? null }
  } catch (error) {
    answer = { error: `${error.stack ?? error}\n${await shown()}` }
  }
  process.stdout.write(JSON.stringify(answer) + '\n')
}
await context.close()
rmSync(profile, { recursive: true, force: true })
