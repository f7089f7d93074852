// How the server is asked (docs/design/page.md). What it answers is in documents.ts.

import type { ChangeDocument, ErrorDocument, LoginDocument, MeDocument, ConversationView } from './documents'
import { lost } from './live.svelte'
import { may } from './may.svelte'

export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly hint: string,
    readonly isSignIn = false,
  ) {
    super(message)
  }
}

/** An exported page has its answers inside. */
let inside: ((path: string, asked: Asked) => unknown) | null = null
export const answerFrom = (answer: (path: string, asked: Asked) => unknown): void => void (inside = answer)

let token = ''
let signedOut: (problem: Refused) => void = () => {}

/** What happens when a member's token is no longer good, whichever request learns of it. */
export const onSignedOut = (run: (problem: Refused) => void): void => void (signedOut = run)

/** A hint about options of a command is of no use on a page. */
const forPage = (hint: string): string => (/(^|[\s`(])--[a-z]/.test(hint) ? '' : hint)

async function read(answer: Response): Promise<unknown> {
  const text = await answer.text()
  let document: unknown
  try {
    document = JSON.parse(text)
  } catch {
    throw new Refused(answer.status, `the server answered ${answer.status} without a document`, 'Reload the page.')
  }
  if (!answer.ok) {
    const { error, hint, sign_in } = document as Partial<ErrorDocument>
    const refused = new Refused(answer.status, error ?? `status ${answer.status}`, forPage(hint ?? ''), sign_in === true)
    if (refused.isSignIn) signedOut(refused)
    throw refused
  }
  return document
}

async function sent(path: string, init?: RequestInit): Promise<Response> {
  try {
    return await fetch(path, init)
  } catch (cause) {
    if ((cause as Error).name === 'AbortError') throw cause
    void lost()
    throw new Refused(0, 'The server does not answer.', may.change ? 'Is `recollect web` still running?' : 'Try again in a moment.')
  }
}

export type Asked = Record<string, string | number | boolean | null | undefined>

export function address(path: string, asked: Asked = {}): string {
  const words = new URLSearchParams()
  for (const [name, value] of Object.entries(asked)) {
    if (value !== null && value !== undefined && value !== '' && value !== false) words.set(name, String(value))
  }
  const query = words.toString()
  return query ? `${path}?${query}` : path
}

export async function get<T>(path: string, asked: Asked = {}, signal?: AbortSignal): Promise<T> {
  if (inside) return inside(path, asked) as T
  return (await read(await sent(address(path, asked), { signal }))) as T
}

export async function post<T = ChangeDocument>(path: string, body: object): Promise<T> {
  return (await read(await posted(path, body))) as T
}

function posted(path: string, body: object): Promise<Response> {
  return sent(path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Recollect-Token': token },
    body: JSON.stringify(body),
  })
}

/** A file the server makes, saved by the browser. */
export async function save(path: string, body: object): Promise<string> {
  const answer = await posted(path, body)
  if (!answer.ok) await read(answer)
  const name = /filename="([^"]+)"/.exec(answer.headers.get('content-disposition') ?? '')?.[1] ?? 'session'
  const url = URL.createObjectURL(await answer.blob())
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
  return name
}

/** Take the key out of the address bar, exchange it once, and ask who we are. */
export async function enter(): Promise<MeDocument> {
  const key = /^#key=([\w-]+)/.exec(location.hash)?.[1]
  if (key) {
    history.replaceState(null, '', location.pathname)
    try {
      token = (await post<LoginDocument>('/api/login', { key })).token
    } catch (cause) {
      // A key works once. With the cookie of an earlier visit the page goes on all the same.
      if (!(cause instanceof Refused) || cause.status === 0) throw cause
    }
  }
  const me = await get<MeDocument>('/api/me')
  token = me.token
  may.change = !me.is_read_only
  return me
}

/** A member's token, exchanged for a cookie; the page keeps nothing of it. */
export async function signIn(secret: string): Promise<void> {
  token = (await post<LoginDocument>('/api/login', { token: secret })).token
}

export async function signOut(): Promise<void> {
  await post('/api/logout', {})
  token = ''
}

export const sessionPath = (id: string, rest = ''): string => `/api/sessions/${encodeURIComponent(id)}${rest}`

export const viewAsked = (view: ConversationView): Asked => ({
  branch: view.branch,
  before: view.before,
  agent: view.agent,
  whole: view.whole,
})
