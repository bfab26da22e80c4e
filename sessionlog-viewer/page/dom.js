// Building the page. Text of a store only ever becomes text: nothing here takes markup.

/** An element with a class, attributes and children; strings become text. */
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? '' : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** What stands for a character that cannot be seen. */
export const named = (c) => `\u27e8U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}\u27e9`;
const picture = (c) => (c < ' ' ? String.fromCharCode(0x2400 + c.charCodeAt(0)) : named(c));

// What would act on a terminal, turn the text around it, or stand there unseen is shown as what
// it is. (Two joiners stay: emoji and some scripts need them.)
const ACTING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;
// In a name, so are those: two names must not look alike because of them.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** A text of several lines, as it is to be seen. */
export const prose = (text) => text.replaceAll('\r\n', '\n').replace(ACTING, picture);

/** A name or a key, on one line. */
export const label = (text) => text.replace(UNSEEN, picture);

/** What a session is called: its key, or in place of a hash the first alias that is its own, or its title. */
export function called(key, aliases, title) {
  if (!/^sk_v1_/i.test(key)) return key;
  const isMain = (alias) => alias.startsWith('agent:') && alias.endsWith(':main');
  return aliases.find((alias) => !isMain(alias)) ?? (title || key);
}

/** The beginning of a text, on one line. */
export const line = (text) => label(text.slice(0, 1000).replace(/\s+/g, ' ').trim());

/** A name in an element that keeps its direction to itself. */
export const name = (text, attributes = {}) => el('bdi', attributes, label(text));

const number = new Intl.NumberFormat('en');
export const count = (n, one, many = `${one}s`) => `${number.format(n)} ${n === 1 ? one : many}`;
export const figure = (n) => number.format(n);

export function bytes(n) {
  if (n < 1024) return `${n} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  let at = -1;
  let value = n;
  do { value /= 1024; at += 1; } while (value >= 1024 && at < units.length - 1);
  return `${value.toFixed(value < 10 ? 1 : 0)} ${units[at]}`;
}

const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'long' });

/** A moment: its time if it is today's, else its day, and all of it on demand. */
export function moment(millis, both = false) {
  if (millis === null || millis === undefined) return null;
  const date = new Date(millis);
  const today = date.toDateString() === new Date().toDateString();
  const text = both ? `${day.format(date)}, ${clock.format(date)}` : (today ? clock : day).format(date);
  return el('time', { datetime: date.toISOString(), title: full.format(date) }, text);
}

/** JSON, indented if it is JSON. */
export function indented(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
