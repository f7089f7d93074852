// Branches as a tree: the server says which branch each one leaves, in an order in which parents come first.

import type { BranchNodeDocument } from '../lib/documents'

export interface Limb {
  branch: BranchNodeDocument
  below: Limb[]
}

/** What hangs off a branch: branches of one line, where there are several, are folded into one row. */
export function foldedOf(below: Limb[]): { shown: Limb[]; folded: Limb[] } {
  const isShort = (one: Limb): boolean => one.branch.length === 1 && !one.branch.active && one.below.length === 0
  const folded = below.filter(isShort)
  return folded.length > 1 ? { shown: below.filter((one) => !isShort(one)), folded } : { shown: below, folded: [] }
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
