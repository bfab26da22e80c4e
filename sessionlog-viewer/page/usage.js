// Tokens over time, drawn here.

import { count, figure } from './dom.js';

const SVG = 'http://www.w3.org/2000/svg';
const [HEIGHT, LEFT, BOTTOM, TOP] = [150, 56, 20, 10];

function shape(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });

/** The plot of some counts, so many pixels wide; by time if all say theirs, else by message. */
export function plot(usage, width) {
  const timed = usage.every((point) => point.said !== null)
    && usage.at(-1).said > usage[0].said
    && usage.every((point, at) => at === 0 || point.said >= usage[at - 1].said);
  const place = timed ? (point) => point.said : (point) => point.before;
  const [from, until] = [place(usage[0]), place(usage.at(-1))];
  const most = Math.max(1, ...usage.map((point) => point.tokens));
  const x = (point) => LEFT + ((place(point) - from) / Math.max(1, until - from)) * (width - LEFT - 8);
  const y = (tokens) => HEIGHT - BOTTOM - (Math.max(0, tokens) / most) * (HEIGHT - BOTTOM - TOP);
  const name = (value) => (timed ? day.format(new Date(value)) : `message ${figure(value)}`);
  const told = `${count(usage.length, 'count')} of tokens, from ${name(from)} to ${name(until)}: `
    + `at most ${figure(most)}, ${figure(usage.at(-1).tokens)} last`;

  const svg = shape('svg', { viewBox: `0 0 ${width} ${HEIGHT}`, role: 'img', 'aria-label': told, class: 'plot' });
  for (const part of [0, 0.5, 1]) {
    const at = y(most * part);
    svg.append(
      shape('line', { x1: LEFT, x2: width - 8, y1: at, y2: at, class: 'grid' }),
      shape('text', { x: LEFT - 6, y: at + 4, 'text-anchor': 'end' }, short.format(most * part)),
    );
  }
  const points = usage.map((point) => `${x(point).toFixed(1)},${y(point.tokens).toFixed(1)}`);
  const base = y(0).toFixed(1);
  const area = `${x(usage[0]).toFixed(1)},${base} ${points.join(' ')} ${x(usage.at(-1)).toFixed(1)},${base}`;
  svg.append(
    shape('polygon', { points: area, class: 'area' }),
    shape('polyline', { points: points.join(' '), class: 'line' }),
    shape('circle', { cx: x(usage.at(-1)), cy: y(usage.at(-1).tokens), r: 3, class: 'dot' }),
    shape('text', { x: LEFT, y: HEIGHT - 5 }, name(from)),
    shape('text', { x: width - 8, y: HEIGHT - 5, 'text-anchor': 'end' }, name(until)),
    shape('title', {}, told),
  );
  return svg;
}
