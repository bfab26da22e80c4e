//! Floor 2: what is on disk. Formats, and how files of these formats are read and
//! written; nothing here knows who owns a session, or when it is written.

pub(crate) mod copies;
pub(crate) mod files;
pub(crate) mod journal;
pub(crate) mod session_file;
