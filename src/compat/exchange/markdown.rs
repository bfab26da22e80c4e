//! Transcripts for people.

use std::fmt::Write as _;

use crate::Message;

pub(super) fn write(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        add(&mut text, message);
    }
    text
}

fn add(text: &mut String, message: &Message) {
    if !text.is_empty() {
        text.push('\n');
    }
    let when = message.created_at().map(|when| format!(" · {when}"));
    let when = when.unwrap_or_default();
    let id = message.tool_call_id();
    let id = if id.is_empty() {
        String::new()
    } else {
        format!(" `{id}`")
    };
    let _ = writeln!(text, "## {}{id}{when}", message.role());
    let said = message.text();
    if !said.is_empty() {
        let _ = writeln!(text, "\n{}", quoted(&said));
    }
    for call in message.tool_calls() {
        let function = call.function.clone().unwrap_or_default();
        let _ = writeln!(text, "\nCalls `{}` (`{}`):", function.name, call.id);
        let fence = fence(&function.arguments);
        let _ = writeln!(text, "\n{fence}json\n{}\n{fence}", function.arguments);
    }
    for reference in message.media() {
        let _ = writeln!(text, "\nMedia: `{reference}`");
    }
    for attachment in message.attachments() {
        let name = [&attachment.filename, &attachment.reference, &attachment.url];
        let name = name.into_iter().find(|name| !name.is_empty());
        let name = name.map_or("", String::as_str);
        let _ = writeln!(text, "\nAttachment: `{name}`");
    }
}

/// A quotation ends with its lines, whatever headings or open fences are said in it.
fn quoted(said: &str) -> String {
    let lines = said.split(['\n', '\r']).map(|line| format!("> {line}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// More backticks than the text has in a row.
fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(3.max(longest + 1))
}
