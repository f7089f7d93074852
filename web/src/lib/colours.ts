// One colour for each model and each project, the same on every screen and every day.
//
// A project's is decided by its name. So is a model's where it is free: a family has its hue, its versions are shades of it. Where
// another model has that colour already, the next free one is taken, and this browser remembers which: names alone cannot keep
// two models apart for ever, for there will be more of them than colours.

import { modelName } from './format'

const FAMILIES: Record<string, [number, number]> = { opus: [1, 3], sonnet: [4, 3], haiku: [7, 2] }
const REST: [number, number] = [9, 3]
const HUES = 12
/** Of what is shown together, and of no model. */
export const OTHERS_HUE = HUES
const KEY = 'recollect-model-colours'

function hash(text: string): number {
  // FNV-1a, and its upper bits mixed in: names that differ by a digit get different colours.
  let sum = 0x811c9dc5
  for (const letter of text) sum = Math.imul(sum ^ letter.codePointAt(0)!, 0x01000193) >>> 0
  return (sum ^ (sum >>> 15)) >>> 0
}

/** All colours of models, the most fitting first: its own, those of its family, those of no family, the rest. */
function fitting(model: string): number[] {
  const family = Object.keys(FAMILIES).find((one) => model.includes(one))
  const [first, number] = family ? FAMILIES[family]! : REST
  const version = model.match(/\d+/g)?.reduce((sum, digits) => sum * 10 + Number(digits), 0)
  const own = (family ? (version ?? 0) : hash(model)) % number
  const span = (from: number, size: number, start = 0): number[] => Array.from({ length: size }, (_, place) => from + ((start + place) % size))
  return [...new Set([...span(first, number, own), ...span(...REST), ...span(1, OTHERS_HUE - 1)])]
}

let taken: Map<string, number> | null = null

function remembered(): Map<string, number> {
  try {
    const rows = Object.entries(JSON.parse(localStorage.getItem(KEY) ?? '{}') as Record<string, unknown>)
    return new Map(rows.filter((row): row is [string, number] => Number.isInteger(row[1]) && (row[1] as number) >= 1 && (row[1] as number) < OTHERS_HUE))
  } catch {
    return new Map() // not readable, or not ours: begin again
  }
}

/** The number of a model's colour, 1 to 11. Names with and without a date are one model. */
export function modelHue(model: string): number {
  const name = modelName(model)
  taken ??= remembered()
  const known = taken.get(name)
  if (known !== undefined) return known
  const used = new Set(taken.values())
  const wanted = fitting(name)
  const free = wanted.find((hue) => !used.has(hue))
  if (free === undefined) return wanted[0]!
  taken.set(name, free)
  try {
    localStorage.setItem(KEY, JSON.stringify(Object.fromEntries(taken)))
  } catch {
    // A full or forbidden store: the colour holds until the page is loaded again.
  }
  return free
}

/** For tests: as a browser that was just started. */
export const forgetColours = (): void => void (taken = null)

/** The number of a project's colour. */
export const projectHue = (project: string): number => 1 + (hash(project) % HUES)
