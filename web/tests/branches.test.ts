import { mount, tick, unmount } from 'svelte'
import { describe, expect, it } from 'vitest'
import type { BranchNodeDocument, ConversationView } from '../src/lib/documents'
import Branches from '../src/talk/Branches.svelte'
import { stepped, treeOf } from '../src/talk/branches'

const one = (leaf: string, parent: string | null, more: Partial<BranchNodeDocument> = {}): BranchNodeDocument => ({ leaf, parent, forked_at: null, length: 9, at: '2026-11-15T10:20:00Z', active: false, depth: 0, messages: 3, from_uuid: null, from_index: null, from_text: '', text: `Said on ${leaf}`, ...more })
const ALL = [one('stem', null, { active: true, messages: 12 }), one('a', 'stem', { from_index: 1, from_text: 'Choose' }), one('aa', 'a', { from_text: 'Went <b>left</b>' }), one('b', 'stem', { from_index: 4 })]
const VIEW: ConversationView = { branch: null, before: null, agent: null, whole: false }

async function shown(view: Partial<ConversationView>, act: (target: HTMLElement) => void | Promise<void>, branches = ALL): Promise<void> {
  const target = document.createElement('div')
  document.body.append(target)
  const component = mount(Branches, { target, props: { id: 's', branches, view: { ...VIEW, ...view } } })
  await tick()
  await act(target)
  await unmount(component)
  target.remove()
}

describe('branches', () => {
  it('hang off the branch they leave', () => {
    const [stem, ...others] = treeOf(ALL)
    expect(others).toEqual([])
    expect(stem!.below.map((limb) => limb.branch.leaf)).toEqual(['a', 'b'])
    expect(stem!.below[0]!.below.map((limb) => limb.branch.leaf)).toEqual(['aa'])
    expect(treeOf([one('lost', 'nowhere')]).length).toBe(1)
  })

  it('are lists within lists, with place, number, time, and a link to each', () =>
    shown({}, (target) => {
      const deep = target.querySelector('.tree > li > ul > li > ul > li > a')!
      expect(deep.getAttribute('href')).toBe('#/s/s?b=aa')
      expect(deep.textContent).toContain('leaves after “Went <b>left</b>”')
      expect(deep.querySelector('b')).toBeNull()
      const second = target.querySelector('[data-branch="a"]')!
      expect(second.textContent).toContain('leaves after message 2, “Choose”')
      expect(second.textContent).toContain('3 messages')
      expect(target.querySelector('[data-branch="stem"]')!.textContent).toContain('12 messages')
    }))

  it('mark the one that is shown, and only that', async () => {
    await shown({}, (target) => expect([...target.querySelectorAll('[aria-current]')].map((link) => link.getAttribute('data-branch'))).toEqual(['stem']))
    await shown({ branch: 'aa' }, (target) => expect([...target.querySelectorAll('[aria-current]')].map((link) => link.getAttribute('data-branch'))).toEqual(['aa']))
  })

  it('are walked through with arrow keys', () =>
    shown({}, (target) => {
      const links = [...target.querySelectorAll('a')]
      const press = (key: string): void => void document.activeElement!.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }))
      links[0]!.focus()
      press('ArrowDown')
      expect(document.activeElement).toBe(links[1])
      press('End')
      expect(document.activeElement).toBe(links[3])
      press('ArrowUp')
      press('x')
      expect(document.activeElement).toBe(links[2])
    }))

  it('of one line are one row, where there are several', async () => {
    const short = ['x', 'y'].map((leaf) => one(leaf, 'stem', { length: 1 }))
    const rows = (target: HTMLElement): string[] => [...target.querySelectorAll('summary')].map((row) => row.textContent!.trim())
    await shown({}, (target) => {
      expect(rows(target)).toEqual(['2 branches of one line'])
      expect([...target.querySelectorAll('details a')].map((link) => link.getAttribute('data-branch'))).toEqual(['x', 'y'])
      expect(target.querySelector('details')!.open).toBe(false)
    }, [...ALL, ...short])
    await shown({ branch: 'y' }, (target) => expect(target.querySelector('details')!.open).toBe(true), [...ALL, ...short])
    await shown({}, (target) => expect(rows(target)).toEqual([]), [...ALL, short[0]!])
  })

  it('leave other keys alone', () => {
    expect([stepped('j', 1, 3), stepped('ArrowDown', 2, 3), stepped('ArrowUp', 0, 3), stepped('Home', 2, 3)]).toEqual([-1, 2, 0, 0])
  })
})
