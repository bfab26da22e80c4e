//! Searches messages among the lines of a session.

use std::io;
use std::ops::Range;

use regex::{Regex, RegexBuilder, bytes};
use regex_syntax::hir::{Hir, HirKind};
use serde::{Deserialize, Serialize};
use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::{self, Decoded};
use sessionlog_wal::sync::atomic::{AtomicUsize, Ordering};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::glance::SessionLines;
use crate::Message;

/// The amount that is found at a time, in bytes of lines.
const MOST: usize = 16 << 20;

/// The bytes that a found line takes beside its own.
const MESSAGE: usize = 1 << 10;

/// The room for further finds before the caller is told.
#[derive(Debug, Default)]
pub(crate) struct Room(AtomicUsize);

impl Room {
    /// Takes the room for a line of `bytes` bytes; returns true if more may be found after it.
    fn take(&self, bytes: usize) -> bool {
        self.0.fetch_add(bytes + MESSAGE, Ordering::Relaxed) + bytes < MOST
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= MOST
    }
}

/// The prepared form of a pattern.
#[derive(Debug)]
pub(crate) struct Needle {
    /// Matches part of every line that may match: most lines need not be decoded.
    candidates: Option<bytes::Regex>,
    text: Regex,
    in_calls: bool,
    roles: Vec<String>,
    since: Option<OffsetDateTime>,
    until: Option<OffsetDateTime>,
}

/// A text of a session in which a match is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FoundIn {
    /// The [text](Message::text) of a message.
    #[default]
    Text,
    /// The name of the function of one of its tool calls, the first being 0.
    ToolName(usize),
    /// The arguments of that call, with characters in place of their `\u` numbers.
    ToolArguments(usize),
    /// The session's summary.
    Summary,
    /// The session's title.
    Title,
}

/// A matching message, and the first match in it.
#[derive(Debug)]
pub(crate) struct Match {
    pub(crate) message: Message,
    pub(crate) found_in: FoundIn,
    pub(crate) matched: Range<usize>,
}

/// A search pattern.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pattern {
    pub(crate) text: String,
    pub(crate) is_regex: bool,
    pub(crate) ignores_case: bool,
    pub(crate) roles: Vec<String>,
    pub(crate) since: Option<OffsetDateTime>,
    pub(crate) until: Option<OffsetDateTime>,
    /// True if tool calls are searched, too.
    pub(crate) in_calls: bool,
}

/// Messages that were found in a session.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    /// Each with the offset of its line.
    pub(crate) messages: Vec<(u64, Match)>,
    /// The offset at which to continue; `None` if the session was searched to its end.
    pub(crate) next: Option<u64>,
    /// The reason that it was not.
    pub(crate) failed: Option<io::Error>,
}

impl Needle {
    /// # Errors
    /// `InvalidPattern`.
    pub(crate) fn new(pattern: &Pattern) -> Result<Self> {
        let invalid = |e: regex::Error| Error::InvalidPattern {
            detail: e.to_string(),
        };
        let source = if pattern.is_regex {
            pattern.text.clone()
        } else {
            regex::escape(&pattern.text)
        };
        let text = RegexBuilder::new(&source)
            .case_insensitive(pattern.ignores_case)
            .build()
            .map_err(invalid)?;
        let run = if pattern.is_regex {
            required_run(&pattern.text)
        } else {
            plain_run(&pattern.text).to_owned()
        };
        let candidates =
            (!run.is_empty()).then(|| bytes::Regex::new(&candidates(&run, pattern.ignores_case)));
        Ok(Self {
            candidates: candidates.transpose().map_err(invalid)?,
            text,
            in_calls: pattern.in_calls,
            roles: pattern.roles.clone(),
            since: pattern.since,
            until: pattern.until,
        })
    }

    /// Returns the message of a line and its match, if it matches.
    pub(crate) fn find(&self, raw: &[u8]) -> Option<Match> {
        let candidates = self.candidates.as_ref();
        if candidates.is_some_and(|candidates| !candidates.is_match(raw)) {
            return None;
        }
        let Decoded::Message(message) = session_file::decode(raw) else {
            return None;
        };
        if !self.admits(&message) {
            return None;
        }
        let (found_in, matched) = self.find_within(&message)?;
        Some(Match {
            message,
            found_in,
            matched,
        })
    }

    fn find_within(&self, message: &Message) -> Option<(FoundIn, Range<usize>)> {
        let found = |text: &str| self.text.find(text).map(|found| found.range());
        if let Some(matched) = found(&message.text()) {
            return Some((FoundIn::Text, matched));
        }
        let calls = message.tool_calls().iter().enumerate();
        let mut calls = calls.filter(|_| self.in_calls);
        calls.find_map(|(nth, call)| {
            let function = call.function.as_ref()?;
            let name = found(&function.name).map(|at| (FoundIn::ToolName(nth), at));
            name.or_else(|| {
                let arguments = session_file::legible(&function.arguments);
                found(&arguments).map(|at| (FoundIn::ToolArguments(nth), at))
            })
        })
    }

    /// Returns the matches in a title and a summary. These stand in no message, and so have neither
    /// role nor time.
    pub(crate) fn find_outside(&self, title: &str, summary: &str) -> Vec<Match> {
        let is_anyones = self.roles.is_empty() && self.since.is_none() && self.until.is_none();
        let texts = [(FoundIn::Title, title), (FoundIn::Summary, summary)];
        let texts = texts
            .into_iter()
            .filter(|(_, text)| is_anyones && !text.is_empty());
        let found = texts.filter_map(|(found_in, text)| {
            Some(Match {
                message: Message::system(text),
                found_in,
                matched: self.text.find(text)?.range(),
            })
        });
        found.collect()
    }

    fn admits(&self, message: &Message) -> bool {
        let is_role = |role: &String| role == message.role();
        if !self.roles.is_empty() && !self.roles.iter().any(is_role) {
            return false;
        }
        if self.since.is_none() && self.until.is_none() {
            return true;
        }
        let said = message.created_at();
        let said = said.and_then(|said| OffsetDateTime::parse(said, &Rfc3339).ok());
        said.is_some_and(|said| {
            self.since.is_none_or(|since| said >= since)
                && self.until.is_none_or(|until| said < until)
        })
    }

    /// Returns true if a line matches, hidden ones included.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn is_in(&self, lines: &SessionLines) -> io::Result<bool> {
        let mut is_in = false;
        self.each_candidate(lines, 0, &mut |_, raw| {
            is_in = self.find(raw).is_some();
            !is_in
        })?;
        Ok(is_in)
    }

    /// Visits the lines that may match.
    fn each_candidate(
        &self,
        lines: &SessionLines,
        start: u64,
        visit: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> io::Result<()> {
        let Some(candidates) = &self.candidates else {
            return lines.each(start, visit);
        };
        let find = |bytes: &[u8]| candidates.find(bytes).map(|found| found.start());
        lines.each_with(start, &find, visit)
    }

    /// Returns the matching messages, from the line at `start` on, for as long as there is room for
    /// them.
    pub(crate) fn find_in(&self, lines: &SessionLines, start: u64, room: &Room) -> Hits {
        let mut found = Hits::default();
        let read = self.each_candidate(lines, start, &mut |begin, raw| {
            let Some(hit) = self.find(raw) else {
                return true;
            };
            found.messages.push((begin, hit));
            let goes_on = room.take(raw.len());
            found.next = (!goes_on).then_some(begin + raw.len() as u64 + 1);
            goes_on
        });
        found.failed = read.err();
        found
    }
}

/// Returns a pattern for lines that may contain `run`: the run itself, one of its characters by its
/// number, or a part of a content, because several parts may make up the run.
fn candidates(run: &str, ignores_case: bool) -> String {
    let escapes = match (run.is_ascii(), ignores_case) {
        // A space, a digit or a letter. Most numbers stand for other characters: Go writes those of
        // HTML so.
        (true, false) => r"\\u00(?:20|3[0-9]|[46][1-9a-fA-F]|[57][0-9aA])",
        // And the two that then equal `k` and `s`.
        (true, true) => r"\\u(?:00(?:20|3[0-9]|[46][1-9a-fA-F]|[57][0-9aA])|212[aA]|017[fF])",
        (false, _) => r"\\u",
    };
    let flag = if ignores_case { "i" } else { "" };
    let run = regex::escape(run);
    format!(r#"(?{flag}:{run})|{escapes}|"(?i:text)""#)
}

/// Returns the longest plain run that is in every match of a regular expression, as far as it is
/// easy to see; empty if it is not.
fn required_run(pattern: &str) -> String {
    let parsed = regex_syntax::parse(pattern);
    parsed.map_or_else(|_| String::new(), |hir| run_of(&hir).to_owned())
}

fn run_of(hir: &Hir) -> &str {
    match hir.kind() {
        HirKind::Literal(literal) => str::from_utf8(&literal.0).map_or("", plain_run),
        HirKind::Capture(capture) => run_of(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => run_of(&repetition.sub),
        HirKind::Concat(parts) => {
            let runs = parts.iter().map(run_of);
            // Spaces are everywhere.
            runs.max_by_key(|run| run.replace(' ', "").len())
                .unwrap_or_default()
        }
        _ => "",
    }
}

/// Returns the longest part of a text that JSON writes unchanged, except for `\u`: letters, digits,
/// and spaces between them. Other characters have short forms, such as `\n` and `\/`. In a list of
/// parts, each with a field `"text"`, the run may be split over two.
fn plain_run(text: &str) -> &str {
    let is_escaped = |c: char| !(c.is_alphanumeric() || c == ' ');
    let runs = text.split(is_escaped);
    runs.max_by_key(|run| run.len()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finds(pattern: &Pattern, raw: &str) -> Option<Range<usize>> {
        let needle = Needle::new(pattern).unwrap();
        needle.find(raw.as_bytes()).map(|found| found.matched)
    }

    #[test]
    fn a_text_is_found_however_its_line_writes_it() {
        let pattern = |text: &str, ignores_case| Pattern {
            text: text.into(),
            ignores_case,
            ..Pattern::default()
        };
        for (content, text, at) in [
            (r"a/b \u003cok\u003e", "<ok>", Some(4..8)),
            (r"a\/b", "a/b", Some(0..3)),
            (r#"say \"hi\" now"#, "\"hi\"", Some(4..8)),
            (r"\u0068\u0069 there", "hi", Some(0..2)),
            ("hi", "i", Some(1..2)),
            ("Straße", "straße", None),
            ("line\\nbreak", "e\nb", Some(3..6)),
            ("x", "", Some(0..0)),
            ("x", "role", None),
        ] {
            let line = format!(r#"{{"role":"user","content":"{content}"}}"#);
            assert_eq!(finds(&pattern(text, false), &line), at, "{content}");
        }
        let line = "{\"role\":\"user\",\"content\":\"STRA\u{1e9e}E in \u{212a}\\u212a\"}";
        assert_eq!(finds(&pattern("straße", true), line), Some(0..8));
        assert_eq!(finds(&pattern("kk", true), line), Some(12..18));
        assert_eq!(finds(&pattern("<", true), line), None);
    }

    /// A line that is skipped unread must not match.
    #[test]
    fn a_line_that_matches_is_read() {
        let pattern = |text: &str, is_regex, ignores_case| Pattern {
            text: text.into(),
            is_regex,
            ignores_case,
            ..Pattern::default()
        };
        let plain = "Kiss the cat 09 azAZ";
        let characters: Vec<char> = plain.chars().collect();
        let numbered = |upper: bool, at: usize| {
            let number = format!("{:04x}", characters[at] as u32);
            let number = if upper { number.to_uppercase() } else { number };
            let (before, after) = (&plain[..at], &plain[at + 1..]);
            format!(r#"{{"role":"user","content":"{before}\u{number}{after}"}}"#)
        };
        for at in 0..characters.len() {
            for line in [numbered(false, at), numbered(true, at)] {
                for (text, is_regex) in [
                    (plain, false),
                    ("Kiss [a-z]+ cat 09 azAZ$", true),
                    ("^(Kiss the){1,2} (cat|dog) 0?9 az", true),
                    ("(?i)kiss THE", true),
                    ("[Kk]iss|cat", true),
                ] {
                    for ignores_case in [false, true] {
                        let found = finds(&pattern(text, is_regex, ignores_case), &line);
                        assert!(found.is_some(), "{text} in {line}");
                    }
                }
            }
        }
        let folded = r#"{"role":"user","content":"\u212ai\u017fs the cat"}"#;
        assert!(finds(&pattern("kiss", false, true), folded).is_some());
        assert!(finds(&pattern("kis+ the", true, true), folded).is_some());
    }

    #[test]
    fn of_a_regular_expression_what_all_matches_have_is_looked_for() {
        for (pattern, run) in [
            ("Xylo[a-z]+ inv", "Xylo"),
            ("[a-z]+phone inv", "phone inv"),
            ("(?:late|first) [nN]eedle", "eedle"),
            ("(needle)?hay", "hay"),
            ("needle*", "needl"),
            ("(?i)needle", ""),
            ("a|b", ""),
            (r"\d+", ""),
            (r"say\s\x22hi there", "hi there"),
        ] {
            assert_eq!(required_run(pattern), run, "{pattern}");
        }
    }

    #[test]
    fn a_text_is_found_across_the_parts_of_a_content() {
        let parts = r#"{"role":"user","content":[{"type":"text","text":"in"},{"type":"text","text":"voice"}]}"#;
        let invoice = Pattern {
            text: "invoice".into(),
            ..Pattern::default()
        };
        assert_eq!(finds(&invoice, parts), Some(0..7));
    }

    #[test]
    fn tool_calls_are_looked_through_if_asked_however_they_are_written() {
        let call = |arguments: &str| {
            let message = Message::assistant("").with_tool_call("c", "get_weather", arguments);
            String::from_utf8(session_file::encode(&message, None)).unwrap()
        };
        let finds = |text: &str, line: &str| {
            let mut pattern = Pattern {
                text: text.into(),
                ..Pattern::default()
            };
            assert!(
                Needle::new(&pattern)
                    .unwrap()
                    .find(line.as_bytes())
                    .is_none()
            );
            pattern.in_calls = true;
            let found = Needle::new(&pattern).unwrap().find(line.as_bytes());
            found.map(|found| (found.found_in, found.matched))
        };
        let arguments = FoundIn::ToolArguments(0);
        for (written, text, at) in [
            (r#"{"city":"Осло"}"#, "Осло", 9..17),
            (r#"{"city":"\u041e\u0441\u043b\u043e"}"#, "Осло", 9..17),
            (r#"{"city":"\ud83d\ude00"}"#, "\u{1f600}", 9..13),
            (r#"{"a":"\\u0041 B"}"#, "B", 14..15),
            (r"{\u0041 \u00", "A", 1..2),
            (r"\", "\\", 0..1),
            (r#"{"q":"say \"hi\""}"#, "say \\\"hi", 6..14),
        ] {
            let found = finds(text, &call(written));
            assert_eq!(found, Some((arguments, at)), "{written}");
        }
        let named = finds("weather", &call("{}"));
        assert_eq!(named, Some((FoundIn::ToolName(0), 4..11)));
        assert_eq!(finds("function", &call("{}")), None);
    }

    #[test]
    fn what_is_no_message_is_not_found() {
        let any = Pattern::default();
        for line in ["", "{", r#"{"role":"_usage","token_count":1}"#, "{}x"] {
            assert_eq!(finds(&any, line), None, "{line}");
        }
    }
}
