//! The bytes of a session file.

use sessionlog::testing::disk_model::MemoryStorage;

use super::{MAX_INPUT, put, use_all};

/// A session file of any bytes, its sidecar skipping none, some, or missing.
pub(crate) fn log(data: &[u8]) {
    let Some((skip, bytes)) = data.split_first() else {
        return;
    };
    let storage = MemoryStorage::new();
    put(&storage, "cli.jsonl", &bytes[..bytes.len().min(MAX_INPUT)]);
    if *skip < 0xF0 {
        let sidecar = format!(
            "{{\"key\":\"cli\",\"skip\":{},\"count\":{skip}}}",
            skip / 16
        );
        put(&storage, "cli.meta.json", sidecar.as_bytes());
    }
    use_all(&storage);
}
