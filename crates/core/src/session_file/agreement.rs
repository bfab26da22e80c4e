//! Two sidecars, field by field.

use serde_json::value::RawValue;

use super::encode::write_html_safe;
use super::layout::flatten;
use super::{SessionMeta, SessionTags};

/// The fields in which two sidecars agree. Code that compares or merges sidecars destructures this
/// field by field: a sidecar field that is missing here would be lost in a merge.
#[derive(Debug, Clone, Copy, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one for each field of a sidecar"
)]
pub struct Agreement {
    /// True if both have the same key.
    pub key: bool,
    /// True if both have the same summary.
    pub summary: bool,
    /// True if both have the same number of hidden lines.
    pub skip: bool,
    /// True if both have the same number of lines.
    pub count: bool,
    /// True if both have the same beginning.
    pub created_at: bool,
    /// True if both have the same time of the last change.
    pub updated_at: bool,
    /// True if both have the same scope.
    pub scope: bool,
    /// True if both have the same aliases.
    pub aliases: bool,
    /// True if both have the same title.
    pub title: bool,
    /// True if both have the same labels.
    pub labels: bool,
    /// True if both have the same pin.
    pub pinned: bool,
    /// True if both have the same unknown fields.
    pub unknown: bool,
}

impl SessionMeta {
    /// The fields in which this equals `other`.
    #[doc(hidden)]
    #[must_use]
    pub fn agreement(&self, other: &Self) -> Agreement {
        let Self {
            key,
            summary,
            skip,
            count,
            created_at,
            updated_at,
            scope,
            aliases,
            tags,
        } = self;
        let SessionTags {
            title,
            labels,
            pinned,
            unknown: _,
        } = tags;
        Agreement {
            key: *key == other.key,
            summary: *summary == other.summary,
            skip: *skip == other.skip,
            count: *count == other.count,
            created_at: *created_at == other.created_at,
            updated_at: *updated_at == other.updated_at,
            scope: is_same_scope(scope.as_deref(), other.scope.as_deref()),
            aliases: *aliases == other.aliases,
            title: *title == other.tags.title,
            labels: *labels == other.tags.labels,
            pinned: *pinned == other.tags.pinned,
            unknown: tags.is_same_unknown(&other.tags),
        }
    }
}

impl Agreement {
    /// The same, with all tags among the fields that agree.
    #[must_use]
    pub fn with_tags(self) -> Self {
        Self {
            key: self.key,
            summary: self.summary,
            skip: self.skip,
            count: self.count,
            created_at: self.created_at,
            updated_at: self.updated_at,
            scope: self.scope,
            aliases: self.aliases,
            title: true,
            labels: true,
            pinned: true,
            unknown: true,
        }
    }

    /// The fields in which one of the two agrees.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            key: self.key || other.key,
            summary: self.summary || other.summary,
            skip: self.skip || other.skip,
            count: self.count || other.count,
            created_at: self.created_at || other.created_at,
            updated_at: self.updated_at || other.updated_at,
            scope: self.scope || other.scope,
            aliases: self.aliases || other.aliases,
            title: self.title || other.title,
            labels: self.labels || other.labels,
            pinned: self.pinned || other.pinned,
            unknown: self.unknown || other.unknown,
        }
    }
}

fn is_same_scope(one: Option<&RawValue>, other: Option<&RawValue>) -> bool {
    let written = |scope: &RawValue| {
        let mut out = Vec::new();
        write_html_safe(scope.get().as_bytes(), &mut out);
        flatten(&out)
    };
    match (one, other) {
        (Some(one), Some(other)) => one.get() == other.get() || written(one) == written(other),
        (one, other) => one.is_none() && other.is_none(),
    }
}
