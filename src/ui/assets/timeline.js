// The timeline of a run as SVG: requests above the line, deliveries below, refusals marked, long silences as gaps.

import { foreign, h, s } from './element.js';

import { count, duration, statusOf, timeOfDay } from './text.js';

const WIDTH = 1000;
const GAP = 24;
const MOST_MARKS = 1200;

/**
 * The places of times from left to right; silences of more than an eighth of the rest are cut short.
 * @param {number[]} times in order @param {number} width
 * @returns {{places: number[], gaps: {at: number, width: number, ms: number}[]}}
 */
export function placesOf(times, width) {
  const steps = times.slice(1).map((time, i) => time - times[i]);
  const sorted = [...steps].sort((a, b) => a - b);
  const all = times.length ? times[times.length - 1] - times[0] : 0;
  const usual = sorted[Math.floor(sorted.length / 2)] ?? 0;
  const isGap = (/** @type {number} */ step) => step > 5000 && step > usual * 8 && step > all / 8;
  const gaps = steps.filter(isGap);
  const used = all - gaps.reduce((sum, step) => sum + step, 0);
  const scale = (width - gaps.length * GAP) / Math.max(1, used);
  let x = 0;
  /** @type {{at: number, width: number, ms: number}[]} */
  const cuts = [];
  const places = times.map((_, i) => {
    if (i === 0) return 0;
    const step = steps[i - 1];
    if (isGap(step)) cuts.push({ at: x, width: GAP, ms: step });
    x += isGap(step) ? GAP : step * scale;
    return x;
  });
  return { places, gaps: cuts };
}

/** @param {Entry[]} entries oldest first @returns {Node} */
export function timeline(entries) {
  const shown = entries.filter((entry) => entry.at && entry.kind !== 'notice').slice(-MOST_MARKS);
  if (!shown.length) return h('p.quiet', null, 'Nothing happened.');
  const [left, width] = [70, WIDTH - 90];
  const { places, gaps } = placesOf(shown.map((entry) => entry.at), width);
  const marks = shown.map((entry, i) => {
    const [text, colour] = statusOf(entry);
    const x = left + places[i];
    const [from, height] = entry.kind === 'request' ? [entry.failed ? 20 : 40, entry.failed ? 50 : 30] : entry.kind === 'event' ? [84, 14] : [102, entry.failed ? 50 : 30];
    const shape = entry.failed ? s('path', { class: colour, d: `M${x.toFixed(1)} ${from}l4 ${entry.kind === 'request' ? 8 : 0}l-3 0v${height - 8}h-2v-${height - 8}l-3 0z` }) : s('rect', { class: colour, x: (x - 1).toFixed(1), y: from, width: 2, height });
    shape.append(s('title', {}, `${timeOfDay(entry.at)} ${text} ${entry.text}`));
    return shape;
  });
  const failed = shown.filter((entry) => entry.failed).length;
  const label = `${count(shown.length, 'mark')} from ${timeOfDay(shown[0].at)} to ${timeOfDay(shown[shown.length - 1].at)}, ${failed} of them refused or failed`;
  return h('figure', null, h('div.scroll', { tabindex: 0, role: 'region', 'aria-label': 'Timeline' },
    s('svg', { class: 'timeline', viewBox: `0 0 ${WIDTH} 180`, role: 'img', 'aria-label': `Timeline: ${label}` },
      gaps.map((gap) => s('g', {}, s('rect', { class: 'gap', x: left + gap.at + 3, y: 10, width: gap.width - 6, height: 150 }), s('title', {}, `nothing for ${duration(gap.ms)}`))),
      s('line', { class: 'axis', x1: left, y1: 76, x2: WIDTH - 16, y2: 76 }),
      s('text', { x: 4, y: 58 }, 'requests'), s('text', { x: 4, y: 94 }, 'events'), s('text', { x: 4, y: 122 }, 'deliveries'),
      marks,
      s('text', { x: left, y: 174 }, timeOfDay(shown[0].at)), s('text', { x: WIDTH - 16, y: 174, 'text-anchor': 'end' }, timeOfDay(shown[shown.length - 1].at)))),
    h('figcaption', null, foreign(`Longer marks: refused or failed. ${gaps.length ? 'Boxes are long silences, cut short. ' : ''}${label}.`)));
}
