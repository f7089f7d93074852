// Making a change and offering to take it back.

import { post, type Change, type Post } from './api'
import { say, sayProblem } from './said.svelte'

export async function applied(request: Post, done: string, after?: (change: Change) => void): Promise<Change | null> {
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
