//! Rules of kimi-cli that programs of its users depend on, as functions.
//!
//! [`Context`](crate::Context) keeps a conversation by these rules. They are public for programs
//! that read, fork or budget one without it.

use sessionlog_core::session_file::kimi::{is_python_space, only_text, role_and_content};

use crate::Message;
use crate::compat::context_file;

/// The estimated tokens of `messages`: the characters of their texts, divided by four. Reasoning,
/// media and tool calls count as 0.
///
/// ```
/// use sessionlog::{Message, kimi};
///
/// assert_eq!(kimi::estimate_tokens(&[Message::user("twelve chars")]), 3);
/// ```
#[must_use]
pub fn estimate_tokens(messages: &[Message]) -> i64 {
    let characters = messages
        .iter()
        .map(|message| message.text().chars().count());
    i64::try_from(characters.sum::<usize>() / 4).unwrap_or(i64::MAX)
}

/// Returns true if a conversation of `token_count` tokens is due to be compacted: it reaches
/// `trigger_ratio` of `max_context_size`, or leaves less than `reserved_context_size` of it, all in
/// tokens.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    reason = "the rule is stated in floating point, and sizes are far below 2^53"
)]
pub fn should_auto_compact(
    token_count: i64,
    max_context_size: i64,
    trigger_ratio: f64,
    reserved_context_size: i64,
) -> bool {
    token_count as f64 >= max_context_size as f64 * trigger_ratio
        || token_count.saturating_add(reserved_context_size) >= max_context_size
}

/// The name under which the file `file_name` is set aside next, beside existing names:
/// `context_3.jsonl` for `context.jsonl` if the highest number is 2.
#[must_use]
pub fn next_backup_name<'a>(
    file_name: &str,
    existing: impl IntoIterator<Item = &'a str>,
) -> String {
    context_file::next_rotation(file_name, existing.into_iter())
}

/// The lines of a context file up to the end of user turn `turn`, counted from 0, without white
/// space around them: the beginning of a fork at that turn. `None` takes all lines, including those
/// that are not records. The messages that [`checkpoint`](crate::Context::checkpoint) adds do not
/// count as turns.
#[must_use]
pub fn lines_through_turn(file: &[u8], turn: Option<i64>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut current = -1;
    for line in context_file::lines(file) {
        let line = line.trim_matches(is_python_space);
        if line.is_empty() {
            continue;
        }
        if let Some(turn) = turn {
            let Some((role, content)) = role_and_content(line) else {
                continue;
            };
            if role.as_deref() == Some("user") && !content.is_some_and(tells_of_checkpoint) {
                current += 1;
            }
            if current > turn {
                break;
            }
        }
        kept.push(line.to_owned());
    }
    kept
}

/// True if a content, as JSON text, is a checkpoint's message to the model.
fn tells_of_checkpoint(content: &str) -> bool {
    let Some(text) = only_text(content) else {
        return false;
    };
    let id = text
        .trim_matches(is_python_space)
        .strip_prefix("<system>CHECKPOINT ")
        .and_then(|rest| rest.strip_suffix("</system>"));
    id.is_some_and(|id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()))
}
