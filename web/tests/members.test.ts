import { mount, tick, unmount } from 'svelte'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { enter, get, onSignedOut, Refused } from '../src/lib/api'
import { may } from '../src/lib/may.svelte'
import SignIn from '../src/parts/SignIn.svelte'
import Shown from './Shown.svelte'

const answered = (status: number, document: object): Response => new Response(JSON.stringify(document), { status })
const NO_PROVIDER = { is_offered: false, organisation: null }
const served = (...answers: Response[]) => vi.stubGlobal('fetch', vi.fn(() => Promise.resolve(answers.shift())))

async function shown(component: typeof SignIn | typeof Shown, props: object, act: (target: HTMLElement) => Promise<void>): Promise<void> {
  const target = document.createElement('div')
  document.body.append(target)
  const made = mount(component as typeof SignIn, { target, props: props as never })
  await tick()
  await act(target)
  await unmount(made)
  target.remove()
}

async function typed(target: HTMLElement, text: string): Promise<void> {
  const input = target.querySelector('input')!
  input.value = text
  input.dispatchEvent(new Event('input', { bubbles: true }))
  await tick()
  target.querySelector('form')!.dispatchEvent(new SubmitEvent('submit', { bubbles: true, cancelable: true }))
  await new Promise((resolve) => setTimeout(resolve))
}

afterEach(() => {
  vi.unstubAllGlobals()
  may.change = true
})

describe('a team’s page', () => {
  it('sends the token once, in the body, and keeps nothing of it', async () => {
    served(answered(200, NO_PROVIDER), answered(200, { token: 'of the page' }))
    const done = vi.fn()
    await shown(SignIn, { done }, async (target) => {
      await typed(target, '  rcl_secret ')
      const [path, init] = (fetch as unknown as ReturnType<typeof vi.fn>).mock.calls[1] as [string, RequestInit]
      expect([path, init.method, init.body]).toEqual(['/api/login', 'POST', '{"token":"rcl_secret"}'])
      expect(target.querySelector('input')!.value).toBe('')
      expect(done).toHaveBeenCalledOnce()
    })
    expect(JSON.stringify({ ...localStorage })).not.toContain('rcl_secret')
  })

  it('says why somebody was not let in', async () => {
    served(answered(200, NO_PROVIDER), answered(403, { error: 'the token lacks the scope', hint: 'ask an admin', sign_in: true }))
    await shown(SignIn, { done: () => {} }, async (target) => {
      await typed(target, 'rcl_x')
      expect(target.querySelector('[role=alert]')!.textContent).toBe('the token lacks the scope. ask an admin')
    })
  })

  it('goes to the identity provider, and comes back to the same place', async () => {
    for (const organisation of ['Acme', null]) {
      served(answered(200, { is_offered: true, organisation }))
      const assign = vi.fn()
      vi.stubGlobal('location', { hash: '#/s/one', assign })
      await shown(SignIn, { done: () => {} }, async (target) => {
        await new Promise((resolve) => setTimeout(resolve))
        if (organisation) target.querySelector('form')!.dispatchEvent(new SubmitEvent('submit', { bubbles: true, cancelable: true }))
        else await typed(target, ' Acme ')
        expect(assign).toHaveBeenCalledWith('/oidc/start?organisation=Acme&to=%23%2Fs%2Fone')
      })
    }
  })

  it('asks to sign in again wherever a token turns out to be no longer good', async () => {
    const told = vi.fn()
    onSignedOut(told)
    served(answered(401, { error: 'a valid token is needed', hint: '', sign_in: true }), answered(401, { error: 'no', hint: '' }))
    await expect(get('/api/sessions')).rejects.toBeInstanceOf(Refused)
    await expect(get('/api/sessions')).rejects.toBeInstanceOf(Refused)
    expect(told).toHaveBeenCalledOnce()
  })

  it('offers nothing that would change a session', async () => {
    served(answered(200, { token: 't', is_read_only: true }))
    await enter()
    const said = { index: 0, kind: 'prompt', bytes: 1, uuid: 'u', role: 'user', at: null, model: null, blocks: [{ type: 'text', text: 'hi' }], is_meta: false, lines: [], calls: {}, cost: null, is_copied: false, turn: 0, cut: false }
    const words: string[] = []
    for (const change of [false, true]) {
      may.change = change
      await shown(Shown, { said }, async (target) => void words.push([...target.querySelectorAll('button')].map((one) => one.textContent).join(' ')))
    }
    expect(words[0]).not.toContain('Fork')
    expect(words[1]).toContain('Fork')
  })

  it('offers no fork of a session that is only read', async () => {
    may.change = true
    const said = { index: 0, kind: 'prompt', bytes: 1, uuid: 'u', role: 'user', at: null, model: null, blocks: [{ type: 'text', text: 'hi' }], is_meta: false, lines: [], calls: {}, cost: null, is_copied: false, turn: 0, cut: false }
    await shown(Shown, { said, isForkable: false }, async (target) => expect(target.textContent).not.toContain('Fork'))
  })
})
