// Marks for what a search found: ranges over the text that is there, so the text itself stays untouched.

export interface Matched {
  text: string
  is_word: boolean
}

/** A text as a part of a pattern that is read as Unicode: such a pattern refuses every escape that it does not need. */
export const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')

/** A pattern for the texts that matched, the longest first; null where there are none. */
export function patternOf(texts: Matched[], how: string, question: string): RegExp | null {
  const parts = texts.map(({ text, is_word }) => (is_word ? `(?<![\\p{L}\\p{N}])${escaped(text)}(?![\\p{L}\\p{N}])` : escaped(text)).replace(/\s+/g, '\\s+'))
  if (!parts.length) return null
  try {
    // A pattern of one's own finds more than the texts that were quoted.
    if (how === 'regex') return new RegExp(question, 'giu')
  } catch {
    // It is no pattern here; what it matched is known all the same.
  }
  try {
    return new RegExp(parts.join('|'), 'giu')
  } catch {
    return null
  }
}

const BLOCK = 'p, pre, td, th, li, button, .quiet-line, .prose'
const MOST = 2_000

/** The places of a pattern below an element, also where a match runs through several pieces of text. */
export function ranges(root: Element, pattern: RegExp): Range[] {
  const found: Range[] = []
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT)
  let nodes: Text[] = []
  let block: Element | null = null
  const close = (): void => {
    if (nodes.length) within(nodes, pattern, found)
    nodes = []
  }
  for (let node = walker.nextNode() as Text | null; node && found.length < MOST; node = walker.nextNode() as Text | null) {
    const own = node.parentElement?.closest(BLOCK) ?? null
    if (own !== block) close()
    block = own
    nodes.push(node)
  }
  close()
  return found
}

function within(nodes: Text[], pattern: RegExp, found: Range[]): void {
  const text = nodes.map((node) => node.data).join('')
  let place = 0
  let before = 0
  const at = (offset: number, isEnd: boolean): [Text, number] => {
    while (offset > before + nodes[place]!.length || (!isEnd && offset === before + nodes[place]!.length && place + 1 < nodes.length)) before += nodes[place++]!.length
    return [nodes[place]!, offset - before]
  }
  for (const match of text.matchAll(pattern)) {
    if (!match[0] || found.length >= MOST) continue
    const range = document.createRange()
    range.setStart(...at(match.index, false))
    range.setEnd(...at(match.index + match[0].length, true))
    found.push(range)
  }
}

const names = ['hit', 'hit-now'] as const

/** Show these as marked; the second is where the reader is. */
export function mark(all: Range[], now: Range | null): void {
  if (typeof CSS === 'undefined' || !('highlights' in CSS)) return
  CSS.highlights.set(names[0], new Highlight(...all))
  CSS.highlights.set(names[1], new Highlight(...(now ? [now] : [])))
}

export const unmark = (): void => mark([], null)
