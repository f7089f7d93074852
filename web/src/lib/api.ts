// What the server answers (docs/design/page.md) and how it is asked. Text in these documents is hostile:
// it reaches the page as text nodes only.

import { may } from './may.svelte'

export type Money = string | null

export interface Spent {
  cost_usd: Money
  unpriced: string[]
  input_tokens: number
  output_tokens: number
  cache_write_5m_tokens: number
  cache_write_1h_tokens: number
  cache_read_tokens: number
  web_searches: number
}

export interface Me {
  token: string
  version: string
  homes: { path: string; exists: boolean }[]
  is_sample: boolean
  index: { state: 'ready' | 'building' | 'none'; done: number; total: number; notes: string[] }
  exports: string[]
  is_read_only?: boolean
  member?: {
    name: string
    role: string
    organization: string
    sealed: number
    left_out: number
    filling: { done: number; total: number } | null
  }
}

export interface SessionRow {
  id: string
  project: string
  cwd: string | null
  title: string
  tag: string | null
  branch: string | null
  first_at: string | null
  last_at: string | null
  entries: number | null
  bytes: number
  agents: number
  cost_usd: Money
  unpriced: string[]
  models: string[]
  live: boolean
  damaged: number | null
  expires_at: string | null
  is_archived: boolean
  is_indexed: boolean
  person?: string | null
}

export type Facet = [string, number][]

export interface SessionList {
  sessions: SessionRow[]
  from: number
  total: number
  total_cost_usd: Money
  unpriced: string[]
  index: string
  facets?: { projects: Facet; branches: Facet; models: Facet; tags: Facet } | null
}

export interface Hit {
  uuid: string | null
  agent: string | null
  kind: string
  at: string | null
  offset: number
  snippet: { text: string; marks: [number, number][] }
}

export interface Found {
  query: string
  groups: { session: string; title: string; project: string; branch: string | null; hits: Hit[] }[]
  total: number
  total_is_exact: boolean
  shown: number
  took_ms: number
  notes: string[]
}

export interface Branch {
  leaf: string
  forked_at: string | null
  length: number
  at: string | null
  active: boolean
  parent?: string | null
  depth?: number
  messages?: number
  from_uuid?: string | null
  from_index?: number | null
  from_text?: string
  text?: string
}

export interface Compaction {
  number: number
  uuid: string
  at: string | null
  trigger: string | null
  pre_tokens: number | null
}

export interface Head extends Spent {
  id: string
  title: string
  custom_title: string | null
  tag: string | null
  project: string
  cwd: string | null
  branch: string | null
  path: string
  first_at: string | null
  last_at: string | null
  bytes: number
  version: string | null
  live: boolean
  is_archive_only: boolean
  messages: number
  entries: number
  hidden: number
  active_leaf: string | null
  problem: string | null
  branches: Branch[]
  compactions: Compaction[]
  agents: number
  models: string[]
  expires_at: string | null
  is_archived: boolean
  damaged: number | null
  commands: Record<string, string>
  person?: string | null
}

export interface Block {
  type: string
  text?: string
  thinking?: string
  id?: string
  name?: string
  input?: unknown
  content?: unknown
  source?: { type: string; media_type?: string; bytes?: number; url?: string }
  cut_characters?: number
  [more: string]: unknown
}

export interface Call {
  status: 'ok' | 'error' | 'denied' | 'interrupted' | 'running' | 'missing'
  duration_ms: number | null
  in_background: boolean
  result_index: number | null
  result_uuid: string | null
  at: string | null
  blocks: Block[]
  structured: unknown
  agent: string | null
}

export type Kind = 'prompt' | 'answer' | 'results' | 'summary' | 'boundary' | 'command' | 'other'

export interface Message {
  index: number
  kind: Kind
  bytes: number
  uuid: string
  role: string
  at: string | null
  model: string | null
  blocks: Block[]
  is_meta: boolean
  lines: { uuid: string | null; offset: number; length: number }[]
  calls: Record<string, Call>
  cost: Spent | null
  is_copied: boolean
  turn: number
  compaction?: number | null
  cut: boolean
}

export interface Window {
  from: number
  total: number
  signature: string
  messages: Message[]
}

export interface TalkMap {
  total: number
  signature: string
  kinds: string
  bytes: number[]
  prompts: { index: number; text: string; uuid: string }[]
}

export interface View {
  branch: string | null
  before: number | null
  agent: string | null
  whole: boolean
}

export interface Turn extends Spent {
  from: number
  to: number
  at: string | null
}

export interface Agent {
  id: string
  agent_type: string | null
  description: string | null
  prompt: string | null
  first_at: string | null
  last_at: string | null
  messages: number
  depth: number
}

export interface FileVersion {
  number: number
  at: string | null
  source: string
  existed: boolean
  known: boolean
  bytes: number | null
}

export interface TouchedFile {
  path: string
  versions: FileVersion[]
}

export interface TodoList {
  kind: string
  agent: string | null
  items: {
    text: string
    status: string
    id: string | null
    description?: string | null
    blocked_by?: string[] | null
  }[]
}

export interface Finding {
  code: string
  severity: 'error' | 'warning' | 'info'
  what: string
  fix: string | null
  path: string | null
  agent: string | null
  line: number | null
  offset: number | null
  uuid: string | null
}

export interface Findings {
  findings: Finding[]
  summary: Record<string, unknown>
  repair: Record<string, unknown> | null
}

export interface CostRow extends Omit<Spent, 'unpriced'> {
  messages: number
  unpriced_messages: number
  [key: string]: unknown
}

export interface CostReport {
  by: string[]
  mode: string
  timezone: string
  rows: CostRow[]
  totals: CostRow
  unpriced: { model: string; messages: number }[]
  uncertain: { model: string; messages: number; output_tokens: number }[]
  gone: number
  notes: string[]
}

export interface Post {
  path: string
  body: Record<string, unknown>
}

export interface Change {
  applied: boolean
  undo?: string | null
  undo_request?: Post | null
  [more: string]: unknown
}

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

let token = ''
let signedOut: (problem: Refused) => void = () => {}

/** What happens when a member's token is no longer good, whichever request learns of it. */
export const onSignedOut = (run: (problem: Refused) => void): void => void (signedOut = run)

async function read(answer: Response): Promise<unknown> {
  const text = await answer.text()
  let document: unknown
  try {
    document = JSON.parse(text)
  } catch {
    throw new Refused(answer.status, `the server answered ${answer.status} without a document`, 'Reload the page.')
  }
  if (!answer.ok) {
    const { error, hint, sign_in } = document as { error?: string; hint?: string; sign_in?: boolean }
    const refused = new Refused(answer.status, error ?? `status ${answer.status}`, hint ?? '', sign_in === true)
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
  return (await read(await sent(address(path, asked), { signal }))) as T
}

export async function post<T = Change>(path: string, body: object): Promise<T> {
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
export async function enter(): Promise<Me> {
  const key = /^#key=([\w-]+)/.exec(location.hash)?.[1]
  if (key) {
    history.replaceState(null, '', location.pathname)
    try {
      token = (await post<{ token: string }>('/api/login', { key })).token
    } catch (cause) {
      // A key works once. With the cookie of an earlier visit the page goes on all the same.
      if (!(cause instanceof Refused) || cause.status === 0) throw cause
    }
  }
  const me = await get<Me>('/api/me')
  token = me.token
  may.change = !me.is_read_only
  return me
}

/** A member's token, exchanged for a cookie; the page keeps nothing of it. */
export async function signIn(secret: string): Promise<void> {
  token = (await post<{ token: string }>('/api/login', { token: secret })).token
}

export async function signOut(): Promise<void> {
  await post('/api/logout', {})
  token = ''
}

export const sessionPath = (id: string, rest = ''): string => `/api/sessions/${encodeURIComponent(id)}${rest}`

export const viewAsked = (view: View): Asked => ({
  branch: view.branch,
  before: view.before,
  agent: view.agent,
  whole: view.whole,
})
