//! Random conversations are legal for every provider, and what they said is in them.

use std::fmt::Write as _;

use serde_json::{Value, json};
use sessionlog::backend::kit;
use sessionlog::{Export, ExportOptions, Format, Opening, Unpaired};

use super::cases::reported;
use super::draw::Draw;
use super::orders::{self, Broken};

type Rules = fn(&Value) -> Broken;

/// The shapes that go to a model, with their rules.
pub(super) const MODELS: [(Format, Rules); 4] = [
    (Format::OpenAi, orders::openai),
    (Format::OpenAiResponses, orders::responses),
    (Format::Anthropic, orders::anthropic),
    (Format::Gemini, orders::gemini),
];

/// How many conversations are tried.
fn depth() -> u64 {
    if std::env::var_os("SESSIONLOG_LONG").is_some() {
        50_000
    } else {
        2_000
    }
}

pub(super) fn export(lines: &[Value], summary: &str, options: ExportOptions) -> Export {
    let lines = super::imports::lines(lines);
    kit::export(lines.as_bytes(), 0, summary, options).unwrap()
}

/// Fails with the conversation, if the export breaks a rule.
pub(super) fn obeys(rules: Rules, export: &Export, seed: impl std::fmt::Display) {
    let value: Value = serde_json::from_str(&export.text).unwrap();
    if let Err(broken) = rules(&value) {
        panic!("conversation {seed}: {broken}\n{value:#}");
    }
}

/// Whether of every message that has the word it is reported that something was left out.
fn is_reported(word: &str, lines: &[Value], sent: &Export) -> bool {
    let lines = lines.iter().map(Value::to_string);
    // What is no message has no place in the history.
    let history = lines.filter(|line| kit::message_of(line.as_bytes()).is_some());
    let mut said = history.enumerate().filter(|(_, line)| line.contains(word));
    said.all(|(at, _)| sent.left_out.iter().any(|left| left.message == Some(at)))
}

#[test]
fn every_conversation_is_legal_for_every_model_and_says_what_was_said() {
    for seed in 0..depth() {
        let (lines, words) = Draw::new(seed).conversation();
        for (format, rules) in MODELS {
            let options = ExportOptions::new(format);
            let sent = export(&lines, "earlier", options);
            obeys(rules, &sent, format!("{seed} for {format:?}"));
            for word in (1..=words).map(|word| format!("word{word}.")) {
                let is_told = sent.text.contains(&word) || is_reported(&word, &lines, &sent);
                assert!(
                    is_told,
                    "conversation {seed} for {format:?}: {word} is neither in {} nor in {:?}",
                    sent.text, sent.left_out
                );
            }
            assert!(sent.text.contains("earlier"), "{seed}: {}", sent.text);
            let answered = options.unpaired(Unpaired::Answer).opening(Opening::User);
            obeys(
                rules,
                &export(&lines, "", answered),
                format!("{seed} for {format:?}, answered"),
            );
        }
    }
}

#[test]
fn what_was_exported_is_legal_after_an_import_and_the_same_again() {
    for seed in 0..depth() / 4 {
        let (lines, _) = Draw::new(seed).conversation();
        for (format, rules) in MODELS {
            let first = export(&lines, "", ExportOptions::new(format));
            let read = kit::import(&first.text, format);
            let read = read.unwrap_or_else(|e| {
                panic!("conversation {seed} for {format:?}: {e}\n{}", first.text)
            });
            let read: Vec<Value> = read
                .iter()
                .map(|m| serde_json::to_value(m).unwrap())
                .collect();
            let again = export(&read, "", ExportOptions::new(format));
            obeys(rules, &again, format!("{seed} for {format:?}, again"));
            let values = [&first, &again].map(|e| serde_json::from_str::<Value>(&e.text).unwrap());
            assert_eq!(values[0], values[1], "conversation {seed} for {format:?}");
        }
    }
}

/// For `tests/providers`, which validates them against the providers' own types.
#[test]
fn the_exports_are_written_down() {
    let Some(path) = std::env::var_os("SESSIONLOG_EXPORTS") else {
        return;
    };
    let mut written = String::new();
    let drawn = (0..depth()).map(|seed| (seed.to_string(), Draw::new(seed).conversation().0));
    let reported = reported().into_iter();
    let reported = reported.map(|(name, lines)| (name.to_owned(), lines));
    for (name, lines) in drawn.chain(reported) {
        for (format, _) in MODELS {
            let sent = export(&lines, "earlier", format.into());
            let value: Value = serde_json::from_str(&sent.text).unwrap();
            let line = json!({"format": format!("{format:?}"), "name": name, "value": value});
            writeln!(written, "{line}").unwrap();
        }
    }
    std::fs::write(path, written).unwrap();
}
