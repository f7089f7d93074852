// What a call was about, in a line; and the change an edit made.

import type { Block } from '../lib/blocks'
import type { ToolCallDocument } from '../lib/documents'
import { between, fromPatch, type DiffLine } from '../lib/diff'
import { tail } from '../lib/format'

type Fields = Record<string, unknown>

export function fields(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}
}

export const text = (value: unknown): string => (typeof value === 'string' ? value : '')

export function gist(name: string, input: unknown): string {
  const given = fields(input)
  const path = text(given.file_path) || text(given.notebook_path) || text(given.path)
  switch (name) {
    case 'Bash':
      return text(given.command).split('\n')[0] ?? ''
    case 'Grep':
    case 'Glob':
      return [text(given.pattern), path && tail(path)].filter(Boolean).join('  in ')
    case 'Task':
    case 'Agent':
      return [text(given.subagent_type), text(given.description)].filter(Boolean).join(': ')
    case 'WebFetch':
      return text(given.url)
    case 'WebSearch':
      return text(given.query)
    case 'TodoWrite': {
      const items = todos(input)
      return items.length ? `${items.filter((one) => one.status === 'completed').length} of ${items.length} done` : ''
    }
  }
  if (path) return tail(path, 3)
  const first = Object.values(given).find((value) => typeof value === 'string' && value)
  return text(first).split('\n')[0]!.slice(0, 160)
}

export function toolName(name: string): string {
  const found = /^mcp__(.+?)__(.+)$/.exec(name)
  return found ? `${found[1]} · ${found[2]}` : name
}

export function todos(input: unknown): { text: string; status: string }[] {
  const items = fields(input).todos
  if (!Array.isArray(items)) return []
  return items.map((one) => ({ text: text(fields(one).content), status: text(fields(one).status) }))
}

/** The input of a call as text. */
export const asked = (input: unknown): string => JSON.stringify(input, null, 2) ?? ''

/** What a tool answered, as text. */
export const answerText = (call: ToolCallDocument | undefined): string => (call?.blocks ?? []).map((block: Block) => (typeof block.text === 'string' ? block.text : JSON.stringify(block))).join('\n')

/** Every text of a value, as it is shown: without the marks of JSON. */
export function strings(value: unknown, depth = 0): string {
  if (typeof value === 'string') return value
  if (typeof value !== 'object' || value === null || depth > 8) return String(value ?? '')
  return Object.entries(value).map(([name, one]) => `${name}: ${strings(one, depth + 1)}`).join('\n')
}

/** Whether a call or its result holds what was searched for. */
export function holds(talking: { pattern: RegExp | null; agents?: ReadonlySet<string>; finds: (text: string) => boolean }, block: Block, call: ToolCallDocument | undefined): boolean {
  return talking.pattern !== null && (talking.agents?.has(call?.agent ?? '') || talking.finds(strings(block.input)) || talking.finds(answerText(call)))
}

export interface Piece {
  place: number
  block: Block
  calls: Block[] | null
}

const GROUP = 3
const isCall = (block: Block): boolean => block.type === 'tool_use'

/** The blocks of a message; three or more calls of one tool in a row are one piece. */
export function grouped(blocks: Block[], calls: Record<string, ToolCallDocument>): Piece[] {
  const pieces: Piece[] = []
  for (let place = 0; place < blocks.length; ) {
    const block = blocks[place]!
    let end = place + 1
    while (isCall(block) && end < blocks.length && isCall(blocks[end]!) && blocks[end]!.name === block.name) end++
    const isGroup = end - place >= GROUP && !blocks.slice(place, end).some((one) => calls[one.id ?? '']?.agent)
    if (isGroup) pieces.push({ place, block, calls: blocks.slice(place, end) })
    else for (let one = place; one < end; one++) pieces.push({ place: one, block: blocks[one]!, calls: null })
    place = end
  }
  return pieces
}

/** The lines an edit changed, or null where the call is no edit. */
export function edited(block: Block, call: ToolCallDocument | undefined): DiffLine[] | null {
  const given = fields(block.input)
  const patch = fromPatch(fields(call?.structured).structuredPatch)
  if (patch) return patch
  if (typeof given.old_string === 'string' && typeof given.new_string === 'string') return between(given.old_string, given.new_string)
  if (block.name === 'MultiEdit' && Array.isArray(given.edits)) {
    return given.edits.flatMap((one) => between(text(fields(one).old_string), text(fields(one).new_string)))
  }
  return null
}
