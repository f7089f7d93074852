// Making a change and offering to take it back.

import { post } from './api'
import type { ChangeDocument, RequestDocument } from './documents'
import { say, sayProblem } from './said.svelte'

export async function applied(request: RequestDocument, done: string, after?: (change: ChangeDocument) => void): Promise<ChangeDocument | null> {
  try {
    const change = await post(request.path, { ...request.body, apply: true })
    const undo = change.undo_request
    say(done, undo ? { action: { word: 'Undo', run: () => void applied(undo, 'Taken back.', after) } } : {})
    after?.(change)
    return change
  } catch (cause) {
    sayProblem(cause)
    return null
  }
}
