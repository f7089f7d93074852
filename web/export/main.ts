import { mount } from 'svelte'
import { answerFrom } from '../src/lib/api'
import type { StatDayDocument } from '../src/lib/documents'
import { may } from '../src/lib/may.svelte'
import { applyTheme } from '../src/lib/settings.svelte'
import Frame from './Frame.svelte'
import { answers, documentOf, readInside } from './inside'
import '../src/tokens.css'
import '../src/page.css'
import '../src/shell.css'
import './export.css'

document.documentElement.classList.add('js')
applyTheme()
addEventListener('DOMContentLoaded', () => {
  may.change = false
  const inside = readInside()
  if (inside) answerFrom(answers(inside))
  mount(Frame, { target: document.getElementById('app')!, props: { inside, days: documentOf<StatDayDocument[]>('days') } })
})
