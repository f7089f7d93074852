import { beforeEach, describe, expect, it } from 'vitest'
import { modelBars } from '../src/cost/days'
import { forgetColours, modelHue, OTHERS_HUE } from '../src/lib/colours'

const OPUS = ['claude-opus-4-5-20251101', 'claude-opus-4-8', 'claude-opus-4-1-20250805', 'claude-opus-4-6']
const MANY = [...OPUS, 'claude-sonnet-4-5-20250929', 'claude-sonnet-4-6', 'claude-haiku-4-5', 'gpt-5', 'gpt-5-codex', 'gemini-3-pro', 'qwen3']

beforeEach(() => {
  localStorage.clear()
  forgetColours()
})

describe('colours of models', () => {
  it('are all different while there is a free one', () => {
    expect(modelHue('claude-opus-4-5')).not.toBe(modelHue('claude-opus-4-8'))
    const hues = MANY.map(modelHue)
    expect(new Set(hues).size).toBe(MANY.length)
    expect(hues).not.toContain(OTHERS_HUE)
    expect(modelHue('one-model-too-many')).toBeLessThan(OTHERS_HUE)
  })

  it('are the same after a restart, whichever model is seen first', () => {
    const before = MANY.map(modelHue)
    forgetColours()
    expect([...MANY].reverse().map(modelHue).reverse()).toEqual(before)
  })

  it('are one for a name with a date and without, and a legend has it once', () => {
    expect(modelHue('claude-opus-4-5')).toBe(modelHue('claude-opus-4-5-20251101'))
    const rows = ['claude-opus-4-5', 'claude-opus-4-5-20251101', 'claude-opus-4-8'].map((model) => ({ day: '2026-01-01', model, cost_usd: '1' }))
    const { legend } = modelBars(rows)
    expect(legend.map((one) => one.name).sort()).toEqual(['opus 4.5', 'opus 4.8'])
    expect(new Set(legend.map((one) => one.hue)).size).toBe(2)
  })

  it('do not trust what is in the store', () => {
    localStorage.setItem('recollect-model-colours', '{"opus 4.5": 99, "opus 4.8": "x"}')
    expect(modelHue('claude-opus-4-5')).toBeLessThan(OTHERS_HUE)
    localStorage.setItem('recollect-model-colours', 'null')
    forgetColours()
    expect(modelHue('claude-opus-4-8')).toBeGreaterThan(0)
  })
})
