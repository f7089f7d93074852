// One stream of changes for the whole page, and whether the server still answers.

import type { SessionChangesDocument } from './documents'

type Told = (told: SessionChangesDocument, isFirst: boolean) => void

export const server = $state<{ isGone: boolean; goneSince: string; index: string; notCurrentSince: string | null | undefined }>({ isGone: false, goneSince: '', index: '', notCurrentSince: undefined })
const listeners = new Set<Told>()
let last: SessionChangesDocument | null = null
let events: EventSource | undefined

/** Tells of changes as long as anything listens; a new listener gets the newest at once. */
export function onEvent(run: Told): () => void {
  listeners.add(run)
  if (last) run(last, true)
  return () => listeners.delete(run)
}

/** Open the stream once the browser is signed in. */
export function listen(): void {
  events?.close()
  let isFirst = true
  events = new EventSource('/api/events')
  events.addEventListener('sessions', (event) => {
    last = JSON.parse((event as MessageEvent<string>).data) as SessionChangesDocument
    server.index = last.index
    server.notCurrentSince = last.not_current_since
    for (const run of listeners) run(last, isFirst)
    isFirst = false
  })
  events.addEventListener('open', () => back())
  events.addEventListener('error', () => void lost())
}

export function hush(): void {
  events?.close()
  events = undefined
  last = null
}

const afterwards = new Set<() => void>()

/** What to do when the server answers again. */
export function onReturn(run: () => void): () => void {
  afterwards.add(run)
  return () => afterwards.delete(run)
}

function back(): void {
  if (!server.isGone) return
  server.isGone = false
  server.goneSince = ''
  for (const run of afterwards) run()
}

let isAsking = false
/** The stream broke or a request failed: ask until the server answers. */
export async function lost(): Promise<void> {
  if (isAsking) return
  isAsking = true
  for (;;) {
    try {
      const answer = await fetch('/api/me', { cache: 'no-store' })
      isAsking = false
      if (answer.ok && events?.readyState === EventSource.CLOSED) listen()
      return back()
    } catch {
      server.isGone = true
      server.goneSince ||= new Date().toISOString()
      await new Promise((resolve) => setTimeout(resolve, 2000))
    }
  }
}
