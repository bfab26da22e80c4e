//! The part of a conversation that a model is given.

use std::fmt;
use std::sync::Arc;

use crate::Message;
use crate::engine::position::Position;
use crate::engine::snapshot::Looked;
use crate::engine::stats::Counters;
use crate::engine::window::{self, Cost, Newest};
use crate::error::{Error, Result, Version};
use crate::front::context::{characters, tokens};

/// What a model may be given, for [`StoreHandle::window`](crate::StoreHandle::window). What
/// is not limited is not.
#[derive(Clone)]
#[must_use = "it does nothing until it is given to StoreHandle::window"]
pub struct Budget {
    limit: Cost,
    unpaired: Unpaired,
    counter: Counter,
}

type Counter = Arc<dyn Fn(&Message) -> usize + Send + Sync>;

/// What becomes of a tool's result without the call that asked for it, and of a message
/// with calls of which one has no result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unpaired {
    /// They are left out; with such calls go the results of the same message.
    #[default]
    Drop,
    /// They stay.
    Keep,
    /// The window is refused with [`Error::ToolCallUnpaired`].
    Error,
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("limit", &self.limit)
            .field("unpaired", &self.unpaired)
            .finish_non_exhaustive()
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::unlimited()
    }
}

impl Budget {
    /// No limit: everything that is visible.
    pub fn unlimited() -> Self {
        Self {
            limit: Cost {
                messages: usize::MAX,
                bytes: usize::MAX,
                tokens: usize::MAX,
            },
            unpaired: Unpaired::default(),
            counter: Arc::new(estimate),
        }
    }

    /// At most so many messages.
    pub fn messages(mut self, most: usize) -> Self {
        self.limit.messages = most;
        self
    }

    /// At most so many bytes: of the lines as they stand in the file, and of the text of
    /// summary and system prompt.
    pub fn bytes(mut self, most: usize) -> Self {
        self.limit.bytes = most;
        self
    }

    /// At most so many tokens, as [`counter`](Self::counter) counts them, summary and
    /// system prompt among them.
    pub fn tokens(mut self, most: usize) -> Self {
        self.limit.tokens = most;
        self
    }

    /// How tokens are counted. Summary and system prompt are counted as messages of the
    /// role `system`. Called once or more for each message looked at, on the thread that reads.
    /// Default: a quarter of the characters of the text, as kimi-cli estimates them, and
    /// of the names and arguments of tool calls, and four for each message.
    pub fn counter(mut self, count: impl Fn(&Message) -> usize + Send + Sync + 'static) -> Self {
        self.counter = Arc::new(count);
        self
    }

    /// What becomes of tool calls and results without their other half. Default:
    /// [`Unpaired::Drop`].
    pub fn unpaired(mut self, unpaired: Unpaired) -> Self {
        self.unpaired = unpaired;
        self
    }

    fn cost_of_text(&self, text: &str) -> Cost {
        if text.is_empty() {
            return Cost::default();
        }
        Cost {
            messages: 0,
            bytes: text.len(),
            tokens: (self.counter)(&Message::system(text)),
        }
    }
}

fn estimate(message: &Message) -> usize {
    let of_call = |call: &crate::ToolCall| {
        let function = call.function.as_ref();
        function.map_or(0, |f| f.name.chars().count() + f.arguments.chars().count())
    };
    let of_calls = message.tool_calls().iter().map(of_call).sum::<usize>();
    let text = usize::try_from(tokens(characters(message))).unwrap_or(usize::MAX);
    text + of_calls.div_ceil(4) + 4
}

/// The newest part of a conversation that fits a [`Budget`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Window {
    /// The messages, oldest first: whole turns, of which each begins with a user's message,
    /// but perhaps the first of the session; unless [`is_partial`](Self::is_partial).
    pub messages: Vec<Message>,
    /// How many visible messages of the session are not among them: older ones, and tool
    /// calls and results without their other half.
    pub omitted: usize,
    /// Whether the newest turn alone is over the budget: the window begins within it.
    pub is_partial: bool,
    /// The session's summary; empty if it has none. It is not among the messages.
    pub summary: String,
    /// The last system prompt of the conversation. It is not among the messages.
    pub system_prompt: Option<String>,
    /// What all of it is estimated to take, tokens.
    pub tokens: usize,
    /// Where the window begins, with its first message or one before that was left out
    /// without its other half: [`Keep::From`](crate::Keep::From) this position truncates what is older.
    pub start: Position,
    /// Of which version of the session it is.
    pub version: Version,
}

/// What of `looked` fits.
///
/// # Errors
/// `ToolCallUnpaired`, and if the file cannot be read.
pub(crate) fn window(
    key: &str,
    looked: &Looked,
    budget: &Budget,
    counters: &Counters,
) -> Result<Window> {
    let mut snapshot = looked.snapshot.clone();
    snapshot.hide_before(looked.start);
    let besides = Besides {
        summary: snapshot.meta.text.summary.clone(),
        system_prompt: looked.now().system_prompt().map(ToString::to_string),
        version: snapshot.meta.version,
    };
    let newest = window::newest(
        &snapshot,
        budget.limit_beside(&besides),
        &*budget.counter,
        counters,
    );
    let newest = newest.map_err(|e| Error::io("read", std::path::Path::new(key), e))?;
    let start = snapshot.live.numbering.position(newest.start);
    budget.pair(key, besides, newest, start)
}

/// What a [`Window`] has besides its messages, for stores of one's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Besides {
    /// The session's summary; empty if it has none.
    pub summary: String,
    /// The last system prompt of the conversation.
    pub system_prompt: Option<String>,
    /// Of which version of the session it is.
    pub version: Version,
}

impl Window {
    /// The window of a session of a store of one's own: of its visible messages, the newest
    /// first, each with where it stands and the bytes of its line. `end` is where the
    /// messages end. Looks at all of them, to count what is left out.
    ///
    /// ```
    /// use sessionlog::{Besides, Budget, Message, Position, Window};
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// let said = [Message::user("one"), Message::assistant("two"), Message::user("three")];
    /// let lines = (0..).zip(said).map(|(n, said)| (Position::new(7, n), 20, said));
    /// let newest = lines.collect::<Vec<_>>().into_iter().rev();
    /// let budget = Budget::unlimited().messages(2);
    /// let window = Window::fit("cli", newest, Position::new(7, 3), Besides::default(), &budget)?;
    /// assert_eq!((window.messages.len(), window.omitted), (1, 2));
    /// assert_eq!(window.start, Position::new(7, 2));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::ToolCallUnpaired`].
    pub fn fit(
        key: &str,
        newest_first: impl Iterator<Item = (Position, usize, Message)>,
        end: Position,
        besides: Besides,
        budget: &Budget,
    ) -> Result<Self> {
        let limit = budget.limit_beside(&besides);
        let newest = window::newest_of(newest_first, end, limit, &*budget.counter);
        let start = newest.start;
        budget.pair(key, besides, newest, start)
    }
}

impl Budget {
    fn cost_of(&self, besides: &Besides) -> Cost {
        let prompt = besides.system_prompt.as_deref().unwrap_or_default();
        self.cost_of_text(&besides.summary)
            .and(self.cost_of_text(prompt))
    }

    fn limit_beside(&self, besides: &Besides) -> Cost {
        let besides = self.cost_of(besides);
        Cost {
            messages: self.limit.messages,
            bytes: self.limit.bytes.saturating_sub(besides.bytes),
            tokens: self.limit.tokens.saturating_sub(besides.tokens),
        }
    }

    /// The window, with what lacks its other half treated as asked for.
    fn pair<P>(
        &self,
        key: &str,
        besides: Besides,
        newest: Newest<P>,
        start: Position,
    ) -> Result<Window> {
        let cost = self.cost_of(&besides).and(newest.cost);
        let mut window = Window {
            messages: newest.messages,
            omitted: newest.older,
            is_partial: newest.is_partial,
            summary: besides.summary,
            system_prompt: besides.system_prompt,
            tokens: cost.tokens,
            start,
            version: besides.version,
        };
        if self.unpaired == Unpaired::Keep {
            return Ok(window);
        }
        let (unpaired, first) = window::unpaired(&window.messages);
        if self.unpaired == Unpaired::Error
            && let Some(id) = first
        {
            return Err(Error::ToolCallUnpaired {
                key: key.into(),
                id,
            });
        }
        window.omitted += unpaired.len();
        for &at in &unpaired {
            let tokens = (self.counter)(&window.messages[at]);
            window.tokens = window.tokens.saturating_sub(tokens);
        }
        let mut at = 0;
        window.messages.retain(|_| {
            at += 1;
            !unpaired.contains(&(at - 1))
        });
        Ok(window)
    }
}
