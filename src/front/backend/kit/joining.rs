//! What is said of a session that has an older one's history before its own.

use crate::SessionMeta;
use crate::disk::session_file::Meta;

/// The sidecar of a session after an `older` one's history was put before its own, as
/// [`StoreHandle::merge_session`](crate::StoreHandle::merge_session) does: summary, scope, aliases,
/// with the older one's key among them, tags, and when it was created. The rest of it is `own`'s.
#[must_use]
pub fn meta_after(own: SessionMeta, older: SessionMeta) -> SessionMeta {
    let (mut own, older) = (Meta::of(own), Meta::of(older));
    own.text_mut().follow(&older.text);
    own.to_sidecar()
}
