//! (skeleton)
use serde_json::value::RawValue;
/// A sidecar's content.
#[derive(Clone, Debug, serde::Serialize)]
pub struct SessionMeta {
    /// The session's key.
    pub key: String,
    /// Its summary.
    pub summary: String,
    /// Raw non-empty lines at the start of the file that are truncated away.
    pub skip: i64,
    /// Advisory line count, as PicoClaw keeps it.
    pub count: i64,
    /// RFC 3339.
    pub created_at: String,
    /// RFC 3339.
    pub updated_at: String,
    /// JSON text, numbers untouched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<Box<RawValue>>,
    /// Other keys of this session.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
}
