// What the page reads of a content block. A block comes as it stands in the log, so all of this may be otherwise.

export interface Block {
  type: string
  text?: string
  thinking?: string
  id?: string
  name?: string
  input?: unknown
  content?: unknown
  source?: { type: string; media_type?: string; bytes?: number; url?: string }
  cut_characters?: number
  [more: string]: unknown
}
