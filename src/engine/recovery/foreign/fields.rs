//! A sidecar of both, field by field.
//!
//! Of every field there are three values: what the journal says was before it, what it
//! says was after, and what was found. Another program changed a field if none of ours
//! ever said what was found; we changed it if what we say last is not what was before.
//!
//! | they changed it | we changed it | it is |
//! |---|---|---|
//! | no | either | ours |
//! | yes | no | theirs |
//! | yes | yes | theirs; ours is in the backup, and the finding says so |
//!
//! A session without a sidecar says of every field that it is empty. `skip` and `count`
//! follow from the lines, and the time of the last change is theirs. A sidecar without title,
//! labels, pin and unknown fields did not change them: PicoClaw drops what it does not know.

use super::super::plan::Plan;
use crate::disk::session_file::{Agreement, SessionMeta, SessionTags};

/// A sidecar of both.
pub(super) struct Fields {
    pub(super) meta: SessionMeta,
    /// The fields that both changed.
    pub(super) contested: Vec<&'static str>,
}

impl Fields {
    pub(super) fn of(meta: SessionMeta) -> Self {
        Self {
            meta,
            contested: Vec::new(),
        }
    }
}

/// What is known of a field.
struct Field {
    name: &'static str,
    /// Whether one of our sidecars said what they say.
    said: bool,
    /// Whether ours says what it said before the journal.
    kept: bool,
    /// Whether both say the same.
    same: bool,
}

/// What becomes of the sidecar that another program wrote.
pub(super) fn merge(plan: &Plan, theirs: &SessionMeta, ours: &SessionMeta) -> Fields {
    let nothing = SessionMeta::empty("");
    let mut said = Agreement::default();
    let mut kept = None;
    plan.past.any_sidecar(Some(theirs), |before| {
        // Who makes a sidecar dates the session.
        said.created_at |= before.is_none();
        let before = before.unwrap_or(&nothing);
        said = said.or(before.agreement(theirs));
        kept.get_or_insert_with(|| before.agreement(ours));
        false
    });
    if theirs.tags.is_empty() {
        (said.title, said.labels, said.pinned, said.unknown) = (true, true, true, true);
    }
    let kept = kept.unwrap_or_default();
    let same = ours.agreement(theirs);
    let SessionMeta {
        key,
        summary,
        // They follow from the lines.
        skip: _,
        count: _,
        created_at,
        // Theirs is the last change.
        updated_at: _,
        scope,
        aliases,
        tags,
    } = ours;
    let mut fields = Fields::of(theirs.clone());
    if !key.is_empty() {
        fields.meta.key.clone_from(key);
    }
    if said.created_at {
        fields.meta.created_at.clone_from(created_at);
    }
    let field = |name, of: fn(&Agreement) -> bool| Field {
        name,
        said: of(&said),
        kept: of(&kept),
        same: of(&same),
    };
    let Fields { meta, contested } = &mut fields;
    let merged = [
        field("summary", |it| it.summary).merge(&mut meta.summary, summary),
        field("scope", |it| it.scope).merge(&mut meta.scope, scope),
        field("aliases", |it| it.aliases).merge(&mut meta.aliases, aliases),
        field("title", |it| it.title).merge(&mut meta.tags.title, &tags.title),
        field("labels", |it| it.labels).merge(&mut meta.tags.labels, &tags.labels),
        field("pin", |it| it.pinned).merge(&mut meta.tags.pinned, &tags.pinned),
        field("unknown fields", |it| it.unknown).merge_unknown(&mut meta.tags, tags),
    ];
    contested.extend(merged.into_iter().flatten());
    fields
}

impl Field {
    /// Puts ours in the place of theirs if they did not change it; its name if both did.
    fn merge<T: Clone>(self, theirs: &mut T, ours: &T) -> Option<&'static str> {
        if self.said {
            theirs.clone_from(ours);
        }
        self.contested()
    }

    /// The same of all unknown fields.
    fn merge_unknown(self, theirs: &mut SessionTags, ours: &SessionTags) -> Option<&'static str> {
        if self.said {
            theirs.take_unknown(ours);
        }
        self.contested()
    }

    fn contested(self) -> Option<&'static str> {
        (!self.said && !self.kept && !self.same).then_some(self.name)
    }
}
