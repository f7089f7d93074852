// Markdown as a tree of a few known shapes. Raw HTML, pictures and unknown things become text; a link keeps its
// address only if it leads to the web or to mail. Nothing here makes HTML.

import { Marked, type Token, type Tokens } from 'marked'

export type Inline =
  | { type: 'text' | 'code'; text: string }
  | { type: 'strong' | 'em' | 'del'; children: Inline[] }
  | { type: 'link'; href: string | null; address: string; children: Inline[]; isPlain: boolean }
  | { type: 'br' }

export type Part =
  | { type: 'paragraph'; children: Inline[] }
  | { type: 'heading'; depth: number; children: Inline[] }
  | { type: 'code'; text: string; language: string }
  | { type: 'quote'; parts: Part[] }
  | { type: 'list'; ordered: boolean; start: number; items: { checked: boolean | null; parts: Part[] }[] }
  | { type: 'table'; head: Inline[][]; rows: Inline[][][] }
  | { type: 'rule' }

const DEEPEST = 12
const marked = new Marked({ gfm: true, breaks: false })

/** The address of a link a person may follow, or null. */
export function safeAddress(href: string): string | null {
  const plain = href.trim()
  if (!/^(https?:\/\/|mailto:)/i.test(plain)) return null
  try {
    const url = new URL(plain)
    return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null
  } catch {
    return null
  }
}

export function parsedMarkdown(text: string): Part[] {
  try {
    return parts(marked.lexer(text), 0)
  } catch {
    // Too deep or too odd for the parser: it is still text.
    return [{ type: 'paragraph', children: [{ type: 'text', text }] }]
  }
}

function parts(tokens: Token[], depth: number): Part[] {
  return tokens.flatMap((token) => part(token, depth))
}

function plain(text: string): Part[] {
  return text.trim() ? [{ type: 'paragraph', children: [{ type: 'text', text }] }] : []
}

function part(token: Token, depth: number): Part[] {
  if (depth > DEEPEST) return plain(token.raw)
  switch (token.type) {
    case 'space':
      return []
    case 'heading':
      return [{ type: 'heading', depth: (token as Tokens.Heading).depth, children: inline(token, depth) }]
    case 'code': {
      const code = token as Tokens.Code
      return [{ type: 'code', text: code.text, language: code.lang ?? '' }]
    }
    case 'blockquote':
      return [{ type: 'quote', parts: parts((token as Tokens.Blockquote).tokens, depth + 1) }]
    case 'list':
      return [list(token as Tokens.List, depth)]
    case 'table':
      return [table(token as Tokens.Table, depth)]
    case 'hr':
      return [{ type: 'rule' }]
    case 'paragraph':
    case 'text':
      return [{ type: 'paragraph', children: inline(token, depth) }]
    default:
      return plain(token.raw)
  }
}

function list(token: Tokens.List, depth: number): Part {
  const items = token.items.map((item) => ({
    checked: item.task ? Boolean(item.checked) : null,
    parts: parts(item.tokens.filter((one) => one.type !== 'checkbox'), depth + 1),
  }))
  return { type: 'list', ordered: token.ordered, start: Number(token.start) || 1, items }
}

function table(token: Tokens.Table, depth: number): Part {
  const cell = (one: Tokens.TableCell): Inline[] => inlines(one.tokens, depth + 1)
  return { type: 'table', head: token.header.map(cell), rows: token.rows.map((row) => row.map(cell)) }
}

function inline(token: Token, depth: number): Inline[] {
  const inner = (token as { tokens?: Token[] }).tokens
  return inner ? inlines(inner, depth + 1) : [{ type: 'text', text: (token as Tokens.Text).text ?? token.raw }]
}

function inlines(tokens: Token[], depth: number): Inline[] {
  return tokens.flatMap((token): Inline[] => {
    if (depth > DEEPEST) return [{ type: 'text', text: token.raw }]
    switch (token.type) {
      case 'strong':
      case 'em':
      case 'del':
        return [{ type: token.type, children: inline(token, depth) }]
      case 'codespan':
        return [{ type: 'code', text: (token as Tokens.Codespan).text }]
      case 'br':
        return [{ type: 'br' }]
      case 'link':
        return [linked(token as Tokens.Link, depth)]
      case 'escape':
        return [{ type: 'text', text: (token as Tokens.Escape).text }]
      case 'checkbox':
        return []
      case 'text':
        return (token as Tokens.Text).tokens ? inline(token, depth) : [{ type: 'text', text: (token as Tokens.Text).text }]
      default:
        return [{ type: 'text', text: token.raw }]
    }
  })
}

function linked(token: Tokens.Link, depth: number): Inline {
  const href = safeAddress(token.href)
  const isPlain = token.text === token.href || `mailto:${token.text}` === token.href
  return { type: 'link', href, address: href ?? token.href, children: inline(token, depth), isPlain }
}
