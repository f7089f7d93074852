// What was folded and unfolded by hand in each conversation: kept in this browser, so that back, reload, tabs and restarts find it so.

const KEY = 'recollect-folds'
const [MOST, MOST_EACH] = [100, 300]
type Folds = [string, boolean][]

function all(): [string, Folds][] {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? '[]') as unknown
    const isPair = (one: unknown): one is [unknown, unknown] => Array.isArray(one) && one.length === 2
    return (Array.isArray(found) ? found : []).filter((one): one is [string, Folds] => isPair(one) && typeof one[0] === 'string' && Array.isArray(one[1]) && one[1].every((fold: unknown) => isPair(fold) && typeof fold[0] === 'string' && typeof fold[1] === 'boolean'))
  } catch {
    return []
  }
}

export const foldsOf = (conversation: string): Folds => all().find(([name]) => name === conversation)?.[1] ?? []

/** Remember one fold; what was touched longest ago is forgotten first. Other tabs have theirs in the same place. */
export function keepFold(conversation: string, fold: string, isOpen: boolean): void {
  const kept = foldsOf(conversation).filter(([name]) => name !== fold).slice(1 - MOST_EACH)
  const others = all().filter(([name]) => name !== conversation).slice(1 - MOST)
  try {
    localStorage.setItem(KEY, JSON.stringify([...others, [conversation, [...kept, [fold, isOpen]]]]))
  } catch {
    // A browser that keeps nothing folds as the settings say.
  }
}
