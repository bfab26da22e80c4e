//! Encodes messages as lines and checks their sizes.

use crate::error::{Error, Oversized, Result, check_size};
use crate::session_file::{self, Message, TagChange};

/// Size limits of one change, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineLimits {
    /// One line, without its LF.
    pub line: usize,
    /// All lines together, each with its LF.
    pub batch: usize,
}

/// Appends messages to `out` as lines, each ended by LF, and returns their number. A message without
/// a time gets `now`; a transient one becomes no line. Calls `each` for every message that becomes
/// one, with the length of its line without LF. After an error `out` may hold some of the lines.
///
/// # Errors
/// [`Error::InvalidMessage`]; [`Error::MessageTooLarge`], with no messages in it.
pub fn encode<'a>(
    messages: &'a [Message],
    now: &str,
    limits: LineLimits,
    out: &mut Vec<u8>,
    mut each: impl FnMut(&'a Message, usize),
) -> Result<u32> {
    let (begin, mut count) = (out.len(), 0);
    for message in messages.iter().filter(|message| !message.is_transient()) {
        message.check_writable()?;
        let before = out.len();
        session_file::encode_onto(message, Some(now), out);
        let len = out.len() - before;
        check_size(Oversized::Message, len, limits.line)?;
        out.push(b'\n');
        check_size(Oversized::Batch, out.len() - begin, limits.batch)?;
        count += 1;
        each(message, len);
    }
    Ok(count)
}

/// Puts the messages of the caller into [`Error::MessageTooLarge`]; returns other errors unchanged.
#[must_use]
pub fn hand_back(mut error: Error, given: impl FnOnce() -> Vec<Message>) -> Error {
    if let Error::MessageTooLarge { messages, .. } = &mut error {
        *messages = given();
    }
    error
}

/// Returns the replacement of `old`. If `new` has no time, it takes the one of `old`.
///
/// # Errors
/// [`Error::InvalidMessage`] for a message of reasoning alone, which is not stored.
pub fn in_place_of(new: Message, old: &Message) -> Result<Message> {
    if new.is_transient() {
        return Err(Error::InvalidMessage {
            reason: "it is reasoning alone, which is not stored".into(),
        });
    }
    match (new.created_at(), old.created_at()) {
        (None, Some(time)) => new.with_created_at(time),
        _ => Ok(new),
    }
}

/// Refuses a summary of more than `limit` bytes.
///
/// # Errors
/// [`Error::MessageTooLarge`], with no messages in it.
pub fn check_summary(summary: &str, limit: usize) -> Result<()> {
    check_size(Oversized::Summary, summary.len(), limit)
}

/// Refuses tags of more than `limit` bytes.
///
/// # Errors
/// [`Error::MessageTooLarge`], with no messages in it.
pub fn check_tags(tags: &TagChange, limit: usize) -> Result<()> {
    check_size(Oversized::Sidecar, tags.size(), limit)
}

/// Encodes a system prompt as a line, without LF. Refuses a line of more than `limit` bytes.
///
/// # Errors
/// [`Error::MessageTooLarge`], with no messages in it.
pub fn prompt(prompt: &str, limit: usize) -> Result<String> {
    let line = session_file::encode_system_prompt(prompt);
    check_size(Oversized::Prompt, line.len(), limit)?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::{LineLimits, encode, hand_back, in_place_of};
    use crate::error::{Error, Oversized};
    use crate::session_file::Message;

    const NOW: &str = "2026-01-02T03:04:05Z";

    fn encoded(messages: &[Message], line: usize, batch: usize) -> Result<(String, u32), Error> {
        let mut out = Vec::new();
        let limits = LineLimits { line, batch };
        let count = encode(messages, NOW, limits, &mut out, |_, _| {})?;
        Ok((String::from_utf8(out).unwrap(), count))
    }

    #[test]
    fn a_transient_message_becomes_no_line_and_one_without_a_time_gets_it() {
        let thought =
            serde_json::from_str(r#"{"role":"assistant","content":"","reasoning_content":"hm"}"#);
        let messages = [thought.unwrap(), Message::user("hi")];
        let (lines, count) = encoded(&messages, 100, 100).unwrap();
        assert_eq!(count, 1);
        assert!(lines.contains(NOW) && lines.ends_with("}\n"), "{lines}");
    }

    #[test]
    fn a_line_and_a_batch_have_their_own_limits_and_the_messages_come_back() {
        let messages = vec![Message::user("hi"), Message::user("ho")];
        let (lines, _) = encoded(&messages, 1_000, 1_000).unwrap();
        let each = lines.len() / 2;
        assert!(encoded(&messages, each - 1, 2 * each).is_ok());
        for (line, batch, kind) in [
            (each - 2, 2 * each, Oversized::Message),
            (each - 1, 2 * each - 1, Oversized::Batch),
        ] {
            let error = encoded(&messages, line, batch).unwrap_err();
            let Error::MessageTooLarge { what, messages, .. } =
                hand_back(error, || messages.clone())
            else {
                panic!("of its size");
            };
            assert_eq!((what, messages.len()), (kind, 2));
        }
    }

    #[test]
    fn a_message_in_the_place_of_another_has_its_time_unless_it_has_one() {
        let old = Message::user("old").with_created_at(NOW).unwrap();
        let new = in_place_of(Message::user("new"), &old).unwrap();
        assert_eq!(new.created_at(), Some(NOW));
        let dated = Message::user("new").with_created_at("2027-01-01T00:00:00Z");
        let dated = in_place_of(dated.unwrap(), &old).unwrap();
        assert_eq!(dated.created_at(), Some("2027-01-01T00:00:00Z"));
    }
}
