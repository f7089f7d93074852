// The address bar is the only navigation state: a page, a session, a view of it, a message.
// All of it stands behind the #, so it is never sent anywhere.

export interface Route {
  page: string
  id: string
  tab: string
  asked: Record<string, string>
}

export function parsed(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2)
  const [page = '', id = '', tab = ''] = path.split('/').map(decoded)
  // The key of a first visit is no page: it is taken out of the address bar before anything is shown.
  return { page: !page || page.startsWith('key=') ? 'home' : page, id, tab, asked: Object.fromEntries(new URLSearchParams(query)) }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

export function link(page: string, id = '', tab = '', asked: Record<string, string | number | null | undefined> = {}): string {
  const path = [page, id, tab].filter(Boolean).map(encodeURIComponent).join('/')
  const words = new URLSearchParams()
  for (const [name, value] of Object.entries(asked)) {
    if (value !== null && value !== undefined && value !== '') words.set(name, String(value))
  }
  const query = words.toString()
  return `#/${path}${query ? `?${query}` : ''}`
}

export const route = $state<{ now: Route }>({ now: parsed(location.hash) })

addEventListener('hashchange', () => {
  route.now = parsed(location.hash)
})

export function go(to: string, replace = false): void {
  if (replace) {
    history.replaceState(null, '', to)
    route.now = parsed(to)
  } else location.hash = to
}
