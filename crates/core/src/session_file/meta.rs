//! A sidecar in memory.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::{SessionMeta, SessionTags, normalize_aliases};
use crate::error::Version;
use crate::stamp::{self, Stamp, ZERO_TIME};

/// A session's sidecar, cheap to copy: fields that appends change are separate from the text that
/// they leave alone.
#[derive(Debug)]
pub struct Meta {
    /// The part that appends leave alone.
    pub text: Arc<MetaText>,
    /// The number of hidden lines in front.
    pub skip: i64,
    /// The number of all lines.
    pub count: i64,
    /// The time of the last change.
    pub updated_at: Stamp,
    /// Its version in this process; no file contains it.
    pub version: Version,
}

/// The difference to the sidecar before it. The text is included only if it changed: otherwise all
/// changes of a session would count references to one text, which for a seldom written session is
/// in no CPU cache.
#[derive(Debug)]
pub struct MetaStep {
    text: Option<Arc<MetaText>>,
    skip: i64,
    count: i64,
    updated_at: Stamp,
    version: Version,
}

/// The part of a sidecar that appends leave alone.
#[derive(Debug, Clone)]
pub struct MetaText {
    /// The key.
    pub key: String,
    /// The summary; may be empty.
    pub summary: String,
    /// The time when the session began, as text.
    pub created_at: String,
    /// The scope, as JSON text.
    pub scope: Option<Box<RawValue>>,
    /// The aliases, none twice.
    pub aliases: Vec<String>,
    /// Title, labels, pin and unknown fields.
    pub tags: SessionTags,
}

impl MetaText {
    /// Merges the metadata of an `older` session into this one. Its own values take precedence; a
    /// summary of both is in the order of their messages.
    pub fn follow(&mut self, older: &Self) {
        let summaries = [&older.summary, &self.summary].map(String::as_str);
        let said = summaries
            .into_iter()
            .filter(|summary| !summary.trim().is_empty());
        self.summary = said.collect::<Vec<_>>().join("\n\n");
        self.scope = self.scope.take().or_else(|| older.scope.clone());
        let aliases = self.aliases.iter().chain(&older.aliases);
        let aliases: Vec<String> = aliases.chain([&older.key]).cloned().collect();
        self.aliases = normalize_aliases(&self.key, &aliases);
        self.tags.follow(&older.tags);
        let nanos = |time: &str| stamp::parse_nanos(time).filter(|_| time != ZERO_TIME);
        let is_earlier = match (nanos(&older.created_at), nanos(&self.created_at)) {
            (Some(older), Some(own)) => older < own,
            (older, None) => older.is_some(),
            (None, Some(_)) => false,
        };
        if is_earlier {
            self.created_at.clone_from(&older.created_at);
        }
    }

    /// True if the text equals that of `other`, except for the time of creation.
    pub(crate) fn says_what(&self, other: &Self) -> bool {
        let Self {
            key: _,
            summary,
            created_at: _,
            scope,
            aliases,
            tags,
        } = self;
        let scopes = [scope, &other.scope].map(|scope| scope.as_ref().map(|scope| scope.get()));
        std::ptr::eq(self, other)
            || *summary == other.summary
                && *aliases == other.aliases
                && *tags == other.tags
                && scopes[0] == scopes[1]
    }
}

impl Clone for Meta {
    fn clone(&self) -> Self {
        Self {
            text: self.text.clone(),
            skip: self.skip,
            count: self.count,
            updated_at: self.updated_at.clone(),
            version: self.version,
        }
    }

    /// Does not touch the reference count of the text, if both share it.
    fn clone_from(&mut self, source: &Self) {
        if !Arc::ptr_eq(&self.text, &source.text) {
            self.text = source.text.clone();
        }
        self.skip = source.skip;
        self.count = source.count;
        self.updated_at.clone_from(&source.updated_at);
        self.version = source.version;
    }
}

impl Meta {
    /// Takes a sidecar apart.
    #[must_use]
    pub fn of(meta: SessionMeta) -> Self {
        let SessionMeta {
            key,
            summary,
            skip,
            count,
            created_at,
            updated_at,
            scope,
            aliases,
            tags,
        } = meta;
        Self {
            skip,
            count,
            updated_at: updated_at.as_str().into(),
            version: Version::ABSENT,
            text: Arc::new(MetaText {
                key,
                summary,
                created_at,
                scope,
                aliases,
                tags,
            }),
        }
    }

    /// The sidecar with `key`, if it names no key itself.
    #[must_use]
    pub fn named(mut meta: SessionMeta, key: &str) -> Self {
        if meta.key.is_empty() {
            key.clone_into(&mut meta.key);
        }
        Self::of(meta)
    }

    /// The sidecar of a session that has none.
    #[must_use]
    pub fn empty(key: &str) -> Self {
        Self::of(SessionMeta::empty(key))
    }

    /// Puts the sidecar together.
    #[must_use]
    pub fn to_sidecar(&self) -> SessionMeta {
        let text = &*self.text;
        SessionMeta {
            key: text.key.clone(),
            summary: text.summary.clone(),
            skip: self.skip,
            count: self.count,
            created_at: text.created_at.clone(),
            updated_at: self.updated_at.to_string(),
            scope: text.scope.clone(),
            aliases: text.aliases.clone(),
            tags: text.tags.clone(),
        }
    }

    /// The step that makes this from `before`.
    #[must_use]
    pub fn step_from(&self, before: &Self) -> MetaStep {
        let same = Arc::ptr_eq(&self.text, &before.text);
        MetaStep {
            text: (!same).then(|| self.text.clone()),
            skip: self.skip,
            count: self.count,
            updated_at: self.updated_at.clone(),
            version: self.version,
        }
    }

    /// True if its text equals the one before `step`, except for the times of creation and change,
    /// and the lines.
    #[must_use]
    pub fn keeps_its_text(&self, step: &MetaStep) -> bool {
        let text = step.text.as_ref();
        text.is_none_or(|text| self.text.says_what(text))
    }

    /// Applies a step, which must be the one after the step that made this.
    pub fn take(&mut self, step: &MetaStep) {
        if let Some(text) = &step.text {
            self.text = text.clone();
        }
        self.skip = step.skip;
        self.count = step.count;
        self.updated_at.clone_from(&step.updated_at);
        self.version = step.version;
    }

    /// The text, for changing it; copied if a reader still holds the old one.
    pub fn text_mut(&mut self) -> &mut MetaText {
        Arc::make_mut(&mut self.text)
    }
}
