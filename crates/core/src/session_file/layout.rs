//! The white space of JSON: indented for people, or none.

use super::scan::is_space;

/// The bytes that indenting may add to a text, beyond three times its own length: the blanks of a
/// text nested n deep grow with the square of n.
const ROOM: usize = 1 << 20;

/// The longest text for which [`ROOM`] always suffices: n bytes become at most 2n + 2n(1 + 2n).
const SHORT: usize = 500;

/// Valid JSON indented by two spaces per level, with empty containers closed; without any white
/// space if that would make it far longer.
pub(super) fn lay_out(json: &[u8]) -> Vec<u8> {
    if is_spread(json) {
        return flatten(json);
    }
    let mut out = Vec::with_capacity(json.len() * 2);
    indent(json, &mut out);
    out
}

/// The length of the result of [`lay_out`], computed without building it.
pub(super) fn laid_out_len(json: &[u8]) -> usize {
    let mut len = Len(0);
    if is_spread(json) {
        squeeze(json, &mut len);
    } else {
        indent(json, &mut len);
    }
    len.0
}

/// Valid JSON without the white space between its tokens.
pub(super) fn flatten(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    squeeze(json, &mut out);
    out
}

/// True if blanks would be most of it.
pub(super) fn is_spread(json: &[u8]) -> bool {
    if json.len() <= SHORT {
        return false;
    }
    let mut len = Len(0);
    indent(json, &mut len);
    len.0 > json.len().saturating_mul(4).saturating_add(ROOM)
}

/// Takes a text, or only its length.
trait Sink {
    fn put(&mut self, bytes: &[u8]);
    fn break_line(&mut self, depth: usize);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn break_line(&mut self, depth: usize) {
        self.push(b'\n');
        self.resize(self.len() + 2 * depth, b' ');
    }
}

struct Len(usize);

impl Sink for Len {
    fn put(&mut self, bytes: &[u8]) {
        self.0 = self.0.saturating_add(bytes.len());
    }

    fn break_line(&mut self, depth: usize) {
        self.0 = self.0.saturating_add(1 + 2 * depth);
    }
}

fn indent(json: &[u8], out: &mut impl Sink) {
    let mut depth = 0;
    let mut opened = false;
    let mut rest = json;
    while let Some(&byte) = rest.first() {
        if is_space(byte) {
            rest = &rest[1..];
            continue;
        }
        let closing = matches!(byte, b'}' | b']');
        depth -= usize::from(closing);
        if opened != closing {
            out.break_line(depth);
        }
        opened = matches!(byte, b'{' | b'[');
        depth += usize::from(opened);
        let length = token_length(rest);
        out.put(&rest[..length]);
        match byte {
            b',' => out.break_line(depth),
            b':' => out.put(b" "),
            _ => {}
        }
        rest = &rest[length..];
    }
}

fn squeeze(json: &[u8], out: &mut impl Sink) {
    let mut rest = json;
    while let Some(&byte) = rest.first() {
        let length = token_length(rest);
        if !is_space(byte) {
            out.put(&rest[..length]);
        }
        rest = &rest[length..];
    }
}

/// The length of the string that valid JSON starts with, quotes included, or 1.
fn token_length(json: &[u8]) -> usize {
    if json.first() != Some(&b'"') {
        return 1;
    }
    let mut at = 1;
    while let Some(byte) = json.get(at).filter(|byte| **byte != b'"') {
        at += if *byte == b'\\' { 2 } else { 1 };
    }
    at + 1
}

#[cfg(test)]
mod tests {
    use super::{ROOM, laid_out_len, lay_out};

    #[test]
    fn blanks_are_never_most_of_a_text() {
        for levels in [1, 100, 247, 500, 2_000, 50_000] {
            let json = format!("{}\"[{{\"{}", "[".repeat(levels), "]".repeat(levels));
            let out = lay_out(json.as_bytes());
            assert_eq!(out.len(), laid_out_len(json.as_bytes()));
            assert!(out.len() <= 4 * json.len() + ROOM, "{levels}");
            let black: Vec<u8> = out.into_iter().filter(|b| !b" \n".contains(b)).collect();
            assert_eq!(black, json.as_bytes());
        }
    }
}
