// Short notices at the edge of the page, read aloud by a screen reader.

export interface Notice {
  id: number
  text: string
  isError: boolean
  action?: { word: string; run: () => void }
}

export const notices = $state<Notice[]>([])
let next = 1

export function say(text: string, more: { isError?: boolean; action?: Notice['action'] } = {}): void {
  const id = next++
  // One notice of a kind, and never a wall of them: the newest two stay.
  for (const old of notices.filter((one) => one.text === text)) drop(old.id)
  while (notices.length > 1) drop(notices[0]!.id)
  notices.push({ id, text, isError: more.isError ?? false, action: more.action })
  setTimeout(() => drop(id), more.action || more.isError ? 15_000 : 4_000)
}

export function drop(id: number): void {
  const place = notices.findIndex((one) => one.id === id)
  if (place >= 0) notices.splice(place, 1)
}

export function sayProblem(problem: unknown): void {
  const hint = (problem as { hint?: string }).hint
  say([(problem as Error).message, hint].filter(Boolean).join(' '), { isError: true })
}

export async function copied(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text)
    say(`Copied ${what}.`)
  } catch {
    // Without leave to use the clipboard, the text is at least there to be taken by hand.
    say(text, { isError: true })
  }
}
