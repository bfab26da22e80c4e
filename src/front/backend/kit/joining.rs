//! The metadata of a session after an older session's history was put before its own.

use sessionlog_core::session_file::Meta;

use crate::SessionMeta;

/// The sidecar of a session after an `older` session's history was put before its own, as
/// [`StoreHandle::merge_session`](crate::StoreHandle::merge_session) does. It combines summary,
/// scope, tags, time of creation, and aliases, with the older session's key among them. The rest is
/// from `own`.
#[must_use]
pub fn meta_after(own: SessionMeta, older: SessionMeta) -> SessionMeta {
    let (mut own, older) = (Meta::of(own), Meta::of(older));
    own.text_mut().follow(&older.text);
    own.to_sidecar()
}
