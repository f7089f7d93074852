import { highlighted } from '../src/lib/highlight'
import { mount, unmount } from 'svelte'
import { describe, expect, it } from 'vitest'
import { parsedMarkdown, safeAddress } from '../src/lib/markdown'
import Markdown from '../src/parts/Markdown.svelte'

function shown(text: string): HTMLElement {
  const target = document.createElement('div')
  const component = mount(Markdown, { target, props: { text } })
  const copy = target.cloneNode(true) as HTMLElement
  void unmount(component)
  return copy
}

describe('Markdown', () => {
  it('shows raw HTML as text', () => {
    const page = shown('a <img src=x onerror=alert(1)> b\n\n<script>alert(1)</script>')
    expect(page.querySelectorAll('img, script').length).toBe(0)
    expect(page.textContent).toContain('<script>alert(1)</script>')
    expect(page.textContent).toContain('<img src=x onerror=alert(1)>')
  })

  it('shows pictures as text', () => {
    expect(shown('![a](https://evil.example/x.png)').querySelector('img')).toBeNull()
  })

  it('shows the address of a link', () => {
    const page = shown('[docs](https://example.org/a)')
    const link = page.querySelector('a')!
    expect(link.getAttribute('href')).toBe('https://example.org/a')
    expect(link.getAttribute('rel')).toBe('noopener noreferrer nofollow')
    expect(page.querySelector('.address')!.textContent).toBe('(https://example.org/a)')
  })

  it('makes no link of an address that acts', () => {
    const page = shown('[a](javascript:alert(1)) [b](data:text/html,x)')
    expect(page.querySelector('a')).toBeNull()
    expect(page.textContent).toContain('javascript:alert(1)')
  })

  it('gives code its colours without changing its text', () => {
    const page = shown('```python\ndef a(x):\n    return "b"  # c\n```')
    expect(page.querySelector('pre')!.textContent).toBe('def a(x):\n    return "b"  # c')
    expect([...page.querySelectorAll('.c-word')].map((one) => one.textContent)).toEqual(['def', 'return'])
    expect(page.querySelector('.c-comment')!.textContent).toBe('# c')
  })

  it('keeps lists, tables and quotes', () => {
    const page = shown('1. a\n2. b\n\n> q\n\n| h |\n|---|\n| c |')
    expect(page.querySelectorAll('ol > li').length).toBe(2)
    expect(page.querySelector('blockquote')!.textContent!.trim()).toBe('q')
    expect(page.querySelector('td')!.textContent).toBe('c')
  })

  it('makes text of what is nested too deep', () => {
    expect(JSON.stringify(parsedMarkdown('> '.repeat(500) + 'deep'))).toContain('deep')
  })

  it('shows direction overrides instead of obeying them', () => {
    expect(shown('a\u202eb').textContent!.trim()).toBe('a<U+202E>b')
  })
})

describe('safeAddress', () => {
  it.each(['javascript:a', 'JAVASCRIPT:a', 'java\tscript:a', 'data:text/html,a', 'vbscript:a', 'file:///a', '//a.example', 'a', ''])('refuses %j', (address) => {
    expect(safeAddress(address)).toBeNull()
  })
  it.each(['https://a.example/b', 'http://a.example/', 'mailto:a@b.example'])('lets %j pass', (address) => {
    expect(safeAddress(address)).toBe(address)
  })
})

it('takes no language from the prototype of an object', () => {
  for (const name of ['constructor', '__proto__', 'toString']) expect(highlighted('let a = 1', name)).toEqual([{ text: 'let a = 1', kind: '' }])
})
