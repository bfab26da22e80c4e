// A list of any number of items of unknown heights, of which only those near the view are
// there. What was not measured yet is taken to be as high as an estimate.

import { el } from './dom.js';

const PAGE = 100;
const KEPT_PAGES = 40;
const BEYOND = 900;
/** No browser lays out much more than this. */
const MOST_PIXELS = 10_000_000;

/** Sums of heights up to any index, and the index at any height, in logarithmic time. */
class Heights {
  constructor(length, estimate) {
    this.estimate = estimate;
    this.measured = new Map();
    this.#resize(length);
  }

  #resize(length) {
    this.length = length;
    this.size = 1;
    while (this.size < length) this.size *= 2;
    this.tree = new Float64Array(this.size + 1);
    for (const [index, height] of this.measured) {
      if (index < length) this.#add(index, height - this.estimate);
      else this.measured.delete(index);
    }
  }

  #add(index, delta) {
    for (let at = index + 1; at <= this.size; at += at & -at) this.tree[at] += delta;
  }

  grow(length) {
    if (length > this.size || length < this.length) this.#resize(length);
    else this.length = length;
  }

  of(index) {
    return this.measured.get(index) ?? this.estimate;
  }

  set(index, height) {
    const delta = height - this.of(index);
    if (delta === 0 && this.measured.has(index)) return false;
    this.measured.set(index, height);
    this.#add(index, delta);
    return Math.abs(delta) > 0.1;
  }

  /** Where `index` begins. */
  before(index) {
    let sum = index * this.estimate;
    for (let at = index; at > 0; at -= at & -at) sum += this.tree[at];
    return sum;
  }

  total() {
    return this.before(this.length);
  }

  /** The index of what stands at a height. */
  at(height) {
    let index = 0;
    let rest = height;
    for (let step = this.size; step > 0; step >>= 1) {
      const next = index + step;
      if (next > this.size) continue;
      const sum = this.tree[next] + step * this.estimate;
      if (sum <= rest) {
        index = next;
        rest -= sum;
      }
    }
    return Math.max(0, Math.min(index, this.length - 1));
  }
}

export class Feed {
  #scroller;
  #canvas = el('div', { class: 'canvas' });
  #items = el('div', { class: 'items' });
  #shown = new Map();
  #pages = new Map();
  #loading = new Map();
  #heights = new Heights(0, 100);
  #source = null;
  #generation = 0;
  /** Where the view is to stay: at an index, or at the end. */
  #goal = null;
  #ours = -1;
  #frame = 0;
  #wantsFocus = null;
  #width = 0;
  #sizes = new ResizeObserver(() => this.#soon());

  /** `events`: `moved(atEnd)`, `failed(error)`. */
  constructor(scroller, events) {
    this.#scroller = scroller;
    this.events = events;
    this.#canvas.append(this.#items);
    scroller.append(this.#canvas);
    scroller.addEventListener('scroll', () => this.#scrolled(), { passive: true });
    new ResizeObserver(() => this.#resized()).observe(scroller);
  }

  get total() {
    return this.#source?.total ?? 0;
  }

  get follows() {
    return this.#goal?.align === 'end' && this.#goal.index === Infinity;
  }

  /** The index of the first item that is seen. */
  get first() {
    return this.#heights.at(this.#scroller.scrollTop + 1);
  }

  /**
   * Shows another list. `source`: `total`, `load(from, limit)` to `{from, messages, marks}`,
   * `render(message, marks, behind)`.
   */
  show(source, goal = { index: Infinity, align: 'end' }) {
    this.#generation += 1;
    this.#source = source;
    this.#pages.clear();
    this.#loading.clear();
    this.#clear();
    const estimate = Math.max(8, Math.min(110, MOST_PIXELS / Math.max(1, source.total)));
    this.#heights = new Heights(source.total, estimate);
    this.#goal = goal;
    this.#update();
  }

  close() {
    this.#generation += 1;
    this.#source = null;
    this.#clear();
    this.#canvas.style.height = '0px';
  }

  #clear() {
    for (const shown of this.#shown.values()) this.#sizes.unobserve(shown.element);
    this.#shown.clear();
    this.#items.replaceChildren();
  }

  /** More items stand at the end. What stood there last may look different now. */
  grow(total) {
    const stale = Math.floor(Math.max(0, this.total - 1) / PAGE);
    this.#source.total = total;
    this.#heights.grow(total);
    for (const [number, page] of this.#pages) if (number >= stale) page.isStale = true;
    this.#update();
  }

  toBegin() {
    this.#go({ index: 0, align: 'start' });
  }

  toEnd() {
    this.#go({ index: Infinity, align: 'end' });
  }

  /** Shows an item, and focuses it. */
  focus(index, align = 'nearest') {
    const at = Math.max(0, Math.min(index, this.total - 1));
    this.#wantsFocus = at;
    this.#go({ index: at, align });
  }

  /** The item that has the focus. */
  get focused() {
    const item = document.activeElement?.closest?.('.item');
    return item && this.#items.contains(item) ? Number(item.dataset.index) : null;
  }

  #go(goal) {
    this.#goal = goal;
    this.#update();
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    if (Math.abs(scrollTop - this.#ours) > 2) {
      this.#ours = -1;
      this.#wantsFocus = null;
      const isAtEnd = scrollTop + clientHeight >= scrollHeight - 24;
      this.#goal = isAtEnd && this.total > 0 ? { index: Infinity, align: 'end' } : null;
    }
    this.#soon();
  }

  #resized() {
    const width = this.#scroller.clientWidth;
    if (width === 0) return;
    if (width !== this.#width) {
      this.#width = width;
      // Lines break elsewhere now: what was measured is worth nothing.
      const top = this.#scroller.scrollTop;
      const index = this.#heights.at(top);
      const offset = top - this.#heights.before(index);
      this.#heights = new Heights(this.#heights.length, this.#heights.estimate);
      this.#goal ??= { index, align: 'start', offset };
    }
    this.#soon();
  }

  #soon() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#update();
    });
  }

  #update() {
    if (!this.#source) return;
    // Measuring moves what is below: a few rounds settle it, and the next frame does the rest.
    for (let round = 0; round < 6; round += 1) {
      const before = this.#scroller.scrollTop;
      this.#canvas.style.height = `${this.#heights.total()}px`;
      if (this.#goal) this.#scrollTo(this.#target(this.#goal));
      if (!this.#draw() && Math.abs(this.#scroller.scrollTop - before) < 1) break;
    }
    this.#giveFocus();
    this.events.moved(this.#isAtEnd());
  }

  #isAtEnd() {
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    return scrollTop + clientHeight >= scrollHeight - 24;
  }

  #target({ index, align, offset = 0 }) {
    const { clientHeight, scrollTop } = this.#scroller;
    const last = this.total - 1;
    const at = Math.min(index, last);
    if (at < 0) return 0;
    const top = this.#heights.before(at);
    const bottom = top + this.#heights.of(at);
    if (align === 'end') return index === Infinity ? this.#heights.total() - clientHeight : bottom - clientHeight;
    if (align === 'start') return top + offset;
    if (align === 'center') return top - Math.max(0, (clientHeight - (bottom - top)) / 3);
    if (top < scrollTop || bottom - top > clientHeight) return top;
    return bottom > scrollTop + clientHeight ? bottom - clientHeight : scrollTop;
  }

  #scrollTo(top) {
    const most = Math.max(0, this.#heights.total() - this.#scroller.clientHeight);
    const target = Math.max(0, Math.min(top, most));
    if (Math.abs(this.#scroller.scrollTop - target) < 0.5) return;
    this.#scroller.scrollTop = target;
    this.#ours = this.#scroller.scrollTop;
  }

  /** Puts the items near the view in place; whether any of them was not as high as thought. */
  #draw() {
    if (this.total === 0) {
      this.#clear();
      return false;
    }
    const { scrollTop, clientHeight } = this.#scroller;
    const anchor = this.#heights.at(scrollTop);
    const offset = scrollTop - this.#heights.before(anchor);
    const first = this.#heights.at(Math.max(0, scrollTop - BEYOND));
    const last = this.#heights.at(scrollTop + clientHeight + BEYOND);
    this.#load(first, last);
    this.#reconcile(first, last);
    this.#items.style.transform = `translateY(${this.#heights.before(first)}px)`;

    let changed = false;
    for (const [index, { element, isLoaded }] of this.#shown) {
      if (isLoaded && this.#heights.set(index, element.getBoundingClientRect().height)) changed = true;
    }
    if (changed) {
      this.#canvas.style.height = `${this.#heights.total()}px`;
      this.#items.style.transform = `translateY(${this.#heights.before(first)}px)`;
      // What is read stays where it is.
      if (!this.#goal) this.#scrollTo(this.#heights.before(anchor) + offset);
    }
    return changed;
  }

  #reconcile(first, last) {
    for (const [index, shown] of this.#shown) {
      if (index < first || index > last) this.#remove(index, shown);
    }
    let previous = null;
    for (let index = first; index <= last; index += 1) {
      const wanted = this.#item(index);
      const shown = this.#shown.get(index);
      let element = shown?.element;
      if (!shown || shown.stamp !== wanted.stamp) {
        element = wanted.render();
        const hadFocus = shown?.element.contains(document.activeElement);
        if (shown) this.#remove(index, shown);
        this.#shown.set(index, { element, stamp: wanted.stamp, isLoaded: wanted.isLoaded });
        this.#sizes.observe(element);
        if (hadFocus) this.#wantsFocus = index;
      }
      const after = previous ? previous.nextSibling : this.#items.firstChild;
      if (after !== element) this.#items.insertBefore(element, after);
      previous = element;
    }
  }

  #remove(index, { element }) {
    if (element.contains(document.activeElement)) this.#scroller.focus({ preventScroll: true });
    this.#sizes.unobserve(element);
    element.remove();
    this.#shown.delete(index);
  }

  #item(index) {
    const page = this.#pages.get(Math.floor(index / PAGE));
    const found = page?.items.get(index);
    if (found) return { stamp: found.stamp, isLoaded: true, render: () => this.#source.render(found.message, found.marks, found.behind) };
    return { stamp: 'missing', isLoaded: false, render: () => this.#placeholder(index) };
  }

  #placeholder(index) {
    const element = el('article', { class: 'item missing', 'aria-busy': 'true', 'data-index': index });
    element.style.height = `${this.#heights.of(index)}px`;
    return element;
  }

  #giveFocus() {
    const index = this.#wantsFocus;
    const shown = index === null ? undefined : this.#shown.get(index);
    if (!shown?.isLoaded) return;
    this.#wantsFocus = null;
    shown.element.focus({ preventScroll: true });
  }

  #load(first, last) {
    for (let number = Math.floor(first / PAGE); number <= Math.floor(last / PAGE); number += 1) {
      const page = this.#pages.get(number);
      if (page && !page.isStale) {
        // Used last, dropped last.
        this.#pages.delete(number);
        this.#pages.set(number, page);
      } else if (!this.#loading.has(number)) {
        this.#loading.set(number, this.#fetch(number));
      }
    }
  }

  async #fetch(number) {
    const generation = this.#generation;
    const asked = this.total;
    try {
      const { messages, marks } = await this.#source.load(number * PAGE, PAGE);
      if (generation !== this.#generation) return;
      const items = new Map();
      for (const message of messages) {
        const own = marks.filter((mark) => mark.before === message.index);
        const isLast = message.index === asked - 1;
        const behind = isLast ? marks.filter((mark) => mark.before > message.index) : [];
        const stamp = JSON.stringify([message, own, behind, isLast]);
        items.set(message.index, { message, marks: own, behind, stamp });
      }
      this.#pages.set(number, { items, isStale: this.total !== asked && messages.length < PAGE });
      for (const oldest of this.#pages.keys()) {
        if (this.#pages.size <= KEPT_PAGES) break;
        this.#pages.delete(oldest);
      }
      this.#loading.delete(number);
      this.#update();
    } catch (error) {
      if (generation !== this.#generation) return;
      // Asked again when the view moves next.
      this.#loading.delete(number);
      this.events.failed(error);
    }
  }
}
