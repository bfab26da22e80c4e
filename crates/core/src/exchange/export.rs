//! An exported conversation, and the list of things left out.

use std::fmt;
use std::ops::Deref;

use super::format::Format;
use crate::error::{Error, Result};

/// The shape of an export, and the treatment of things that the shape does not take as they are. A
/// [`Format`] alone converts to this with the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it does nothing until it is given to StoreHandle::export"]
pub struct ExportOptions {
    pub(super) format: Format,
    pub(super) unpaired: Unpaired,
    pub(super) opening: Opening,
}

/// The treatment of a tool's result without its call or not directly after it, of a call without a
/// result, and of duplicates of either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unpaired {
    /// Results go directly after their calls, and messages in between follow them. Calls and
    /// results without their other half are left out, and so are duplicates. The rest of a message
    /// with such calls stays, if it is not empty.
    #[default]
    Drop,
    /// As [`Drop`](Self::Drop), but a call without a result gets the result `[no result]`. If there
    /// is no room for these, they exceed the budget: a dozen tokens each.
    Answer,
    /// Everything stays as and where it is.
    Keep,
    /// The window or export is refused with [`Error::ToolCallUnpaired`].
    Error,
}

/// The first message of an export to Anthropic or Gemini if the assistant spoke first; both require
/// that the user begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Opening {
    /// A user message that says so comes before the assistant's. An import of the same shape
    /// removes it.
    #[default]
    Placeholder,
    /// The first message of the user begins: earlier ones are left out.
    User,
}

impl ExportOptions {
    /// This shape, with the defaults.
    pub fn new(format: Format) -> Self {
        Self {
            format,
            unpaired: Unpaired::default(),
            opening: Opening::default(),
        }
    }

    /// Refuses a shape that can only be imported.
    ///
    /// # Errors
    /// `Unsupported`.
    pub(super) fn check(self) -> Result<()> {
        use Format::{
            ClaudeCode, Codex, GeminiCli, KimiCli, KimiCode, LangChain, OpenClaw, Picoclaw,
        };
        match self.format {
            ClaudeCode | Codex | GeminiCli | KimiCli | KimiCode | LangChain | OpenClaw
            | Picoclaw => Err(Error::Unsupported {
                verb: "export in a shape that is only imported",
            }),
            _ => Ok(()),
        }
    }

    /// The shape.
    #[doc(hidden)]
    #[must_use]
    pub fn format(self) -> Format {
        self.format
    }

    /// Sets the treatment of tool calls and results without their other half, and of results that
    /// do not stand directly after their calls. Default: [`Unpaired::Drop`].
    pub fn unpaired(mut self, unpaired: Unpaired) -> Self {
        self.unpaired = unpaired;
        self
    }

    /// Sets the beginning of a conversation in which the assistant spoke first. Default:
    /// [`Opening::Placeholder`].
    pub fn opening(mut self, opening: Opening) -> Self {
        self.opening = opening;
        self
    }
}

impl From<Format> for ExportOptions {
    fn from(format: Format) -> Self {
        Self::new(format)
    }
}

/// A conversation in another shape, as text; it dereferences to the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Export {
    /// The conversation.
    pub text: String,
    /// Everything that is not in the text, or is there in another form, in order.
    pub left_out: Vec<LeftOut>,
    /// The tool ids that had to be changed for the provider: the id in the text, and the id as
    /// stored. Each of them stands for one call.
    pub tool_ids: Vec<(String, String)>,
}

/// Something that an [`Export`] does not have, or has in another form.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// The index from 0 of its message in the session's history; `None` if it belongs to the
    /// session.
    pub message: Option<usize>,
    /// The thing, and the reason why it is not there.
    pub what: String,
}

impl Export {
    /// The stored id of the tool call that has the id `sent` in the text.
    ///
    /// ```
    /// use sessionlog::{Format, Message, Store};
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chats = store.handle();
    /// chats.append_all("cli", vec![
    ///     Message::user("ls"),
    ///     Message::assistant("").with_tool_call("functions.shell:0", "shell", "{}"),
    ///     Message::tool("functions.shell:0", "README"),
    /// ]).wait()?;
    /// let export = chats.export("cli", Format::Anthropic).wait()?;
    /// assert!(export.contains("functions_shell_0"));
    /// assert_eq!(export.stored_id("functions_shell_0"), "functions.shell:0");
    /// # store.close()
    /// # }
    /// ```
    #[must_use]
    pub fn stored_id<'a>(&'a self, sent: &'a str) -> &'a str {
        let mut changed = self.tool_ids.iter();
        changed
            .find(|(id, _)| id == sent)
            .map_or(sent, |(_, stored)| stored)
    }

    /// The number of times each thing was left out, in the order of first occurrence.
    #[must_use]
    pub fn summary(&self) -> Vec<(&str, usize)> {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for left in &self.left_out {
            match counts.iter_mut().find(|(what, _)| *what == left.what) {
                Some((_, count)) => *count += 1,
                None => counts.push((&left.what, 1)),
            }
        }
        counts
    }

    /// Reports that the session's title is not in the export, if it has one.
    #[doc(hidden)]
    #[must_use]
    pub fn without_title(mut self, title: &str) -> Self {
        if !title.is_empty() {
            self.leave_out(None, "the title: the shape has no place for it");
        }
        self
    }

    /// Notes that a message, by its number, or the conversation as a whole lost something.
    #[doc(hidden)]
    pub fn leave_out(&mut self, message: impl Into<Option<usize>>, what: impl Into<String>) {
        self.left_out.push(LeftOut {
            message: message.into(),
            what: what.into(),
        });
    }
}

impl Deref for Export {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl AsRef<str> for Export {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl AsRef<[u8]> for Export {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

impl fmt::Display for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Export> for String {
    fn from(export: Export) -> Self {
        export.text
    }
}

impl PartialEq<str> for Export {
    fn eq(&self, text: &str) -> bool {
        self.text == text
    }
}

impl PartialEq<&str> for Export {
    fn eq(&self, text: &&str) -> bool {
        self.text == *text
    }
}
