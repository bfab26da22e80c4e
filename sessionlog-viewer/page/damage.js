// Damage: which sessions of the list have lines that do not decode, and what such a line is.

import { ask } from './api.js';
import { bytes, count, el, figure, named } from './dom.js';

/** A longer session is read when somebody opens it, and not for the list. */
const LONGEST = 16 << 20;
const MANY_KNOWN = 5000;

const CANNOT = 'Cannot be read';

/** What a row of a session that cannot be read says, in place of the rest. */
export const unreadable = () => el('span', { class: 'note flag' }, CANNOT);

/**
 * Marks the sessions of a list that have damaged lines. Only those in sight are looked at, one
 * after another, and again when they have changed.
 */
export class Inspector {
  #rows;
  #sight;
  #known = new Map();
  #sessions = new WeakMap();
  #waiting = new Set();
  #isBusy = false;

  /** `rows` are in `scroller`. */
  constructor(scroller, rows) {
    this.#rows = rows;
    this.#sight = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) this.#waiting.add(target);
        else this.#waiting.delete(target);
      }
      this.#work();
    }, { root: scroller });
  }

  /** A row of a session is there. */
  watch(link, session) {
    const known = this.#known.get(session.key);
    if (known) put(link, known.lines);
    if (session.bytes > LONGEST || known?.stamp === stamp(session)) return;
    this.#sessions.set(link, session);
    this.#sight.observe(link);
  }

  /** So many lines of a session are damaged; `null` if it cannot be read. */
  learn(key, lines, seen = null) {
    const last = this.#known.get(key);
    this.#known.delete(key);
    if (this.#known.size >= MANY_KNOWN) this.#known.delete(this.#known.keys().next().value);
    this.#known.set(key, { lines, stamp: seen ?? (last?.lines === lines ? last.stamp : null) });
    const links = [...this.#rows.querySelectorAll('a[data-key]')];
    const link = links.find((one) => one.dataset.key === key);
    if (link) put(link, lines);
  }

  async #work() {
    if (this.#isBusy) return;
    this.#isBusy = true;
    // What comes in sight meanwhile is added, and what goes out of it is not looked at.
    for (const link of this.#waiting) {
      this.#waiting.delete(link);
      this.#sight.unobserve(link);
      await this.#look(this.#sessions.get(link));
    }
    this.#isBusy = false;
  }

  async #look(session) {
    const seen = stamp(session);
    if (this.#known.get(session.key)?.stamp === seen) return;
    try {
      const { lines } = await ask('damage', { key: session.key });
      this.learn(session.key, lines, seen);
    } catch (error) {
      // Any other answer says nothing of the session: the next list asks again.
      if (error.status === 500) this.learn(session.key, null, seen);
    }
  }
}

const stamp = ({ updated_at: updated, lines, bytes: size }) => `${updated} ${lines} ${size}`;

function put(link, lines) {
  link.querySelector('.flag')?.remove();
  if (lines === 0) return;
  const text = lines === null ? CANNOT : count(lines, 'damaged line');
  link.querySelector('.note:last-child')?.prepend(el('span', { class: 'flag' }, text));
}

/** A line that does not decode. Opened, it shows its bytes, which `load()` gets. */
export function damagedLine(load) {
  const body = el('div', { class: 'bytes' });
  const fold = el('details', { class: 'damage' },
    el('summary', { class: 'mark damaged' }, el('span', {}, 'A line here does not decode')), body);
  let isAsked = false;
  fold.addEventListener('toggle', async () => {
    if (!fold.open || isAsked) return;
    isAsked = true;
    try {
      body.replaceChildren(...shown(await load(), body.clientWidth < 620 ? 8 : 16));
    } catch (error) {
      isAsked = false;
      body.replaceChildren(el('p', { role: 'status' }, error.message));
    }
  });
  return fold;
}

function shown({ size, hex }, across) {
  const octets = Uint8Array.from(hex.match(/../g) ?? [], (digits) => parseInt(digits, 16));
  const rest = size - octets.length;
  const extent = rest === 0
    ? count(size, 'byte')
    : `The first ${bytes(octets.length)} of ${bytes(size)}; ${count(rest, 'more byte')} not shown`;
  // They scroll: the keyboard has to get to them.
  const view = (name, ...content) => el('pre', { class: name.toLowerCase(), tabindex: '0', role: 'group', 'aria-label': `${name} of the damaged line` }, ...content);
  return [el('p', { class: 'note' }, extent), view('Text', ...text(octets)), view('Hex', dump(octets, across))];
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
// Here it is the bytes that count: also what belongs in texts is shown if it cannot be seen.
const UNSEEN = /[\p{C}\p{Z}\p{DI}]/u;

/** How often the same may follow itself before it is counted. */
const MANY_ALIKE = 4;

/** The bytes as text. What is no character, or none that can be seen, stands out as what it is. */
function text(octets) {
  const pieces = [];
  for (let at = 0; at < octets.length;) {
    const [character, length] = first(octets.subarray(at));
    const isPlain = character === ' ' || (character !== null && !UNSEEN.test(character));
    const shown = isPlain ? character : character === null ? `\u27e8${digits(octets[at])}\u27e9` : named(character);
    const last = pieces.at(-1);
    if (isPlain && last?.isPlain) last.shown += shown;
    else if (!isPlain && last?.shown === shown) last.times += 1;
    else pieces.push({ isPlain, shown, times: 1 });
    at += length;
  }
  return pieces.map(({ isPlain, shown, times }) => {
    if (isPlain) return shown;
    return el('span', { class: 'odd' }, times < MANY_ALIKE ? shown.repeat(times) : `${shown}\u00d7${figure(times)} `);
  });
}

/** The character that bytes begin with, `null` if they begin with none, and its length. */
function first(octets) {
  const [lead] = octets;
  const length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  try {
    return [utf8.decode(octets.subarray(0, length)), length];
  } catch {
    return [null, 1];
  }
}

const digits = (octet, length = 2) => octet.toString(16).padStart(length, '0');

const side = (octet) => (octet >= 0x20 && octet < 0x7f ? String.fromCharCode(octet) : '\u00b7');

/** The bytes in hexadecimal, so many on a line, each line with where it begins and its text. */
function dump(octets, across) {
  const lines = [];
  for (let at = 0; at < octets.length; at += across) {
    const some = [...octets.subarray(at, at + across)];
    const hex = some.map((octet) => digits(octet)).join(' ');
    lines.push(`${digits(at, 4)}  ${hex.padEnd(across * 3 - 1)}  ${some.map(side).join('')}`);
  }
  return lines.join('\n');
}
