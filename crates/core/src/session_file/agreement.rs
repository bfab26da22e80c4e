//! Two sidecars, field by field.

use serde_json::value::RawValue;

use super::SessionMeta;
use super::encode::write_html_safe;
use super::layout::flatten;

/// The fields in which two sidecars agree. Code that compares or merges sidecars destructures this
/// field by field: a sidecar field that is missing here would be lost in a merge.
#[derive(Debug, Clone, Copy, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one for each field of a sidecar"
)]
pub struct Agreement {
    pub key: bool,
    pub summary: bool,
    pub skip: bool,
    pub count: bool,
    pub created_at: bool,
    pub updated_at: bool,
    pub scope: bool,
    pub aliases: bool,
    pub title: bool,
    pub labels: bool,
    pub pinned: bool,
    pub unknown: bool,
}

impl SessionMeta {
    /// The fields in which this equals `other`.
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
        Agreement {
            key: *key == other.key,
            summary: *summary == other.summary,
            skip: *skip == other.skip,
            count: *count == other.count,
            created_at: *created_at == other.created_at,
            updated_at: *updated_at == other.updated_at,
            scope: is_same_scope(scope.as_deref(), other.scope.as_deref()),
            aliases: *aliases == other.aliases,
            title: tags.title == other.tags.title,
            labels: tags.labels == other.tags.labels,
            pinned: tags.pinned == other.tags.pinned,
            unknown: tags.is_same_unknown(&other.tags),
        }
    }
}

impl Agreement {
    /// The fields in which one of the two agrees.
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
