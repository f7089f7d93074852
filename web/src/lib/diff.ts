// Changes of text, line by line: from the client's own patch, from a unified diff, or found here.

export interface DiffLine {
  kind: 'same' | 'added' | 'removed' | 'gap'
  text: string
  before: number | null
  after: number | null
}

const LARGEST = 600

interface Hunk {
  oldStart: number
  newStart: number
  lines: string[]
}

function isHunk(value: unknown): value is Hunk {
  const hunk = value as Partial<Hunk> | null
  return typeof hunk === 'object' && hunk !== null && Array.isArray(hunk.lines) && typeof hunk.oldStart === 'number'
}

/** The lines of a client's structuredPatch, or null where it is none. */
export function fromPatch(patch: unknown): DiffLine[] | null {
  if (!Array.isArray(patch) || patch.length === 0 || !patch.every(isHunk)) return null
  return patch.flatMap((hunk, place) => [
    ...(place ? [gap()] : []),
    ...numbered(hunk.lines.map(String), hunk.oldStart, hunk.newStart),
  ])
}

export function fromUnified(text: string): DiffLine[] {
  const shown: DiffLine[] = []
  let hunk: string[] = []
  let [before, after] = [1, 1]
  const close = (): void => {
    if (hunk.length) shown.push(...(shown.length ? [gap()] : []), ...numbered(hunk, before, after))
    hunk = []
  }
  let isInside = false
  for (const line of text.replace(/\n$/, '').split('\n')) {
    const start = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line)
    if (start) {
      close()
      isInside = true
      ;[before, after] = [Number(start[1]), Number(start[2])]
    } else if (isInside) hunk.push(line)
  }
  close()
  return shown
}

function gap(): DiffLine {
  return { kind: 'gap', text: '', before: null, after: null }
}

function numbered(lines: string[], oldStart: number, newStart: number): DiffLine[] {
  let [before, after] = [oldStart, newStart]
  return lines.flatMap((line): DiffLine[] => {
    const text = line.slice(1)
    if (line.startsWith('+')) return [{ kind: 'added', text, before: null, after: after++ }]
    if (line.startsWith('-')) return [{ kind: 'removed', text, before: before++, after: null }]
    if (line.startsWith('\\')) return []
    return [{ kind: 'same', text, before: before++, after: after++ }]
  })
}

/** The shortest way from one text to another, or all out and all in where the texts are long. */
export function between(before: string, after: string): DiffLine[] {
  const [from, to] = [before.split('\n'), after.split('\n')]
  if (from.length > LARGEST || to.length > LARGEST) {
    return numbered([...from.map((line) => '-' + line), ...to.map((line) => '+' + line)], 1, 1)
  }
  const width = to.length + 1
  const common = new Uint16Array((from.length + 1) * width)
  for (let i = from.length - 1; i >= 0; i--) {
    for (let j = to.length - 1; j >= 0; j--) {
      const skip = Math.max(common[(i + 1) * width + j]!, common[i * width + j + 1]!)
      common[i * width + j] = from[i] === to[j] ? common[(i + 1) * width + j + 1]! + 1 : skip
    }
  }
  const lines: string[] = []
  let [i, j] = [0, 0]
  while (i < from.length || j < to.length) {
    if (i < from.length && j < to.length && from[i] === to[j]) {
      lines.push(' ' + from[i++])
      j++
    } else if (i < from.length && (j === to.length || common[(i + 1) * width + j]! >= common[i * width + j + 1]!)) {
      lines.push('-' + from[i++])
    } else lines.push('+' + to[j++])
  }
  return numbered(lines, 1, 1)
}

export function counted(lines: DiffLine[]): { added: number; removed: number } {
  return {
    added: lines.filter((line) => line.kind === 'added').length,
    removed: lines.filter((line) => line.kind === 'removed').length,
  }
}

export interface SideRow {
  left: DiffLine | null
  right: DiffLine | null
  isGap: boolean
}

/** The same lines as pairs: what was taken out beside what came in its place. */
export function sides(lines: DiffLine[]): SideRow[] {
  const rows: SideRow[] = []
  let [removed, added]: [DiffLine[], DiffLine[]] = [[], []]
  const flush = (): void => {
    for (let place = 0; place < Math.max(removed.length, added.length); place++) rows.push({ left: removed[place] ?? null, right: added[place] ?? null, isGap: false })
    removed = []
    added = []
  }
  for (const line of lines) {
    if (line.kind === 'removed') {
      if (added.length) flush()
      removed.push(line)
    } else if (line.kind === 'added') added.push(line)
    else {
      flush()
      rows.push({ left: line, right: line, isGap: line.kind === 'gap' })
    }
  }
  flush()
  return rows
}

/** Where a line differs from its counterpart; null where they share too little for a mark to help. */
export function differing(own: string, other: string): [number, number] | null {
  const most = Math.min(own.length, other.length)
  let start = 0
  while (start < most && own[start] === other[start]) start++
  let end = 0
  while (end < most - start && own[own.length - 1 - end] === other[other.length - 1 - end]) end++
  return start + end > own.length / 3 && own.length - end > start ? [start, own.length - end] : null
}
