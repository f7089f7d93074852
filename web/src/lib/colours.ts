// One colour for each model and each project, decided by its name alone: the same on every screen and every day.

const FAMILIES: Record<string, [number, number]> = { opus: [1, 3], sonnet: [4, 3], haiku: [7, 2] }
const REST: [number, number] = [9, 4]
const HUES = 12

function hash(text: string): number {
  // FNV-1a, and its upper bits mixed in: names that differ by a digit get different colours.
  let sum = 0x811c9dc5
  for (const letter of text) sum = Math.imul(sum ^ letter.codePointAt(0)!, 0x01000193) >>> 0
  return (sum ^ (sum >>> 15)) >>> 0
}

/** The number of a model's colour, 1 to 12: a family has its hue, its versions are shades of it. */
export function modelHue(model: string): number {
  const family = Object.keys(FAMILIES).find((one) => model.includes(one))
  const [first, number] = family ? FAMILIES[family]! : REST
  // claude-opus-4-5-20251101: the version is what tells neighbours apart, the date does not.
  const version = model.replace(/-?\d{8}$/, '').match(/\d+/g)?.reduce((sum, digits) => sum * 10 + Number(digits), 0)
  return first + ((family ? (version ?? 0) : hash(model)) % number)
}

/** The number of a project's colour. */
export const projectHue = (project: string): number => 1 + (hash(project) % HUES)
