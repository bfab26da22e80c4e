//! A JSON scanner that accepts exactly the same as Go's `encoding/json`, or as Python's `json`.
//!
//! It never recurses: a hostile line nested ten thousand deep costs heap, not
//! stack.

use std::borrow::Cow;

use super::text::{Text, escape_length, plain_prefix};

/// The nesting of containers beyond which Go calls a document invalid.
const MAX_DEPTH: usize = 10_000;

/// The reason why a line is not as expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineFault {
    /// Not JSON.
    Syntax(&'static str),
    /// JSON so far, but not of the form of a message.
    Shape(&'static str),
}

impl LineFault {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Syntax(reason) | Self::Shape(reason) => reason,
        }
    }
}

pub(super) type ScanResult<T> = Result<T, LineFault>;

/// A cursor over one JSON document.
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    deepest: usize,
    limit: usize,
    lax: bool,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            depth: 0,
            deepest: 0,
            limit: MAX_DEPTH,
            lax: false,
        }
    }

    /// A cursor without a limit on depth.
    pub(super) fn of_any_depth(text: &'a str) -> Self {
        Self {
            limit: usize::MAX,
            ..Self::new(text)
        }
    }

    /// A cursor as lenient as Python's `json` with `strict=False`: raw control
    /// characters inside strings and the numbers `NaN`, `Infinity` and
    /// `-Infinity` pass too.
    pub(super) fn lax(text: &'a str) -> Self {
        Self {
            lax: true,
            ..Self::new(text)
        }
    }

    /// The deepest nesting seen so far; 1 for a flat object.
    pub(super) fn deepest(&self) -> usize {
        self.deepest
    }

    /// The first byte of the next token, not consumed.
    pub(super) fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        let space = rest.iter().take_while(|byte| is_space(**byte)).count();
        self.at += space;
        rest.get(space).copied()
    }

    /// Consumes a `null`, if that is what comes next.
    pub(super) fn null(&mut self) -> ScanResult<bool> {
        if self.peek() == Some(b'n') {
            self.literal("null")?;
            return Ok(true);
        }
        Ok(false)
    }

    /// A string, or `None` for a `null`.
    pub(super) fn text(&mut self) -> ScanResult<Option<Text<'a>>> {
        match self.peek() {
            Some(b'"') => self.string().map(Some),
            Some(b'n') => self.literal("null").map(|()| None),
            _ => Err(LineFault::Shape("a string was expected")),
        }
    }

    /// Calls `field` for every name of an object; it must consume the value.
    pub(super) fn object(
        &mut self,
        mut field: impl FnMut(&mut Self, Cow<'a, str>) -> ScanResult<()>,
    ) -> ScanResult<()> {
        if self.peek() != Some(b'{') {
            return Err(LineFault::Shape("an object was expected"));
        }
        self.open()?;
        if self.close(b'}') {
            return Ok(());
        }
        loop {
            let name = self.name()?.value();
            field(self, name)?;
            if self.next_or_close(b'}')? {
                return Ok(());
            }
        }
    }

    /// Calls `item` for every element of an array; it must consume the value.
    pub(super) fn array(
        &mut self,
        mut item: impl FnMut(&mut Self) -> ScanResult<()>,
    ) -> ScanResult<()> {
        if self.peek() != Some(b'[') {
            return Err(LineFault::Shape("an array was expected"));
        }
        self.open()?;
        if self.close(b']') {
            return Ok(());
        }
        loop {
            item(self)?;
            if self.next_or_close(b']')? {
                return Ok(());
            }
        }
    }

    /// Consumes any value, and returns its text.
    pub(super) fn value(&mut self) -> ScanResult<&'a str> {
        let first = self.peek();
        let start = self.at;
        if !matches!(first, Some(b'{' | b'[')) {
            self.scalar()?;
            return Ok(&self.text[start..self.at]);
        }
        let mut enclosing = Vec::new();
        loop {
            if self.descend(&mut enclosing)? {
                continue;
            }
            loop {
                let Some(&end) = enclosing.last() else {
                    return Ok(&self.text[start..self.at]);
                };
                if self.next_or_close(end)? {
                    enclosing.pop();
                } else {
                    if end == b'}' {
                        self.name()?;
                    }
                    break;
                }
            }
        }
    }

    /// The text that `read` consumes.
    pub(super) fn span(
        &mut self,
        read: impl FnOnce(&mut Self) -> ScanResult<()>,
    ) -> ScanResult<&'a str> {
        self.peek();
        let start = self.at;
        read(self)?;
        Ok(&self.text[start..self.at])
    }

    /// Checks that nothing but white space is left.
    pub(super) fn finish(&mut self) -> ScanResult<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(LineFault::Syntax("data after the end of the record")),
        }
    }

    /// Consumes a scalar or an empty container (false), or steps into a
    /// container up to its first value (true).
    fn descend(&mut self, enclosing: &mut Vec<u8>) -> ScanResult<bool> {
        let end = match self.peek() {
            Some(b'{') => b'}',
            Some(b'[') => b']',
            _ => return self.scalar().map(|()| false),
        };
        self.open()?;
        if self.close(end) {
            return Ok(false);
        }
        enclosing.push(end);
        if end == b'}' {
            self.name()?;
        }
        Ok(true)
    }

    fn open(&mut self) -> ScanResult<()> {
        self.at += 1;
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        if self.depth > self.limit {
            return Err(LineFault::Syntax("nested deeper than 10,000"));
        }
        Ok(())
    }

    fn close(&mut self, end: u8) -> bool {
        let closes = self.peek() == Some(end);
        if closes {
            self.at += 1;
            self.depth -= 1;
        }
        closes
    }

    /// After a value: true if the container closes, false at a comma.
    fn next_or_close(&mut self, end: u8) -> ScanResult<bool> {
        if self.close(end) {
            return Ok(true);
        }
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(false)
            }
            Some(_) => Err(LineFault::Syntax("a comma or a closing bracket is missing")),
            None => Err(CUT_SHORT),
        }
    }

    /// A name and its colon.
    fn name(&mut self) -> ScanResult<Text<'a>> {
        match self.peek() {
            Some(b'"') => {}
            Some(_) => return Err(LineFault::Syntax("a name in quotes was expected")),
            None => return Err(CUT_SHORT),
        }
        let name = self.string()?;
        match self.peek() {
            Some(b':') => {
                self.at += 1;
                Ok(name)
            }
            Some(_) => Err(LineFault::Syntax("a colon is missing")),
            None => Err(CUT_SHORT),
        }
    }

    fn scalar(&mut self) -> ScanResult<()> {
        match self.peek() {
            Some(b'"') => self.string().map(|_| ()),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'N' | b'I') if self.lax => self.number(),
            Some(_) => Err(LineFault::Syntax("a value was expected")),
            None => Err(CUT_SHORT),
        }
    }

    fn literal(&mut self, word: &str) -> ScanResult<()> {
        if self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(());
        }
        Err(LineFault::Syntax("a misspelt literal"))
    }

    fn number(&mut self) -> ScanResult<()> {
        let bytes = self.text.as_bytes();
        if self.lax {
            let rest = &self.text[self.at..];
            let special = ["NaN", "Infinity", "-Infinity"]
                .into_iter()
                .find(|word| rest.starts_with(word));
            if let Some(word) = special {
                self.at += word.len();
                return Ok(());
            }
        }
        if bytes[self.at] == b'-' {
            self.at += 1;
        }
        if bytes.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> ScanResult<()> {
        let rest = &self.text.as_bytes()[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return Err(LineFault::Syntax("a malformed number"));
        }
        self.at += count;
        Ok(())
    }

    /// A string; the cursor stands on its opening quote.
    fn string(&mut self) -> ScanResult<Text<'a>> {
        let bytes = self.text.as_bytes();
        let start = self.at + 1;
        let mut at = start;
        let mut escaped = false;
        loop {
            at += plain_prefix(&bytes[at..]);
            match bytes.get(at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    at += escape_length(&bytes[at..])?;
                    escaped = true;
                }
                Some(_) if self.lax => at += 1,
                Some(_) => return Err(LineFault::Syntax("a raw control character in a string")),
                None => return Err(CUT_SHORT),
            }
        }
        self.at = at + 1;
        Ok(Text::new(&self.text[start..at], escaped))
    }
}

pub(super) const CUT_SHORT: LineFault =
    LineFault::Syntax("the line ends in the middle of a record");

pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}
