//! From a platform's information about an inbound message to the key of its session.
//!
//! Everything here is pure, and byte for byte the same as PicoClaw's, so that each finds the
//! sessions that the other wrote.
//!
//! ```
//! use sessionlog::scope::{InboundContext, SessionPolicy, allocate_route_session};
//!
//! let context = InboundContext {
//!     channel: "telegram".into(),
//!     chat_id: "-1001".into(),
//!     chat_type: "group".into(),
//!     topic_id: "42".into(),
//!     sender_id: "7".into(),
//!     ..InboundContext::default()
//! };
//! let policy = SessionPolicy {
//!     dimensions: vec!["chat".into()],
//!     ..SessionPolicy::default()
//! };
//! let allocation = allocate_route_session("main", &context, &policy);
//! assert_eq!(allocation.scope.values["chat"], "group:-1001/42");
//! assert!(allocation.session_key.starts_with("sk_v1_"));
//! assert_eq!(allocation.session_aliases[1], "agent:main:telegram:group:-1001/42");
//! ```
//!
//! A gateway gives the session its scope and aliases before it handles the message; messages under
//! an older key are then found under the new one:
//!
//! ```
//! # use sessionlog::Store;
//! # use sessionlog::scope::{InboundContext, SessionPolicy, allocate_route_session};
//! # fn main() -> sessionlog::Result<()> {
//! # let scratch = tempfile::tempdir().unwrap();
//! # let store = Store::open(scratch.path())?;
//! # let context = InboundContext {
//! #     channel: "telegram".into(),
//! #     chat_id: "7".into(),
//! #     chat_type: "direct".into(),
//! #     sender_id: "7".into(),
//! #     ..InboundContext::default()
//! # };
//! # let policy = SessionPolicy { dimensions: vec!["chat".into()], ..SessionPolicy::default() };
//! let chats = store.handle();
//! chats.add_message("agent:main:telegram:direct:7", "user", "hi").wait()?;
//!
//! let session = allocate_route_session("main", &context, &policy).isolated();
//! let scope = Some(session.scope.to_raw());
//! chats.ensure_session_metadata(&session.session_key, scope, session.session_aliases).wait()?;
//! assert_eq!(chats.history(&session.session_key).wait()?.len(), 1);
//! # store.close()
//! # }
//! ```
//!
//! # Which conversations are separated
//!
//! Ids that differ only in case or surrounding white space are the same, and so are agents and
//! accounts that differ only in characters that [`normalize_agent_id`] drops. These are PicoClaw's
//! rules, and changing them would lose sessions.
//!
//! PicoClaw joins ids without escaping them, so a chat called `1|sender=bob` gets the key of sender
//! `bob` in chat `1`. [`Allocation::isolated`] gives such a conversation a key of its own, leaves
//! all other keys unchanged, and keeps only those older keys that lead to this conversation alone.
//! A gateway that gets its ids from strangers calls it on every allocation. A store also checks
//! [`collides`], and gives a session of unknown origin to no scope that could be a forgery
//! ([`Error::ScopeConflict`](crate::error::Error::ScopeConflict)).

mod allocate;
mod collision;
mod context;
mod identity;
mod isolate;
mod key;
mod legacy;
mod main_alias;
mod normalize;
mod own_aliases;

pub use allocate::{Allocation, allocate_route_session};
#[doc(hidden)]
pub use collision::may_follow;
pub use collision::{collides, same_conversation};
pub use context::{InboundContext, SessionPolicy};
pub use identity::{canonical_session_identity_id, resolve_linked_peer_id, resolve_linked_sender};
pub use key::{
    build_main_session_key, build_opaque_session_key, build_session_key, canonical_scope_signature,
    is_explicit_session_key, is_legacy_agent_session_key, is_opaque_session_key, resolve_scope_key,
};
pub use legacy::{
    ParsedLegacySessionKey, build_legacy_direct_aliases, build_legacy_main_alias,
    build_legacy_peer_alias, parse_legacy_agent_session_key, resolve_agent_id,
};
#[doc(hidden)]
pub use main_alias::is_main_of;
pub use normalize::{normalize_account_id, normalize_agent_id};

pub use crate::session_file::SessionScope;
