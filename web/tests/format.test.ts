import { describe, expect, it } from 'vitest'
import { axisMoney, bytes, day, duration, modelName, money, rounded, short, shortId, tail, until, visible } from '../src/lib/format'

describe('money', () => {
  it('rounds half up from exact text', () => {
    expect(rounded('0.125', 2)).toBe('0.13')
    expect(rounded('0.1249999999999999999', 2)).toBe('0.12')
    expect(rounded('999.995', 2)).toBe('1,000.00')
    expect(rounded('1234567.891', 2)).toBe('1,234,567.89')
    expect(rounded('7', 2)).toBe('7.00')
  })
  it('writes amounts of an axis short, and never as nothing', () => {
    expect([0, 0.005, 0.04, 0.25, 1, 1.5, 12].map(axisMoney)).toEqual(['$0', '$0.005', '$0.04', '$0.25', '$1', '$1.50', '$12'])
  })

  it('keeps small amounts readable and says what has no price', () => {
    expect(money('0.00165')).toBe('$0.0017')
    expect(money('4.018692')).toBe('$4.02')
    expect(money('0')).toBe('$0.00')
    expect(money(null)).toBe('unpriced')
  })
})

describe('times and sizes', () => {
  const now = new Date(2026, 10, 16, 12)
  it('names near days', () => {
    expect(day(new Date(2026, 10, 16, 1).toISOString(), now)).toBe('Today')
    expect(day(new Date(2026, 10, 15, 23).toISOString(), now)).toBe('Yesterday')
    expect(day(new Date(2026, 10, 13, 9).toISOString(), now)).toBe('Friday')
    expect(day(new Date(2025, 10, 13, 9).toISOString(), now)).toBe('13 Nov 2025')
    expect(day(null)).toBe('Undated')
  })
  it('says how long', () => {
    expect(duration(11)).toBe('11 ms')
    expect(duration(1200)).toBe('1.2 s')
    expect(duration(264_200)).toBe('4 min 24 s')
    expect(duration(null)).toBe('')
    expect(until(new Date(2026, 10, 18, 13).toISOString(), now)).toBe('in 2 days')
  })
  it('shortens numbers', () => {
    expect(short(999)).toBe('999')
    expect(short(51_000)).toBe('51k')
    expect(short(1_500_000)).toBe('1.5M')
    expect(bytes(2_056_483)).toBe('2.1 MB')
  })
})

describe('names', () => {
  it('tells models apart', () => {
    expect(modelName('claude-sonnet-4-5-20250929')).toBe('sonnet 4.5')
    expect(modelName('claude-opus-4-6')).toBe('opus 4.6')
    expect(modelName('claude-3-5-haiku-20241022')).toBe('haiku 3.5')
    expect(modelName('claude-3-sonnet-20240229')).toBe('sonnet 3')
    expect(modelName('gpt-5')).toBe('gpt-5')
  })
  it('names a session as the command does', () => {
    expect(shortId('6ada00ba-bd95-4acf-8c26-ebe2f4391add')).toBe('6ada00ba')
    expect(shortId('01a1e97c-214f-7113-ae4a-616306ff5c35')).toBe('01a1e97c-214f')
  })
  it('keeps the end of a path', () => {
    expect(tail('/a/b/c/d.py')).toBe('…/c/d.py')
    expect(tail('/a/b/c/d.py', 1)).toBe('d.py')
  })
  it('takes colours out and shows other controls', () => {
    expect(visible('\u001b[31mred\u001b[0m')).toBe('red')
    expect(visible('a\u0000b\u001b]8')).toBe('a␀b␛]8')
    expect(visible('a\r\nb\tc')).toBe('a\nb\tc')
  })
})
