// A small highlighter: it knows comments, strings, numbers and words of a language's family, not its grammar.
// It gives pieces of text with a name each; who shows them makes elements, never HTML.

export interface Piece {
  text: string
  kind: '' | 'comment' | 'string' | 'number' | 'word' | 'name'
}

const WORDS = {
  c: 'abstract as async await break case catch class const constexpr continue debugger default defer delete do else enum export extends extern false final finally fn for from func function go goto if impl implements import in instanceof interface internal is let loop match mod module mut namespace new nil null nullptr operator override package priv private protected pub public range readonly ref return sealed self select sizeof static struct super switch this throw throws trait true try type typedef typeof undefined union unsafe use using val var virtual void volatile where while with yield bool boolean byte char double float int long short string unsigned number any str usize u8 u16 u32 u64 i8 i16 i32 i64 f32 f64',
  hash: 'and as assert async await begin break case class continue def defined del do done elif else elsif end ensure esac except export false False fi finally for from function global if import in include is lambda local match module next nil None nonlocal not or pass raise require rescue return self set source then true True try undef unless until when while with yield echo exit cd sudo',
  sql: 'add all alter and as asc between by case create cross delete desc distinct drop else end exists foreign from full group having if in index inner insert into is join key left like limit not null offset on or order outer primary references right select set table then union unique update values view when where with',
  none: '',
}
type Family = keyof typeof WORDS

// Without a prototype: a transcript may name a language "constructor".
const FAMILIES: Record<string, Family> = Object.create(null) as Record<string, Family>
for (const name of 'js jsx ts tsx mjs cjs javascript typescript java kotlin kt swift c cc cpp h hpp cs csharp go golang rust rs php scala dart json json5 jsonc css scss less svelte vue html xml proto groovy zig'.split(' ')) FAMILIES[name] = 'c'
for (const name of 'py python py3 rb ruby sh bash zsh shell console fish yaml yml toml ini conf dockerfile make makefile perl pl r elixir ex nix tf hcl env'.split(' ')) FAMILIES[name] = 'hash'
for (const name of 'sql postgres postgresql mysql sqlite lua hs haskell'.split(' ')) FAMILIES[name] = 'sql'

const STRING = '"(?:[^"\\\\\\n]|\\\\.)*"|\'(?:[^\'\\\\\\n]|\\\\.)*\''
const NUMBER = '\\b\\d[\\w.]*'
const PATTERNS: Record<Family, RegExp> = {
  c: new RegExp(`(?<comment>//[^\\n]*|/\\*[^]*?(?:\\*/|$)|<!--[^]*?(?:-->|$))|(?<string>${STRING}|\`(?:[^\`\\\\]|\\\\.)*\`)|(?<number>${NUMBER})|(?<word>[A-Za-z_$][\\w$]*)`, 'g'),
  hash: new RegExp(`(?<comment>(?<![\\w$])#[^\\n]*)|(?<string>"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|${STRING})|(?<number>${NUMBER})|(?<word>[A-Za-z_][\\w]*)`, 'g'),
  sql: new RegExp(`(?<comment>--[^\\n]*)|(?<string>${STRING})|(?<number>${NUMBER})|(?<word>[A-Za-z_]\\w*)`, 'g'),
  none: /(?!)/g,
}
const SETS = Object.fromEntries(
  Object.entries(WORDS).map(([family, words]) => [family, new Set(words.split(' '))]),
) as Record<Family, Set<string>>

export const LONGEST = 20_000

/** The family of a language's name or a file's ending. */
export function family(language: string): Family {
  const name = language.toLowerCase().split(/[^\w+#-]/).find(Boolean) ?? ''
  return FAMILIES[name] ?? 'none'
}

export function ending(path: string): string {
  return /(?:^|[./])([\w-]+)$/.exec(path.toLowerCase())?.[1] ?? ''
}

export function highlighted(text: string, language: string): Piece[] {
  const kind = family(language)
  if (kind === 'none' || text.length > LONGEST) return [{ text, kind: '' }]
  const pieces: Piece[] = []
  let plain = 0
  const words = SETS[kind]
  for (const found of text.matchAll(PATTERNS[kind])) {
    const groups = found.groups!
    let name: Piece['kind'] = groups.comment ? 'comment' : groups.string ? 'string' : groups.number ? 'number' : ''
    if (groups.word) {
      const after = text[found.index + found[0].length]
      const word = kind === 'sql' ? groups.word.toLowerCase() : groups.word
      name = words.has(word) ? 'word' : after === '(' ? 'name' : ''
    }
    if (!name) continue
    if (found.index > plain) pieces.push({ text: text.slice(plain, found.index), kind: '' })
    pieces.push({ text: found[0], kind: name })
    plain = found.index + found[0].length
  }
  if (plain < text.length) pieces.push({ text: text.slice(plain), kind: '' })
  return pieces
}

/** The same pieces, cut where a range begins and ends. */
export function parted(pieces: Piece[], range: [number, number] | null): (Piece & { isIn: boolean })[] {
  if (range === null) return pieces.map((piece) => ({ ...piece, isIn: false }))
  const found: (Piece & { isIn: boolean })[] = []
  let at = 0
  for (const piece of pieces) {
    const cuts = [0, ...range.map((place) => Math.max(0, Math.min(piece.text.length, place - at))), piece.text.length]
    for (let part = 0; part < 3; part++) {
      const text = piece.text.slice(cuts[part], cuts[part + 1])
      if (text) found.push({ text, kind: piece.kind, isIn: part === 1 })
    }
    at += piece.text.length
  }
  return found
}
