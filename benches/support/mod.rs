//! What the benchmarks share: load, the bare floor, statistics, the machine.
#![allow(dead_code, reason = "each benchmark uses its own part of this module")]

pub(crate) mod bare;
pub(crate) mod contest;
pub(crate) mod figure;
pub(crate) mod load;
pub(crate) mod machine;
pub(crate) mod sample;
pub(crate) mod scratch;

/// Benchmarks stop at the first surprise: a number measured after a failed
/// call would mean nothing.
pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The engine's shard of a session key: FNV-1a, 32 bits, modulo 64.
pub(crate) fn shard_of(key: &str) -> u32 {
    let hash = key.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash % 64
}

/// Bytes of one stored line: `{"role":"user","content":"…","created_at":"…"}`
/// with its line feed.
pub(crate) const LINE_BYTES: usize = 300;

/// Bytes of such a line that are not content: member names, punctuation and a
/// time stamp with nine fraction digits.
const LINE_FRAME_BYTES: usize = 75;

/// Message texts that make lines of [`LINE_BYTES`], all different.
pub(crate) fn texts(count: usize) -> Vec<String> {
    let mut random = load::SplitMix64::new(7);
    (0..count)
        .map(|_| text(LINE_BYTES - LINE_FRAME_BYTES, &mut random))
        .collect()
}

/// A text of exactly `bytes` ASCII letters and spaces that reads like chat.
pub(crate) fn text(bytes: usize, random: &mut load::SplitMix64) -> String {
    const WORDS: [&str; 16] = [
        "the", "gateway", "answers", "when", "session", "is", "ready", "and", "a", "tool",
        "returns", "what", "you", "asked", "for", "please",
    ];
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        text.push_str(WORDS[random.below(WORDS.len())]);
        text.push(' ');
    }
    text.truncate(bytes);
    text
}
