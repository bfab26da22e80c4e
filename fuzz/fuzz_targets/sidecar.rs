#![no_main]

#[expect(dead_code, reason = "one target of several")]
#[path = "../../tests/it/fuzz/targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::sidecar(data));
