// The exported page: theme, fold levels, filters, search, print. It changes no text: matches are CSS highlights.
const doc = document, root = doc.documentElement
const kept = (name, value) => {
  try {
    return value === undefined ? localStorage.getItem('recollect-' + name) : localStorage.setItem('recollect-' + name, value)
  } catch { return null }
}
const THEMES = ['auto', 'light', 'dark']
let theme = kept('theme')
const paint = () => {
  if (THEMES.indexOf(theme) > 0) root.dataset.theme = theme
  else { theme = 'auto'; delete root.dataset.theme }
}
paint()
addEventListener('DOMContentLoaded', () => {
  const id = (name) => doc.getElementById(name)
  const all = (selector) => [...doc.querySelectorAll(selector)]
  const top = doc.querySelector('.top'), box = id('q'), said = id('n'), side = id('side')
  top.hidden = false

  const theming = id('theme')
  const name = () => { theming.textContent = 'Theme: ' + theme }
  theming.onclick = () => { theme = THEMES[(THEMES.indexOf(theme) + 1) % 3]; kept('theme', theme); paint(); name() }
  name()

  const level = id('fold')
  if (level) level.onchange = () => {
    const at = +level.value
    for (const one of all('main details:not(.chapter)')) one.open = at > 2 || (at > 0 && one.matches('.work,.group:has(>.error,>.denied)')) || (at > 1 && one.matches('.edit'))
  }

  const off = new Set()
  for (const one of all('[data-kind]')) one.onclick = () => {
    const kind = one.dataset.kind
    if (!off.delete(kind)) off.add(kind)
    one.setAttribute('aria-pressed', String(!off.has(kind)))
    root.dataset.off = [...off].join(' ')
    find()
  }

  const menu = id('menu')
  if (menu) {
    const show = (is) => { side.classList.toggle('open', is); menu.setAttribute('aria-expanded', String(is)) }
    menu.onclick = () => show(!side.classList.contains('open'))
    side.onclick = (event) => { if (event.target.closest('a')) show(false) }
  }

  // Matches run over pieces of a text, so the pieces of a block are searched as one.
  const BLOCK = 'p,li,pre,td,th,h1,h2,h3,h4,h5,h6,summary,dd,div'
  const HIDDEN = { prompt: '.prompt', answer: '.answer,.step>.prose', thinking: '.thinking', call: '.call', result: '.result' }
  const MOST = 2000
  let hits = [], now = -1, asked = ''
  const runs = () => {
    const walk = doc.createTreeWalker(doc.querySelector('main'), NodeFilter.SHOW_TEXT)
    // The first words beside a fold are said again inside it.
    const gone = ['summary>i:not(.x)', ...[...off].map((kind) => HIDDEN[kind])].join(',')
    const found = []
    let last = null
    while (walk.nextNode()) {
      const node = walk.currentNode, block = node.parentElement.closest(BLOCK)
      if (node.parentElement.closest(gone)) continue
      if (!last || last.block !== block) found.push((last = { block, nodes: [], text: '' }))
      last.nodes.push([last.text.length, node])
      last.text += node.data
    }
    return found
  }
  const point = (run, at) => {
    let place = run.nodes.length - 1
    while (run.nodes[place][0] > at) place--
    return [run.nodes[place][1], at - run.nodes[place][0]]
  }
  const ranges = (words) => {
    const pattern = new RegExp(words.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&').replace(/\s+/g, '\\s+'), 'giu')
    const found = []
    for (const run of runs()) for (const match of run.text.matchAll(pattern)) {
      const range = new Range(), end = match.index + match[0].length
      range.setStart(...point(run, match.index))
      const [node, at] = point(run, end - 1)
      range.setEnd(node, at + 1)
      found.push(range)
      if (found.length === MOST) return found
    }
    return found
  }
  const mark = (key, list) => {
    if (!CSS.highlights) return
    if (list.length) CSS.highlights.set(key, new Highlight(...list))
    else CSS.highlights.delete(key)
  }
  const tell = () => {
    const many = hits.length === MOST ? MOST + ' or more' : hits.length
    said.textContent = !box.value.trim() ? '' : !hits.length ? 'Nothing found' : now < 0 ? many + ' found' : now + 1 + ' of ' + many
  }
  const find = () => {
    asked = box.value
    const words = asked.trim()
    hits = words ? ranges(words) : []
    now = -1
    mark('hit', hits)
    mark('now', [])
    tell()
  }
  const go = (by) => {
    if (!hits.length) return
    now = now < 0 && by < 0 ? hits.length - 1 : (now + by + hits.length) % hits.length
    const range = hits[now]
    for (let one = range.startContainer.parentElement; one; one = one.parentElement) if (one.localName === 'details') one.open = true
    mark('now', [range])
    // What was never drawn has no height yet, so the place is looked for again until it stays.
    range.startContainer.parentElement.scrollIntoView({ block: 'center' })
    let frames = 12
    const bring = () => {
      const at = range.getBoundingClientRect()
      if (at.top < 70 || at.bottom > innerHeight - 20) scrollBy(0, at.top + at.height / 2 - innerHeight / 2)
      if (frames-- && hits[now] === range) requestAnimationFrame(bring)
    }
    bring()
    tell()
  }
  let timer
  box.oninput = () => { clearTimeout(timer); timer = setTimeout(find, 120) }
  box.onkeydown = (event) => {
    if (event.key === 'Enter') { clearTimeout(timer); if (box.value !== asked) find(); go(event.shiftKey ? -1 : 1) }
    if (event.key === 'Escape') { box.value = ''; find(); box.blur() }
  }
  id('back').onclick = () => go(-1)
  id('next').onclick = () => go(1)
  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /INPUT|SELECT/.test(event.target.tagName)) return
    if (event.key === '/') { event.preventDefault(); box.focus() }
    if (event.key === 'n') go(1)
    if (event.key === 'N') go(-1)
  })

  // A picture is enlarged by a click or by Enter; without a script it is a picture.
  const large = doc.createElement('dialog'), shown = new Image()
  large.setAttribute('aria-label', 'Picture, enlarged')
  shown.alt = 'Picture'
  const cross = doc.createElement('button')
  cross.textContent = 'Close'
  large.append(shown, cross)
  large.onclick = () => large.close()
  doc.body.append(large)
  for (const one of all('main img')) {
    const enlarge = () => { shown.src = one.src; large.showModal() }
    one.tabIndex = 0
    one.role = 'button'
    one.ariaLabel = 'Enlarge the picture'
    one.onclick = enlarge
    one.onkeydown = (event) => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); enlarge() } }
  }

  // The sidebar follows the reader, who is at the last prompt above; at the end of the page, where prompts cannot come up
  // so far, at the one that was asked for or the last in sight.
  if (side) {
    const links = new Map(all('#side a').map((one) => [one.hash.slice(1), one]))
    const prompts = all('main article').filter((one) => links.has(one.id))
    const reading = () => {
      const above = (line) => prompts.findLast((one) => one.checkVisibility() && one.getBoundingClientRect().top < line)
      const here = above(100) ?? prompts[0]
      if (scrollY + innerHeight < root.scrollHeight - 2) return here
      const last = above(innerHeight) ?? here, asked = id(location.hash.slice(1))
      return asked && links.has(asked.id) && asked.getBoundingClientRect().top >= 0 ? asked : last
    }
    const follow = () => {
      waits = 0
      const link = links.get(reading()?.id)
      if (!link || link.ariaCurrent) return
      for (const one of side.querySelectorAll('[aria-current]')) one.removeAttribute('aria-current')
      link.setAttribute('aria-current', 'true')
      const at = link.offsetTop - side.scrollTop
      if (at < 0 || at > side.clientHeight - 40) side.scrollTop = link.offsetTop - side.clientHeight / 2
    }
    let waits = 0
    const later = () => { waits ||= requestAnimationFrame(follow) }
    addEventListener('scroll', later, { passive: true })
    addEventListener('hashchange', later)
    doc.addEventListener('toggle', later, true)
    later()
  }

  // On paper nothing can be unfolded.
  let closed = []
  addEventListener('beforeprint', () => { closed = all('details:not([open])'); for (const one of closed) one.open = true })
  addEventListener('afterprint', () => { for (const one of closed) one.open = false; closed = [] })
})
