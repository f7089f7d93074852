// Text that the client wrote in the user's name: tags become short marks, the rest stays text.

export interface ClientPart {
  kind: 'text' | 'command' | 'shell' | 'output' | 'reminder' | 'interrupted' | 'notice'
  text: string
}

const TAGS: Record<string, ClientPart['kind']> = {
  'command-name': 'command',
  'command-args': 'command',
  'bash-input': 'shell',
  'bash-stdout': 'output',
  'bash-stderr': 'output',
  'local-command-stdout': 'output',
  'local-command-stderr': 'output',
  'local-command-caveat': 'reminder',
  'system-reminder': 'reminder',
  'session-start-hook': 'reminder',
  'user-prompt-submit-hook': 'reminder',
  'task-notification': 'notice',
  ide_opened_file: 'notice',
  ide_selection: 'notice',
  ide_diagnostics: 'notice',
}
const TAG = new RegExp(`<(command-message|${Object.keys(TAGS).join('|')})>([^]*?)</\\1>`, 'g')
const INTERRUPTED = /^\[Request interrupted by user[^\]]*\]$/

/** The parts of a text, in order. A slash command is one part, with its arguments; its own message says the same again. */
export function clientParts(text: string): ClientPart[] {
  const parts: ClientPart[] = []
  const plain = (piece: string): void => {
    const trimmed = piece.trim()
    if (trimmed) parts.push({ kind: INTERRUPTED.test(trimmed) ? 'interrupted' : 'text', text: trimmed })
  }
  if (!text.includes('<') && !text.includes('[Request')) return [{ kind: 'text', text }]
  let end = 0
  for (const found of text.matchAll(TAG)) {
    plain(text.slice(end, found.index))
    end = found.index + found[0].length
    const [, tag, inner] = found as unknown as [string, string, string]
    if (tag === 'command-message') continue
    const last = parts.at(-1)
    if (tag === 'command-args' && last?.kind === 'command') last.text = `${last.text} ${inner.trim()}`.trim()
    else if (tag === 'command-name' && last?.kind === 'command' && !last.text.startsWith('/')) last.text = `${inner.trim()} ${last.text}`.trim()
    else if (inner.trim()) parts.push({ kind: TAGS[tag]!, text: inner.trim() })
  }
  plain(text.slice(end))
  return parts
}
