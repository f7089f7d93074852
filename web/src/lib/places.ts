// Where reading of each session stopped: kept in this browser, so that back, reload, tabs and restarts return there.

import { go, link, route } from './route.svelte'

const KEY = 'recollect-places'
const MOST = 300

function all(): [string, string][] {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? '[]') as unknown
    return Array.isArray(found) ? found.filter((one): one is [string, string] => Array.isArray(one) && one.length === 2 && one.every((part) => typeof part === 'string')) : []
  } catch {
    return []
  }
}

/** The message at which reading stopped; null where none is remembered. */
export const placeOf = (session: string): string | null => all().find(([name]) => name === session)?.[1] ?? null

/** Remember a message, or with null that there is nothing to go back to; what was read longest ago is forgotten first. */
export function remember(session: string, uuid: string | null): void {
  const others = all().filter(([name]) => name !== session).slice(1 - MOST)
  try {
    localStorage.setItem(KEY, JSON.stringify(uuid === null ? others : [...others, [session, uuid]]))
  } catch {
    // A browser that keeps nothing starts at the beginning.
  }
}

/** The first message that is in sight, with its element. */
export function inSight(): HTMLElement | null {
  const stream = document.querySelector('.messages')
  if (!stream) return null
  const top = stream.getBoundingClientRect().top
  return [...stream.querySelectorAll<HTMLElement>('article[data-uuid]')].find((one) => one.getBoundingClientRect().bottom > top + 24 && one.dataset.uuid) ?? null
}

/** The place to come back to; none at the beginning, nor where the reader follows a running session to its end. */
function placeIn(scroller: HTMLElement): string | null {
  const isEnd = scroller.scrollTop + scroller.clientHeight > scroller.scrollHeight - 60
  const isFollowing = isEnd && scroller.parentElement?.dataset.live !== undefined
  return scroller.scrollTop < 40 || isFollowing ? null : (inSight()?.dataset.uuid ?? null)
}

/** The address follows too, for reload and back go by it; a hit that a search led to stays in it. */
function address(uuid: string | null): void {
  const { page, id, tab, asked } = route.now
  if (asked.q || (asked.m ?? null) === uuid) return
  go(link(page, id, tab, { ...asked, m: uuid, o: null, n: null }), true)
}

/** Follow the reader: remember the place. */
export function follow(session: () => string | null): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined
  function scrolled(event: Event): void {
    const scroller = event.target
    if (!(scroller instanceof HTMLElement) || !scroller.parentElement?.matches('.messages')) return
    clearTimeout(timer)
    timer = setTimeout(() => {
      const id = session()
      if (id === null || !scroller.isConnected) return
      const place = placeIn(scroller)
      remember(id, place)
      address(place)
    }, 150)
  }
  document.addEventListener('scroll', scrolled, true)
  return () => {
    clearTimeout(timer)
    document.removeEventListener('scroll', scrolled, true)
  }
}
