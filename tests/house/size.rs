//! How large files and functions are, and how much code there is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};

use crate::imports::CRATE;
use crate::nobody_breaks;
use crate::source::room;
use crate::tree::File;

/// A file has at most so many lines, its tests included.
const LINES: usize = 400;

/// Half of the functions have at most so many.
const MEDIAN: usize = 10;

/// One screen after another, and one noun.
#[test]
fn no_source_has_more_than_400_lines() {
    let lengths = CRATE
        .files
        .iter()
        .map(|file| (file.text.lines().count(), &file.path));
    let mut long: Vec<_> = lengths.filter(|(lines, _)| *lines > LINES).collect();
    long.sort_by(|a, b| b.cmp(a));
    let long: Vec<_> = long
        .iter()
        .map(|(lines, path)| format!("{path}: {lines}"))
        .collect();
    nobody_breaks("a source has at most 400 lines", &long);
}

/// Counted from the line of `fn` to the closing brace.
#[test]
fn half_of_the_functions_have_at_most_10_lines() {
    let files = CRATE
        .files
        .iter()
        .filter(|file| room(&file.path) != Some("testing"));
    let functions = files.flat_map(|file| &file.functions);
    let functions = functions.filter(|function| function.builds.outside_tests);
    let mut lengths: Vec<_> = functions.map(|function| function.lines).collect();
    lengths.sort_unstable();
    let median = lengths[lengths.len() / 2];
    say(&format!(
        "{} functions, median {median} lines\n",
        lengths.len()
    ));
    assert!(median <= MEDIAN, "the median function has {median} lines");
}

/// Blank lines, comments and tests are no code.
#[test]
fn the_code_is_counted() {
    let mut rooms: BTreeMap<&str, usize> = BTreeMap::new();
    for file in &CRATE.files {
        *rooms.entry(room(&file.path).unwrap_or("root")).or_default() += code(file);
    }
    let all: usize = rooms.values().sum();
    let shipped = all - rooms["testing"];
    let mut text = format!("lines of code: {shipped}, with testing {all}\n");
    for (room, lines) in &rooms {
        writeln!(text, "  {room:8} {lines:6}").expect("a string takes text");
    }
    say(&text);
    assert!(rooms.values().all(|lines| *lines > 0), "{text}");
}

/// Past the harness, which keeps what passing tests print.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).expect("somebody listens");
}

/// The lines of a file that hold code which is not only for tests.
fn code(file: &File) -> usize {
    if !file.builds.outside_tests {
        return 0;
    }
    let tokens = file.text.parse().expect("it was parsed before");
    let mut lines = BTreeSet::new();
    collect(tokens, &mut lines);
    let in_tests = |line: &usize| file.test_lines.iter().any(|tests| tests.contains(line));
    lines.iter().filter(|line| !in_tests(line)).count()
}

/// The lines that tokens stand on, those of comments left out.
fn collect(tokens: TokenStream, lines: &mut BTreeSet<usize>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(hash) if hash.as_char() == '#' => {
                tokens.next_if(|next| matches!(next, TokenTree::Punct(p) if p.as_char() == '!'));
                if tokens.next_if(is_comment).is_none() {
                    on(hash.span(), lines);
                }
            }
            TokenTree::Group(group) => {
                on(group.span_open(), lines);
                on(group.span_close(), lines);
                collect(group.stream(), lines);
            }
            token => on(token.span(), lines),
        }
    }
}

/// A comment for rustdoc is `#[doc = "…"]` to the parser.
fn is_comment(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else {
        return false;
    };
    group.delimiter() == Delimiter::Bracket && is_text(group)
}

fn is_text(group: &Group) -> bool {
    let mut tokens = group.stream().into_iter();
    let first = tokens
        .next()
        .is_some_and(|token| token.to_string() == "doc");
    first && tokens.next().is_some_and(|token| token.to_string() == "=")
}

fn on(span: Span, lines: &mut BTreeSet<usize>) {
    lines.extend(span.start().line..=span.end().line);
}

#[cfg(test)]
mod tests {
    use super::code;
    use crate::imports::made_up;

    #[test]
    fn only_lines_with_code_outside_of_tests_are_code() {
        let text = "//! A crate.\n\
                    #![allow(dead_code)]\n\
                    \n\
                    /// Says\n\
                    /// something.\n\
                    const TEXT: &str = \"one \\\n\
                    two\"; // a comment\n\
                    // another\n\
                    /* and\n\
                    another */\n\
                    fn f() {\n\
                    }\n\
                    #[cfg(test)]\n\
                    mod tests {\n\
                        fn t() {}\n\
                    }\n";
        let tree = made_up(&[("src/lib.rs", text)]);
        assert_eq!(code(&tree.files[0]), 5);
        let functions = &tree.files[0].functions;
        let shipped: Vec<_> = functions
            .iter()
            .filter(|f| f.builds.outside_tests)
            .collect();
        assert_eq!(shipped.len(), 1);
        assert_eq!(shipped[0].lines, 2);
    }
}
