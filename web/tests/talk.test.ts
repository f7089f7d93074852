import { mount, unmount, tick } from 'svelte'
import { beforeEach, describe, expect, it } from 'vitest'
import type { Block } from '../src/lib/blocks'
import type { PageMessageDocument } from '../src/lib/documents'
import Shown from './Shown.svelte'

function said(blocks: Block[], more: Partial<PageMessageDocument> = {}): PageMessageDocument {
  return { index: 0, kind: 'answer', bytes: 1, uuid: 'u', parent_uuid: null, role: 'assistant', at: null, model: 'claude-opus-4-6', usage: null, blocks, is_meta: false, is_summary: false, lines: [], calls: {}, cost: null, response_index: 0, is_copied: false, turn: -1, cut: false, ...more }
}

async function page(message: PageMessageDocument, act: (target: HTMLElement) => void | Promise<void>): Promise<void> {
  const target = document.createElement('div')
  document.body.append(target)
  const component = mount(Shown, { target, props: { said: message } })
  await tick()
  await act(target)
  await unmount(component)
  target.remove()
}

const call = { status: 'error' as const, duration_ms: 1200, in_background: false, result_index: 1, result_uuid: 'r', at: null, blocks: [{ type: 'text', text: 'no such file' }], structured: null, agent: null, added: null, removed: null }

// Folds are remembered by message and place, which all of these share.
beforeEach(() => localStorage.clear())

describe('a message', () => {
  it('shows a failed call with its result and its time', () =>
    page(said([{ type: 'tool_use', id: 't', name: 'Bash', input: { command: 'cat x' } }], { calls: { t: call } }), async (target) => {
      expect(target.querySelector('.call.error .result')).toBeNull()
      target.querySelector<HTMLButtonElement>('.call.error .fold')!.click()
      await tick()
      expect(target.querySelector('.call.error .result')!.textContent).toContain('no such file')
      expect(target.querySelector('.took')!.textContent).toBe('1.2 s')
    }))

  it('folds thinking until it is asked for', () =>
    page(said([{ type: 'thinking', thinking: 'hm' }]), async (target) => {
      expect(target.querySelector('.thinking .prose')).toBeNull()
      target.querySelector<HTMLButtonElement>('.thinking .fold')!.click()
      await tick()
      expect(target.querySelector('.thinking .prose')!.textContent!.trim()).toBe('hm')
    }))

  it('shows a picture from our server and from nowhere else', async () => {
    const source = { type: 'blob', media_type: 'image/png', bytes: 5 }
    await page(said([{ type: 'image', source: { ...source, url: '/api/sessions/s/blobs/u/0' } }]), (target) => {
      expect(target.querySelector('img')!.getAttribute('src')).toBe('/api/sessions/s/blobs/u/0')
    })
    for (const url of ['https://evil.example/x.png', '//evil.example/x', '/api/sessions/../../x', 'javascript:a']) {
      await page(said([{ type: 'image', source: { ...source, url } }]), (target) => expect(target.querySelector('img')).toBeNull())
    }
  })

  it('says what a response cost and what is unpriced', async () => {
    const cost = { cost_usd: '4.018692', known_cost_usd: '4.018692', unpriced: [], input_tokens: 3, output_tokens: 220, cache_write_5m_tokens: 0, cache_write_1h_tokens: 0, cache_read_tokens: 51_000, web_searches: 0 }
    await page(said([], { cost }), (target) => {
      expect(target.querySelector('.spent')!.textContent).toBe('$4.02')
      expect(target.querySelector('.spent')!.getAttribute('title')).toContain('51,000 read from cache')
    })
    await page(said([], { cost: { ...cost, cost_usd: null, unpriced: ['m'] } }), (target) => expect(target.querySelector('.spent')!.textContent).toContain('unpriced'))
  })

  it('holds several calls of one tool in one line', () => {
    const blocks = ['a', 'b', 'c'].map((id) => ({ type: 'tool_use', id, name: 'Read', input: { file_path: `/x/${id}.py` } }))
    return page(said(blocks), async (target) => {
      expect(target.querySelector('.call.group .tool')!.textContent).toBe('Read × 3')
      target.querySelector<HTMLButtonElement>('.call.group .fold')!.click()
      await tick()
      expect(target.querySelectorAll('[data-call]').length).toBe(3)
    })
  })

  it('shows a block nobody knows as data', () =>
    page(said([{ type: 'hologram', depth: 3 }]), (target) => expect(target.querySelector('pre')!.textContent).toContain('"depth": 3')))
})
