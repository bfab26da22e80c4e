//! Compatibility with PicoClaw and kimi-cli: keys and scopes, import and export, and the stores of
//! their older files. It is on the fourth floor, beside `front`.

pub(crate) mod context_file;
pub mod kimi;
pub(crate) mod legacy_store;
