//! Messages as a person reads them.

use anstyle::{AnsiColor, Style};
use sessionlog::{Message, ToolCall};

use crate::failure::Result;
use crate::output::{BAD, DIM, Output};
use crate::{safe, times};

/// Number of columns shown of folded text.
const FOLDED: usize = 100;

/// The display of messages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Transcript {
    /// True if tool calls, their results and reasoning are shown whole.
    pub(crate) full: bool,
}

impl Transcript {
    /// Writes a message. `label` is its session, where several are shown, or its number.
    pub(crate) fn write(
        self,
        out: &mut Output,
        label: Option<&str>,
        message: &Message,
    ) -> Result<()> {
        head(out, label, message)?;
        let text = message.text();
        if message.role() == "tool" && !self.full {
            folded(out, "  ", &text)?;
        } else {
            indented(out, &text)?;
        }
        self.reasoning(out, message)?;
        for part in message.system_parts() {
            folded(out, &format!("  [{}] ", safe::line(&part.kind)), &part.text)?;
        }
        for call in message.tool_calls() {
            self.call(out, call)?;
        }
        media(out, message)?;
        out.line("")
    }

    /// Marks the place of damaged lines.
    pub(crate) fn damaged(out: &mut Output, session: Option<&str>, lines: usize) -> Result<()> {
        let mut mark = out.paint(BAD, &crate::output::count(lines, "damaged line"));
        if let Some(session) = session {
            mark.push_str("  ");
            mark.push_str(&out.paint(DIM, &safe::line(session)));
        }
        out.line(&mark)?;
        out.line("")
    }

    fn reasoning(self, out: &mut Output, message: &Message) -> Result<()> {
        let reasoning = message.reasoning();
        if reasoning.is_empty() {
            return Ok(());
        }
        if self.full {
            out.line(&out.paint(DIM, "  reasoning:"))?;
            return indented(out, reasoning);
        }
        folded(out, "  reasoning: ", reasoning)
    }

    fn call(self, out: &mut Output, call: &ToolCall) -> Result<()> {
        let Some(function) = &call.function else {
            return folded(out, "  calls ", &call.id);
        };
        let name = safe::line(&function.name);
        if !self.full {
            let arguments = safe::short(&function.arguments, FOLDED);
            return out.line(&out.paint(CALL, &format!("  calls {name}({arguments})")));
        }
        let id = safe::line(&call.id);
        out.line(&out.paint(CALL, &format!("  calls {name}  {id}")))?;
        let pretty = serde_json::from_str::<serde_json::Value>(&function.arguments);
        let pretty = pretty.and_then(|value| serde_json::to_string_pretty(&value));
        indented(out, &pretty.unwrap_or_else(|_| function.arguments.clone()))
    }
}

fn head(out: &mut Output, label: Option<&str>, message: &Message) -> Result<()> {
    let role = message.role();
    let mut head = out.paint(style_of(role), &safe::line(role));
    let mut say = |what: String| {
        head.push_str("  ");
        head.push_str(&out.paint(DIM, &what));
    };
    if let Some(label) = label {
        say(safe::line(label).into_owned());
    }
    if let Some(time) = message.created_at() {
        say(times::shown(time));
    }
    if !message.model_name().is_empty() {
        say(safe::line(message.model_name()).into_owned());
    }
    if !message.tool_call_id().is_empty() {
        say(format!(
            "answers {}",
            safe::short(message.tool_call_id(), 40)
        ));
    }
    out.line(&head)
}

const CALL: Style = AnsiColor::Yellow.on_default();

fn style_of(role: &str) -> Style {
    let colour = match role {
        "user" => AnsiColor::Green,
        "assistant" => AnsiColor::Cyan,
        "tool" => AnsiColor::Yellow,
        "system" => AnsiColor::Magenta,
        _ => AnsiColor::Blue,
    };
    colour.on_default().bold()
}

fn indented(out: &mut Output, text: &str) -> Result<()> {
    let text = safe::block(text);
    for line in text.lines() {
        out.line(&format!("  {line}"))?;
    }
    Ok(())
}

/// Writes the beginning of a text on one line, and the amount of the rest.
fn folded(out: &mut Output, before: &str, text: &str) -> Result<()> {
    let short = safe::short(text, FOLDED);
    let more = if short.ends_with('…') {
        format!(
            " ({} lines, {})",
            text.lines().count(),
            crate::output::bytes(text.len() as u64)
        )
    } else {
        String::new()
    };
    out.line(&out.paint(DIM, &format!("{before}{short}{more}")))
}

fn media(out: &mut Output, message: &Message) -> Result<()> {
    for medium in message.media() {
        folded(out, "  medium: ", medium)?;
    }
    for file in message.attachments() {
        let known = [
            &file.filename,
            &file.content_type,
            &file.reference,
            &file.url,
        ];
        let known = known.into_iter().filter(|text| !text.is_empty());
        let known: Vec<&str> = known.map(String::as_str).collect();
        let kind = safe::line(&file.kind).into_owned();
        folded(out, &format!("  attached {kind}: "), &known.join(", "))?;
    }
    if let Some(parts) = message.content_parts() {
        for kind in other_parts(parts) {
            out.line(&out.paint(DIM, &format!("  [{}]", safe::short(&kind, 40))))?;
        }
    }
    Ok(())
}

/// Returns the types of a content's parts that are no texts.
fn other_parts(parts: &str) -> Vec<String> {
    let parts: Vec<serde_json::Value> = serde_json::from_str(parts).unwrap_or_default();
    let kinds = parts.iter().filter_map(|part| part.get("type")?.as_str());
    kinds
        .filter(|kind| *kind != "text")
        .map(str::to_owned)
        .collect()
}
