// Branches as a tree: the server says which branch each one leaves, in an order in which parents come first.

import type { BranchNodeDocument } from '../lib/documents'

export interface Limb {
  branch: BranchNodeDocument
  below: Limb[]
}

/** Branches that were taken. What ends where a compaction began is a chapter of the same story, no branch of it. */
export function forksOf<T extends { leaf: string; active: boolean }>(branches: T[], compactions: { before: string | null }[]): T[] {
  const ends = new Set(compactions.map((one) => one.before))
  return branches.filter((one) => one.active || !ends.has(one.leaf))
}

/** The stems, with what hangs off them. A branch whose parent is not listed is a stem. */
export function treeOf(branches: BranchNodeDocument[]): Limb[] {
  const stems: Limb[] = []
  const known = new Map<string, Limb>()
  for (const branch of branches) {
    const limb: Limb = { branch, below: [] }
    known.set(branch.leaf, limb)
    const parent = branch.parent ? known.get(branch.parent) : undefined
    ;(parent ? parent.below : stems).push(limb)
  }
  return stems
}

/** The place of the next link when a key is pressed at one; -1 where the key means nothing. */
export function stepped(key: string, place: number, total: number): number {
  switch (key) {
    case 'ArrowDown':
      return Math.min(place + 1, total - 1)
    case 'ArrowUp':
      return Math.max(place - 1, 0)
    case 'Home':
      return 0
    case 'End':
      return total - 1
    default:
      return -1
  }
}
