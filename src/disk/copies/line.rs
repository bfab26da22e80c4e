//! The lines of the file of copies.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use sessionlog_core::session_file;

use super::{Ends, SidecarCopy};

/// The beginning of every line, before the checksum of the rest.
const CHECK: &[u8] = b"{\"check\":\"";

/// Follows the checksum in the line of a session with sidecar fields that PicoClaw does not
/// know: such lines are found without being parsed.
const TAGGED: &[u8] = b"\",\"tagged\":true,";

/// The contents of a line.
#[derive(Debug)]
pub(super) struct CopyLine<'a> {
    pub(super) stem: Cow<'a, str>,
    /// `None` if the session was deleted.
    pub(super) said: Option<SidecarCopy>,
}

#[derive(Deserialize)]
struct CopyFields<'a> {
    #[serde(borrow)]
    stem: Cow<'a, str>,
    #[serde(default)]
    length: u64,
    head: Option<u32>,
    tail: Option<u32>,
    #[serde(borrow)]
    sidecar: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Header {
    live: u64,
}

/// The line of a session that has a sidecar.
pub(super) fn encode(stem: &str, said: &SidecarCopy) -> Vec<u8> {
    let ends = said.ends.map_or_else(String::new, |Ends { head, tail }| {
        format!("\"head\":{head},\"tail\":{tail},")
    });
    let (stem, length) = (Value::from(stem), said.len);
    let tagged = if said.meta.tags.is_empty() {
        ""
    } else {
        "\"tagged\":true,"
    };
    let mut fields =
        format!("{tagged}\"stem\":{stem},\"length\":{length},{ends}\"sidecar\":").into_bytes();
    fields.extend(session_file::encode_flat_sidecar(&said.meta));
    checked(&fields)
}

/// The line of a session that was deleted.
pub(super) fn encode_gone(stem: &str) -> Vec<u8> {
    checked(format!("\"stem\":{}", Value::from(stem)).as_bytes())
}

/// The first line: the number of bytes of lines that follow when the file is rewritten, all of them
/// needed.
pub(super) fn encode_header(live: u64) -> Vec<u8> {
    checked(format!("\"live\":{live}").as_bytes())
}

/// Decodes a line without its LF; `None` if it is damaged, or something else.
pub(super) fn decode(line: &[u8]) -> Option<CopyLine<'_>> {
    let fields: CopyFields<'_> = serde_json::from_slice(check(line)?).ok()?;
    let said = match fields.sidecar {
        Some(sidecar) => Some(SidecarCopy {
            meta: session_file::decode_sidecar(sidecar.get().as_bytes()).ok()?,
            len: fields.length,
            ends: fields
                .head
                .zip(fields.tail)
                .map(|(head, tail)| Ends { head, tail }),
        }),
        None => None,
    };
    let stem = fields.stem;
    Some(CopyLine { stem, said })
}

/// True if a line, provided that it is sound, is that of a sidecar with tags.
pub(super) fn is_tagged(line: &[u8]) -> bool {
    let rest = line.strip_prefix(CHECK).and_then(|rest| rest.get(8..));
    rest.is_some_and(|rest| rest.starts_with(TAGGED))
}

/// Reads the first line.
pub(super) fn decode_header(line: &[u8]) -> Option<u64> {
    let header: Header = serde_json::from_slice(check(line)?).ok()?;
    Some(header.live)
}

fn checked(fields: &[u8]) -> Vec<u8> {
    let mut rest = b"\",".to_vec();
    rest.extend_from_slice(fields);
    rest.push(b'}');
    let mut line = CHECK.to_vec();
    line.extend(format!("{:08x}", crc32fast::hash(&rest)).bytes());
    line.extend(rest);
    line.push(b'\n');
    line
}

/// The line, if its checksum is right. Otherwise a flipped digit of a `skip` would hide lines.
fn check(line: &[u8]) -> Option<&[u8]> {
    let (check, rest) = line.strip_prefix(CHECK)?.split_at_checked(8)?;
    let check = std::str::from_utf8(check).ok()?;
    let check = u32::from_str_radix(check, 16).ok()?;
    (crc32fast::hash(rest) == check).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sessionlog_core::session_file::SessionMeta;

    fn said() -> SidecarCopy {
        let scope = "{\n  \"a b\": [1, 2.50]\n}".to_owned();
        let mut meta = SessionMeta::empty("telegram:1");
        meta.summary = String::from("two\nlines, \"quoted\" \u{2028}");
        meta.skip = 7;
        meta.scope = Some(RawValue::from_string(scope).unwrap());
        meta.aliases = vec![String::from("other")];
        SidecarCopy {
            meta,
            len: 12,
            ends: Some(Ends { head: 1, tail: 2 }),
        }
    }

    #[test]
    fn a_copy_stands_in_one_line_and_reads_as_it_was_written() {
        let line = encode("a \"b\"", &said());
        let body = line.strip_suffix(b"\n").unwrap();
        assert!(!body.contains(&b'\n'));
        let read = decode(body).unwrap();
        assert_eq!(read.stem, "a \"b\"");
        let read = read.said.unwrap();
        assert_eq!((read.len, read.ends), (12, said().ends));
        assert_eq!(
            session_file::encode_sidecar(&read.meta),
            session_file::encode_sidecar(&said().meta)
        );
        assert!(serde_json::from_slice::<Value>(body).is_ok());
        let gone = encode_gone("a");
        assert!(decode(gone.trim_ascii_end()).unwrap().said.is_none());
        let header = encode_header(5);
        assert_eq!(decode_header(header.trim_ascii_end()), Some(5));
    }

    #[test]
    fn a_line_with_a_damaged_byte_says_nothing() {
        let line = encode("a", &said());
        let line = line.trim_ascii_end();
        for at in 0..line.len() {
            let mut damaged = line.to_vec();
            damaged[at] ^= 1;
            assert!(decode(&damaged).is_none(), "byte {at}");
            assert!(decode(&line[..at]).is_none(), "{at} bytes of it");
        }
    }
}
