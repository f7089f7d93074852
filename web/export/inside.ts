// What an exported page has inside: the answers of the server, one element each.

import { Refused, type Asked } from '../src/lib/api'
import type { Compaction, ConversationMapDocument, MessageWindowDocument, PageMessageDocument, TurnCostDocument } from '../src/lib/documents'
import { strings, toolName } from '../src/talk/tools'

export interface ExportedSession {
  id: string
  is_whole: boolean
  map: ConversationMapDocument
  turns: TurnCostDocument[]
  compactions: Compaction[]
  agents: { id: string; title: string; problem: string }[]
}

export interface Inside {
  session: ExportedSession
  messages: Map<number, PageMessageDocument>
  agents: Map<string, PageMessageDocument[]>
}

export const documentOf = <T>(id: string): T | null => {
  const found = document.getElementById(id)
  return found ? (JSON.parse(found.textContent ?? '') as T) : null
}

export function readInside(): Inside | null {
  const session = documentOf<ExportedSession>('session')
  if (!session) return null
  const messages = new Map<number, PageMessageDocument>()
  const agents = new Map(session.agents.map((one) => [one.id, [] as PageMessageDocument[]]))
  for (const one of document.querySelectorAll<HTMLScriptElement>('script.message')) {
    let said: PageMessageDocument
    try {
      said = JSON.parse(one.textContent ?? '') as PageMessageDocument
    } catch {
      one.previousElementSibling?.classList.remove('plain') // then its text is shown
      continue
    }
    // A call may name a sub-agent whose log is gone.
    for (const call of Object.values(said.calls)) if (!agents.has(call.agent ?? '')) call.agent = null
    const { agent } = one.dataset
    if (agent === undefined) messages.set(said.index, said)
    else agents.get(agent)?.push(said)
  }
  return { session, messages, agents }
}

/** The one question that the parts of a conversation ask: the messages of a sub-agent. */
export function answers({ session, agents }: Inside): (path: string, asked: Asked) => unknown {
  return (_, asked) => {
    const messages = agents.get(String(asked.agent))
    const problem = session.agents.find((one) => one.id === asked.agent)?.problem
    if (!messages || problem) throw new Refused(404, problem || 'Its messages are not in this file.', '')
    const total = (messages.at(-1)?.index ?? -1) + 1
    return { session: session.id, from: 0, total, signature: '', messages } satisfies MessageWindowDocument
  }
}

const DEEPEST = 8

/** Every text of a message that is shown, but those of kinds that are off; with what its sub-agents did. */
export function textOf(said: PageMessageDocument, off: string[], agents: Inside['agents'], depth = 0): string {
  const isOff = (kind: string): boolean => off.includes(kind)
  const texts: string[] = []
  const blocks = said.own ? said.own.map((place) => said.blocks[place]!) : said.blocks
  for (const block of blocks) {
    const call = said.calls[block.id ?? '']
    if (block.type === 'text') {
      if (!isOff(said.kind === 'answer' ? 'answer' : said.kind === 'prompt' || said.kind === 'command' ? 'prompt' : '')) texts.push(block.text ?? '')
    } else if (block.type === 'thinking') {
      if (!isOff('thinking')) texts.push(String(block.thinking ?? ''))
    } else if (block.type === 'tool_result') {
      if (!isOff('result')) texts.push(strings(block.content))
    } else if (block.type === 'tool_use') {
      if (isOff('call')) continue
      texts.push(toolName(String(block.name)), strings(block.input))
      if (call && !isOff('result')) texts.push(strings(call.blocks))
      if (call?.agent && depth < DEEPEST) texts.push(agentText(call.agent, off, agents, depth + 1))
    } else texts.push(strings(block))
  }
  return texts.join('\n')
}

export const agentText = (agent: string, off: string[], agents: Inside['agents'], depth = 0): string => (agents.get(agent) ?? []).map((one) => textOf(one, off, agents, depth)).join('\n')

/** Marks of Markdown stand in the text, and not on the page. */
export const holds = (text: string, pattern: RegExp): boolean => text.search(pattern) >= 0 || text.replace(/[*_`~]+/g, '').search(pattern) >= 0
