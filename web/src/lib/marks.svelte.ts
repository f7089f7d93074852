// Stars and pins: our own metadata, kept by the server in recollect's directory and never in the client's.

import { SvelteMap, SvelteSet } from 'svelte/reactivity'
import { get, post, sessionPath } from './api'
import type { Marks, Pin } from './documents'
import { may } from './may.svelte'
import { inSight } from './places'
import { route } from './route.svelte'
import { say, sayProblem } from './said.svelte'

const stars = new SvelteSet<string>()
const pins = new SvelteMap<string, Pin[]>()

export const isStarred = (session: string): boolean => stars.has(session)
export const starCount = (): number => stars.size
export const pinsOf = (session: string): Pin[] => pins.get(session) ?? []
export const isPinned = (session: string, uuid: string): boolean => pinsOf(session).some((one) => one.uuid === uuid)

function put(marks: Marks): void {
  stars.clear()
  for (const one of marks.stars) stars.add(one)
  pins.clear()
  for (const one of marks.pins) pins.set(one.session, [...(pins.get(one.session) ?? []), one])
}

/** What was marked before; a team's page has no marks. */
export async function readMarks(): Promise<void> {
  if (may.change) put(await get<Marks>('/api/marks'))
}

export async function star(session: string, on: boolean): Promise<void> {
  try {
    put(await post<Marks>(sessionPath(session, '/star'), { on }))
  } catch (cause) {
    sayProblem(cause)
  }
}

/** Pin a message, with the beginning of its text so that a list of pins can be read. */
export async function pin(session: string, uuid: string, on: boolean, text = ''): Promise<void> {
  try {
    put(await post<Marks>(sessionPath(session, '/pin'), { uuid, on, text: text.slice(0, 200) }))
  } catch (cause) {
    sayProblem(cause)
  }
}

/** Pin the message one stands at, or the first in sight; or take its pin away. */
export function pinInSight(): void {
  const message = document.querySelector<HTMLElement>('.message.isCurrent[data-uuid]') ?? inSight()
  const uuid = message?.dataset.uuid
  if (!message || !uuid) return say('There is no message to pin.')
  const isOn = !isPinned(route.now.id, uuid)
  void pin(route.now.id, uuid, isOn, (message.querySelector('.prose')?.textContent ?? message.textContent ?? '').trim())
  say(isOn ? 'Pinned; it stands in the outline.' : 'No longer pinned.')
}
