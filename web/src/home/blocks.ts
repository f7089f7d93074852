// Five-hour blocks on a line of time: where each stands, how fast it filled, and what the client said of its limit meanwhile.

import type { CostRow, StatsDocument } from '../lib/documents'

const FULL = 90

export interface Block {
  start: string
  end: string
  usd: string
  amount: number
  /** Dollars an hour, exact: over five hours, or so far while it runs. */
  hourly: string
  isActive: boolean
  /** Percent of the limit that was seen used; 0: none was seen. */
  limit: number
  isFull: boolean
  /** From 0 to 1: where it begins and ends between the first block's start and the last one's end. */
  from: number
  to: number
}

/** A fifth of an amount, as exact text: twice of it, and the point one place further left. */
export function fifth(usd: string): string {
  const [whole = '0', part = ''] = usd.split('.')
  const digits = (BigInt(whole + part) * 2n).toString().padStart(part.length + 2, '0')
  const cut = digits.length - part.length - 1
  return `${digits.slice(0, cut)}.${digits.slice(cut)}`
}

/** Blocks where they were in time: a night without work is a gap one can see. */
export function placed(rows: CostRow[], limits: StatsDocument['blocks']['limits']): Block[] {
  const known = rows.filter((row): row is CostRow & { start: string; end: string } => Boolean(row.start && row.end))
  const first = Date.parse(known[0]?.start ?? '')
  const span = Date.parse(known.at(-1)?.end ?? '') - first
  return known.map((row) => {
    const limit = Math.max(0, ...limits.filter((one) => one.at >= row.start && one.at < row.end).map((one) => one.used_percentage))
    const usd = row.cost_usd ?? '0'
    const isActive = row.is_active === true
    return {
      start: row.start,
      end: row.end,
      usd,
      amount: Number(usd),
      hourly: (isActive && row.cost_usd_per_hour) || fifth(usd),
      isActive,
      limit,
      isFull: limit >= FULL,
      from: (Date.parse(row.start) - first) / span,
      to: (Date.parse(row.end) - first) / span,
    }
  })
}
