// A long list of which only some pages are here: it fetches what is looked at, and forgets what was not for long.

import { SvelteMap } from 'svelte/reactivity'

export class Paged<T> {
  readonly pages = new SvelteMap<number, T[]>()
  problem = $state<unknown>(null)
  /** How long the list is, if known: nothing beyond it is asked for. */
  limit = Infinity
  private wanted = new Set<number>()
  private used: number[] = []
  private looked: [number, number] = [0, 0]
  private inView = new Set<number>()
  private epoch = 0
  private timer: ReturnType<typeof setTimeout> | undefined

  constructor(
    private readonly fetch: (from: number, count: number) => Promise<T[]>,
    readonly size = 50,
    private readonly most = 40,
  ) {}

  at(index: number): T | undefined {
    return this.pages.get(Math.floor(index / this.size))?.[index % this.size]
  }

  /** Put in what was fetched on another way. A page counts only when it is whole, or the list's last. */
  put(from: number, rows: T[], total: number): void {
    this.limit = total
    for (let page = Math.ceil(from / this.size); page * this.size < from + rows.length; page++) {
      const start = page * this.size
      const isWhole = Math.min(start + this.size, total) <= from + rows.length
      if (isWhole) this.keep(page, rows.slice(start - from, start - from + this.size))
    }
  }

  /** See to it that these are here soon, and those that come next on the way. A fast scroll asks only now and then. */
  look(first: number, last: number, now = false): void {
    const isDown = first >= this.looked[0]
    this.looked = [first, last]
    if (now) this.ask(isDown)
    else
      this.timer ??= setTimeout(() => {
        this.timer = undefined
        this.ask(isDown)
      }, 50)
  }

  private ask(isDown: boolean): void {
    const pageOf = (index: number): number => Math.floor(index / this.size)
    const [from, to] = this.looked.map(pageOf) as [number, number]
    this.inView = new Set(Array.from({ length: to - from + 1 }, (_, place) => from + place))
    for (const page of this.inView) void this.need(page)
    const [, last] = this.looked
    if (isDown && last % this.size > this.size / 2) void this.need(to + 1)
    if (!isDown && this.looked[0] % this.size < this.size / 2) void this.need(from - 1)
  }

  forget(from = 0): void {
    this.epoch++
    this.wanted.clear()
    for (const page of [...this.pages.keys()]) if ((page + 1) * this.size > from) this.pages.delete(page)
  }

  async need(page: number): Promise<void> {
    if (page < 0 || page * this.size >= this.limit) return
    if (this.pages.has(page)) return this.touch(page)
    if (this.wanted.has(page)) return
    this.wanted.add(page)
    const epoch = this.epoch
    try {
      const rows = await this.fetch(page * this.size, this.size)
      if (epoch === this.epoch) {
        this.keep(page, rows)
        this.problem = null
      }
    } catch (cause) {
      if ((cause as Error).name !== 'AbortError') this.problem = cause
    } finally {
      if (epoch === this.epoch) this.wanted.delete(page)
    }
  }

  private touch(page: number): void {
    const place = this.used.indexOf(page)
    if (place >= 0) this.used.splice(place, 1)
    this.used.push(page)
  }

  private keep(page: number, rows: T[]): void {
    this.pages.set(page, rows)
    this.touch(page)
    // What is shown is never forgotten, however much of it a tall screen shows.
    while (this.used.length > Math.max(this.most, 2 * this.inView.size)) this.pages.delete(this.used.shift()!)
  }
}
