// What a planned change would do, in sentences; and whether it is one that needs care.

import type { ArchivalDocument, ChangeDocument, ForkDocument, LabelDocument, CleanupDocument, SessionRepair, RemovalDocument, RequestDocument } from './documents'
import { bytes, plural, visible } from './format'

const named = (text: string): string => `“${visible(text)}”`

function archived(plan: ArchivalDocument): string[] {
  if (!plan.total) return ['Everything is in the archive already.']
  const failed = plan.failed.length ? [`${plural(plan.failed.length, 'session')} cannot be archived: ${visible(plan.failed[0]!.reason)}.`] : []
  return [`${plural(plan.total, 'session')} (${bytes(plan.raw_bytes)}) will be copied into recollect’s archive.`, 'Nothing is moved or deleted.', ...failed]
}

function cleaned(plan: CleanupDocument): string[] {
  const kept = plan.sessions.filter((one) => one.kept_because !== null)
  const rest = kept.length ? [`${plural(kept.length, 'session')} will stay: ${visible(kept[0]!.kept_because!)}.`] : []
  return [`${plural(plan.total - kept.length, 'session')} (${bytes(plan.bytes)}) will be archived, then moved from the client’s home to recollect’s trash.`, 'They can be restored from there.', ...rest]
}

function repaired(plan: SessionRepair): string[] {
  if (plan.refusal.length) return plan.refusal.map(visible)
  if (!plan.is_needed) return ['There is nothing to repair.']
  const where = plan.in_place ? 'The log itself will be rewritten; the original is kept aside.' : 'A repaired copy becomes a new session; the original stays as it is.'
  return [`${plural(plan.actions_total, 'line')} will be repaired or set aside.`, where, ...plan.notes.map(visible)]
}

/** The plan as sentences; null where there are none for it. */
export function sentences(request: RequestDocument, plan: ChangeDocument): string[] | null {
  const what = request.path.split('/').at(-1)
  if (what === 'archive') return archived(plan as ArchivalDocument)
  if (what === 'cleanup') return cleaned(plan as CleanupDocument)
  if (what === 'repair') return repaired(plan as unknown as SessionRepair)
  if (what === 'rename' || what === 'tag') {
    const { before, after } = plan as LabelDocument
    const word = what === 'rename' ? 'title' : 'tag'
    return [after ? `The ${word} becomes ${named(after)}${before ? `, instead of ${named(before)}` : ''}.` : `The ${word} ${named(before)} is taken away.`]
  }
  if (what === 'fork') {
    const { entries, title } = plan as ForkDocument
    return [`${plural(entries, 'entry', 'entries')} will be copied into a new session${title ? `, ${named(title)}` : ''}.`, 'The original stays as it is.']
  }
  if (what === 'remove') {
    const { title, items, bytes: size, open_in } = plan as RemovalDocument
    const open = open_in === null ? [] : ['A client has it open: what it writes from now on would be lost.']
    return [`${title ? named(title) : 'The session'} with ${plural(items.length, 'file')} (${bytes(size)}) will be moved from the client’s home to recollect’s trash.`, 'It can be restored from there.', ...open]
  }
  return null
}

/** Whether the change takes something away. */
export const isDangerous = (request: RequestDocument): boolean => /\/(remove|cleanup)$/.test(request.path) || request.body.in_place === true || request.body.overwrite === true
