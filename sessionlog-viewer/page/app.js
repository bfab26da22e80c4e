// The page: what is shown follows the address, `#/s/KEY`, `#/s/KEY/at/POSITION`,
// `#/s/KEY/begin`, `#/s/KEY/archive/MONTH`, `#/s/KEY/archive/MONTH/SIGN`.

import { Live, ask } from './api.js';
import { Inspector, unreadable } from './damage.js';
import { byId, bytes, called, count, el, figure, label, line, moment, name, prose } from './dom.js';
import { Feed } from './feed.js';
import { article, mark } from './message.js';
import { plot } from './usage.js';

const SESSIONS = 50;
const MOST_SESSIONS = 200;
const HITS = 50;

const ui = Object.fromEntries(
  ['store', 'live', 'find', 'query', 'filters', 'prefix', 'channel', 'agent', 'person', 'since', 'until', 'order', 'role', 'where',
    'regex', 'case', 'archived', 'results', 'said', 'rows', 'more', 'head', 'back', 'key', 'facts',
    'details', 'details-toggle', 'plain', 'feed', 'newest', 'empty', 'spoken', 'help', 'help-open', 'help-close',
    'skip', 'main', 'side'].map((id) => [id, byId(id)]),
);

/** What is open: `key`, `month` of the archive or null, and what the server said of it. */
let open = null;
/** Goes up with every route: answers to an older one are dropped. */
let turn = 0;
let unread = 0;
/** Whether what looks like Markdown is shown as what it means. */
let isMarkdown = true;

const feed = new Feed(ui.feed, {
  moved(atEnd) {
    if (atEnd) unread = 0;
    ui.newest.hidden = atEnd || feed.total === 0;
    ui.newest.textContent = unread > 0 ? `${count(unread, 'new message')} \u2193` : 'Newest \u2193';
  },
  failed(error) {
    if (error.status === 409) reload();
    else say(ui.facts, error.message);
  },
});

const live = new Live(changed, (state) => {
  ui.live.dataset.state = state;
  ui.live.textContent = { on: 'live', wait: 'connecting', off: 'not live' }[state];
});

function say(element, text) {
  element.textContent = text;
}

const inspector = new Inspector(ui.results, ui.rows);

const sessionAddress = (key) => `#/s/${encodeURIComponent(key)}`;

/* ---- sessions and search ---- */

let listed = { key: null, next: null, shown: 0, abort: null };
/** Names of the sessions seen so far whose keys are hashes. */
const names = new Map();

function filters() {
  return {
    prefix: ui.prefix.value, channel: ui.channel.value, agent: ui.agent.value, person: ui.person.value,
    since: midnight(ui.since.value, 0),
  };
}

/** The beginning of a day here, or of the one after it; empty if none is given. */
function midnight(text, after) {
  const [year, month, day] = text.split('-').map(Number);
  return text === '' ? '' : new Date(year, month - 1, day + after).getTime();
}

const pattern = () => ui.query.value;
// One letter is too little to search for; one word of a script without letters is not.
const isPattern = () => pattern().length >= 2 || /[^\u0000-\u02ff]/.test(pattern());

async function list(mode = 'anew') {
  listed.abort?.abort();
  const abort = new AbortController();
  listed.abort = abort;
  if (mode === 'anew') ui.results.setAttribute('aria-busy', 'true');
  try {
    await (isPattern() ? search(mode, abort.signal) : sessions(mode, abort.signal));
  } catch (error) {
    if (error.name !== 'AbortError') say(ui.said, error.message);
  } finally {
    if (listed.abort === abort) ui.results.removeAttribute('aria-busy');
  }
}

async function sessions(mode, signal) {
  const isMore = mode === 'more';
  const many = mode === 'refresh' ? Math.max(SESSIONS, listed.shown) : SESSIONS;
  const page = await listing(many, isMore ? listed.next : '', signal);
  // Those that cannot be read have no time to be sorted by, and may be on more than one page.
  const lost = page.unreadable.filter((key) => !isMore || !linkOf(key));
  put([...lost.map(unreadableRow), ...page.sessions.map(sessionRow)], isMore);
  Object.assign(listed, { next: page.next, shown: (isMore ? listed.shown : 0) + page.sessions.length });
  ui.more.hidden = page.next === null;
  const problems = page.unreadable.length > 0 ? `${count(page.unreadable.length, 'session')} cannot be read. ` : '';
  const isAny = Object.values(filters()).every((text) => text === '');
  const some = listed.shown === 0 ? 'No session is like that.' : `${figure(listed.shown)}${page.next === null ? '' : ' and more'}, of ${count(page.total, 'session')}.`;
  const all = page.total === 0 ? 'The store has no session.' : count(page.total, 'session');
  say(ui.said, problems + (isAny ? all : some));
}

/** So many sessions, in as many pages as it takes. */
async function listing(many, begin, signal) {
  const found = { sessions: new Map(), unreadable: new Set(), next: begin, total: 0 };
  do {
    const limit = Math.min(MOST_SESSIONS, many - found.sessions.size);
    const page = await ask('sessions', { ...filters(), order: ui.order.value, limit, after: found.next }, signal);
    // One that changes meanwhile may be on two pages.
    for (const info of page.sessions) found.sessions.set(info.key, found.sessions.get(info.key) ?? info);
    for (const key of page.unreadable) found.unreadable.add(key);
    Object.assign(found, { next: page.next, total: page.total });
  } while (found.next !== null && found.sessions.size < many);
  return { ...found, sessions: [...found.sessions.values()], unreadable: [...found.unreadable] };
}

function sessionRow(info) {
  const title = info.title || info.summary || info.first_text || '';
  const shown = called(info.key, info.aliases, info.title);
  if (shown !== info.key) names.set(info.key, shown);
  const place = [info.channel, info.agent].filter((text) => text !== '').map(label).join(' \u00b7 ');
  const made = row(sessionAddress(info.key), info.key, true,
    el('span', { class: 'top' }, el('span', { class: 'title', dir: 'auto' }, title === '' ? label(shown) : line(title)), moment(info.updated)),
    info.last_text === '' || info.last_text === title ? null : el('span', { class: 'last', dir: 'auto' }, line(info.last_text)),
    el('span', { class: 'note' }, name(shown, { class: 'key' })),
    el('span', { class: 'note' }, [info.pinned && 'pinned', ...(info.labels ?? []).map(label), place, bytes(info.bytes)].filter(Boolean).join(' \u00b7 ')));
  inspector.watch(made.firstChild, info);
  return made;
}

function unreadableRow(key) {
  return row(sessionAddress(key), key, true,
    el('span', { class: 'top' }, el('span', { class: 'title', dir: 'auto' }, label(key))), unreadable());
}

/** A row of the list: of a session, or of something in it. */
function row(href, key, isSession, ...children) {
  const link = el('a', { href, 'data-of': key, 'data-key': isSession ? key : null }, ...children);
  if (isSession && open?.key === key) link.setAttribute('aria-current', 'page');
  return el('li', {}, link);
}

/** Puts rows in place of those before, or after them. The focus stays on the same session. */
function put(rows, isMore) {
  if (isMore) {
    const firstNew = rows[0]?.querySelector('a');
    ui.rows.append(...rows);
    firstNew?.focus();
    return;
  }
  const focused = ui.rows.contains(document.activeElement) ? document.activeElement : null;
  ui.rows.replaceChildren(...rows);
  if (focused !== null) {
    const links = [...ui.rows.querySelectorAll('a')];
    const same = links.find((link) => link.getAttribute('href') === focused.getAttribute('href'));
    (same ?? linkOf(focused.dataset.of) ?? links[0])?.focus({ preventScroll: true });
  }
}

/** The first row that is of a session. */
const linkOf = (key) => [...ui.rows.querySelectorAll('a')].find((link) => link.dataset.of === key);

async function search(mode, signal) {
  if (mode === 'refresh') return;
  const isMore = mode === 'more';
  const key = ui.where.value === 'this' && open ? open.key : '';
  const skip = isMore ? listed.shown : 0;
  say(ui.said, 'Searching\u2026');
  const found = await ask('search', {
    ...filters(), until: midnight(ui.until.value, 1), q: pattern(), key, skip, limit: HITS, role: ui.role.value,
    regex: ui.regex.checked, case: ui.case.checked, archived: ui.archived.checked,
  }, signal);
  for (const [hash, { aliases, title }] of Object.entries(found.names)) names.set(hash, called(hash, aliases, title));
  put(found.hits.map(hitRow), isMore);
  Object.assign(listed, { next: null, shown: skip + found.hits.length });
  ui.more.hidden = found.more !== 'full';
  const texts = [
    listed.shown === 0 ? 'Nothing was found' : count(listed.shown, 'message'),
    found.more === 'full' ? ', and more' : '',
    found.more === 'time' ? '; the search took too long and was ended' : '',
    found.unreadable.length > 0 ? `; ${count(found.unreadable.length, 'session')} could not be read` : '',
  ];
  say(ui.said, `${texts.join('')}.`);
}

function hitRow(hit) {
  const [place, where] = placeOf(hit);
  const href = sessionAddress(hit.key) + place;
  return row(href, hit.key, false,
    el('span', { class: 'top' }, el('span', { class: 'note' }, name(names.get(hit.key) ?? hit.key, { class: 'key' })), moment(hit.said)),
    el('span', { class: 'hit', dir: 'auto' }, prose(hit.before), el('mark', {}, prose(hit.matched)), prose(hit.after)),
    el('span', { class: 'note' }, where));
}

/** Where in its session a message stands that was found, as an address and in words. */
function placeOf({ archived, hidden, position, role, sign }) {
  if (archived !== null) return [`/archive/${encodeURIComponent(archived)}/${encodeURIComponent(sign)}`, `${label(role)} \u00b7 archived ${label(archived)}`];
  if (hidden) return ['/begin', `${label(role)} \u00b7 hidden by a truncation, before the beginning`];
  return [`/at/${encodeURIComponent(position)}`, label(role)];
}

let typing = 0;
ui.find.addEventListener('input', () => {
  clearTimeout(typing);
  typing = setTimeout(() => list(), 250);
});
ui.find.addEventListener('submit', (event) => {
  event.preventDefault();
  clearTimeout(typing);
  list().then(() => ui.rows.querySelector('a')?.focus());
});
ui.more.addEventListener('click', () => list('more'));

/* ---- a conversation ---- */

function route() {
  const parts = location.hash.replace(/^#\/?/, '').split('/');
  try {
    const [kind, key, what, value, sign] = parts.map(decodeURIComponent);
    return kind === 's' && key ? { key, what, value, sign } : null;
  } catch {
    return null;
  }
}

async function show() {
  turn += 1;
  const mine = turn;
  const wanted = route();
  unread = 0;
  if (!wanted) return close();
  document.body.dataset.view = 'session';
  const isSame = open && open.key === wanted.key && open.month === null && wanted.what !== 'archive';
  if (!isSame) {
    open = null;
    feed.close();
    ui.details.hidden = true;
    ui['details-toggle'].setAttribute('aria-expanded', 'false');
  }
  ui.head.hidden = false;
  ui.empty.hidden = true;
  ui.feed.hidden = false;
  if (!isSame) {
    ui.key.replaceChildren(name(wanted.key));
    say(ui.facts, 'Loading\u2026');
  }
  try {
    const session = await ask('session', { key: wanted.key });
    const kept = await ask('kept', { key: session.key });
    if (mine !== turn) return;
    // What was drawn for another search has other places marked.
    const marked = String(sought());
    const wasOpen = isSame && open?.session.epoch === session.epoch && open.marked === marked;
    open = { key: session.key, month: wanted.what === 'archive' ? wanted.value : null, session, kept, marked };
    if (open.month === null) {
      await showMessages(wanted, mine, wasOpen);
    } else {
      await showArchive(open.month, mine, wanted.sign);
    }
    if (mine !== turn) return;
    head();
    current();
    live.watch(session.key);
  } catch (error) {
    if (mine !== turn) return;
    open = null;
    feed.close();
    ui.feed.hidden = true;
    say(ui.facts, '');
    nothing(error.message);
    live.watch(null);
  }
}

function nothing(text) {
  ui.empty.hidden = false;
  ui.empty.dataset.of = '';
  ui.empty.replaceChildren(el('p', {}, prose(text)));
}

/** Says why a session shows no message, and shows its damaged lines: there is nothing else to put them beside. */
async function noMessage(session) {
  const mine = turn;
  const { key, epoch, damaged } = session;
  if (damaged === 0) return nothing(session.hidden > 0 ? 'All messages of this session are hidden: it was truncated.' : 'No message is in this session.');
  // What is open stays open if nothing has changed.
  const of = `${key} ${epoch} ${session.version} ${damaged}`;
  if (!ui.empty.hidden && ui.empty.dataset.of === of) return undefined;
  nothing('No message of this session decodes.');
  ui.empty.dataset.of = of;
  const { marks } = await ask('messages', { key, epoch }).catch(() => ({ marks: [] }));
  if (mine !== turn || ui.empty.dataset.of !== of) return undefined;
  const lines = marks.filter(({ kind }) => kind === 'damaged').map((one) => mark(one, (position) => ask('line', { key, position })));
  const first = lines.length < damaged ? [el('p', {}, `The first ${figure(lines.length)} of ${count(damaged, 'damaged line')}:`)] : [];
  return ui.empty.append(...first, ...lines);
}

async function showMessages(wanted, mine, wasOpen) {
  const { session } = open;
  let goal = { index: Infinity, align: 'end' };
  let index = null;
  if (wanted.what === 'at') {
    ({ index } = await ask('locate', { key: session.key, position: wanted.value }));
    goal = { index, align: 'center' };
  } else if (wanted.what === 'begin') {
    index = 0;
    goal = { index, align: 'start' };
  }
  if (mine !== turn) return;
  if (!wasOpen) feed.show(source(session), goal);
  else if (session.total !== feed.total) feed.grow(session.total);
  if (index !== null) feed.focus(index, goal.align);
  else if (!ui.side.contains(document.activeElement)) ui.feed.focus({ preventScroll: true });
}

/** What finds in a text what is searched for; null if nothing is, or only the server knows how. */
function sought() {
  if (!isPattern()) return null;
  const text = ui.regex.checked ? pattern() : pattern().replace(/[.*+?^${}()|[\]\\/]/g, '\\$&');
  try {
    return new RegExp(text, ui.case.checked ? 'gu' : 'giu');
  } catch {
    return null;
  }
}

/** The messages of a session, as a feed is given them. */
function source(session) {
  const { key, epoch } = session;
  const context = {
    get total() { return context.feed.total; },
    begin: (index) => (index === 0 ? beginning(session) : []),
    link: (message) => `${sessionAddress(key)}/at/${encodeURIComponent(message.position)}`,
    whole: (message) => ask('message', { key, index: message.index, epoch }),
    line: (position) => ask('line', { key, position }),
    sought: sought(),
    isMarkdown: () => isMarkdown,
  };
  context.feed = {
    total: session.total,
    load: (from, limit) => ask('messages', { key, epoch, from, limit }),
    render: (message, marks, behind) => article(message, marks, behind, context),
  };
  return context.feed;
}

function beginning(session) {
  const notes = [];
  for (const month of open?.kept.archived ?? []) {
    notes.push(el('p', {}, el('a', { href: `${sessionAddress(session.key)}/archive/${encodeURIComponent(month)}` },
      `What was dropped in ${label(month)}, from the archive`)));
  }
  if (session.hidden > 0) notes.push(el('p', { class: 'truncated' }, `${count(session.hidden, 'earlier line')} ${session.hidden === 1 ? 'is' : 'are'} hidden: the conversation was truncated here`));
  else notes.push(el('p', {}, 'The conversation begins here'));
  return [el('div', { class: 'beginning', role: 'note' }, ...notes)];
}

async function showArchive(month, mine, sign = '') {
  const { key } = open;
  const first = await ask('archive', { key, month, sign, limit: 1 });
  if (mine !== turn) return;
  const context = { total: first.total, begin: () => [], link: () => sessionAddress(key), whole: null, sought: sought(), isMarkdown: () => isMarkdown };
  feed.show({
    total: first.total,
    load: async (from, limit) => ({ ...await ask('archive', { key, month, from, limit }), marks: [] }),
    render: (message, marks, behind) => article(message, marks, behind, context),
  }, { index: first.found ?? 0, align: 'start' });
  if (first.found !== null) feed.focus(first.found, 'center');
}

/** Says what is open: above the messages, and in the details. */
function head() {
  const { session, month } = open;
  const shown = called(session.key, session.aliases, session.title);
  ui.key.replaceChildren(name(shown));
  document.title = `${label(shown)} \u00b7 sessionlog`;
  const facts = month === null
    ? [count(session.total, 'message'), session.damaged === 0 ? null : count(session.damaged, 'damaged line'), session.tokens === null ? null : count(session.tokens, 'token')]
    : [`archived in ${label(month)}`, count(feed.total, 'message')];
  const when = moment(session.updated, true);
  ui.facts.replaceChildren(facts.filter(Boolean).join(' \u00b7 '), ...(when ? [' \u00b7 ', when] : []));
  inspector.learn(session.key, session.damaged);
  if (month === null && session.total === 0) noMessage(session);
  else ui.empty.hidden = true;
  if (!ui.details.hidden) details();
}

/** Drawn as wide as it is shown, its letters are as high as others. */
function plotWidth() {
  const { clientWidth } = ui.details;
  const beside = clientWidth > 700 ? 150 : 0;
  return Math.max(260, Math.min(clientWidth - 32, 736) - beside);
}

function details() {
  const { session, kept } = open;
  const entry = (term, ...content) => el('div', {}, el('dt', {}, term), el('dd', {}, ...content));
  const jump = (text, before) => {
    const button = el('button', { type: 'button', class: 'chip' }, text);
    button.addEventListener('click', () => feed.focus(Math.min(before, feed.total - 1), 'start'));
    return button;
  };
  const jumps = session.checkpoints.map(({ id, before }) => jump(figure(id), before));
  const places = session.total === 0 ? [] : [...new Set(session.damaged_before)];
  const damage = places.map((before) => (before < session.total ? jump(`before #${figure(before + 1)}`, before) : jump('at the end', before)));
  const archive = kept.archived.map((month) => el('a', { class: 'chip', href: `${sessionAddress(session.key)}/archive/${encodeURIComponent(month)}` }, label(month)));
  const list = [
    session.title && entry('Title', name(session.title)),
    (session.pinned || session.labels.length > 0) && entry('Labels', el('div', { class: 'chips' }, session.pinned ? 'pinned' : null, ...session.labels.map((text) => el('span', { class: 'chip' }, label(text))))),
    session.summary && entry('Summary', el('div', { class: 'text', dir: 'auto' }, prose(session.summary))),
    session.usage.length > 1 && entry('Tokens', plot(session.usage, plotWidth())),
    entry('Key', name(session.key)),
    entry('Times', 'made ', moment(session.created, true) ?? 'unknown', ', changed ', moment(session.updated, true) ?? 'unknown'),
    entry('Messages', `${figure(session.total)}${session.hidden > 0 ? `, and ${count(session.hidden, 'hidden line')}` : ''}`),
    session.damaged > 0 && entry('Damaged lines', el('div', { class: 'chips' }, figure(session.damaged), ...damage)),
    jumps.length > 0 && entry('Checkpoints', el('div', { class: 'chips' }, ...jumps)),
    archive.length > 0 && entry('Archive', el('div', { class: 'chips' }, ...archive)),
    kept.backups > 0 && entry('Backups', figure(kept.backups)),
    session.aliases.length > 0 && entry('Aliases', el('ul', { class: 'plain-list' }, ...session.aliases.map((alias) => el('li', {}, name(alias))))),
    session.system_prompt && entry('System prompt', el('details', { class: 'fold' }, el('summary', {}, line(session.system_prompt.slice(0, 200))), el('div', { class: 'text', dir: 'auto' }, prose(session.system_prompt)))),
    session.scope && entry('Scope', el('pre', {}, prose(JSON.stringify(session.scope, null, 2)))),
  ];
  const openFolds = ui.details.querySelector('details')?.open ?? false;
  ui.details.replaceChildren(el('dl', {}, ...list.filter(Boolean)));
  if (openFolds) ui.details.querySelector('details')?.setAttribute('open', '');
}

function toggleDetails() {
  if (!open) return;
  ui.details.hidden = !ui.details.hidden;
  ui['details-toggle'].setAttribute('aria-expanded', String(!ui.details.hidden));
  if (!ui.details.hidden) details();
}

/** Shows messages as they were written, or as what their Markdown means. */
function togglePlain() {
  isMarkdown = !isMarkdown;
  ui.plain.setAttribute('aria-pressed', String(!isMarkdown));
  if (open?.month === null) feed.show(source(open.session), feed.follows ? undefined : { index: feed.first, align: 'start' });
  else if (open) showArchive(open.month, turn);
}

function close() {
  const last = open?.key;
  open = null;
  feed.close();
  document.body.dataset.view = 'list';
  document.title = 'sessionlog';
  for (const element of [ui.head, ui.feed, ui.details, ui.newest]) element.hidden = true;
  ui.empty.hidden = false;
  ui.empty.replaceChildren(el('p', {}, 'Choose a session, or search all of them.'),
    el('p', { class: 'note' }, 'Press ', el('kbd', {}, '?'), ' for the keyboard.'));
  current();
  live.watch(null);
  if (ui.side.contains(document.activeElement)) return;
  (linkOf(last) ?? ui.rows.querySelector('a'))?.focus({ preventScroll: true });
}

/** Marks the open session in the list. */
function current() {
  for (const link of ui.rows.querySelectorAll('a')) {
    if (link.dataset.key && link.dataset.key === open?.key) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
}

/* ---- what changes meanwhile ---- */

let refreshing = false;
let again = { session: false, sessions: false };

async function changed(notice) {
  again = { session: again.session || notice.session, sessions: again.sessions || notice.sessions };
  if (refreshing) return;
  refreshing = true;
  while (again.session || again.sessions) {
    const now = again;
    again = { session: false, sessions: false };
    if (now.session && open?.month === null) await refresh();
    if (now.sessions) await list('refresh');
  }
  refreshing = false;
}

async function refresh() {
  const mine = turn;
  const { key, session: last } = open;
  try {
    const session = await ask('session', { key });
    if (mine !== turn || !open) return;
    open.session = session;
    if (session.epoch !== last.epoch || session.total < feed.total) {
      open.kept = await ask('kept', { key });
      if (mine !== turn || !open) return;
      // Counted from the end, the view stays where it is.
      const fromEnd = feed.total - feed.first;
      const goal = feed.follows ? undefined : { index: Math.max(0, session.total - fromEnd), align: 'start' };
      feed.show(source(session), goal);
    } else if (session.total > feed.total) {
      const added = session.total - feed.total;
      if (!feed.follows) unread += added;
      feed.grow(session.total);
      say(ui.spoken, `${count(added, 'new message')}`);
    } else if (session.version !== last.version) {
      feed.grow(session.total);
    }
    head();
  } catch (error) {
    if (mine === turn && error.status === 404) show();
    else if (mine === turn) say(ui.facts, error.message);
  }
}

/** The server says that what is shown is of another epoch. */
async function reload() {
  if (open) await changed({ session: true, sessions: false });
}

/* ---- keyboard and buttons ---- */

function step(by) {
  const links = [...ui.rows.querySelectorAll('a')];
  const at = links.indexOf(document.activeElement);
  if (at >= 0 || !open) {
    const next = links[Math.max(0, Math.min(links.length - 1, at + by))];
    next?.focus();
    return;
  }
  const from = feed.focused ?? (by > 0 ? feed.first - 1 : feed.first + 1);
  feed.focus(from + by);
}

function toCheckpoint(by) {
  const places = (open?.session.checkpoints ?? []).map(({ before }) => before);
  const from = feed.focused ?? feed.first;
  const target = by > 0 ? places.find((place) => place > from) : places.findLast((place) => place < from);
  if (target !== undefined) feed.focus(Math.min(target, feed.total - 1), 'start');
  else say(ui.spoken, `There is no ${by > 0 ? 'later' : 'earlier'} checkpoint`);
}

function unfold() {
  const folds = [...(document.activeElement?.querySelectorAll?.('details') ?? [])];
  const opens = folds.some((details) => !details.open);
  for (const details of folds) details.open = opens;
}

function escape() {
  if (ui.query.value !== '' || ui.find.contains(document.activeElement)) {
    const hadText = ui.query.value !== '';
    ui.query.value = '';
    document.activeElement?.blur?.();
    if (hadText) list();
  } else if (!ui.details.hidden) {
    toggleDetails();
  } else if (open || route()) {
    location.hash = '#/';
  }
}

const KEYS = {
  '/': () => { showSide(); ui.query.focus(); ui.query.select(); },
  s: () => { showSide(); (ui.rows.querySelector('[aria-current]') ?? ui.rows.querySelector('a'))?.focus(); },
  j: () => step(1),
  k: () => step(-1),
  m: () => { if (open) ui.feed.focus(); },
  g: () => feed.toBegin(),
  G: () => feed.toEnd(),
  Home: () => feed.toBegin(),
  End: () => feed.toEnd(),
  '[': () => toCheckpoint(-1),
  ']': () => toCheckpoint(1),
  d: toggleDetails,
  p: togglePlain,
  '?': () => ui.help.showModal(),
  Escape: escape,
};

/** On a narrow screen the list and a conversation take turns. */
function showSide() {
  if (getComputedStyle(ui.side).display !== 'none') return;
  // At once: what is not shown takes no focus.
  document.body.dataset.view = 'list';
  location.hash = '#/';
}

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || ui.help.open) return;
  const { target, key } = event;
  const types = target.closest?.('input, select, textarea');
  if (types && key !== 'Escape') {
    if (key === 'ArrowDown' && target === ui.query) {
      event.preventDefault();
      ui.rows.querySelector('a')?.focus();
    }
    return;
  }
  const inRows = ui.rows.contains(target);
  if (inRows && (key === 'ArrowDown' || key === 'ArrowUp')) {
    event.preventDefault();
    return step(key === 'ArrowDown' ? 1 : -1);
  }
  if (inRows && (key === 'Home' || key === 'End')) {
    event.preventDefault();
    return step(key === 'Home' ? -Infinity : Infinity);
  }
  if (key === 'Enter' && target.classList?.contains('item')) {
    event.preventDefault();
    return unfold();
  }
  if (!Object.hasOwn(KEYS, key)) return;
  event.preventDefault();
  KEYS[key]();
});

ui.newest.addEventListener('click', () => { feed.toEnd(); ui.feed.focus({ preventScroll: true }); });
ui.back.addEventListener('click', () => { location.hash = '#/'; });
ui['details-toggle'].addEventListener('click', toggleDetails);
ui.plain.addEventListener('click', togglePlain);
ui['help-open'].addEventListener('click', () => ui.help.showModal());
ui['help-close'].addEventListener('click', () => ui.help.close());
ui.skip.addEventListener('click', () => (open ? ui.feed : ui.main).focus());
window.addEventListener('hashchange', show);

/* ---- the beginning ---- */

async function start() {
  try {
    const about = await ask('store');
    ui.store.replaceChildren(name(about.title));
    ui.store.title = label(about.title);
  } catch (error) {
    nothing(error.message);
    document.body.dataset.view = error.status === 401 ? 'locked' : 'list';
    return;
  }
  await list();
  await show();
}

start();
