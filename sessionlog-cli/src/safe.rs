//! Makes texts of others safe, so that a terminal does not obey them.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns a text on one line: everything that a terminal could take for an order, line ends and
/// tabs included, is written out as `\x1b` or `\u{202e}`.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escaped(text, false)
}

/// Returns a text with its line ends and tabs; all else as in [`line`].
pub(crate) fn block(text: &str) -> Cow<'_, str> {
    escaped(text, true)
}

/// Returns the beginning of a text on one line: at most `most` columns, the last of them `…` if
/// there is more.
pub(crate) fn short(text: &str, most: usize) -> String {
    use unicode_width::UnicodeWidthChar;
    // No character is wider than a line is long: the rest need not be looked at.
    // looked at.
    let head: String = text.chars().take(most.saturating_mul(2) + 1).collect();
    let head = head.split_whitespace().collect::<Vec<_>>().join(" ");
    let head = line(&head);
    let (mut shown, mut width) = (String::new(), 0);
    let is_cut = text.chars().nth(most.saturating_mul(2) + 1).is_some();
    for c in head.chars() {
        width += c.width().unwrap_or(0);
        if width >= most && !(width == most && shown.len() + c.len_utf8() == head.len() && !is_cut)
        {
            shown.push('…');
            return shown;
        }
        shown.push(c);
    }
    if is_cut {
        shown.push('…');
    }
    shown
}

/// Returns a name on one line, without its middle if it is too long: names of one kind begin alike.
pub(crate) fn short_name(name: &str, most: usize) -> String {
    let name = line(name);
    let length = name.chars().count();
    if length <= most || most < 8 {
        return short(&name, most);
    }
    let begin = most / 3;
    let end = most - begin - 1;
    let first: String = name.chars().take(begin).collect();
    let last: String = name.chars().skip(length - end).collect();
    // Wide characters take more room than was counted.
    short(&format!("{first}…{last}"), most + 1)
}

fn escaped(text: &str, keeps_lines: bool) -> Cow<'_, str> {
    let is_kept = |c: char| keeps_lines && matches!(c, '\n' | '\t');
    if !text.chars().any(|c| is_order(c) && !is_kept(c)) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if !is_order(c) || is_kept(c) {
            safe.push(c);
            continue;
        }
        // Writing to a string does not fail.
        let _ = match c {
            '\n' => write!(safe, "\\n"),
            '\t' => write!(safe, "\\t"),
            '\r' => write!(safe, "\\r"),
            c if (c as u32) < 0x100 => write!(safe, "\\x{:02x}", c as u32),
            c => write!(safe, "\\u{{{:x}}}", c as u32),
        };
    }
    Cow::Owned(safe)
}

/// Returns true if a terminal, or a program that lays out text, could obey the character rather
/// than show it: control characters, those that turn the direction of writing, and invisible ones.
/// (Two joiners stay: emoji and some scripts need them.)
fn is_order(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        let hostile = "a\x1b[31mred\x07\u{9b}2J\u{202e}x\r\u{e0041}";
        for safe in [line(hostile), block(hostile)] {
            assert_eq!(safe, "a\\x1b[31mred\\x07\\x9b2J\\u{202e}x\\r\\u{e0041}");
        }
        assert_eq!(line("a\n\tb"), "a\\n\\tb");
        assert_eq!(block("a\n\tb"), "a\n\tb");
        assert_eq!(line("Grüße 👩\u{200d}🚀"), "Grüße 👩\u{200d}🚀");
    }

    #[test]
    fn a_short_text_is_no_wider_than_asked() {
        assert_eq!(short("hello", 5), "hello");
        assert_eq!(short("hello you", 5), "hell…");
        assert_eq!(short("a\n b", 10), "a b");
        assert_eq!(short(&"x".repeat(1000), 4), "xxx…");
        assert_eq!(short("\x1b", 10), "\\x1b");
        assert_eq!(short("日本語日本語", 5), "日本…");
    }
}
