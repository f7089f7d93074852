// What a search looked for, known to everything that could hide it.

import { getContext, setContext } from 'svelte'

export interface Sought {
  readonly pattern: RegExp | null
}

const KEY = Symbol('sought')
export const seek = (sought: Sought): unknown => setContext(KEY, sought)
export const sought = (): Sought | undefined => getContext<Sought | undefined>(KEY)

/** Where it stands in a text for the first time; -1 where it does not. */
export const soughtIn = (where: Sought | undefined, text: string): number => (where?.pattern ? text.search(where.pattern) : -1)

/** The words of a question, as titles are marked with them; the quotes around a phrase are none. */
export const wordsOf = (question: string): string[] => question.replaceAll('"', ' ').split(/\s+/).filter((word) => word.length > 1).map((word) => word.toLowerCase())
