//! Transcripts for people.

use std::fmt::Write as _;

use super::export::Export;
use super::part::{Part, PartKind};
use crate::session_file::{Message, ToolCall};

/// The messages of the session, after `first`, which are not in its history.
pub(super) fn write(title: &str, first: &[Message], messages: &[Message]) -> Export {
    let mut export = Export::default();
    let title: Vec<&str> = title.split_whitespace().collect();
    if !title.is_empty() {
        export.text = format!("# {}\n", title.join(" "));
    }
    for message in first {
        add(None, message, &mut export);
    }
    for (at, message) in messages.iter().enumerate() {
        add(Some(at), message, &mut export);
    }
    export
}

fn add(at: Option<usize>, message: &Message, export: &mut Export) {
    let text = &mut export.text;
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
    let parts = message.own_parts();
    // Media and attachments have lines of their own.
    let listed = message.media().len() + message.attachments().len();
    for part in &parts[..parts.len() - listed] {
        add_part(at, part, export);
    }
    let text = &mut export.text;
    for call in message.tool_calls() {
        add_call(call, text);
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

/// A part of a content that is no text.
fn add_part(at: Option<usize>, part: &Part<'_>, export: &mut Export) {
    match part.kind() {
        PartKind::Text => {}
        PartKind::Reasoning => {
            export.leave_out(at, "reasoning: the transcript is of what was said");
        }
        PartKind::Refusal => {
            let _ = writeln!(export.text, "\nRefuses:\n\n{}", quoted(part.text()));
        }
        PartKind::Image | PartKind::Audio | PartKind::Video | PartKind::File => {
            if part.text().starts_with("data:") {
                export.leave_out(at, "data of a medium: a note stands for it");
            }
            let _ = writeln!(export.text, "\n{}", quoted(&part.note()));
        }
        _ => {
            let fence = fence(part.text());
            let _ = writeln!(export.text, "\n{fence}json\n{}\n{fence}", part.text());
        }
    }
}

fn add_call(call: &ToolCall, text: &mut String) {
    let (name, input, kind) = match &call.function {
        Some(function) => (function.name.clone(), function.arguments.clone(), "json"),
        None => match call.custom() {
            Some((name, input)) => (name, input, ""),
            None => Default::default(),
        },
    };
    let _ = writeln!(text, "\nCalls `{name}` (`{}`):", call.id);
    let fence = fence(&input);
    let _ = writeln!(text, "\n{fence}{kind}\n{input}\n{fence}");
}

/// The text as a quotation: it ends with its lines, whatever headings or open fences it has.
fn quoted(said: &str) -> String {
    let lines = said.split(['\n', '\r']).map(|line| format!("> {line}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// A fence with more backticks than the text has in a row.
fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(3.max(longest + 1))
}
