// One message as an article.

import { damagedLine } from './damage.js';
import { bytes, count, el, figure, indented, label, line, moment, name, prose } from './dom.js';
import { markdown } from './markdown.js';

const ROLES = { user: 'User', assistant: 'Assistant', tool: 'Tool result', system: 'System' };

/** What calls are called, by their ids, as far as they were seen: results name only the id. */
const calls = new Map();
const MANY_CALLS = 5000;

function remember(call) {
  if (call.id === '') return;
  if (calls.size >= MANY_CALLS) calls.delete(calls.keys().next().value);
  calls.set(call.id, call.name);
}

/**
 * The article of `message`, with the marks before it and behind it. `context` is the
 * conversation: its `total`, what stands at its `begin(index)`, `link(message)`,
 * `whole(message)` to load what was left out, `line(position)` to load the bytes of a line,
 * what is `sought` in it, and `isMarkdown()`.
 */
export function article(message, marks, behind, context) {
  const role = Object.hasOwn(ROLES, message.role) ? message.role : 'other';
  const title = ROLES[message.role] ?? label(message.role) ?? 'Message';
  const id = `m${message.index}`;
  const between = (those) => those.map((one) => mark(one, context.line));
  const body = el('div', { class: 'body' });
  fill(body, message, context);
  const model = message.model === '' ? null : name(message.model, { class: 'model' });
  const head = el('header', {},
    el('h3', { id, class: 'who' }, title),
    model,
    moment(message.said, true),
    tools(message, body, context));
  const card = el('div', { class: `card ${role}` }, head, body);
  return el('article', {
    class: 'item',
    tabindex: '-1',
    'aria-labelledby': id,
    'aria-posinset': message.index + 1,
    'aria-setsize': context.total,
    'data-index': message.index,
  }, ...context.begin(message.index), ...between(marks), card, ...between(behind),
  message.index + 1 === context.total ? el('div', { class: 'ending' }) : null);
}

function fill(body, message, context) {
  message.calls.forEach(remember);
  const isResult = message.role === 'tool';
  const leaf = (text) => highlighted(text, context.sought);
  const isMarkdown = !isResult && context.isMarkdown?.();
  const content = () => (isMarkdown ? markdown(prose(message.text), leaf) : leaf(prose(message.text)));
  const text = message.text === '' ? [] : [el('div', { class: isMarkdown ? 'text markdown' : 'text', dir: 'auto' }, ...content())];
  body.replaceChildren(
    ...reasoning(message),
    ...(isResult ? result(message, text) : text),
    ...message.calls.map(call),
    ...attachments(message),
    ...(message.system_parts > 0 ? [el('p', { class: 'note' }, `${count(message.system_parts, 'part')} of a system prompt`)] : []),
    ...(message.cut ? [showAll(body, message, context)] : []),
  );
}

/** The most places of a text that are marked: a pattern may be in each word. */
const MANY_MARKS = 500;

/** A text, with what is searched for marked in it. */
export function highlighted(text, sought) {
  if (!sought) return [text];
  const parts = [];
  let at = 0;
  for (const { 0: found, index } of text.matchAll(sought)) {
    if (found === '' || parts.length > 2 * MANY_MARKS) continue;
    parts.push(text.slice(at, index), el('mark', {}, found));
    at = index + found.length;
  }
  return [...parts, text.slice(at)];
}

function fold(className, summary, ...children) {
  return el('details', { class: `fold ${className}` }, el('summary', {}, ...summary), ...children);
}

function reasoning({ reasoning: text }) {
  if (text === '') return [];
  return [fold('reasoning', ['Reasoning'], el('div', { class: 'text', dir: 'auto' }, prose(text)))];
}

function call({ name: called, arguments: given, explanation, id }) {
  const what = called === '' ? 'a tool' : called;
  const preview = given === '' || given === '{}' ? '' : line(given.slice(0, 200));
  return fold('call', ['Calls ', name(what, { class: 'tool' }), ' ', el('span', { class: 'preview', dir: 'ltr' }, preview)],
    explanation === '' ? null : el('p', { dir: 'auto' }, prose(explanation)),
    el('pre', {}, prose(indented(given))),
    id === '' ? null : el('p', { class: 'note' }, 'id ', name(id)));
}

function result(message, text) {
  const called = calls.get(message.answers);
  const preview = line(message.text.slice(0, 200));
  const what = called === undefined ? name(message.answers) : name(called, { class: 'tool' });
  const size = message.size > 2000 ? el('span', { class: 'note' }, bytes(message.size)) : null;
  return [fold('result', [what, ' ', el('span', { class: 'preview', dir: 'auto' }, preview), size], ...text)];
}

function attachments(message) {
  if (message.attachments.length === 0) return [];
  // Text, not links and not images: nothing is fetched from elsewhere.
  const items = message.attachments.map((file) => el('li', {},
    el('span', { class: 'kind' }, label(file.kind === '' ? 'file' : file.kind)),
    ...[file.name, file.content_type, file.reference, file.url]
      .filter((text) => text !== '')
      .map((text) => name(text.length > 300 ? `${text.slice(0, 300)}\u2026` : text))));
  return [el('ul', { class: 'files', 'aria-label': 'Attachments' }, ...items)];
}

function showAll(body, message, context) {
  const button = el('button', { type: 'button', class: 'wide' }, `Show all of it (${bytes(message.size)})`);
  button.addEventListener('click', async () => {
    button.disabled = true;
    try {
      const whole = await context.whole(message);
      fill(body, { ...whole, cut: false }, context);
      body.closest('article')?.focus({ preventScroll: true });
    } catch (error) {
      button.disabled = false;
      button.textContent = `${error.message}. Try again`;
    }
  });
  return button;
}

function tools(message, body, context) {
  if (!context.whole) return null;
  const raw = el('button', { type: 'button', class: 'plain', 'aria-pressed': 'false' }, 'Raw');
  let shown = null;
  raw.addEventListener('click', async () => {
    if (shown) {
      shown.remove();
      shown = null;
    } else {
      try {
        const whole = await context.whole(message);
        shown = el('pre', { class: 'raw' }, prose(indented(whole.raw)));
      } catch (error) {
        shown = el('pre', { class: 'raw' }, error.message);
      }
      body.append(shown);
    }
    raw.setAttribute('aria-pressed', String(shown !== null));
  });
  return el('span', { class: 'tools' },
    el('a', { href: context.link(message), title: 'A link to this message' }, `#${figure(message.index + 1)}`), raw);
}

/** What stands between messages; `load(position)` gets the bytes of a line. */
export function mark({ kind, value, position }, load) {
  if (kind === 'damaged') return damagedLine(() => load(position));
  const texts = {
    checkpoint: () => ['Checkpoint ', figure(value)],
    tokens: () => [count(value, 'token')],
    system_prompt: () => ['System prompt set'],
  };
  const text = Object.hasOwn(texts, kind) ? texts[kind]() : [label(kind)];
  return el('div', { class: `mark ${kind === 'checkpoint' ? kind : 'minor'}`, role: 'note' },
    el('span', {}, ...text));
}
