// The timeline: a lane for each key with its quota, requests, and events with their attempts; long silences and moved clocks as breaks.
// A name appears where the pointer is, a click opens, a drag filters by time.

import { foreign, h, icon, s } from './element.js';
import { NUMBERS, count, duration, nameOfTest, shortKey, statusOf, timeOfDay } from './text.js';

const BREAK = 28;
const MAX_LANES = 6;
const AXIS = 20;
/** The height of a lane that has every mark. */
const FOLDED = 28;
/** Marks of a lane closer than this many pixels become a band. */
const BUCKET = 8;
const BAND_COLOURS = ['ok', 'quiet', 'info', 'warn', 'bad'];

/**
 * The places of times from left to right; silences of more than an eighth of the rest are cut short.
 * @param {number[]} times in order @param {number} width
 * @returns {{places: number[], gaps: {at: number, width: number, ms: number, from: number}[]}}
 */
export function placesOf(times, width) {
  const steps = times.slice(1).map((time, i) => time - times[i]);
  const sorted = [...steps].sort((a, b) => a - b);
  const all = times.length ? times[times.length - 1] - times[0] : 0;
  const usual = sorted[Math.floor(sorted.length / 2)] ?? 0;
  const isGap = (/** @type {number} */ step) => step > 5000 && step > usual * 8 && step > all / 8;
  const gaps = steps.filter(isGap);
  const used = all - gaps.reduce((sum, step) => sum + step, 0);
  const scale = (width - gaps.length * BREAK) / Math.max(1, used);
  let x = 0;
  /** @type {{at: number, width: number, ms: number, from: number}[]} */
  const cuts = [];
  const places = times.map((_, i) => {
    if (i === 0) return 0;
    const step = steps[i - 1];
    if (isGap(step)) cuts.push({ at: x, width: BREAK, ms: step, from: times[i - 1] });
    x += isGap(step) ? BREAK : step * scale;
    return x;
  });
  return { places, gaps: cuts };
}

/** @typedef {{entry: Entry, x: number}} Placed */

/**
 * The lanes: those of failed tests and then of the busiest keys, in the order of their names, so that they stay where they are, and one of all others.
 * @param {Entry[]} entries @param {(key: string) => string} nameOf @param {Set<string>} [failed] the keys of failed tests @returns {Map<string, string>} the name of the lane of each key
 */
export function lanesOf(entries, nameOf, failed = new Set()) {
  /** @type {Map<string, number>} */
  const weights = new Map();
  for (const { key } of entries) weights.set(key ?? '', (weights.get(key ?? '') ?? 0) + 1);
  const busiest = [...weights].sort((a, b) => Number(failed.has(b[0])) - Number(failed.has(a[0])) || b[1] - a[1]).map(([key]) => key);
  const own = busiest.length > MAX_LANES ? busiest.slice(0, MAX_LANES - 1) : busiest;
  const others = busiest.slice(own.length);
  const lanes = own.map((key) => /** @type {[string, string]} */ ([key, key ? nameOf(key) : 'no key'])).sort(([, a], [, b]) => a.localeCompare(b));
  return new Map([...lanes, ...others.map((key) => /** @type {[string, string]} */ ([key, 'others']))]);
}

/** A test's name, after what differs of its file where others have the same. @param {string} test @param {string[]} all */
function ownName(test, all) {
  const name = nameOfTest(test);
  const alike = all.filter((one) => one !== test && nameOfTest(one) === name);
  for (let i = 0; alike.length; i++) if (alike.some((one) => one[i] !== test[i])) return test.slice(test.lastIndexOf('/', i) + 1);
  return name;
}

/** Marks gathered into buckets of pixels. A stretch of buckets that is full is a band; other marks stay alone. @param {Placed[]} marks @returns {{single: Placed[], bands: Placed[][][]}} */
export function banded(marks) {
  /** @type {Map<number, Placed[]>} */
  const buckets = new Map();
  for (const mark of marks) {
    const at = Math.floor(mark.x / BUCKET);
    const bucket = buckets.get(at);
    if (bucket) bucket.push(mark);
    else buckets.set(at, [mark]);
  }
  /** @type {Placed[][][]} */
  const stretches = [];
  let end = -100;
  for (const [at, bucket] of [...buckets].sort((a, b) => a[0] - b[0])) {
    if (at - end <= 8) stretches[stretches.length - 1].push(bucket);
    else stretches.push([bucket]);
    end = at;
  }
  const isFull = (/** @type {Placed[][]} */ stretch) => stretch.flat().length / stretch.length >= 4;
  return { single: stretches.filter((stretch) => !isFull(stretch)).flat(2), bands: stretches.filter(isFull) };
}

/** The distance of ticks: about so many for a span. @param {number} span in milliseconds */
function tickOf(span) {
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 3e5, 6e5, 18e5, 36e5, 108e5, 216e5, 432e5, 864e5];
  return steps.find((step) => span / step <= 6) ?? 7 * 864e5;
}

/** A time as short as its ticks allow. @param {number} at @param {number} step */
function tickText(at, step) {
  return timeOfDay(at).slice(0, step < 1000 ? 12 : step < 6e4 ? 8 : 5);
}

/** @param {Entry} entry */
function markName(entry) {
  const [text] = statusOf(entry);
  return `${timeOfDay(entry.at)} ${text} ${entry.text}${entry.number > 1 ? `, attempt ${entry.number}` : ''}`;
}

/** @param {Page} page @param {Placed} mark @param {number} y @param {number} r @returns {Node} */
function dot(page, { entry, x }, y, r) {
  const [, colour] = statusOf(entry);
  const props = { class: `mark ${colour}${entry.forged ? ' forged' : ''}`, onclick: () => page.go({ view: entry.kind === 'delivery' ? 'deliveries' : 'activity', id: entry.id }) };
  // Refused or failed is another shape, too.
  const size = r + 0.5;
  const shape = entry.kind === 'event' ? s('path', { ...props, d: `M${x.toFixed(1)} ${y - r - 1}l${r} ${r * 2}h-${r * 2}z` })
    : colour === 'bad' ? s('path', { ...props, d: `M${x.toFixed(1)} ${y - r - 2}l${r + 2} ${r + 2}l-${r + 2} ${r + 2}l-${r + 2} -${r + 2}z` })
    : entry.failed ? s('rect', { ...props, x: (x - size).toFixed(1), y: y - size, width: size * 2, height: size * 2 }) : s('circle', { ...props, cx: x.toFixed(1), cy: y, r });
  shape.append(s('title', {}, markName(entry)));
  return shape;
}

/** @param {Placed[][]} buckets @param {number} y its foot @param {number} height @param {number} left where the lanes begin @param {number} width of the drawing */
function bandPart(buckets, y, height, left, width) {
  const all = buckets.flat();
  const most = Math.max(...buckets.map((bucket) => bucket.length));
  const placeOf = (/** @type {Placed[]} */ bucket) => Math.floor(bucket[0].x / BUCKET) * BUCKET;
  const bars = buckets.map((bucket) => {
    const failed = bucket.filter(({ entry }) => entry.status >= 400 || !entry.status).length;
    const full = Math.max(3, height * Math.sqrt(bucket.length / most));
    let foot = y;
    // What went well is at the foot.
    const parts = BAND_COLOURS.map((colour) => {
      const part = full * (bucket.filter(({ entry }) => statusOf(entry)[1] === colour).length / bucket.length);
      foot -= part;
      return part > 0 ? s('rect', { class: colour, x: placeOf(bucket), y: foot.toFixed(1), width: BUCKET - 1, height: part.toFixed(1) }) : null;
    });
    return s('g', {}, parts, s('title', {}, `${count(bucket.length, 'request')}, ${failed} refused, from ${timeOfDay(bucket[0].entry.at)}`));
  });
  const [start, end] = [placeOf(buckets[0]), placeOf(buckets[buckets.length - 1]) + BUCKET];
  const text = `× ${NUMBERS.format(all.length)}`;
  const isRight = end + text.length * 7 + 8 < width;
  const hasRoom = isRight || start > left + text.length * 7 + 4;
  return s('g', {}, bars, hasRoom ? s('text', { x: isRight ? end + 4 : start - 4, y: y - 2, 'text-anchor': isRight ? 'start' : 'end' }, text) : null);
}

/** The remaining quota of one key as steps under its limit. @param {Placed[]} marks @param {number} top @param {number} height */
function quotaLine(marks, top, height) {
  const known = marks.filter(({ entry }) => entry.quota);
  if (known.length < 2 || known.some(({ entry }) => entry.key !== known[0].entry.key)) return null;
  const points = known.map(({ entry, x }) => {
    const { remaining, limit } = /** @type {NonNullable<Entry['quota']>} */ (entry.quota);
    return `${x.toFixed(1)} ${(top + height * (1 - (limit ? remaining / limit : 0))).toFixed(1)}`;
  });
  return s('path', { class: 'quota', d: `M${points[0]}${points.slice(1).map((point) => `H${point.split(' ')[0]}V${point.split(' ')[1]}`).join('')}` });
}

/** @param {Placed} a @param {Placed} b */
const byColour = (a, b) => BAND_COLOURS.indexOf(statusOf(a.entry)[1]) - BAND_COLOURS.indexOf(statusOf(b.entry)[1]);

/** Everything of one lane. @param {Page} page @param {Placed[]} marks @param {number} top @param {number} height @param {number} left where the lanes begin @param {number} width */
function lanePart(page, marks, top, height, left, width) {
  const requests = marks.filter(({ entry }) => entry.kind === 'request');
  const others = marks.filter(({ entry }) => entry.kind === 'event' || entry.kind === 'delivery');
  const r = Math.min(4, height / 7);
  const isSplit = others.length > 0;
  const upper = top + height * (isSplit ? 0.3 : 0.5);
  const lower = top + height * (requests.length ? 0.75 : 0.5);
  const { single, bands } = banded(requests);
  /** @type {Map<string, Placed[]>} */
  const events = new Map();
  for (const mark of others) events.set(mark.entry.event ?? '', [...(events.get(mark.entry.event ?? '') ?? []), mark]);
  const lines = [...events.values()].filter((all) => all.length > 1).map((all) => s('line', { class: 'arc', x1: all[0].x.toFixed(1), x2: all[all.length - 1].x.toFixed(1), y1: lower, y2: lower }));
  const foot = isSplit ? top + height * 0.5 : top + height - 3;
  return [
    quotaLine(requests, top + 3, (isSplit ? height * 0.5 : height) - 6),
    bands.map((band) => bandPart(band, foot, Math.max(8, foot - top - 4), left, width)),
    // The worst is on top.
    single.sort(byColour).map((mark) => dot(page, mark, upper, r)),
    // Beside its first delivery, which is of the same time.
    lines, others.sort(byColour).map((mark) => dot(page, mark.entry.kind === 'event' ? { ...mark, x: Math.max(r, mark.x - 2 * r) } : mark, lower, r)),
  ].flat(2);
}

/** The legend: the colour, name and shape of each mark, and whether it is drawn. */
const LEGEND = /** @type {const} */ ([
  ['ok', 'answered', 'M6 2a4 4 0 1 0 .01 0z', '.ok'], ['warn', 'refused', 'M2 2h8v8h-8z', 'rect.warn'], ['bad', 'failed', 'M6 1l5 5l-5 5l-5-5z', '.bad:not(.forged)'], ['bad', 'forgery accepted', 'M6 1l5 5l-5 5l-5-5z', '.bad.forged'], ['info', 'by a scenario', 'M6 2a4 4 0 1 0 .01 0z', 'circle.info, rect.info'], ['info', 'event', 'M6 2l4 8h-8z', 'path.info'],
  ['arc', 'its attempts', 'M0 6h12', '.arc'], ['quota', 'quota left', 'M0 3h5v3h7', '.quota'],
]);

/** @param {Page} page @param {Entry[]} entries @param {number} [wide] pixels @returns {Node} */
export function timeline(page, entries, wide = page.width || 1000) {
  // In the order of their times: keys may have clocks of their own.
  const shown = entries.filter((entry) => entry.at && entry.kind !== 'notice').sort((a, b) => a.at - b.at);
  if (!shown.length) return h('p.quiet', null, 'Nothing happened.');
  const isSmall = wide < 560;
  const isFolded = page.ui?.folded ?? isSmall;
  const tests = new Map((page.store.run?.keys ?? []).flatMap(({ key, test }) => (test ? [[key, test.test]] : [])));
  const keys = page.store.keys();
  const red = new Set((page.store.run?.keys ?? []).filter(({ test }) => test?.outcome === 'failed').map(({ key }) => key));
  const lanes = lanesOf(shown, (key) => (tests.has(key) ? ownName(tests.get(key) ?? '', [...tests.values()]) : shortKey(key, keys, Infinity)), red);
  const laneOf = (/** @type {Entry} */ { key }) => (isFolded ? '' : lanes.get(key ?? '') ?? '');
  const names = isFolded ? [''] : [...new Set(lanes.values())];
  const height = isFolded ? FOLDED : names.length === 1 ? 56 : Math.max(isSmall ? 36 : 20, Math.min(40, Math.round(108 / names.length)));
  // Narrow, the names of lanes are above them.
  const label = isSmall && !isFolded ? 14 : 0;
  const most = isSmall ? 40 : names.some((name) => name.length > 15) ? 25 : 15;
  const [left, right] = [isSmall || isFolded ? 4 : most * 8 - 14, isFolded ? 40 : 8];
  const width = Math.max(240, Math.min(wide, 1600) - 32);
  const times = shown.map((entry) => entry.at);
  const { places, gaps } = placesOf(times, width - left - right);
  const bottom = names.length * height;
  /** @type {Map<string, Placed[]>} */
  const marks = new Map(names.map((name) => [name, []]));
  shown.forEach((entry, i) => marks.get(laneOf(entry))?.push({ entry, x: left + places[i] }));
  const timeAt = (/** @type {number} */ x) => {
    let i = places.findIndex((place) => left + place >= x);
    if (i < 0) i = places.length - 1;
    if (i === 0) return times[0];
    const span = places[i] - places[i - 1];
    return times[i - 1] + (span ? Math.max(0, Math.min(1, (x - left - places[i - 1]) / span)) : 1) * (times[i] - times[i - 1]);
  };
  const [first, last] = [times[0], times[times.length - 1]];
  const used = Math.max(1, last - first - gaps.reduce((sum, gap) => sum + gap.ms, 0));
  const step = tickOf(used);
  // Round times within each stretch; the first of a stretch is where it begins.
  /** @type {Node[]} */
  const ticks = [];
  let end = -100;
  const scale = (width - left - right - gaps.length * BREAK) / used;
  [{ x: 0, from: first }, ...gaps.map((gap) => ({ x: gap.at + gap.width, from: gap.from + gap.ms }))].forEach(({ x, from }, i, all) => {
    const to = i + 1 < all.length ? gaps[i].from : last;
    for (let at = from; at <= to; at = (Math.floor(at / step) + 1) * step) {
      const place = left + x + (at - from) * scale;
      const text = tickText(at, step);
      // Where a stretch begins has its time, instead of the one before; at the right edge, to the left of it.
      const start = Math.min(place, width - right - text.length * 7);
      const isClose = start - end < text.length * 7 + 12;
      const isNew = i > 0 && at === from;
      if (isNew ? isClose && ticks.length < 4 : isClose || start < place) continue;
      if (isClose) ticks.splice(-2);
      end = start;
      ticks.push(s('text', { x: start.toFixed(1), y: bottom + 15 }, text), s('line', { class: 'lane', x1: place.toFixed(1), x2: place.toFixed(1), y1: 0, y2: bottom + 4 }));
    }
  });
  const jumps = gaps.length ? page.store.entries.filter((entry) => entry.kind === 'notice' && /^clock .* (advanced|set|moved)\b/.test(entry.text)) : [];
  const breaks = gaps.map((gap) => {
    const jump = jumps.find(({ at }) => at >= gap.from - 1 && at <= gap.from + gap.ms + 1);
    const x = left + gap.at;
    return s('g', {}, s('rect', { class: 'break', x, y: 0, width: gap.width, height: bottom }), s('line', { class: 'edge', x1: x, x2: x, y1: 0, y2: bottom }), s('line', { class: 'edge', x1: x + gap.width, x2: x + gap.width, y1: 0, y2: bottom }),
      s('title', {}, jump ? jump.text : `nothing for ${duration(gap.ms)}`));
  });
  const failed = shown.filter((entry) => entry.failed).length;
  const said = `${count(shown.length, 'mark')} from ${timeOfDay(first)} to ${timeOfDay(last)}, ${failed} of them refused or failed`;
  const isBroken = gaps.length ? `Shaded: ${jumps.length ? 'the clock was moved, or idle' : 'idle'}. ` : '';
  const svg = s('svg', { class: 'lanes', viewBox: `0 -6 ${width} ${bottom + AXIS + 6}`, width, height: bottom + AXIS + 6, role: 'img', 'aria-label': `Timeline: ${said}`, ...brush(page, width, timeAt) },
    breaks, ticks, s('rect', { class: 'brush', x: 0, y: 0, width: 0, height: bottom }),
    names.map((name, i) => s('g', {}, s('line', { class: 'lane', x1: 0, x2: width, y1: (i + 1) * height, y2: (i + 1) * height }), lanePart(page, marks.get(name) ?? [], i * height + label, height - label, left, width), s('text', { x: isSmall ? left : 0, y: i * height + (isSmall ? 12 : height / 2 + 4) }, shortKey(name, [''], most), s('title', {}, name)))));
  const fold = () => {
    page.ui.folded = !isFolded;
    page.redraw();
  };
  return h(isFolded ? 'figure.timeline.folded' : 'figure.timeline', { key: 'timeline' }, svg,
    h('button.plain.only', { 'aria-expanded': String(!isFolded), 'aria-label': isFolded ? 'Unfold the timeline' : 'Fold the timeline', onclick: fold }, icon(isFolded ? 'down' : 'rise')),
    isFolded ? null : h('figcaption.legend', null,
      LEGEND.filter(([, , , drawn]) => svg.querySelector(drawn)).map(([colour, name, shape]) => h('span', null, s('svg', { viewBox: '0 0 12 12', 'aria-hidden': 'true' }, s('path', { class: colour, d: shape })), ` ${name}`)),
      h('span', null, foreign(`${isBroken}Drag to filter.`))));
}

/** Handlers by which a drag over the drawing filters by time. @param {Page} page @param {number} width @param {(x: number) => number} timeAt */
function brush(page, width, timeAt) {
  let from = -1;
  const placeOf = (/** @type {PointerEvent} */ event) => {
    const box = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
    return ((event.clientX - box.left) / box.width) * width;
  };
  const area = (/** @type {PointerEvent} */ event) => /** @type {Element} */ (event.currentTarget).querySelector('.brush');
  return {
    onpointerdown: (/** @type {PointerEvent} */ event) => { from = event.pointerType === 'touch' ? -1 : placeOf(event); },
    onpointermove: (/** @type {PointerEvent} */ event) => {
      if (from < 0 || !event.buttons) return;
      const to = placeOf(event);
      area(event)?.setAttribute('x', String(Math.min(from, to)));
      area(event)?.setAttribute('width', String(Math.abs(to - from)));
    },
    onpointerup: (/** @type {PointerEvent} */ event) => {
      const to = placeOf(event);
      const [start, end] = [Math.min(from, to), Math.max(from, to)];
      area(event)?.setAttribute('width', '0');
      if (from >= 0 && end - start > 5) {
        const rest = page.route.filter.split(/\s+/).filter((word) => word && !/^(since|until):/.test(word));
        const at = (/** @type {number} */ x, /** @type {(n: number) => number} */ round) => new Date(round(timeAt(x))).toISOString();
        page.go({ view: page.route.view === 'deliveries' ? 'deliveries' : 'activity', id: '', filter: [...rest, `since:${at(start, Math.floor)}`, `until:${at(end, Math.ceil)}`].join(' ') });
      }
      from = -1;
    },
  };
}
