// What a person chose, kept in this browser.

export interface Settings {
  theme: 'auto' | 'light' | 'dark'
  thinking: boolean
  /** How far the work of a turn is unfolded. */
  tools: 'folded' | 'calls' | 'edits' | 'open'
  wide: boolean
  panel: boolean
  /** The list beside a conversation, and how wide it and the outline are, in pixels. */
  list: boolean
  listWidth: number
  panelWidth: number
  /** Changes of a file side by side, or in one column. */
  sides: boolean
}

const KEY = 'recollect'
export const LEVELS: Settings['tools'][] = ['folded', 'calls', 'edits', 'open']
const DEFAULTS: Settings = { theme: 'auto', thinking: false, tools: 'folded', wide: false, panel: true, list: true, listWidth: 300, panelWidth: 320, sides: true }

const between = (value: unknown, least: number, most: number, usual: number): number => (typeof value === 'number' && value >= least && value <= most ? value : usual)

export function restored(stored: string | null): Settings {
  try {
    const found = JSON.parse(stored ?? '{}') as Partial<Settings>
    return {
      theme: found.theme === 'light' || found.theme === 'dark' ? found.theme : 'auto',
      thinking: found.thinking === true,
      tools: LEVELS.includes(found.tools!) ? found.tools! : 'folded',
      wide: found.wide === true,
      panel: found.panel !== false,
      list: found.list !== false,
      sides: found.sides !== false,
      listWidth: between(found.listWidth, 200, 560, DEFAULTS.listWidth),
      panelWidth: between(found.panelWidth, 220, 560, DEFAULTS.panelWidth),
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
