// What the parts of one conversation share: its view, what is unfolded, what was found wrong, what turns cost.

import { getContext, setContext } from 'svelte'
import { SvelteMap } from 'svelte/reactivity'
import { sessionPath, viewAsked, get } from '../lib/api'
import type { Finding, TurnCostDocument, TurnCostsDocument, ViewDocument } from '../lib/documents'
import { link } from '../lib/route.svelte'

export class Talking {
  /** What was folded or unfolded by hand; it outlives the rows, which come and go with scrolling. */
  readonly unfolded = new SvelteMap<string, boolean>()
  /** Replaced as a whole: ten thousand turns are one change, not ten thousand. */
  turns = $state.raw(new Map<number, TurnCostDocument>())
  findings = $state.raw(new Map<string, Finding[]>())
  fork: (uuid: string) => void = () => {}

  constructor(
    readonly id: string,
    readonly view: ViewDocument,
  ) {}

  isOpen(key: string, usual: boolean): boolean {
    return this.unfolded.get(key) ?? usual
  }

  toggle(key: string, usual: boolean): void {
    this.unfolded.set(key, !this.isOpen(key, usual))
  }

  async readTurns(): Promise<void> {
    const found = await get<TurnCostsDocument>(sessionPath(this.id, '/costs'), viewAsked(this.view))
    this.turns = new Map(found.turns.map((turn) => [turn.from, turn]))
  }

  wrong(uuids: (string | null)[]): Finding[] {
    if (this.findings.size === 0) return []
    return uuids.flatMap((uuid) => (uuid ? (this.findings.get(uuid) ?? []) : []))
  }
}

const KEY = Symbol('talking')
export const share = (talking: Talking): Talking => setContext(KEY, talking)
export const shared = (): Talking => getContext<Talking>(KEY)

export const viewOf = (asked: Record<string, string>): ViewDocument => ({
  branch: asked.b ?? null,
  before: asked.c ? Number(asked.c) : null,
  agent: asked.a ?? null,
  whole: asked.w === '1',
})

export const viewLink = (id: string, view: ViewDocument, uuid: string | null = null): string =>
  link('s', id, '', { b: view.branch, c: view.before, a: view.agent, w: view.whole ? 1 : null, m: uuid })

export const PLAIN: ViewDocument = { branch: null, before: null, agent: null, whole: false }

/** Messages that have a row of their own: results stand with their calls, unless no answer is before them. */
export function shownRows(kinds: string): number[] {
  const rows: number[] = []
  let before = ''
  for (let place = 0; place < kinds.length; place++) {
    const kind = kinds[place]!
    if (kind !== 'r' || before !== 'a') rows.push(place)
    if (kind !== 'r') before = kind
  }
  return rows
}

/** The row that shows a message: its own, or that of the call it answers. */
export function rowOf(rows: number[], index: number): number {
  let [low, high] = [0, rows.length - 1]
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if (rows[middle]! <= index) low = middle
    else high = middle - 1
  }
  return Math.max(0, low)
}
