//! The bytes of a sidecar.

use sessionlog::testing::disk_model::MemoryStorage;

use super::{MAX_INPUT, put, use_all};

const LINES: &[u8] = b"{\"role\":\"user\",\"content\":\"one\"}
{\"role\":\"assistant\",\"content\":\"two\"}
{\"role\":\"user\",\"content\":\"three\"}
";

/// A sidecar of any bytes beside an ordinary session file.
pub(crate) fn sidecar(data: &[u8]) {
    let storage = MemoryStorage::new();
    put(&storage, "cli.jsonl", LINES);
    put(
        &storage,
        "cli.meta.json",
        &data[..data.len().min(MAX_INPUT)],
    );
    use_all(&storage);
}
