// The files of a session as a tree: directories with one child are one row, files below the session's directory are relative.

import type { TouchedFileDocument } from '../lib/documents'

export interface TreeRow {
  kind: 'directory' | 'file'
  /** The whole path; of a directory, with its stroke at the end. */
  path: string
  name: string
  depth: number
  file: TouchedFileDocument | null
  added: number
  removed: number
}

interface Branch {
  directories: Map<string, Branch>
  files: TouchedFileDocument[]
}

const isWindows = (path: string): boolean => /^([A-Za-z]:[\\/]|\\\\)/.test(path)
export const strokeOf = (path: string): string => (isWindows(path) ? '\\' : '/')
const partsOf = (path: string, whole = path): string[] => path.split(isWindows(whole) ? /[\\/]/ : '/')

/** The rows that are to be seen; `isFolded` says which directories are not unfolded. */
export function treeRows(files: TouchedFileDocument[], root: string, isFolded: (path: string) => boolean): TreeRow[] {
  const top: Branch = { directories: new Map(), files: [] }
  const below = root ? root.replace(/[\\/]+$/, '') + strokeOf(root) : ''
  for (const file of files) {
    const isBelow = below !== '' && file.path.startsWith(below)
    const parts = partsOf(isBelow ? file.path.slice(below.length) : file.path, file.path)
    let branch = top
    for (const part of parts.slice(0, -1)) {
      const next = branch.directories.get(part) ?? { directories: new Map<string, Branch>(), files: [] }
      branch.directories.set(part, next)
      branch = next
    }
    branch.files.push(file)
  }
  const rows: TreeRow[] = []
  put(top, '', 0, rows, isFolded)
  return rows
}

function put(branch: Branch, above: string, depth: number, rows: TreeRow[], isFolded: (path: string) => boolean): void {
  for (const [first, inner] of [...branch.directories].sort(([one], [other]) => one.localeCompare(other))) {
    let [name, now] = [first, inner]
    while (now.files.length === 0 && now.directories.size === 1) {
      const [[part, next]] = [...now.directories] as [[string, Branch]]
      name += `/${part}`
      now = next
    }
    const path = `${above}${name}/`
    const row: TreeRow = { kind: 'directory', path, name: `${name}/`, depth, file: null, added: 0, removed: 0 }
    for (const file of within(now)) {
      row.added += file.added
      row.removed += file.removed
    }
    rows.push(row)
    if (!isFolded(path)) put(now, path, depth + 1, rows, isFolded)
  }
  const named = branch.files.map((file) => ({ file, name: partsOf(file.path).at(-1) || file.path }))
  for (const { file, name } of named.sort((one, other) => one.name.localeCompare(other.name))) {
    rows.push({ kind: 'file', path: file.path, name, depth, file, added: file.added, removed: file.removed })
  }
}

function within(branch: Branch): TouchedFileDocument[] {
  return [...branch.files, ...[...branch.directories.values()].flatMap(within)]
}
