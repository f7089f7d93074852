// Days in a row, what each model cost on them, and the weeks of a calendar. Floats are for heights of bars only.

import type { CostRow } from '../lib/documents'
import { modelHue, OTHERS_HUE } from '../lib/colours'
import { isoDay, modelName } from '../lib/format'
import type { Bar } from '../parts/Bars.svelte'

export interface Stack {
  days: string[]
  models: string[]
  /** amounts[model][day] in dollars */
  amounts: number[][]
}

export function daysBetween(first: string, last: string): string[] {
  const days: string[] = []
  const at = new Date(`${first}T12:00:00`)
  for (let day = first; day <= last && days.length < 5000; day = isoDay(at)) {
    days.push(day)
    at.setDate(at.getDate() + 1)
  }
  return days
}

type Spent = Pick<CostRow, 'cost_usd'> & { day?: unknown; model?: unknown }

/** Models that are called the same are one: a name with a date, and the same without. */
function named(rows: Spent[]): Spent[] {
  const first = new Map<string, string>()
  for (const row of rows) if (!first.has(modelName(String(row.model)))) first.set(modelName(String(row.model)), String(row.model))
  return rows.map((row) => ({ ...row, model: first.get(modelName(String(row.model)))! }))
}

/** Rows by day and model as bars on bars: the dearest models by name, the others together. */
export function stacked(rows: Spent[], most = 8): Stack {
  const known = named(rows.filter((row) => typeof row.day === 'string'))
  if (!known.length) return { days: [], models: [], amounts: [] }
  const sums = new Map<string, number>()
  for (const row of known) sums.set(String(row.model), (sums.get(String(row.model)) ?? 0) + Number(row.cost_usd ?? 0))
  const ranked = [...sums].sort((one, other) => other[1] - one[1]).map(([model]) => model)
  const models = ranked.length > most ? [...ranked.slice(0, most - 1), 'others'] : ranked
  const names = known.map((row) => String(row.day)).sort()
  const days = daysBetween(names[0]!, names.at(-1)!)
  const place = new Map(days.map((day, index) => [day, index]))
  const amounts = models.map(() => new Array<number>(days.length).fill(0))
  for (const row of known) {
    const model = models.indexOf(String(row.model))
    const own = amounts[model < 0 ? models.length - 1 : model]!
    own[place.get(String(row.day))!]! += Number(row.cost_usd ?? 0)
  }
  return { days, models, amounts }
}

/** The same as bars with their legend, for every screen that shows cost by day. */
export function modelBars(rows: Spent[]): { bars: Bar[]; legend: { name: string; hue: number }[] } {
  const { days, models, amounts } = stacked(rows)
  const legend = models.map((model) => (model === 'others' ? { name: model, hue: OTHERS_HUE } : { name: modelName(model), hue: modelHue(model) }))
  return { bars: days.map((name, place) => ({ name, parts: legend.map((one, number) => ({ ...one, amount: amounts[number]![place]! })) })), legend }
}

export interface Cell {
  day: string
  level: number
  usd: string | null
  unpriced: number
}

/** The weeks up to a day, Monday first; levels by fourths of the days that cost something. */
export function weeks(rows: CostRow[], today: string, number = 53): (Cell | null)[][] {
  const byDay = new Map(rows.map((row) => [String(row.day), row]))
  const start = new Date(`${today}T12:00:00`)
  start.setDate(start.getDate() - ((start.getDay() + 6) % 7) - (number - 1) * 7)
  const first = isoDay(start)
  const amounts = rows.filter((row) => String(row.day) >= first && Number(row.cost_usd) > 0).map((row) => Number(row.cost_usd)).sort((a, b) => a - b)
  const bounds = [0.25, 0.5, 0.75].map((part) => amounts[Math.floor(amounts.length * part)] ?? 0)
  const all: (Cell | null)[][] = []
  const at = new Date(`${first}T12:00:00`)
  for (let week = 0; week < number; week++) {
    const column: (Cell | null)[] = []
    for (let weekday = 0; weekday < 7; weekday++) {
      const day = isoDay(at)
      column.push(day > today ? null : cell(day, byDay.get(day), bounds))
      at.setDate(at.getDate() + 1)
    }
    all.push(column)
  }
  return all
}

function cell(day: string, row: CostRow | undefined, bounds: number[]): Cell {
  const amount = Number(row?.cost_usd ?? 0)
  const level = !row ? 0 : 1 + bounds.filter((bound) => amount > bound).length
  return { day, level, usd: row ? (row.cost_usd as string | null) : null, unpriced: row?.unpriced_responses ?? 0 }
}
