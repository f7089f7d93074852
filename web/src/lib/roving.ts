// A row of controls as one Tab stop: arrows move inside it, Tab leaves it.

const FOCUSABLE = 'a[href], button:not(:disabled), select, input'

export function roving(element: HTMLElement): { destroy: () => void } {
  const all = (): HTMLElement[] => [...element.querySelectorAll<HTMLElement>(FOCUSABLE)].filter((one) => !one.closest('[data-apart]'))
  let now: HTMLElement | undefined

  function settle(): void {
    const controls = all()
    if (!now || !controls.includes(now)) now = controls.find((one) => one.getAttribute('aria-current')) ?? controls[0]
    for (const one of controls) one.tabIndex = one === now ? 0 : -1
  }

  function focused(event: FocusEvent): void {
    const found = all().find((one) => one === event.target)
    if (found) now = found
    settle()
  }

  function keyed(event: KeyboardEvent): void {
    // Inside a field arrows move the caret.
    if (event.target instanceof HTMLInputElement) return
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: event.target instanceof HTMLSelectElement ? 0 : 1, ArrowUp: event.target instanceof HTMLSelectElement ? 0 : -1 }[event.key]
    if (!by) return
    event.preventDefault()
    const controls = all()
    controls[(controls.indexOf(event.target as HTMLElement) + by + controls.length) % controls.length]?.focus()
  }

  const changed = new MutationObserver(settle)
  changed.observe(element, { childList: true, subtree: true })
  element.addEventListener('focusin', focused)
  element.addEventListener('keydown', keyed)
  settle()
  return {
    destroy() {
      changed.disconnect()
      element.removeEventListener('focusin', focused)
      element.removeEventListener('keydown', keyed)
    },
  }
}
