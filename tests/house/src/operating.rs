//! The guide's page for operators, which lists numbers and log lines.

use std::collections::BTreeSet;

use crate::nobody_breaks;
use crate::source::{CRATES, Source, crate_sources, read};

const PAGE: &str = "src/guide/operating.md";

/// How a line of the log begins in a source.
const WARNINGS: [&str; 3] = ["tracing::warn!(", "tracing::error!(", ".warn("];

/// The texts of warnings and errors; the last literal of each call. A text that is put together
/// when it is needed is none of them.
fn log_texts(source: &str) -> BTreeSet<&str> {
    let calls = WARNINGS
        .iter()
        .flat_map(|begin| source.split(begin).skip(1));
    let texts = calls.filter_map(|rest| arguments(rest).split('"').skip(1).step_by(2).last());
    texts.filter(|text| !text.contains('{')).collect()
}

/// What stands before the parenthesis that closes a call.
fn arguments(rest: &str) -> &str {
    let (mut depth, mut is_text) = (1, false);
    for (at, character) in rest.char_indices() {
        match character {
            '"' => is_text = !is_text,
            '(' if !is_text => depth += 1,
            ')' if !is_text => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &rest[..at];
        }
    }
    rest
}

/// The names of exported numbers.
fn numbers(source: &str) -> BTreeSet<&str> {
    let names = source.split("\"sessionlog_").skip(1);
    names.filter_map(|rest| rest.split('"').next()).collect()
}

fn sources() -> impl Iterator<Item = Source> {
    CRATES.into_iter().flat_map(crate_sources)
}

#[test]
fn every_exported_number_and_every_line_of_the_log_is_explained() {
    let page = read(PAGE);
    let is_there = |text: &str| page.contains(&format!("`{text}`"));
    let mut missing = Vec::new();
    for source in sources() {
        // Imports and exports are not operated, and tests have numbers of their own.
        let is_other = [
            "src/compat/",
            "src/exchange/",
            "src/maintenance/migrate/",
            "src/testing/",
        ]
        .iter()
        .any(|dir| source.path.starts_with(dir));
        if is_other || source.path.ends_with("tests.rs") {
            continue;
        }
        let unknown = log_texts(&source.text).into_iter().filter(|text| {
            let line = format!("`{text}` (ERROR)");
            !is_there(text) && !page.contains(&line)
        });
        missing.extend(unknown.map(|text| format!("{}: {text}", source.path)));
        let unknown = numbers(&source.text).into_iter().filter(|name| {
            let short = name.strip_suffix("_total").unwrap_or(name);
            !page.contains(&format!("sessionlog_{name}")) && !is_there(short)
        });
        missing.extend(unknown.map(|name| format!("{}: {name}", source.path)));
    }
    nobody_breaks("the guide explains what operators see", &missing);
}

#[test]
fn the_page_explains_nothing_that_is_not_there() {
    let everything: String = sources().map(|source| source.text).collect();
    let page = read(PAGE);
    let (_, log) = page
        .split_once("| in the log |")
        .expect("it has a table of the log");
    let rows = log.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.filter_map(|row| row.split('|').next());
    let texts = cells.flat_map(|cell| cell.split('`').step_by(2));
    let texts = texts.filter(|text| text.trim().len() > 1 && !text.starts_with([' ', ',']));
    let gone: Vec<_> = texts
        .filter(|text| !everything.contains(&format!("\"{text}")))
        .collect();
    nobody_breaks("the guide explains lines that the store writes", &gone);
}

#[cfg(test)]
mod tests {
    use super::{log_texts, numbers};

    #[test]
    fn the_texts_and_names_of_a_source_are_found() {
        let source = r#"
            tracing::warn!(path = "x", %error, "it waits; then goes on");
            self.warn(
                error,
                "it failed (twice)",
            ); tracing::error!("{told}");
            Metric::of("sessionlog_syncs_total", "How many");
        "#;
        assert_eq!(
            log_texts(source),
            ["it failed (twice)", "it waits; then goes on"].into()
        );
        assert_eq!(numbers(source), ["syncs_total"].into());
    }
}
