// What the parts of one conversation share: its view, what is unfolded, what was found, what turns cost.

import { getContext, setContext } from 'svelte'
import { SvelteMap } from 'svelte/reactivity'
import { sessionPath, viewAsked, get } from '../lib/api'
import type { TurnCostDocument, TurnCostsDocument, ConversationView } from '../lib/documents'
import { foldsOf, keepFold } from '../lib/folds'
import { paper } from '../lib/paper.svelte'
import { link } from '../lib/route.svelte'
import { seek } from '../lib/sought'

export class Talking {
  /** What was folded or unfolded by hand; it outlives the rows, which come and go with scrolling, and the page. */
  readonly unfolded: SvelteMap<string, boolean>
  /** Replaced as a whole: ten thousand turns are one change, not ten thousand. */
  turns = $state.raw(new Map<number, TurnCostDocument>())
  /** What the search that led here matched, or null. */
  pattern = $state.raw<RegExp | null>(null)
  /** The sub-agents in whose messages it stands; known only where all of them are at hand. */
  agents = $state.raw<ReadonlySet<string>>(new Set())
  /** Who typed the prompts, on a team's page; empty until that is known. */
  person = $state('')
  /** Whether it can be forked; not before its head is here. */
  isForkable = $state(false)
  fork: (uuid: string) => void = () => {}

  constructor(
    readonly id: string,
    readonly view: ConversationView,
    /** The address of a message, where it is not one of ours. */
    readonly addressOf: ((uuid: string) => string) | null = null,
  ) {
    this.unfolded = new SvelteMap(foldsOf(this.name))
  }

  private get name(): string {
    return viewLink(this.id, this.view)
  }

  /** The address of a message of this view. */
  link(uuid: string): string {
    return this.addressOf ? this.addressOf(uuid) : viewLink(this.id, this.view, uuid)
  }

  isOpen(key: string, usual: boolean): boolean {
    return paper.isPrinting || (this.unfolded.get(key) ?? usual)
  }

  toggle(key: string, usual: boolean): void {
    const isOpen = !this.isOpen(key, usual)
    this.unfolded.set(key, isOpen)
    keepFold(this.name, key, isOpen)
  }

  /** What was folded by hand hides no hit; that it was folded is still remembered for the next time. */
  unhide(): void {
    for (const [key, isOpen] of this.unfolded) if (!isOpen) this.unfolded.delete(key)
  }

  /** Whether a text holds what was searched for; such a text is never folded away. */
  finds(text: string | null | undefined): boolean {
    return this.pattern !== null && typeof text === 'string' && text.search(this.pattern) >= 0
  }

  async readTurns(): Promise<void> {
    const found = await get<TurnCostsDocument>(sessionPath(this.id, '/costs'), viewAsked(this.view))
    this.turns = new Map(found.turns.map((turn) => [turn.from, turn]))
  }
}

const KEY = Symbol('talking')
export const share = (talking: Talking): Talking => {
  seek(talking)
  return setContext(KEY, talking)
}
export const shared = (): Talking => getContext<Talking>(KEY)

/** The whole story, unless a sub-agent, the time before a compaction, or the client's own view is asked for. */
export const viewOf = (asked: Record<string, string>): ConversationView => ({
  branch: asked.b ?? null,
  before: asked.c ? Number(asked.c) : null,
  agent: asked.a ?? null,
  whole: !asked.a && !asked.c && asked.l !== '1',
})

export interface Sought {
  q?: string | null
  how?: string | null
  kinds?: string | null
}

export const viewLink = (id: string, view: ConversationView, uuid: string | null = null, sought: Sought = {}): string =>
  link('s', id, '', { b: view.branch, c: view.before, a: view.agent, l: view.whole || view.agent || view.before ? null : 1, m: uuid, q: sought.q, how: sought.how, kinds: sought.kinds })

export const PLAIN: ConversationView = { branch: null, before: null, agent: null, whole: true }
export const LOADED: ConversationView = { ...PLAIN, whole: false }

// ---- rows ----------------------------------------------------------------------------------------------

/** A row of the list: a message, the strip that stands for a turn's work, a message of that work, or a chapter's line. */
export interface Row {
  type: 'message' | 'strip' | 'work' | 'chapter'
  index: number
  /** The end of what a strip or a chapter stands for. */
  to: number
  /** The turn it belongs to, by the index it starts at; -1 before the first. */
  turn: number
  /** The number of a chapter, from 1. */
  number: number
  key: string
}

const row = (type: Row['type'], index: number, more: Partial<Row> = {}): Row => ({ type, index, to: index + 1, turn: -1, number: 0, key: `${type[0]}${index}`, ...more })

/** Messages that have a row of their own: results ('r') stand with their calls; those that no call shows are 'u'. */
export function shownRows(kinds: string, from = 0, to = kinds.length): number[] {
  const rows: number[] = []
  for (let place = from; place < to; place++) if (kinds[place] !== 'r') rows.push(place)
  return rows
}

/** The rows of a conversation as turns and chapters: `isOpen` says which strips and chapters are unfolded. */
export function rowsOf(kinds: string, turns: number[], chapters: number[], isOpen: (row: Row) => boolean): Row[] {
  const rows: Row[] = []
  const starts = turns[0] === 0 ? turns : [0, ...turns]
  const numbers = new Map(chapters.map((place, number) => [place, number + 1]))
  let isFolded = false
  starts.forEach((start, place) => {
    const end = starts[place + 1] ?? kinds.length
    if (start >= end) return
    const number = numbers.get(start)
    if (number !== undefined) {
      const chapter = row('chapter', start, { to: chapters[number] ?? kinds.length, number })
      rows.push(chapter)
      isFolded = !isOpen(chapter)
    }
    if (!isFolded) segment(rows, kinds, start, end, isOpen)
  })
  return rows
}

function segment(rows: Row[], kinds: string, start: number, end: number, isOpen: (row: Row) => boolean): void {
  const isPrompt = 'pc'.includes(kinds[start]!)
  const turn = start
  if (isPrompt) rows.push(row('message', start, { turn }))
  const first = isPrompt || kinds[start] === 'b' ? start + 1 : start
  const shown = shownRows(kinds, first, end)
  // The answer is the last thing the model said, if no result came after it.
  let last = end - 1
  while (last >= first && !'aru'.includes(kinds[last]!)) last--
  const answer = last >= first && kinds[last] === 'a' ? last : end
  const work = shown.filter((place) => place < answer && place <= last)
  if (work.some((place) => kinds[place] === 'a')) {
    // A summary and what comes before the first step is no work.
    const begin = work.findIndex((place) => !'so'.includes(kinds[place]!))
    for (const place of work.slice(0, begin)) rows.push(row('message', place, { turn }))
    const strip = row('strip', work[begin]!, { to: answer === end ? last + 1 : answer, turn })
    rows.push(strip)
    if (isOpen(strip)) for (const place of work.slice(begin)) rows.push(row('work', place, { turn }))
    for (const place of shown) if (place >= answer || place > last) rows.push(row('message', place, { turn }))
  } else for (const place of shown) rows.push(row('message', place, { turn }))
}

/** The row that shows a message: its own, that of the call it answers, or the strip or chapter it is folded into. */
export function rowOf(rows: { index: number }[], index: number): number {
  let [low, high] = [0, rows.length - 1]
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if (rows[middle]!.index <= index) low = middle
    else high = middle - 1
  }
  return Math.max(0, low)
}
