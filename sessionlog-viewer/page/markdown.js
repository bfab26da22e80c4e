// Markdown as elements. Text becomes text: no markup is parsed, and no link or image is made.

import { el } from './dom.js';

const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6}) +(.*?)(?: +#+)? *$/;
const RULE = /^ {0,3}([-*_])(?: *\1){2,} *$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)]) +/;
// Code, then what is strong, struck out and stressed. Each is of one paragraph. Names such as
// `__init__` stay as they are.
const INLINE = /(`+)([^`](?:.*?[^`])?)\1(?!`)|\*\*(?=\S)(.+?)(?<=\S)\*\*|~~(?=\S)(.+?)(?<=\S)~~|\*(?=[^\s*])(.+?)(?<=[^\s*])\*(?!\*)|(?<![\p{L}\p{N}_])_(?=[^\s_])(.+?)(?<=[^\s_])_(?![\p{L}\p{N}_])/su;

/** How deep lists, quotes and stress may be in each other, and how long a paragraph is read. */
const DEEP = 6;
const LONG = 4_000;

/** The elements of a text. `leaf(text)` makes what stands for a piece of plain text. */
export function markdown(text, leaf) {
  return blocks(text.split('\n'), leaf, 0);
}

function blocks(lines, leaf, depth) {
  const made = [];
  let paragraph = [];
  const end = () => {
    const text = paragraph.join('\n');
    paragraph = [];
    if (text.trim() !== '') made.push(el('p', {}, ...inline(text, leaf, 0)));
  };
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at];
    const fence = FENCE.exec(line);
    if (fence) {
      end();
      const code = [];
      const isEnd = (text) => text.trim().startsWith(fence[1]) && text.trim().replaceAll(fence[1][0], '') === '';
      for (at += 1; at < lines.length && !isEnd(lines[at]); at += 1) code.push(lines[at]);
      made.push(el('pre', {}, el('code', {}, ...leaf(code.join('\n')))));
      continue;
    }
    const heading = HEADING.exec(line);
    if (heading) {
      end();
      made.push(el('p', { class: `heading h${heading[1].length}` }, ...inline(heading[2], leaf, 0)));
    } else if (RULE.test(line)) {
      end();
      made.push(el('hr'));
    } else if (QUOTE.test(line) && depth < DEEP) {
      end();
      const inner = [];
      for (; at < lines.length && QUOTE.test(lines[at]); at += 1) inner.push(lines[at].replace(QUOTE, ''));
      at -= 1;
      made.push(el('blockquote', {}, ...blocks(inner, leaf, depth + 1)));
    } else if (ITEM.test(line) && depth < DEEP) {
      end();
      const [list, next] = items(lines, at, leaf, depth);
      made.push(list);
      at = next - 1;
    } else if (line.trim() === '') {
      end();
    } else {
      paragraph.push(line);
    }
  }
  end();
  return made;
}

/** The list that begins at a line, and the line after it. */
function items(lines, from, leaf, depth) {
  const [, margin, sign] = ITEM.exec(lines[from]);
  const isOrdered = /\d/.test(sign);
  const made = [];
  let at = from;
  while (at < lines.length) {
    const found = ITEM.exec(lines[at]);
    if (!found || found[1].length > margin.length + 1 || /\d/.test(found[2]) !== isOrdered) break;
    const inner = [lines[at].slice(found[0].length)];
    const deeper = found[1].length + 2;
    const belongs = (line) => line.trim() !== '' && line.length - line.trimStart().length >= deeper;
    for (at += 1; at < lines.length && belongs(lines[at]); at += 1) inner.push(lines[at].slice(deeper));
    made.push(el('li', {}, ...blocks(inner, leaf, depth + 1)));
  }
  const start = isOrdered ? Number.parseInt(sign, 10) : undefined;
  return [el(isOrdered ? 'ol' : 'ul', { start }, ...made), at];
}

function inline(text, leaf, depth) {
  const made = [];
  let rest = text;
  while (rest !== '') {
    const found = depth < DEEP && rest.length <= LONG ? INLINE.exec(rest) : null;
    if (!found) return [...made, ...leaf(rest)];
    const [all, , code, strong, struck, star, low] = found;
    made.push(...leaf(rest.slice(0, found.index)));
    const within = (name, inner) => el(name, {}, ...inline(inner, leaf, depth + 1));
    if (code !== undefined) made.push(el('code', {}, ...leaf(code)));
    else if (strong !== undefined) made.push(within('strong', strong));
    else if (struck !== undefined) made.push(within('s', struck));
    else made.push(within('em', star ?? low));
    rest = rest.slice(found.index + all.length);
  }
  return made;
}
