import { describe, expect, it } from 'vitest'
import { differing, fromUnified, sides } from '../src/lib/diff'
import type { TouchedFileDocument } from '../src/lib/documents'
import { highlighted, parted } from '../src/lib/highlight'
import { treeRows } from '../src/files/tree'

const file = (path: string, added = 1, is_edited = true): TouchedFileDocument => ({ path, added, removed: 0, is_edited, versions: [] })
const told = (files: TouchedFileDocument[], root = '/srv/shop', folded: string[] = []): string[] => treeRows(files, root, (path) => folded.includes(path)).map((row) => `${' '.repeat(row.depth)}${row.name} ${row.added}`)

describe('the tree of files', () => {
  it('is relative to the session, joins single directories and adds up', () => {
    expect(told([file('/srv/shop/src/lib/b.ts', 2), file('/srv/shop/src/lib/a.ts', 3), file('/srv/shop/README.md', 1), file('/etc/hosts', 4)])).toEqual(['/etc/ 4', ' hosts 4', 'src/lib/ 5', ' a.ts 3', ' b.ts 2', 'README.md 1'])
  })
  it('leaves out what is folded, and takes strokes as the system of the path has them', () => {
    expect(told([file('/srv/shop/src/a.ts')], '/srv/shop', ['src/'])).toEqual(['src/ 1'])
    expect(told([file('C:\\shop\\src\\a.ts')], 'C:\\shop')).toEqual(['src/ 1', ' a.ts 1'])
    expect(told([file('/srv/shop/a\\b.ts')])).toEqual(['a\\b.ts 1'])
  })
})

describe('changes side by side', () => {
  it('puts what went beside what came', () => {
    const rows = sides(fromUnified('--- a\n+++ b\n@@ -1,3 +1,4 @@\n same\n-old\n+new\n+more\n end\n@@ -9 +10 @@\n-x\n'))
    expect(rows.map((row) => [row.left?.text ?? null, row.right?.text ?? null, row.isGap])).toEqual([['same', 'same', false], ['old', 'new', false], [null, 'more', false], ['end', 'end', false], ['', '', true], ['x', null, false]])
  })
  it('marks where a line differs, through the colours, and only where that helps', () => {
    expect(differing('return round(a)', 'return a')).toEqual([7, 15])
    expect(differing('abc', 'xyz')).toBeNull()
    const pieces = parted(highlighted('return 12', 'py'), [3, 8])
    expect(pieces.map((piece) => [piece.text, piece.kind, piece.isIn])).toEqual([['ret', 'word', false], ['urn', 'word', true], [' ', '', true], ['1', 'number', true], ['2', 'number', false]])
  })
})
