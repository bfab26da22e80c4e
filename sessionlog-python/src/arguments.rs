//! What Python gives, as the store takes it.

use std::str::FromStr;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use sessionlog::{
    Budget, Durability, Erase, Export, ExportOptions, Format, Keep, Message, OffsetDateTime,
    SearchQuery, SessionOrder, SessionQuery, StoreOptions, Unpaired, Update, Whose,
};

use crate::errors::{invalid, raise};

/// Messages as JSON texts, one each.
pub(crate) fn messages(texts: &[Vec<u8>]) -> PyResult<Vec<Message>> {
    let messages = texts.iter().map(|text| Message::from_json(text));
    messages
        .collect::<sessionlog::Result<_>>()
        .map_err(|error| raise(&error))
}

/// A position or version, as it was given out.
pub(crate) fn parsed<T: FromStr>(text: &str, what: &str) -> PyResult<T> {
    text.parse()
        .map_err(|_| invalid(&format!("{text:?} is no {what}")))
}

pub(crate) fn parsed_if<T: FromStr>(text: Option<&str>, what: &str) -> PyResult<Option<T>> {
    text.map(|text| parsed(text, what)).transpose()
}

pub(crate) fn time(seconds: f64) -> PyResult<OffsetDateTime> {
    #[expect(clippy::cast_possible_truncation, reason = "times beyond are refused")]
    let nanoseconds = (seconds * 1e9) as i128;
    OffsetDateTime::from_unix_timestamp_nanos(nanoseconds)
        .map_err(|_| invalid("a time far from ours"))
}

/// # Errors
/// `InvalidInput` if it is negative, or no time at all.
pub(crate) fn span(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|error| invalid(&error.to_string()))
}

pub(crate) fn durability(level: &str) -> PyResult<Durability> {
    match level {
        "durable" => Ok(Durability::Durable),
        "buffered" => Ok(Durability::Buffered),
        _ => Err(invalid("the durability is \"durable\" or \"buffered\"")),
    }
}

/// The options that `sessionlog.open` takes. `open_timeout` is waited for in Python, so that
/// Ctrl-C ends the wait; `picoclaw_lines` is a number of `max_line_bytes`. `slow_commit`
/// only changes events and a counter, which Python does not get.
pub(crate) fn options(given: &Bound<'_, PyDict>) -> PyResult<StoreOptions> {
    let mut options = StoreOptions::new();
    for (name, value) in given.iter() {
        let name: String = name.extract()?;
        options = match &*name {
            "durability" => options.durability(durability(&value.extract::<String>()?)?),
            "auto_compact" => options.auto_compact(value.extract()?),
            "archive" => options.archive(value.extract()?),
            "trash" => options.trash(span(value.extract()?)?),
            "sync_in_poll" => options.sync_in_poll(value.extract()?),
            "publish_stats" => options.publish_stats(value.extract()?),
            "allow_other_owner" => options.allow_other_owner(value.extract()?),
            "allow_missing_lock" => options.allow_missing_lock(value.extract()?),
            "max_open_files" => options.max_open_files(value.extract()?),
            "max_line_bytes" => options.max_line_bytes(value.extract()?),
            "max_batch_bytes" => options.max_batch_bytes(value.extract()?),
            "journal_budget" => options.journal_budget(value.extract()?),
            "checkpoint_every" => options.checkpoint_every(span(value.extract()?)?),
            "once_ids" => options.once_ids(value.extract()?),
            _ => return Err(invalid(&format!("no option is called {name}"))),
        };
    }
    Ok(options)
}

/// What a truncation keeps: `("last", n)`, `("turns", n)` or `("from", position)`.
#[derive(FromPyObject)]
pub(crate) enum KeepGiven {
    Number(String, usize),
    Position(String, String),
}

impl KeepGiven {
    pub(crate) fn to_keep(&self) -> PyResult<Keep> {
        match self {
            Self::Number(kind, n) if kind == "last" => Ok(Keep::Last(*n)),
            Self::Number(kind, n) if kind == "turns" => Ok(Keep::Turns(*n)),
            Self::Position(kind, at) if kind == "from" => Ok(Keep::From(parsed(at, "position")?)),
            Self::Number(kind, _) | Self::Position(kind, _) => {
                Err(invalid(&format!("nothing is kept by {kind:?}")))
            }
        }
    }
}

/// What an update changes. What is `None` or missing stays as it is.
#[derive(FromPyObject)]
pub(crate) struct UpdateGiven {
    #[pyo3(item)]
    append: Vec<Vec<u8>>,
    #[pyo3(item, default)]
    keep: Option<KeepGiven>,
    #[pyo3(item, default)]
    summary: Option<String>,
    #[pyo3(item, default)]
    tokens: Option<i64>,
    #[pyo3(item, default)]
    title: Option<String>,
    #[pyo3(item, default)]
    labels: Option<Vec<String>>,
    #[pyo3(item, default)]
    pinned: Option<bool>,
    #[pyo3(item, default)]
    expect: Option<String>,
    #[pyo3(item, default)]
    after: Option<String>,
}

impl UpdateGiven {
    pub(crate) fn to_update(&self) -> PyResult<Update> {
        let mut update = Update::new();
        if !self.append.is_empty() {
            update = update.append(messages(&self.append)?);
        }
        if let Some(keep) = &self.keep {
            update = update.keep(keep.to_keep()?);
        }
        if let Some(summary) = &self.summary {
            update = update.summary(summary);
        }
        if let Some(tokens) = self.tokens {
            update = update.tokens(tokens);
        }
        if let Some(title) = &self.title {
            update = update.title(title);
        }
        if let Some(labels) = &self.labels {
            update = update.labels(labels);
        }
        if let Some(pinned) = self.pinned {
            update = update.pinned(pinned);
        }
        if let Some(version) = parsed_if(self.expect.as_deref(), "version")? {
            update = update.expect(version);
        }
        if let Some(position) = parsed_if(self.after.as_deref(), "position")? {
            update = update.after(position);
        }
        Ok(update)
    }
}

/// How much of a conversation a window has.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct BudgetGiven {
    messages: Option<usize>,
    tokens: Option<usize>,
    bytes: Option<usize>,
    unpaired: String,
}

impl BudgetGiven {
    pub(crate) fn to_budget(&self) -> PyResult<Budget> {
        let mut budget = Budget::unlimited().unpaired(unpaired(&self.unpaired)?);
        if let Some(messages) = self.messages {
            budget = budget.messages(messages);
        }
        if let Some(tokens) = self.tokens {
            budget = budget.tokens(tokens);
        }
        if let Some(bytes) = self.bytes {
            budget = budget.bytes(bytes);
        }
        Ok(budget)
    }
}

fn unpaired(name: &str) -> PyResult<Unpaired> {
    match name {
        "drop" => Ok(Unpaired::Drop),
        "answer" => Ok(Unpaired::Answer),
        "keep" => Ok(Unpaired::Keep),
        "error" => Ok(Unpaired::Error),
        _ => Err(invalid(
            "unpaired is \"drop\", \"answer\", \"keep\" or \"error\"",
        )),
    }
}

/// Which sessions.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SessionsGiven {
    prefix: String,
    agent: Option<String>,
    channel: Option<String>,
    person: Option<String>,
    chat: Option<String>,
    updated_since: Option<f64>,
    labels: Vec<String>,
    pinned: bool,
    deleted: bool,
    order: String,
}

impl SessionsGiven {
    pub(crate) fn to_query(&self) -> PyResult<SessionQuery> {
        let order = match &*self.order {
            "updated" => SessionOrder::Updated,
            "name" => SessionOrder::Name,
            _ => return Err(invalid("the order is \"updated\" or \"name\"")),
        };
        let mut query = SessionQuery::new().prefix(&self.prefix).order(order);
        if let Some(agent) = &self.agent {
            query = query.agent(agent);
        }
        if let Some(channel) = &self.channel {
            query = query.channel(channel);
        }
        if let Some(person) = &self.person {
            query = query.person(person.as_str());
        }
        if let Some(chat) = &self.chat {
            query = query.chat(chat.as_str());
        }
        if let Some(since) = self.updated_since {
            query = query.updated_since(time(since)?);
        }
        for label in &self.labels {
            query = query.label(label);
        }
        if self.pinned {
            query = query.pinned();
        }
        if self.deleted {
            query = query.deleted();
        }
        Ok(query)
    }
}

/// What is searched for.
#[expect(clippy::struct_excessive_bools, reason = "a query's switches")]
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SearchGiven {
    text: Option<String>,
    regex: Option<String>,
    ignore_case: bool,
    roles: Vec<String>,
    since: Option<f64>,
    until: Option<f64>,
    archived: bool,
    tool_calls: bool,
    summaries: bool,
    among: SessionsGiven,
}

impl SearchGiven {
    pub(crate) fn to_query(&self) -> PyResult<SearchQuery> {
        let mut query = SearchQuery::new()
            .ignore_case(self.ignore_case)
            .archived(self.archived)
            .tool_calls(self.tool_calls)
            .summaries(self.summaries)
            .among(self.among.to_query()?);
        query = match (&self.text, &self.regex) {
            (Some(_), Some(_)) => return Err(invalid("either a text or a regex is searched for")),
            (Some(text), None) => query.text(text),
            (None, Some(regex)) => query.regex(regex),
            (None, None) => query,
        };
        for role in &self.roles {
            query = query.role(role);
        }
        if let Some(since) = self.since {
            query = query.since(time(since)?);
        }
        if let Some(until) = self.until {
            query = query.until(time(until)?);
        }
        Ok(query)
    }
}

/// What is erased: exactly one of a key, a person and a chat.
pub(crate) fn erase(
    key: Option<String>,
    person: Option<String>,
    chat: Option<String>,
    channel: Option<String>,
) -> PyResult<Erase> {
    let whose = |id: String| match &channel {
        Some(channel) => Whose::new(id).on(channel),
        None => Whose::new(id),
    };
    match (key, person, chat) {
        (Some(key), None, None) => Ok(Erase::key(key)),
        (None, Some(person), None) => Ok(Erase::person(whose(person))),
        (None, None, Some(chat)) => Ok(Erase::chat(whose(chat))),
        _ => Err(invalid("erase exactly one of a key, a person and a chat")),
    }
}

fn format(name: &str) -> PyResult<Format> {
    Ok(match name {
        "jsonl" => Format::Jsonl,
        "markdown" => Format::Markdown,
        "openai" => Format::OpenAi,
        "openai-responses" => Format::OpenAiResponses,
        "anthropic" => Format::Anthropic,
        "gemini" => Format::Gemini,
        _ => return Err(invalid(&format!("no format is called {name}"))),
    })
}

pub(crate) fn export(name: &str, name_unpaired: &str) -> PyResult<ExportOptions> {
    Ok(ExportOptions::new(format(name)?).unpaired(unpaired(name_unpaired)?))
}

/// The text of an export, and what it left out.
pub(crate) fn exported(export: &Export) -> (String, Vec<(String, usize)>) {
    let left_out = export.summary().into_iter();
    let left_out = left_out.map(|(what, times)| (what.to_owned(), times));
    (export.text.clone(), left_out.collect())
}
