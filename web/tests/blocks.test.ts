import { describe, expect, it } from 'vitest'
import { fifth, placed } from '../src/home/blocks'
import type { CostRow } from '../src/lib/documents'

const row = (start: string, end: string, cost_usd: string, more: object = {}): CostRow => ({ start, end, cost_usd, ...more }) as unknown as CostRow
const ROWS = [row('2026-01-01T00:00:00Z', '2026-01-01T05:00:00Z', '10'), row('2026-01-01T05:00:00Z', '2026-01-01T10:00:00Z', '0.01'), row('2026-01-01T20:00:00Z', '2026-01-02T01:00:00Z', '3', { is_active: true, cost_usd_per_hour: '7.5' })]

describe('five-hour blocks', () => {
  it('stand where they were in time, with the gaps between them', () => {
    const places = placed(ROWS, []).map((one) => [one.from, one.to])
    expect(places).toEqual([[0, 0.2], [0.2, 0.4], [0.8, 1]])
  })
  it('have a rate each: over five hours, or so far while one runs', () => {
    expect(placed(ROWS, []).map((one) => Number(one.hourly))).toEqual([2, 0.002, 7.5])
    expect(['10', '0.01', '123456789012345.678', '0'].map(fifth)).toEqual(['2.0', '0.002', '24691357802469.1356', '0.0'])
  })
  it('have the most of the limit that was seen while they ran', () => {
    const limits = [['2026-01-01T01:00:00Z', 40], ['2026-01-01T04:00:00Z', 95], ['2026-01-01T12:00:00Z', 99]].map(([at, used_percentage]) => ({ at, used_percentage, resets_at: null })) as Parameters<typeof placed>[1]
    expect(placed(ROWS, limits).map((one) => [one.limit, one.isFull])).toEqual([[95, true], [0, false], [0, false]])
  })
})
