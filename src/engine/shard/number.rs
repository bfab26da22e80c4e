//! Which shard owns a key.

use sessionlog_core::session_file;

/// The number of shards of a store: the same as `PicoClaw`'s number of locks. Two for loom, and a
/// few for random schedules.
pub(crate) const SHARDS: usize = if cfg!(all(sessionlog_loom, feature = "shuttle")) {
    4
} else if cfg!(sessionlog_loom) {
    2
} else {
    64
};

/// The shard that owns a key.
pub(crate) fn shard_of(key: &str) -> usize {
    session_file::fnv1a32(key.as_bytes()) as usize % SHARDS
}
