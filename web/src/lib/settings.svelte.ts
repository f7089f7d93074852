// What a person chose, kept in this browser.

export interface Settings {
  theme: 'auto' | 'light' | 'dark'
  thinking: boolean
  tools: 'folded' | 'edits' | 'open'
  wide: boolean
  panel: boolean
}

const KEY = 'recollect'
const DEFAULTS: Settings = { theme: 'auto', thinking: false, tools: 'edits', wide: false, panel: true }

export function restored(stored: string | null): Settings {
  try {
    const found = JSON.parse(stored ?? '{}') as Partial<Settings>
    return {
      theme: found.theme === 'light' || found.theme === 'dark' ? found.theme : 'auto',
      thinking: found.thinking === true,
      tools: found.tools === 'folded' || found.tools === 'open' ? found.tools : 'edits',
      wide: found.wide === true,
      panel: found.panel !== false,
    }
  } catch {
    return { ...DEFAULTS }
  }
}

function stored(): string | null {
  try {
    return localStorage.getItem(KEY)
  } catch {
    return null
  }
}

export const settings = $state<Settings>(restored(stored()))

export function choose(change: Partial<Settings>): void {
  Object.assign(settings, change)
  try {
    localStorage.setItem(KEY, JSON.stringify(settings))
  } catch {
    // A browser that keeps nothing still shows everything.
  }
  applyTheme()
}

export function applyTheme(): void {
  if (settings.theme === 'auto') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = settings.theme
}
