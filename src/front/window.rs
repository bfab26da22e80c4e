//! The part of a conversation that fits a model's limits.

use std::fmt;
use std::sync::Arc;

use sessionlog_core::error::{Error, Result, Version};
use sessionlog_core::exchange::sequence::arrange;
use sessionlog_core::exchange::{Part, PartKind, Unpaired};
use sessionlog_core::position::Position;

use crate::Message;
use crate::engine::snapshot::ConversationMoment;
use crate::engine::stats::Counters;
use crate::engine::window::{self, MessageCost, NewestFit, Tokens};

/// The limits of what a model may be given, for
/// [`StoreHandle::window`](crate::StoreHandle::window). By default nothing is limited.
#[derive(Clone)]
#[must_use = "it does nothing until it is given to StoreHandle::window"]
pub struct Budget {
    limit: MessageCost,
    unpaired: Unpaired,
    counter: TokenCounter,
}

#[derive(Clone)]
enum TokenCounter {
    Messages(Arc<dyn Fn(&Message) -> usize + Send + Sync>),
    Parts(Arc<dyn Fn(&Part<'_>) -> usize + Send + Sync>),
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
            limit: MessageCost {
                messages: usize::MAX,
                bytes: usize::MAX,
                tokens: usize::MAX,
            },
            unpaired: Unpaired::default(),
            counter: TokenCounter::Parts(Arc::new(default_price)),
        }
    }

    /// At most this many messages.
    pub fn messages(mut self, most: usize) -> Self {
        self.limit.messages = most;
        self
    }

    /// At most this many bytes: of the lines as they stand in the file, and of the text of summary
    /// and system prompt.
    pub fn bytes(mut self, most: usize) -> Self {
        self.limit.bytes = most;
        self
    }

    /// At most this many tokens, as [`counter`](Self::counter) counts them, including summary and
    /// system prompt.
    pub fn tokens(mut self, most: usize) -> Self {
        self.limit.tokens = most;
        self
    }

    /// Counts the tokens of a whole message, including pictures and calls. Summary and system
    /// prompt are counted as messages of the role `system`. Called once or more for each message
    /// looked at, on the thread that reads. Default: see [`part_counter`](Self::part_counter).
    pub fn counter(mut self, count: impl Fn(&Message) -> usize + Send + Sync + 'static) -> Self {
        self.counter = TokenCounter::Messages(Arc::new(count));
        self
    }

    /// Counts the tokens of each [part](Message::parts) of a message; four are added for each
    /// message. Called as [`counter`](Self::counter) is, and in its place. Default:
    /// [`Part::tokens`], which documents the prices.
    ///
    /// ```
    /// use sessionlog::{Budget, PartKind};
    ///
    /// // A model that takes 258 tokens for a picture.
    /// let budget = Budget::unlimited().tokens(8_000).part_counter(|part| match part.kind() {
    ///     PartKind::Image => 258,
    ///     _ => part.tokens(),
    /// });
    /// # let _ = budget;
    /// ```
    pub fn part_counter(
        mut self,
        count: impl Fn(&Part<'_>) -> usize + Send + Sync + 'static,
    ) -> Self {
        self.counter = TokenCounter::Parts(Arc::new(count));
        self
    }

    /// Decides what happens to tool calls and results without their other half. Default:
    /// [`Unpaired::Drop`].
    pub fn unpaired(mut self, unpaired: Unpaired) -> Self {
        self.unpaired = unpaired;
        self
    }

    fn cost_of_text(&self, text: &str) -> MessageCost {
        if text.is_empty() {
            return MessageCost::default();
        }
        MessageCost {
            messages: 0,
            bytes: text.len(),
            tokens: self.tokens_of(&Message::system(text)).total(),
        }
    }
}

fn default_price(part: &Part<'_>) -> usize {
    part.tokens()
}

/// Tokens of a message in addition to its parts.
const MESSAGE: usize = 4;

impl Budget {
    /// Tokens of a message, by kind.
    fn tokens_of(&self, message: &Message) -> Tokens {
        let mut tokens = Tokens::default();
        let price = match &self.counter {
            TokenCounter::Messages(count) => {
                tokens.messages = count(message);
                return tokens;
            }
            TokenCounter::Parts(price) => price,
        };
        tokens.messages = MESSAGE;
        for part in message.parts() {
            let sum = match part.kind() {
                PartKind::Image => &mut tokens.images,
                PartKind::Audio => &mut tokens.audio,
                PartKind::Video => &mut tokens.video,
                PartKind::File => &mut tokens.files,
                PartKind::Reasoning => &mut tokens.reasoning,
                PartKind::Call => &mut tokens.calls,
                _ => &mut tokens.text,
            };
            *sum = sum.saturating_add(price(&part));
        }
        tokens
    }
}

/// The newest part of a conversation that fits a [`Budget`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Window {
    /// The messages, oldest first. They are whole turns, each of which begins with a user's
    /// message, except perhaps the first of the session. For exceptions see
    /// [`is_partial`](Self::is_partial).
    pub messages: Vec<Message>,
    /// The number of visible messages of the session that are left out: older ones, and tool calls
    /// and results without their other half.
    pub omitted: usize,
    /// True if the newest turn alone, with summary and system prompt, is over the budget: the
    /// window begins within it, or has no message at all. Do not truncate there: the user's
    /// question would be lost.
    pub is_partial: bool,
    /// The session's summary; empty if it has none. It is not among the messages.
    pub summary: String,
    /// The last system prompt of the conversation. It is not among the messages.
    pub system_prompt: Option<String>,
    /// The estimated tokens of the whole window.
    pub tokens: usize,
    /// The same by kind; summary and system prompt count as `text`.
    pub took: Tokens,
    /// The position where the window begins: its first message, or one before that was left out for
    /// lack of its other half; the end of the session if the window has no message. The messages
    /// [before](crate::SessionSnapshot::before) it are those that the window leaves out, to be
    /// summarised; [`Keep::From`](crate::Keep::From) this position truncates them.
    pub start: Position,
    /// The version of the session that the window is of.
    pub version: Version,
}

/// The part of `looked` that fits the budget.
///
/// # Errors
/// `ToolCallUnpaired`, and if the file cannot be read.
pub(crate) fn window(
    key: &str,
    looked: &ConversationMoment,
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
        &|message| budget.tokens_of(message).total(),
        counters,
    );
    let newest = newest.map_err(|e| Error::io("read", std::path::Path::new(key), e))?;
    let start = snapshot.live.numbering.position(newest.start);
    budget.pair(key, besides, newest, start)
}

/// The contents of a [`Window`] besides its messages, for custom stores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Besides {
    /// The session's summary; empty if it has none.
    pub summary: String,
    /// The last system prompt of the conversation.
    pub system_prompt: Option<String>,
    /// The version of the session.
    pub version: Version,
}

impl Window {
    /// The window of a session in a custom store. `newest_first` yields its visible messages, each
    /// with its position and the bytes of its line. `end` is where the messages end. Looks at all
    /// of them, to count those left out.
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
        let count = |message: &Message| budget.tokens_of(message).total();
        let newest = window::newest_of(newest_first, end, limit, &count);
        let start = newest.start;
        budget.pair(key, besides, newest, start)
    }
}

impl Budget {
    fn cost_of(&self, besides: &Besides) -> MessageCost {
        let prompt = besides.system_prompt.as_deref().unwrap_or_default();
        self.cost_of_text(&besides.summary)
            .and(self.cost_of_text(prompt))
    }

    fn limit_beside(&self, besides: &Besides) -> MessageCost {
        let besides = self.cost_of(besides);
        MessageCost {
            messages: self.limit.messages,
            bytes: self.limit.bytes.saturating_sub(besides.bytes),
            tokens: self.limit.tokens.saturating_sub(besides.tokens),
        }
    }

    /// The window, with unpaired calls and results treated as the budget says.
    fn pair<P>(
        &self,
        key: &str,
        besides: Besides,
        newest: NewestFit<P>,
        start: Position,
    ) -> Result<Window> {
        let mut took = Tokens::default();
        for text in [
            &besides.summary,
            besides.system_prompt.as_ref().unwrap_or(&String::new()),
        ] {
            if !text.is_empty() {
                took.add(self.tokens_of(&Message::system(text)));
            }
        }
        let mut messages = newest.messages;
        let mut omitted = newest.older;
        if self.unpaired != Unpaired::Keep {
            let arranged = arrange(messages, self.unpaired);
            if self.unpaired == Unpaired::Error
                && let Some(fault) = arranged.faults.first()
            {
                return Err(Error::ToolCallUnpaired {
                    key: key.into(),
                    id: fault.id.clone(),
                });
            }
            omitted += arranged.gone;
            let arranged = arranged.messages.into_iter();
            messages = arranged.map(|(_, message)| message).collect();
        }
        for message in &messages {
            took.add(self.tokens_of(message));
        }
        Ok(Window {
            messages,
            omitted,
            is_partial: newest.is_partial,
            summary: besides.summary,
            system_prompt: besides.system_prompt,
            tokens: took.total(),
            took,
            start,
            version: besides.version,
        })
    }
}
