//! Counting, comparing and naming what differs.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::model::hex;

/// Longer strings are compared by their hash, as the recording has them.
const LONG: usize = 4_096;
/// How many failures of a corpus are printed; all are counted.
const PRINTED: usize = 60;

/// The outcome of one corpus.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    /// Checks that each rule decided, by its number.
    pub(crate) by_rule: [usize; 16],
    /// Whether to print what the rules decided.
    pub(crate) explain: bool,
    /// What they decided in the check under way.
    pub(crate) deviation: Option<String>,
}

impl Report {
    /// Counts one check and names it where it failed.
    pub(crate) fn check(&mut self, name: &str, outcome: Result<(), String>) {
        if let Some(deviation) = self.deviation.take().filter(|_| self.explain) {
            println!("DEVIATES {name} {deviation}");
        }
        match outcome {
            Ok(()) => self.passed += 1,
            Err(reason) => {
                self.failed += 1;
                if self.failed <= PRINTED {
                    println!("FAILED {name}: {reason}");
                } else if self.failed == PRINTED + 1 {
                    println!("... more failures follow");
                }
            }
        }
    }
}

/// Where two values differ first, as text.
pub(crate) fn same(expected: &Value, got: &Value) -> Result<(), String> {
    difference(&abbreviate(expected), &abbreviate(got), "").map_or(Ok(()), Err)
}

/// Strings above the limit become their hash and length.
pub(crate) fn abbreviate(value: &Value) -> Value {
    match value {
        Value::String(text) if text.len() > LONG => {
            json!({ "$sha256": hex(&Sha256::digest(text)), "$bytes": text.len() })
        }
        Value::Array(items) => items.iter().map(abbreviate).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(k, v)| (k.clone(), abbreviate(v)))
            .collect(),
        _ => value.clone(),
    }
}

fn difference(expected: &Value, got: &Value, path: &str) -> Option<String> {
    match (expected, got) {
        (Value::Array(a), Value::Array(b)) => {
            let deeper = a.iter().zip(b).enumerate();
            let first = deeper
                .into_iter()
                .find_map(|(i, (a, b))| difference(a, b, &format!("{path}[{i}]")));
            let length = || {
                let extra = a.get(b.len()).map_or("got also", |_| "misses");
                let item = a
                    .get(b.len())
                    .or_else(|| b.get(a.len()))
                    .map(short)
                    .unwrap_or_default();
                format!(
                    "{path}: expected {} items, got {}, {extra} {item}",
                    a.len(),
                    b.len()
                )
            };
            first.or_else(|| (a.len() != b.len()).then(length))
        }
        (Value::Object(a), Value::Object(b)) => {
            let mut names: Vec<_> = a.keys().chain(b.keys()).collect();
            names.sort();
            names.dedup();
            names
                .into_iter()
                .find_map(|name| match (a.get(name), b.get(name)) {
                    (Some(a), Some(b)) => difference(a, b, &format!("{path}.{name}")),
                    (a, b) => Some(format!(
                        "{path}.{name}: expected {}, got {}",
                        maybe(a),
                        maybe(b)
                    )),
                })
        }
        _ if expected == got => None,
        _ => Some(format!(
            "{path}: expected {}, got {}",
            short(expected),
            short(got)
        )),
    }
}

fn maybe(value: Option<&Value>) -> String {
    value.map_or("nothing".into(), short)
}

/// A value, cut to what fits a line.
pub(crate) fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(160) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}
