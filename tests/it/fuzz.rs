//! The fuzz targets of `fuzz/`, without a fuzzer: on every input that once
//! failed, on the inputs that fuzzing starts from, and on each of those with
//! bytes changed at random.

mod targets;

use std::fs;
use std::path::Path;

use crate::support::is_long;

/// Changed copies of each input, four times as many with `SESSIONLOG_LONG=1`.
const VARIANTS: u64 = 50;

#[test]
fn every_input_of_a_fuzz_target_is_answered_in_order() {
    let variants = if is_long() { 4 * VARIANTS } else { VARIANTS };
    let inputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/inputs");
    for (name, target) in targets::TARGETS {
        let mut tried = 0;
        for entry in fs::read_dir(inputs.join(name)).unwrap() {
            let path = entry.unwrap().path();
            let input = fs::read(&path).unwrap();
            let mut replay = Replay(path.display().to_string());
            target(&input);
            for seed in 1..=variants {
                replay.0 = format!("{}, changed with seed {seed}", path.display());
                target(&changed(&input, seed));
            }
            std::mem::forget(replay);
            tried += variants + 1;
        }
        println!("{name}: {tried} inputs");
        assert!(tried >= 3 * variants, "{name} has {tried} inputs");
    }
}

/// Says which input it was if the test panics.
struct Replay(String);

impl Drop for Replay {
    fn drop(&mut self) {
        eprintln!("failed: {}", self.0);
    }
}

/// The input with a few bytes changed, removed or repeated.
fn changed(input: &[u8], seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut draw = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as usize % below.max(1)
    };
    let mut bytes = input.to_vec();
    for _ in 0..=draw(6) {
        let at = draw(bytes.len());
        let end = (at + 1 + draw(24)).min(bytes.len());
        match draw(5) {
            0 if !bytes.is_empty() => bytes[at] = draw(256) as u8,
            1 if !bytes.is_empty() => bytes[at] ^= 1 << draw(8),
            2 => drop(bytes.drain(at.min(end)..end)),
            3 => {
                let part = bytes[at.min(end)..end].to_vec();
                let to = draw(bytes.len());
                bytes.splice(to..to, part);
            }
            _ => bytes.truncate(bytes.len() - draw(bytes.len() / 8 + 1)),
        }
    }
    bytes
}
