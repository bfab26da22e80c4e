//! Merges the sidecars of both sides, field by field.
//!
//! Every field has three values: the one before the journal, the one after it, and the one found.
//! Another program changed a field if none of ours ever had the found value; we changed it if our
//! last value differs from the first.
//!
//! | they changed it | we changed it | it is |
//! |---|---|---|
//! | no | either | ours |
//! | yes | no | theirs |
//! | yes | yes | theirs; ours is in the backup, and the finding says so |
//!
//! In a session without a sidecar, every field is empty. `skip` and `count` follow from the lines,
//! and the time of the last change is theirs. A sidecar without title, labels, pin and unknown
//! fields did not change them: PicoClaw drops fields that it does not know. A program that clears a
//! session changes its summary, whatever the summary was before.

use sessionlog_core::session_file::{Agreement, SessionMeta};

use super::super::plan::Plan;

/// A merged sidecar.
pub(super) struct MergedFields {
    pub(super) meta: SessionMeta,
    /// The fields that both changed.
    pub(super) contested: Vec<&'static str>,
}

impl MergedFields {
    pub(super) fn of(meta: SessionMeta) -> Self {
        Self {
            meta,
            contested: Vec::new(),
        }
    }
}

/// Merges the sidecar that another program wrote, and that perhaps cleared its session.
pub(super) fn merge(
    plan: &Plan,
    theirs: &SessionMeta,
    ours: &SessionMeta,
    is_cleared: bool,
) -> MergedFields {
    let nothing = SessionMeta::empty("");
    let mut said = Agreement::default();
    let mut kept = None;
    plan.past.any_sidecar(Some(theirs), |before| {
        // The program that makes a sidecar dates the session.
        said.created_at |= before.is_none();
        let before = before.unwrap_or(&nothing);
        said = said.or(before.agreement(theirs));
        kept.get_or_insert_with(|| before.agreement(ours));
        false
    });
    if theirs.tags.is_empty() {
        said = said.with_tags();
    }
    said.summary &= !is_cleared;
    // A field that is none of these would be lost here, and does not compile.
    let Agreement {
        summary,
        scope,
        aliases,
        title,
        labels,
        pinned,
        unknown,
        created_at,
        key: _,
        // They follow from the lines.
        skip: _,
        count: _,
        // Theirs is the last change.
        updated_at: _,
    } = said;
    let mut meta = theirs.clone();
    take_if(!ours.key.is_empty(), &mut meta.key, &ours.key);
    take_if(created_at, &mut meta.created_at, &ours.created_at);
    take_if(summary, &mut meta.summary, &ours.summary);
    take_if(scope, &mut meta.scope, &ours.scope);
    take_if(aliases, &mut meta.aliases, &ours.aliases);
    let (tags, own) = (&mut meta.tags, &ours.tags);
    take_if(title, &mut tags.title, &own.title);
    take_if(labels, &mut tags.labels, &own.labels);
    take_if(pinned, &mut tags.pinned, &own.pinned);
    if unknown {
        tags.take_unknown(own);
    }
    let Agreement {
        summary,
        scope,
        aliases,
        title,
        labels,
        pinned,
        unknown,
        key: _,
        created_at: _,
        skip: _,
        count: _,
        updated_at: _,
    } = said.or(kept.unwrap_or_default()).or(ours.agreement(theirs));
    let agreed = [
        ("summary", summary),
        ("scope", scope),
        ("aliases", aliases),
        ("title", title),
        ("labels", labels),
        ("pin", pinned),
        ("unknown fields", unknown),
    ];
    let contested = agreed.iter().filter(|(_, is_agreed)| !is_agreed);
    let contested = contested.map(|(name, _)| *name).collect();
    MergedFields { meta, contested }
}

fn take_if<T: Clone>(is_ours: bool, field: &mut T, ours: &T) {
    if is_ours {
        field.clone_from(ours);
    }
}
