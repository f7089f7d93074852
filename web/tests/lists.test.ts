import { describe, expect, it } from 'vitest'
import { between, counted, fromPatch, fromUnified } from '../src/lib/diff'
import { highlighted } from '../src/lib/highlight'
import { Paged } from '../src/lib/paged.svelte'
import { link, parsed } from '../src/lib/route.svelte'
import { restored } from '../src/lib/settings.svelte'
import { modelBars, stacked, weeks } from '../src/cost/days'
import { clientParts } from '../src/lib/clienttext'
import clientTexts from '../../tests/data/client_texts.json'
import { patternOf, ranges } from '../src/lib/marks'
import { rowOf, rowsOf, shownRows, type Row } from '../src/talk/talking.svelte'
import { gist, toolName } from '../src/talk/tools'
import type { CostRow } from '../src/lib/documents'

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
    expect(shownRows('uparruapb')).toEqual([0, 1, 2, 5, 6, 7, 8])
  })
  it('finds the row of a hidden result', () => {
    const rows = [0, 1, 2, 5].map((index) => ({ index }))
    expect(rowOf(rows, 4)).toBe(2)
    expect(rowOf(rows, 5)).toBe(3)
  })
})

describe('turns', () => {
  const told = (kinds: string, turns: number[], isOpen = (_: Row): boolean => true, chapters: number[] = []): string => rowsOf(kinds, turns, chapters, isOpen).map((row) => `${row.type[0]}${row.index}`).join(' ')
  const closed = (row: Row): boolean => row.type === 'chapter'
  it('are a prompt, a strip and an answer', () => {
    expect(told('parara', [0], closed)).toBe('m0 s1 m5')
    expect(told('parara', [0])).toBe('m0 s1 w1 w3 m5')
  })
  it('have no strip where nothing was done', () => expect(told('papoa', [0, 2])).toBe('m0 m1 m2 m3 m4'))
  it('end in work where no answer came', () => expect(told('parar', [0], closed)).toBe('m0 s1'))
  it('stand in chapters between compactions, which fold', () => {
    expect(told('pabsparapa', [0, 2, 4, 8], closed, [0, 2])).toBe('c0 m0 m1 c2 m3 m4 s5 m7 m8 m9')
    expect(told('pabspa', [0, 2, 4], (row) => row.number !== 1, [0, 2])).toBe('c0 c2 m3 m4 m5')
  })
  it('stand in chapters where another tree of the log begins', () => {
    expect(told('pasapa', [0, 2, 4], closed, [0, 2])).toBe('c0 m0 m1 c2 m2 m3 m4 m5')
    expect(told('papa', [0, 2], closed, [0, 2])).toBe('c0 m0 m1 c2 m2 m3')
  })
  it('go on after a compaction in the middle of the work', () => expect(told('parbsara', [0, 3], closed, [0, 3])).toBe('c0 m0 s1 c3 m4 s5 m7'))
})

describe('what the client wrote', () => {
  it('is a command, a mark, or the text it is', () => {
    expect(clientParts('<command-name>/review</command-name>\n<command-message>review</command-message>\n<command-args>the diff</command-args>')).toEqual([{ kind: 'command', text: '/review the diff' }])
    expect(clientParts('Fix it <system-reminder>be brief</system-reminder>').map((one) => one.kind)).toEqual(['text', 'reminder'])
    expect(clientParts('[Request interrupted by user for tool use]')[0]!.kind).toBe('interrupted')
    expect(clientParts('a < b')).toEqual([{ kind: 'text', text: 'a < b' }])
  })
  it('has the parts that exports have', () => {
    for (const [text, parts] of clientTexts as [string, [string, string][]][]) expect(clientParts(text).map((part) => [part.kind, part.text])).toEqual(parts)
  })
})

describe('matches', () => {
  it('are found across pieces of text, and whole words are whole', () => {
    const pattern = patternOf([{ text: 'foo.bar', is_word: true }, { text: 'und', is_word: false }], 'words', '')!
    const root = document.createElement('div')
    root.innerHTML = '<p>x <b>foo</b>.bar y</p><p>Rounding</p><p>xfoo.bar</p>'
    expect(ranges(root, pattern).map(String)).toEqual(['foo.bar', 'und'])
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
  it('never forgets what is looked at, and what was not for long', async () => {
    const asked: number[] = []
    const paged = new Paged<number>((from, size) => { asked.push(from); return Promise.resolve(Array.from({ length: size }, (_, place) => from + place)) }, 10, 2)
    paged.look(5, 32, true)
    await Promise.resolve()
    await Promise.resolve()
    expect(asked).toEqual([0, 10, 20, 30])
    expect([paged.at(7), paged.at(17), paged.at(29), paged.at(32)]).toEqual([7, 17, 29, 32])
    paged.look(90, 92, true)
    await Promise.resolve()
    await Promise.resolve()
    expect([paged.at(7), paged.at(17), paged.at(29), paged.at(32), paged.at(91)]).toEqual([undefined, undefined, undefined, 32, 91])
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
  const row = (day: string, model: string, cost_usd: string): CostRow => ({ day, model, cost_usd, messages: 1, unpriced_responses: 0 }) as unknown as CostRow
  it('stand day by day, the dearest model first', () => {
    const stack = stacked([row('2026-01-01', 'a', '1'), row('2026-01-03', 'b', '5')])
    expect(stack).toEqual({ days: ['2026-01-01', '2026-01-02', '2026-01-03'], models: ['b', 'a'], amounts: [[0, 0, 5], [1, 0, 0]] })
  })
  it('have one part for models of one name', () => {
    const { bars, legend } = modelBars([row('2026-01-01', 'claude-sonnet-4-20250514', '1'), row('2026-01-01', 'claude-sonnet-4', '2'), row('2026-01-01', 'claude-3-sonnet-20240229', '1')])
    expect(legend.map((one) => one.name)).toEqual(['sonnet 4', 'sonnet 3'])
    expect(bars[0]!.parts.map((part) => part.amount)).toEqual([3, 1])
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

describe('a pattern for what was found', () => {
  it('takes punctuation as it is', () => {
    for (const text of ['a-b_c', "it's", '@import', '#7660', '"a b"', 'f(x) [y] {z} $1 a|b \\d /p/ ^~&%!;:,<>=`']) {
      expect(text.search(patternOf([{ text, is_word: false }], 'words', text)!)).toBe(0)
    }
  })
})
