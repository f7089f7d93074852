// Numbers, times and names as people read them. Money stays text: no float ever touches an amount that is shown.

/** Dollars to so many places, half up, from exact decimal text. */
export function rounded(exact: string, places: number): string {
  const [, sign = '', whole = '0', part = ''] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(exact) ?? []
  const digits = BigInt(whole + part.padEnd(places + 1, '0').slice(0, places + 1))
  const cents = ((digits + 5n) / 10n).toString().padStart(places + 1, '0')
  const cut = cents.length - places
  const grouped = cents.slice(0, cut).replace(/\B(?=(\d{3})+$)/g, ',')
  return sign + grouped + (places ? '.' + cents.slice(cut) : '')
}

export function money(exact: string | null): string {
  if (exact === null) return 'unpriced'
  const isSmall = /^0(\.0{0,1}[0-9]?)?/.test(exact) && Number(exact) < 0.1 && Number(exact) > 0
  return '$' + rounded(exact, isSmall ? 4 : 2)
}

/** An amount on an axis: as short as it can be read, and never $0.00 for what is more. */
export function axisMoney(usd: number): string {
  if (usd >= 10 || Number.isInteger(usd)) return '$' + usd.toFixed(0)
  return '$' + (usd < 0.1 ? String(Number(usd.toFixed(4))) : usd.toFixed(2))
}

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? '–' : value.toLocaleString('en-US')
}

/** 51,000 as 51k: for places where the exact number stands beside it. */
export function short(value: number): string {
  for (const [size, letter] of [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']] as const) {
    if (value >= size) return `${(value / size).toFixed(value < 10 * size ? 1 : 0)}${letter}`
  }
  return String(value)
}

export function bytes(value: number | null): string {
  if (value === null) return '–'
  for (const [size, word] of [[1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB']] as const) {
    if (value >= size) return `${(value / size).toFixed(value < 10 * size ? 1 : 0)} ${word}`
  }
  return `${value} B`
}

export function duration(ms: number | null): string {
  if (ms === null) return ''
  if (ms < 1000) return `${Math.round(ms)} ms`
  const seconds = ms / 1000
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

/** 95 as 1 h 35 min. */
export function minutes(value: number): string {
  return value < 60 ? `${value} min` : `${count(Math.floor(value / 60))} h${value % 60 ? ` ${value % 60} min` : ''}`
}

const two = (value: number): string => String(value).padStart(2, '0')
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']

export function isoDay(at: Date): string {
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`
}

export function day(text: string | null, now = new Date()): string {
  if (!text) return 'Undated'
  const at = new Date(text)
  const midnight = (one: Date): number => new Date(one.getFullYear(), one.getMonth(), one.getDate()).getTime()
  const ago = Math.round((midnight(now) - midnight(at)) / 86_400_000)
  if (ago === 0) return 'Today'
  if (ago === 1) return 'Yesterday'
  if (ago > 1 && ago < 7) return DAYS[at.getDay()]!
  const year = at.getFullYear() === now.getFullYear() ? '' : ` ${at.getFullYear()}`
  return `${at.getDate()} ${MONTHS[at.getMonth()]}${year}`
}

export function clock(text: string | null): string {
  if (!text) return ''
  const at = new Date(text)
  return `${two(at.getHours())}:${two(at.getMinutes())}`
}

export function moment(text: string | null): string {
  if (!text) return 'time unknown'
  const at = new Date(text)
  return `${isoDay(at)} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`
}

export function until(text: string | null, now = new Date()): string {
  if (!text) return ''
  const days = (new Date(text).getTime() - now.getTime()) / 86_400_000
  if (days < 0) return 'at any time'
  if (days < 1) return 'today'
  return `in ${Math.floor(days)} day${Math.floor(days) === 1 ? '' : 's'}`
}

/** claude-sonnet-4-5-20250929 is sonnet 4.5. */
export function modelName(model: string): string {
  const found = /^claude-(?:(\d)-(?:(\d)-)?)?([a-z]+)(?:-(\d{1,2})(?:-(\d{1,2}))?)?(?:-\d{8})?$/.exec(model)
  if (!found) return visible(model)
  const [, oldMajor, oldMinor, family, major, minor] = found
  const number = [major ?? oldMajor, minor ?? oldMinor].filter(Boolean).join('.')
  return number ? `${family} ${number}` : family!
}

const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g
// eslint-disable-next-line no-control-regex
const COLOURS = /\u001b\[[0-9;]*m/g

/** Text with nothing in it that acts: colour codes go, other controls and direction overrides become visible. */
export function visible(text: string): string {
  return text
    .replace(/\r\n?/g, '\n')
    .replace(COLOURS, '')
    .replace(CONTROL, (one) => {
      const code = one.charCodeAt(0)
      if (code < 0x20) return String.fromCharCode(0x2400 + code)
      return `<U+${code.toString(16).toUpperCase().padStart(4, '0')}>`
    })
}

/** The last parts of a path, which tell files apart. */
export function tail(path: string, parts = 2): string {
  // A path of Windows has its own strokes; a backslash elsewhere belongs to a name.
  const isWindows = /^([A-Za-z]:[\\/]|\\\\)/.test(path)
  const names = path.split(isWindows ? /[\\/]/ : '/').filter(Boolean)
  if (parts === 1) return names.at(-1) ?? path
  const stroke = isWindows ? '\\' : '/'
  return names.length <= parts ? path : `…${stroke}` + names.slice(-parts).join(stroke)
}

export function plural(value: number, word: string, many = word + 's'): string {
  return `${count(value)} ${value === 1 ? word : many}`
}

const AGENTS: Record<string, string> = { claude: 'Claude Code', codex: 'Codex', opencode: 'OpenCode', gemini: 'Gemini CLI', qwen: 'Qwen Code' }

/** The client whose session it is. */
export const agentName = (agent: string): string => AGENTS[agent] ?? visible(agent)

/** How a session is named: as `short_id` of model/lines/ids.py. An id of version 7 begins with the minute, so it takes more of it. */
export function shortId(session: string): string {
  return session.slice(0, session[14] === '7' ? 13 : 8)
}
