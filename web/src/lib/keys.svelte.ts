// The keyboard: pages say which keys they know; `g` waits for a second key.

export interface Key {
  keys: string
  what: string
  run: () => void
}

interface Layer {
  name: string
  keys: Key[]
}

// A component that ends still sees the state from before: what is bound is a plain list, and what is shown its copy.
let layers: Layer[] = []
let shown = $state.raw<Layer[]>([])

export function known(): Layer[] {
  return shown
}

/** Add keys for as long as a component lives; to be called in an effect. */
export function bind(name: string, keys: Key[]): () => void {
  const layer = { name, keys }
  shown = layers = [...layers, layer]
  return () => {
    shown = layers = layers.filter((one) => one !== layer)
  }
}

let pending = ''
let waiting: ReturnType<typeof setTimeout> | undefined

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
}

/** Answer a key; gives true where it meant something. */
export function pressed(event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey) return false
  if (document.querySelector('dialog[open]')) return false
  if (isTyping(event.target)) return false
  if (event.target instanceof HTMLButtonElement && (event.key === 'Enter' || event.key === ' ')) return false
  const pair = pending ? `${pending} ${event.key}` : event.key
  pending = ''
  clearTimeout(waiting)
  for (const layer of [...layers].reverse()) {
    const found = layer.keys.find((one) => one.keys === pair)
    if (found) {
      event.preventDefault()
      found.run()
      return true
    }
  }
  if (pair === 'g') {
    pending = 'g'
    waiting = setTimeout(() => (pending = ''), 1200)
    return true
  }
  return false
}
