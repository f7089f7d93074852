// What a person does on the page, a step each. They act and tell what is there; the tests judge.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

export async function open({ page, seen }, { url }) {
  seen.requests.length = seen.problems.length = seen.dialogs = 0
  // Each test begins where nobody has read yet, and with the look the page has by itself, whatever the one before left.
  await page.evaluate(() => localStorage.clear()).catch(() => {})
  await page.goto('about:blank')
  await page.goto(url)
  await page.waitForSelector('main [data-search], main .message, main .card, main .waiting.trouble, main .signin')
  return page.url()
}

export async function go({ page }, { hash, wait }) {
  await page.evaluate((to) => void (location.hash = to), hash)
  if (wait) await page.waitForSelector(wait)
}

export async function wait({ page }, { selector, text, hidden }) {
  const found = page.locator(selector).filter(text ? { hasText: text } : {}).first()
  await found.waitFor({ state: hidden ? 'attached' : 'visible' })
  return hidden ? null : found.innerText()
}

export const gone = ({ page }, { selector, text }) => page.locator(selector).filter({ hasText: text }).first().waitFor({ state: 'detached' })
export const texts = ({ page }, { selector }) => page.locator(selector).allInnerTexts()
export const count = ({ page }, { selector }) => page.locator(selector).count()
export const attribute = ({ page }, { selector, name }) => page.locator(selector).first().getAttribute(name)
export const press = ({ page }, { keys }) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve())
export const type = ({ page }, { text }) => page.keyboard.type(text)
export const fill = ({ page }, { selector, text }) => page.locator(selector).first().fill(text)
export const choose = ({ page }, { selector, value }) => page.locator(selector).first().selectOption(value).then(() => null)
export const value = ({ page }, { selector }) => page.locator(selector).first().inputValue()
export const back = ({ page }) => page.evaluate(() => history.back())
export const hash = ({ page }) => page.evaluate(() => location.hash)
export const reload = ({ page }, { wait }) => page.reload().then(() => page.waitForSelector(wait)).then(() => null)
export const clipboard = ({ page }) => page.evaluate(() => navigator.clipboard.readText())
export const told = ({ seen }) => seen
export const size = ({ page }, { width, height }) => page.setViewportSize({ width, height })
export const theme = ({ page }, { scheme }) => page.emulateMedia({ colorScheme: scheme })
export const shot = ({ page }, { path }) => page.screenshot({ path }).then(() => null)
export const settle = ({ page }, { ms }) => page.waitForTimeout(ms)

export async function click({ page }, { selector, text, force }) {
  await page.locator(selector).filter(text ? { hasText: text } : {}).first().click({ force: force ?? false })
}

export async function clickAt({ page }, { selector, x, y }) {
  const box = await page.locator(selector).first().boundingBox()
  await page.mouse.move(box.x + box.width * x, box.y + box.height * y, { steps: 3 })
  await page.mouse.click(box.x + box.width * x, box.y + box.height * y)
}

export async function save({ page }, { selector, text, path }) {
  const [file] = await Promise.all([page.waitForEvent('download'), click({ page }, { selector, text })])
  await file.saveAs(path)
  return file.suggestedFilename()
}

/** Wait until a message is inside the visible part of the list, and stays there while twenty frames are drawn. */
export async function isInSight({ page }, { uuid }) {
  const looked = await page.waitForFunction((name) => {
    const row = document.querySelector(`[data-uuid="${name}"]`)
    const [own, list] = [row, document.querySelector('.messages')].map((one) => one?.getBoundingClientRect())
    globalThis.framesInSight = own && list && own.top < list.bottom && own.bottom > list.top ? (globalThis.framesInSight ?? 0) + 1 : 0
    return globalThis.framesInSight > 20
  }, uuid)
  await page.evaluate(() => delete globalThis.framesInSight)
  return looked.jsonValue()
}

/** Whether the match the reader stands at is this word, marked, inside the list and not covered; waits a while for it. */
export async function isMarked({ page }, { word }) {
  const seen = page.waitForFunction((wanted) => {
    const list = document.querySelector('.messages')?.getBoundingClientRect()
    for (const range of list ? (CSS.highlights.get('hit-now') ?? []) : []) {
      const [at] = range.getClientRects()
      if (!at || range.toString().toLowerCase() !== wanted) continue
      const top = document.elementFromPoint(at.left + at.width / 2, at.top + at.height / 2)
      const isUncovered = top && (top.contains(range.startContainer) || range.startContainer.parentElement.contains(top))
      if (at.top >= list.top && at.bottom <= list.bottom && isUncovered) return true
    }
    return false
  }, word)
  return seen.then(() => true, () => false)
}

/** Scroll by so much a frame; the times between frames, in milliseconds. */
export async function scroll({ page }, { frames, pixels }) {
  return page.evaluate(
    ([number, step]) =>
      new Promise((resolve) => {
        const list = document.querySelector('.messages > div')
        const times = []
        let before = performance.now()
        const next = (now) => {
          times.push(now - before)
          before = now
          list.scrollTop += step
          if (times.length < number) requestAnimationFrame(next)
          else resolve({ times: times.slice(1), top: list.scrollTop, height: list.scrollHeight, rows: list.querySelectorAll('article').length })
        }
        requestAnimationFrame(next)
      }),
    [frames, pixels],
  )
}

/** From top to end, a screen at a time, waiting until every row is there. */
export async function walk({ page }, { most }) {
  for (let turn = 0; turn < most; turn++) {
    await page.waitForFunction(() => !document.querySelector('.messages .ghost'))
    const isEnd = await page.evaluate(() => {
      for (const fold of document.querySelectorAll('.messages [aria-expanded="false"]')) fold.click()
      const list = document.querySelector('.messages > div')
      const before = list.scrollTop
      list.scrollTop += list.clientHeight * 0.8
      return list.scrollTop === before
    })
    await page.waitForTimeout(60)
    if (isEnd) return turn
  }
  return most
}

/** Every element and attribute of the document, every address, and what ran. */
export async function elements({ page }, { root }) {
  return page.evaluate((where) => {
    const found = { tags: new Set(), attributes: new Set(), addresses: new Set(), inside: new Set() }
    for (const one of document.querySelectorAll('*')) {
      found.tags.add(one.localName)
      for (const { name, value } of one.attributes) {
        found.attributes.add(name)
        if (['href', 'src', 'action', 'formaction', 'xlink:href', 'data', 'poster', 'srcset'].includes(name)) found.addresses.add(value)
      }
    }
    for (const one of document.querySelectorAll(`${where} *`)) found.inside.add(one.localName)
    const lists = Object.fromEntries(Object.entries(found).map(([name, values]) => [name, [...values]]))
    return { ...lists, ran: globalThis.ran ?? null, title: document.title }
  }, root)
}

export async function problems({ page }) {
  await page.evaluate(axe)
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }))
  return violations.map(({ id, impact, nodes }) => ({ id, impact, nodes: nodes.slice(0, 5).map((node) => node.html.slice(0, 200) + ' ' + (node.any[0]?.message ?? '')) }))
}

/** Milliseconds from a change of the address until something is on screen. */
export async function timed({ page }, { hash, selector }) {
  return page.evaluate(
    ([to, wanted]) =>
      new Promise((resolve) => {
        const start = performance.now()
        const look = () => (document.querySelector(wanted) ? requestAnimationFrame(() => resolve(performance.now() - start)) : requestAnimationFrame(look))
        location.hash = to
        requestAnimationFrame(look)
      }),
    [hash, selector],
  )
}

/** Milliseconds from a reload until the browser painted, and until something was there. */
export async function paint({ page }, { selector }) {
  await page.reload()
  await page.waitForSelector(selector)
  return page.evaluate(() => ({
    first: performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null,
    there: performance.now(),
  }))
}

/** How often Tab is pressed from the top of the page until the focus is on something. */
export async function tabsUntil({ page }, { selector, most }) {
  await page.evaluate(() => document.activeElement?.blur())
  for (let turn = 1; turn <= most; turn++) {
    await page.keyboard.press('Tab')
    if (await page.evaluate((wanted) => document.activeElement?.matches(wanted) ?? false, selector)) return turn
  }
  return most + 1
}

export const focused = ({ page }) => page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.textContent ?? '')
export const offline = ({ context }, { on }) => context.setOffline(on).then(() => null)
export const title = ({ page }) => page.title()
export const box = ({ page }, { selector }) => page.locator(selector).first().boundingBox()
export const top = ({ page }, { selector }) => page.locator(selector).first().evaluate((one) => one.scrollTop)

/** Scroll a conversation so far down; the message that is then first in sight, once the page has remembered it. */
export async function readOn({ page }, { pixels }) {
  await page.waitForFunction(() => document.querySelector('.messages > div')?.scrollHeight > 3000)
  await page.evaluate((down) => void (document.querySelector('.messages > div').scrollTop = down), pixels)
  await page.waitForFunction(() => localStorage.getItem('recollect-places')?.includes('-'))
  return page.evaluate(() => JSON.parse(localStorage.getItem('recollect-places')).at(-1)[1])
}
