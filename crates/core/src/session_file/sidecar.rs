//! The sidecar `<stem>.meta.json`: PicoClaw's metadata of a session, apart from its lines.

use std::borrow::Cow;

use memchr::{memchr, memmem};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::value::RawValue;
use time::OffsetDateTime;

use super::buffered;
use super::encode::{write_html_safe, write_string};
use super::layout::{flatten, is_spread, laid_out_len, lay_out};
use super::nested::{Slots, string};
use super::raw::tidy;
use super::scan::{LineFault, ScanResult, Scanner};
use super::tags::SessionTags;
use super::text::{known_field, to_text};
use super::timestamp;
use crate::stamp::{self, ZERO_TIME};

const FIELDS: [&str; 8] = [
    "key",
    "summary",
    "skip",
    "count",
    "created_at",
    "updated_at",
    "scope",
    "aliases",
];

/// The metadata of a session. Serialises as the sidecar. Its `Debug` shows all of it, including the
/// summary: log its key instead.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SessionMeta {
    /// The session's key.
    pub key: String,
    /// The summary of truncated messages; `""` if there is none.
    pub summary: String,
    /// The number of raw non-empty lines at the start of the file that are truncated.
    pub skip: i64,
    /// Advisory number of lines, as PicoClaw keeps it.
    pub count: i64,
    /// The time when the session was first written (RFC 3339); the year 1 if never.
    pub created_at: String,
    /// The time when it last changed (RFC 3339); the year 1 if never.
    pub updated_at: String,
    /// The session's scope, as JSON text with numbers unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<Box<RawValue>>,
    /// Other keys of this session.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Its title, labels and pin, and unknown fields.
    #[serde(flatten)]
    pub tags: SessionTags,
}

/// As `Store` reads a sidecar: unknown fields are kept.
impl<'de> Deserialize<'de> for SessionMeta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = buffered::text(deserializer)?;
        decode(text.get().as_bytes()).map_err(de::Error::custom)
    }
}

impl SessionMeta {
    /// The time when the session was first written; `None` if never, or if it cannot be parsed.
    #[must_use]
    pub fn created(&self) -> Option<OffsetDateTime> {
        stamp::parse(&self.created_at)
    }

    /// The time when it last changed; `None` if never, or if it cannot be parsed.
    #[must_use]
    pub fn updated(&self) -> Option<OffsetDateTime> {
        stamp::parse(&self.updated_at)
    }

    /// The time when it last changed, in nanoseconds since 1970; long ago if it cannot be parsed.
    #[doc(hidden)]
    #[must_use]
    pub fn updated_nanos(&self) -> i64 {
        stamp::parse_nanos(&self.updated_at).unwrap_or(i64::MIN)
    }

    /// The metadata of a session of which only the key is known.
    #[must_use]
    pub fn empty(key: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            summary: String::new(),
            skip: 0,
            count: 0,
            created_at: ZERO_TIME.to_owned(),
            updated_at: ZERO_TIME.to_owned(),
            scope: None,
            aliases: Vec::new(),
            tags: SessionTags::default(),
        }
    }
}

/// The text before the count.
const COUNT: &[u8] = b"\n  \"count\": ";

/// The bytes of the count, including blanks after its digits, which leave room to overwrite it in
/// place. Otherwise every tenth, hundredth and thousandth line would replace the file.
const COUNT_WIDTH: usize = 8;

/// The sidecar's bytes, as Go's `json.MarshalIndent` writes them, plus blanks after the count. On
/// one line if indenting would make it large.
#[must_use]
pub fn encode(meta: &SessionMeta) -> Vec<u8> {
    let mut bytes = lay_out(&fields(meta));
    if let Some(before) = memmem::find(&bytes, COUNT) {
        let end = before + COUNT.len() + meta.count.to_string().len();
        bytes.splice(end..end, std::iter::repeat_n(b' ', blanks(meta)));
    }
    bytes
}

fn blanks(meta: &SessionMeta) -> usize {
    COUNT_WIDTH.saturating_sub(meta.count.to_string().len())
}

/// True if a sidecar has the bytes that [`encode`] writes, or that Go writes.
#[must_use]
pub fn is_laid_out(bytes: &[u8], meta: &SessionMeta) -> bool {
    bytes == encode(meta) || bytes == lay_out(&fields(meta))
}

/// True if a sidecar has the bytes that only [`encode`] writes, and no other program.
#[must_use]
pub fn is_own(bytes: &[u8], meta: &SessionMeta) -> bool {
    bytes == encode(meta) && bytes != lay_out(&fields(meta))
}

/// True if every reader of a sidecar that is being overwritten sees a valid one, in whatever order
/// the bytes arrive. Digits of the count, and of the time of last change without its date and hour,
/// may come from both, and the count may have one digit more or less; nothing else may differ.
fn any_mixture_decodes(old: &[u8], new: &[u8]) -> bool {
    let field = |name: &[u8], from, end| {
        let begin = memmem::find(new, name)? + name.len() + from;
        Some(begin..begin + memchr(end, new.get(begin..)?)?)
    };
    let count = field(COUNT, 0, b',').unwrap_or_default();
    let change = field(b"\n  \"updated_at\": \"", "2026-01-02T03:".len(), b'"');
    let change = change.unwrap_or_default();
    let mut longer = 0;
    let mut both = old.iter().zip(new).enumerate();
    let fits = both.all(|(at, (old, new))| {
        let digits = old.is_ascii_digit() && new.is_ascii_digit();
        // If two blanks stood between digits, one could stay, and a number contains no blank.
        let grown = old.is_ascii_digit() && *new == b' ' || *old == b' ' && new.is_ascii_digit();
        longer += u32::from(grown);
        let is_free = count.contains(&at) && (digits || grown && longer == 1)
            || change.contains(&at) && digits;
        old == new || is_free
    });
    // A number that begins with zero has no other digit.
    let is_zero = |bytes: &[u8]| bytes.get(count.start) == Some(&b'0');
    old.len() == new.len() && fits && !(longer > 0 && (is_zero(old) || is_zero(new)))
}

/// The texts to write over `old`, one after the other, before `new`, so that every reader sees a
/// valid sidecar. Mostly none, but a count that grows by several digits gets them one by one.
/// `None` if `old` must not be overwritten.
pub fn on_the_way(old: &[u8], new: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    loop {
        let last = all.last().map_or(old, Vec::as_slice);
        if any_mixture_decodes(last, new) {
            return Some(all);
        }
        let longer = with_a_digit_more(last, new)?;
        if !any_mixture_decodes(last, &longer) {
            return None;
        }
        all.push(longer);
    }
}

/// `old` with one more digit of the count of `new`, which has at least two more.
fn with_a_digit_more(old: &[u8], new: &[u8]) -> Option<Vec<u8>> {
    let at = memmem::find(new, COUNT)? + COUNT.len();
    let digits = |bytes: &[u8]| {
        bytes
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count()
    };
    let has = digits(old.get(at..)?);
    let end = at + has + 1;
    let grows = old.len() == new.len() && digits(&new[at..]) >= has + 2;
    grows.then(|| [&old[..at], &new[at..end], &old[end..]].concat())
}

/// True if `count` is written [on the way](on_the_way) from `old` to `new`.
#[must_use]
pub fn is_on_the_way(old: i64, count: i64, new: i64) -> bool {
    let [old, count, new] = [old, count, new].map(|count| count.to_string());
    old.len() < count.len() && count.len() < new.len() && new.starts_with(&count)
}

/// The length of the result of [`encode`].
#[must_use]
pub fn encoded_len(meta: &SessionMeta) -> usize {
    let fields = fields(meta);
    let blanks = if is_spread(&fields) { 0 } else { blanks(meta) };
    laid_out_len(&fields) + blanks
}

/// The same without line breaks, to be part of a line.
#[must_use]
pub fn encode_flat(meta: &SessionMeta) -> Vec<u8> {
    flatten(&fields(meta))
}

fn fields(meta: &SessionMeta) -> Vec<u8> {
    let mut flat = Vec::with_capacity(256 + meta.summary.len());
    let mut field = |name: &str, write: &dyn Fn(&mut Vec<u8>)| {
        flat.push(if flat.is_empty() { b'{' } else { b',' });
        write_string(name, &mut flat);
        flat.push(b':');
        write(&mut flat);
    };
    field("key", &|out| write_string(&meta.key, out));
    field("summary", &|out| write_string(&meta.summary, out));
    field("skip", &|out| out.extend(meta.skip.to_string().bytes()));
    field("count", &|out| out.extend(meta.count.to_string().bytes()));
    field("created_at", &|out| write_string(&meta.created_at, out));
    field("updated_at", &|out| write_string(&meta.updated_at, out));
    if let Some(scope) = &meta.scope {
        field("scope", &|out| write_html_safe(scope.get().as_bytes(), out));
    }
    if !meta.aliases.is_empty() {
        field("aliases", &|out| write_list(&meta.aliases, out));
    }
    meta.tags.each(&mut field);
    flat.push(b'}');
    flat
}

/// Reads a sidecar as Go's `json.Unmarshal` does: names in any case, `null` for a missing value,
/// unknown fields kept, white space around it allowed. But any depth of nesting is accepted: if a
/// sidecar were refused for its scope, `skip` would be lost with it, and truncated messages would
/// show again.
///
/// # Errors
///
/// The problem, if Go refuses the sidecar.
pub fn decode(bytes: &[u8]) -> Result<SessionMeta, String> {
    let text = to_text(bytes);
    read(&text).map_err(|fault| fault.reason().to_owned())
}

fn read(text: &str) -> ScanResult<SessionMeta> {
    let mut scanner = Scanner::of_any_depth(text);
    let mut meta = SessionMeta::empty("");
    let mut aliases = Slots::default();
    if !scanner.null()? {
        scanner.object(|scanner, name| read_field(scanner, &name, &mut meta, &mut aliases))?;
        meta.tags.join_twins();
    }
    scanner.finish()?;
    meta.aliases = aliases.into_vec();
    Ok(meta)
}

fn read_field(
    scanner: &mut Scanner<'_>,
    name: &str,
    meta: &mut SessionMeta,
    aliases: &mut Slots<String>,
) -> ScanResult<()> {
    match known_field(name, &FIELDS) {
        "key" => string(scanner, &mut meta.key),
        "summary" => string(scanner, &mut meta.summary),
        "skip" => integer(scanner, &mut meta.skip),
        "count" => integer(scanner, &mut meta.count),
        "created_at" => time(scanner, &mut meta.created_at),
        "updated_at" => time(scanner, &mut meta.updated_at),
        "scope" => scope(scanner, &mut meta.scope),
        "aliases" => aliases.read(scanner, string),
        _ => meta.tags.read(name, scanner),
    }
}

fn integer(scanner: &mut Scanner<'_>, into: &mut i64) -> ScanResult<()> {
    if scanner.null()? {
        return Ok(());
    }
    let number = scanner.value()?.parse();
    *into = number.map_err(|_| LineFault::Shape("skip or count is not an integer"))?;
    Ok(())
}

fn time(scanner: &mut Scanner<'_>, into: &mut String) -> ScanResult<()> {
    if let Some(text) = scanner.text()? {
        let time = timestamp::canonical(text.body());
        *into = time
            .map(Cow::into_owned)
            .ok_or(LineFault::Shape("created_at or updated_at is not a time"))?;
    }
    Ok(())
}

/// A `null` is a value here: Go keeps whatever text stands there.
fn scope(scanner: &mut Scanner<'_>, into: &mut Option<Box<RawValue>>) -> ScanResult<()> {
    let raw = RawValue::from_string(tidy(scanner.value()?));
    *into = Some(raw.map_err(|_| LineFault::Shape("scope cannot be kept"))?);
    Ok(())
}

pub(super) fn write_list(texts: &[String], out: &mut Vec<u8>) {
    for (index, text) in texts.iter().enumerate() {
        out.push(if index == 0 { b'[' } else { b',' });
        write_string(text, out);
    }
    out.push(b']');
}
