// The keyboard: pages say which keys they know; `g` waits for a second key.

export interface Key {
  keys: string
  what: string
  run: () => void
}

const layers = $state<{ name: string; keys: Key[] }[]>([])

export function known(): { name: string; keys: Key[] }[] {
  return layers
}

/** Add keys for as long as a component lives; to be called in an effect. */
export function bind(name: string, keys: Key[]): () => void {
  const layer = { name, keys }
  layers.push(layer)
  return () => {
    const place = layers.findIndex((one) => one.name === name)
    if (place >= 0) layers.splice(place, 1)
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
