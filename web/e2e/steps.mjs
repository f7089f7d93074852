// What a person does on the page, a step each. They act and tell what is there; the tests judge.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

export async function open({ context, page, seen }, { url }) {
  // Each test begins with no place remembered, and with the look the page has by itself, whatever the one before left.
  // Cleared only when the old page is gone: until then it remembers places and folds.
  await page.goto('about:blank')
  // A page whose server has gone asks for it again and again, until it is left.
  seen.requests.length = seen.problems.length = seen.dialogs = 0
  const session = await context.newCDPSession(page)
  await session.send('Storage.clearDataForOrigin', { origin: new URL(url).origin, storageTypes: 'local_storage' })
  await session.detach()
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
/** Wait until each match has text that is drawn. */
export const drawn = ({ page }, { selector }) => page.waitForFunction((all) => [...document.querySelectorAll(all)].every((element) => element.innerText), selector).then(() => null)
export const count = ({ page }, { selector }) => page.locator(selector).count()
export const attribute = ({ page }, { selector, name }) => page.locator(selector).first().getAttribute(name)
export const press = ({ page }, { keys }) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve())
export const type = ({ page }, { text }) => page.keyboard.type(text)
export const fill = ({ page }, { selector, text }) => page.locator(selector).first().fill(text)
export const choose = ({ page }, { selector, value }) => page.locator(selector).first().selectOption(value).then(() => null)
export const style = ({ page }, { selector, name }) => page.locator(selector).first().evaluate((one, property) => getComputedStyle(one)[property], name)
export const set = ({ page }, { selector, value }) => page.locator(selector).first().evaluate((one, to) => { one.value = to; one.dispatchEvent(new Event('input', { bubbles: true })) }, value)
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

export async function click({ page }, { selector, text, force, direct }) {
  const found = page.locator(selector).filter(text ? { hasText: text } : {}).first()
  // direct: what is shown only under the mouse, in rows that may still move, where a click at a place could miss it.
  await (direct ? found.dispatchEvent('click') : found.click({ force: force ?? false }))
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
/** How many of these have a part that is outside of them. */
export const cut = ({ page }, { selector }) => page.locator(selector).evaluateAll((all) => all.filter((one) => one.scrollWidth > one.clientWidth + 1 || [...one.children].some((part) => part.getBoundingClientRect().right > innerWidth)).length)
export const box = ({ page }, { selector }) => page.locator(selector).first().boundingBox()
export const top = ({ page }, { selector }) => page.locator(selector).first().evaluate((one) => one.scrollTop)

/** Scroll something, and let the page see it: it is told with the next frame. */
export const scrollTo = ({ page }, { selector, top }) =>
  page.locator(selector).first().evaluate((one, down) => {
    one.scrollTop = down
    return new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve(null))))
  }, top)
export const scrolledTo = ({ page }, { selector, top }) => page.waitForFunction(([name, down]) => document.querySelector(name)?.scrollTop === down, [selector, top]).then(() => null)

/** Wait until something is wholly inside the visible part of something else. */
export async function inside({ page }, { selector, of }) {
  await page.waitForFunction((names) => {
    const [own, around] = names.map((name) => document.querySelector(name)?.getBoundingClientRect())
    return own && around && own.top >= around.top - 1 && own.bottom <= around.bottom + 1
  }, [selector, of])
}

/** Scroll a conversation so far down; the message that is then first in sight, once the page has remembered it. */
export async function readOn({ page }, { pixels }) {
  await page.waitForFunction(() => document.querySelector('.messages > div')?.scrollHeight > 3000)
  const before = await page.evaluate(() => localStorage.getItem('recollect-places'))
  await page.evaluate((down) => void (document.querySelector('.messages > div').scrollTop = down), pixels)
  await page.waitForFunction((old) => ![null, old].includes(localStorage.getItem('recollect-places')), before)
  return page.evaluate(() => JSON.parse(localStorage.getItem('recollect-places')).at(-1)[1])
}

// ---- exported pages: files, without a server ------------------------------------------------------------

export async function visit({ page, seen }, { url, fresh = true }) {
  seen.requests.length = seen.problems.length = seen.dialogs = 0
  await page.goto(url)
  if (fresh && (await page.evaluate(() => localStorage.length))) {
    await page.evaluate(() => localStorage.clear())
    await page.reload()
  }
  await page.waitForSelector('#theme')
}

/** Search for each word and go to the first match: how many there are, and whether it is marked, unfolded and on screen. */
export async function sought({ page }, { words }) {
  const found = {}
  for (const word of words) {
    await page.locator('#q').fill(word)
    await page.locator('#q').press('Enter')
    found[word] = await page.waitForFunction((wanted) => {
      const [range] = CSS.highlights.get('hit-now') ?? []
      const at = range?.getBoundingClientRect()
      // What was off the screen has a place, and no text yet: it is drawn with the next frame.
      if (!range?.startContainer.parentElement.checkVisibility({ contentVisibilityAuto: true })) return false
      if (range.toString().toLowerCase() !== wanted.toLowerCase() || !at.height || at.top < 0 || at.bottom > innerHeight) return false
      return document.getElementById('n').textContent
    }, word, { timeout: 8000 }).then((said) => said.jsonValue(), () => null)
  }
  return found
}

/** Print: how many sheets, what was folded on paper, and whether the folds are afterwards as before. */
export async function printed({ page }, { path }) {
  await page.evaluate(() => {
    const folded = () => document.querySelectorAll('main .fold[aria-expanded="false"]').length
    globalThis.paper = { before: folded() }
    addEventListener('afterprint', () => (globalThis.paper.after = folded()), { once: true })
    // After the page's own listener, which was there first.
    addEventListener('beforeprint', () => (globalThis.paper.during = folded()), { once: true })
  })
  const file = await page.pdf({ path })
  const paper = await page.evaluate(() => globalThis.paper)
  return { ...paper, sheets: (file.toString('latin1').match(/\/Type\s*\/Page\b/g) ?? []).length }
}

export const inPrint = async ({ page }, { selector }) => {
  await page.emulateMedia({ media: 'print' })
  const shown = await page.locator(selector).first().isVisible()
  await page.emulateMedia({ media: 'screen' })
  return shown
}
const FOLDS = { work: '.strip', call: '.call:not(.group):not(:has(.tally)) > .fold', edit: '.call:has(> .fold .tally) > .fold', thinking: '.thinking > .fold', chapter: '.boundary > .fold' }
export const folds = ({ page }) => page.evaluate((kinds) => Object.fromEntries(Object.entries(kinds).map(([kind, selector]) => [kind, [...document.querySelectorAll(`main ${selector}`)].map((one) => Number(one.getAttribute('aria-expanded') === 'true'))])), FOLDS)
/** Unfold everything, also what is inside of what was folded. */
export async function unfold({ page }) {
  if (await page.locator('#fold').count()) await page.locator('#fold').selectOption('3')
  const closed = page.locator('main .fold[aria-expanded="false"], main details:not([open]) > summary')
  for (let round = 0; round < 12 && (await closed.count()); round++) await closed.evaluateAll((all) => all.forEach((one) => one.click()))
}
export const tooWide = ({ page }) => page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
export const colour = ({ page }) => page.evaluate(() => getComputedStyle(document.body).backgroundColor)
/** Addresses of some files of the session that is open, as text and as changes. */
export async function fileLinks({ page }, { most }) {
  const paths = await page.locator('button.file:not(.isDirectory)').evaluateAll((all) => all.map((one) => one.title))
  return paths.slice(0, most).map((path) => `${location(page)}?${new URLSearchParams({ f: path })}`)
}
const location = (page) => new URL(page.url()).hash.split('?')[0]

/** What the server answers at a path. */
export const answer = ({ page }, { path }) => page.evaluate((at) => fetch(at).then((found) => found.json()), path)
/** Answer one path of the server with a document until `honest`. */
export const pretend = ({ page }, { path, status, body }) => page.route((url) => url.pathname === path, (route) => route.fulfill({ status: status ?? 200, contentType: 'application/json', body: JSON.stringify(body) }))
/** The answer of one address waits until it is let go. */
let letGo = () => {}
export const hold = ({ page }, { path }) => {
  const free = new Promise((resolve) => (letGo = resolve))
  return page.route((url) => url.pathname === path, (route) => free.then(() => route.continue()))
}
export const release = async ({ page }, { path }) => {
  const answered = page.waitForResponse((answer) => new URL(answer.url()).pathname === path)
  letGo()
  await (await answered).finished()
}
export const honest = ({ page }) => page.unrouteAll({ behavior: 'wait' })

/** Bytes of JavaScript's heap that are in use, after garbage was collected. */
export async function heap({ context, page }) {
  const session = await context.newCDPSession(page)
  await session.send('HeapProfiler.collectGarbage')
  const { usedSize } = await session.send('Runtime.getHeapUsage')
  await session.detach()
  return usedSize
}

/** Calls and messages that are whole on the screen. */
export const onScreen = ({ page }, { selector }) =>
  page.locator(selector).evaluateAll((all) => {
    const list = document.querySelector('.messages').getBoundingClientRect()
    return all.filter((one) => one.getBoundingClientRect().top >= list.top && one.getBoundingClientRect().bottom <= list.bottom).length
  })

/** Any other page, at its address. */
export const visitAny = ({ page }, { url, wait }) => page.goto(url).then(() => page.waitForSelector(wait)).then(() => null)

/** How many of these are whole on each screen of a list, from its top to its end. */
export async function perScreen({ page }, { list, items, most }) {
  const counts = []
  for (let turn = 0; turn < most; turn++) {
    await page.waitForTimeout(700)
    const { seen, isEnd } = await page.evaluate(([where, wanted]) => {
      const box = document.querySelector(where)
      const around = box.getBoundingClientRect()
      const isWhole = (one) => { const at = one.getBoundingClientRect(); return at.height > 0 && at.top >= around.top - 1 && at.bottom <= around.bottom + 1 }
      const found = [...box.querySelectorAll(wanted)].filter(isWhole).length
      const before = box.scrollTop
      box.scrollTop += around.height
      return { seen: found, isEnd: box.scrollTop === before }
    }, [list, items])
    counts.push(seen)
    if (isEnd) break
  }
  return counts
}

/** Drag something to the side with the mouse. */
export async function drag({ page }, { selector, by }) {
  const { x, y, width, height } = await page.locator(selector).first().boundingBox()
  await page.mouse.move(x + width / 2, y + height / 2)
  await page.mouse.down()
  await page.mouse.move(x + width / 2 + by, y + height / 2, { steps: 4 })
  await page.mouse.up()
}

/** Open an address in a tab of its own, as large as this one, and wait until a message is in sight there. */
export async function inTab({ context, page }, { url, uuid, selector }) {
  const tab = await context.newPage()
  try {
    await tab.setViewportSize(page.viewportSize())
    await tab.goto(url)
    await tab.waitForSelector(selector)
    return uuid ? await isInSight({ page: tab }, { uuid }) : true
  } finally {
    await tab.close()
  }
}

export const attributes = ({ page }, { selector, name }) => page.locator(selector).evaluateAll((all, which) => all.map((one) => one.getAttribute(which)), name)
export const isShown = ({ page }, { selector }) => page.locator(selector).first().isVisible()
