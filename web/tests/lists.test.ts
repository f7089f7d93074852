import { describe, expect, it } from 'vitest'
import { between, counted, fromPatch, fromUnified } from '../src/lib/diff'
import { highlighted } from '../src/lib/highlight'
import { Paged } from '../src/lib/paged.svelte'
import { link, parsed } from '../src/lib/route.svelte'
import { restored } from '../src/lib/settings.svelte'
import { stacked, weeks } from '../src/cost/days'
import { rowOf, shownRows } from '../src/talk/talking.svelte'
import { gist, toolName } from '../src/talk/tools'
import type { CostRowDocument } from '../src/lib/documents'

describe('differences', () => {
  it('finds the shortest way between texts', () => {
    expect(between('a\nb\nc', 'a\nx\nc').map((line) => line.kind[0] + line.text)).toEqual(['sa', 'rb', 'ax', 'sc'])
    expect(counted(between('', 'a\nb'))).toEqual({ added: 2, removed: 1 })
  })
  it('numbers the lines of a unified diff', () => {
    const lines = fromUnified('--- a\n+++ b\n@@ -3,2 +3,2 @@\n x\n-y\n+z\n')
    expect(lines).toEqual([
      { kind: 'same', text: 'x', before: 3, after: 3 },
      { kind: 'removed', text: 'y', before: 4, after: null },
      { kind: 'added', text: 'z', before: null, after: 4 },
    ])
  })
  it('takes no patch that is none', () => {
    expect(fromPatch([{ lines: 'x' }])).toBeNull()
    expect(fromPatch(null)).toBeNull()
  })
})

describe('rows of a conversation', () => {
  it('hides results behind their calls, but not those without one', () => {
    expect(shownRows('rparrapb')).toEqual([0, 1, 2, 5, 6, 7])
  })
  it('finds the row of a hidden result', () => {
    expect(rowOf([0, 1, 2, 5], 4)).toBe(2)
    expect(rowOf([0, 1, 2, 5], 5)).toBe(3)
  })
})

describe('pages of a list', () => {
  it('asks for a page once and forgets the oldest', async () => {
    const asked: number[] = []
    const paged = new Paged<number>((from, size) => { asked.push(from); return Promise.resolve(Array.from({ length: size }, (_, place) => from + place)) }, 10, 2)
    await Promise.all([paged.need(0), paged.need(0)])
    await paged.need(1)
    await paged.need(2)
    expect(asked).toEqual([0, 10, 20])
    expect(paged.at(25)).toBe(25)
    expect(paged.at(5)).toBeUndefined()
  })
  it('takes only whole pages of a window', () => {
    const paged = new Paged<number>(() => Promise.resolve([]), 10)
    paged.put(5, Array.from({ length: 17 }, (_, place) => place + 5), 100)
    expect([paged.at(5), paged.at(10), paged.at(19), paged.at(20)]).toEqual([undefined, 10, 19, undefined])
    paged.put(90, [90, 91], 92)
    expect(paged.at(91)).toBe(91)
  })
})

describe('addresses', () => {
  it('come back as they went', () => {
    const there = link('s', 'a/b', 'files', { m: 'x&y', n: null })
    expect(parsed(there)).toEqual({ page: 's', id: 'a/b', tab: 'files', asked: { m: 'x&y' } })
    expect(parsed('')).toEqual({ page: 'home', id: '', tab: '', asked: {} })
    expect(parsed('#/s/%E0%A4%A')).toMatchObject({ id: '%E0%A4%A' })
  })
})

describe('settings', () => {
  it('take nothing they do not know', () => {
    expect(restored('{"theme":"pink","tools":"open"}')).toMatchObject({ theme: 'auto', tools: 'open' })
    expect(restored('broken')).toMatchObject({ theme: 'auto', panel: true })
  })
})

describe('costs', () => {
  const row = (day: string, model: string, cost_usd: string): CostRowDocument => ({ day, model, cost_usd, messages: 1, unpriced_responses: 0 }) as unknown as CostRowDocument
  it('stand day by day, the dearest model first', () => {
    const stack = stacked([row('2026-01-01', 'a', '1'), row('2026-01-03', 'b', '5')])
    expect(stack).toEqual({ days: ['2026-01-01', '2026-01-02', '2026-01-03'], models: ['b', 'a'], amounts: [[0, 0, 5], [1, 0, 0]] })
  })
  it('fill a calendar up to today', () => {
    const cells = weeks([row('2026-11-16', 'a', '2')], '2026-11-16', 2)
    expect(cells[1]![0]).toMatchObject({ day: '2026-11-16', level: 1 })
    expect(cells[1]![1]).toBeNull()
    expect(cells[0]![0]).toMatchObject({ day: '2026-11-09', level: 0, usd: null })
  })
})

describe('tools', () => {
  it('are told in a line', () => {
    expect(gist('Bash', { command: 'ls\ncd' })).toBe('ls')
    expect(gist('Edit', { file_path: '/a/b/c/d/e.py' })).toBe('…/c/d/e.py')
    expect(gist('Bash', 'not an object')).toBe('')
    expect(toolName('mcp__github__get_issue')).toBe('github · get_issue')
  })
  it('colour pieces that make up the whole text', () => {
    const text = 'const a = "x" // y\nlet b = 1'
    expect(highlighted(text, 'ts').map((piece) => piece.text).join('')).toBe(text)
  })
})
