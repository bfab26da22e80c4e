//! The texts that the slow suites replace to prove that tests notice.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};
use syn::{Expr, ExprStruct, Lit, Member};

use crate::nobody_breaks;
use crate::source::read;

/// A text that becomes another.
#[derive(Debug, Default)]
struct Seed {
    fault: String,
    file: String,
    old: String,
    new: String,
}

/// Reads what loom's models must catch; `teeth.sh` says how it is written.
fn teeth(text: &str) -> Vec<Seed> {
    let mut seeds = Vec::new();
    let (mut fault, mut file) = (String::new(), String::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("fault ") {
            name.clone_into(&mut fault);
        } else if let Some(path) = line.strip_prefix("file ") {
            path.clone_into(&mut file);
        } else if line == "<<<<" {
            seeds.push(Seed {
                fault: fault.clone(),
                file: file.clone(),
                old: until(&mut lines, "===="),
                new: until(&mut lines, ">>>>"),
            });
        }
    }
    seeds
}

fn until<'a>(lines: &mut impl Iterator<Item = &'a str>, end: &str) -> String {
    let part: Vec<_> = lines.take_while(|line| *line != end).collect();
    part.join("\n")
}

/// Reads the bugs of the ladder, which are Rust.
fn bugs(text: &str) -> Vec<Seed> {
    let mut found = Bugs(Vec::new());
    found.visit_file(&syn::parse_file(text).expect("the ladder compiles"));
    found.0
}

struct Bugs(Vec<Seed>);

impl<'ast> Visit<'ast> for Bugs {
    fn visit_expr_struct(&mut self, made: &'ast ExprStruct) {
        if made.path.is_ident("Bug") {
            self.0.push(Seed {
                fault: field(made, "name"),
                file: field(made, "file"),
                old: field(made, "original"),
                new: field(made, "replacement"),
            });
        }
        visit::visit_expr_struct(self, made);
    }
}

fn field(made: &ExprStruct, name: &str) -> String {
    let named = |member: &Member| matches!(member, Member::Named(ident) if ident == name);
    let field = made.fields.iter().find(|field| named(&field.member));
    match field.map(|field| &field.expr) {
        Some(Expr::Lit(literal)) => match &literal.lit {
            Lit::Str(text) => text.value(),
            _ => panic!("the {name} of a bug is no text"),
        },
        _ => panic!("the {name} of a bug is no literal"),
    }
}

/// The seeds whose text is not there exactly once, after those before it of the same
/// fault.
fn lost(seeds: &[Seed], read: impl Fn(&str) -> String) -> Vec<String> {
    let mut lost = Vec::new();
    let mut texts: BTreeMap<(&str, &str), String> = BTreeMap::new();
    for seed in seeds {
        let text = texts.entry((&seed.fault, &seed.file));
        let text = text.or_insert_with(|| read(&seed.file));
        let times = text.matches(&seed.old).count();
        if times == 1 {
            *text = text.replacen(&seed.old, &seed.new, 1);
        } else {
            let first = seed.old.lines().next().unwrap_or_default().trim();
            let (fault, file) = (&seed.fault, &seed.file);
            lost.push(format!("{file}: {times} times, for \"{fault}\": {first}"));
        }
    }
    lost
}

/// The model or test that must notice would otherwise prove nothing, and it takes
/// half an hour until somebody sees that.
#[test]
fn every_fault_that_is_seeded_has_its_text_in_the_source_once() {
    let mut seeds = teeth(&read("loom-tests/teeth.txt"));
    seeds.extend(bugs(&read("tests/ladder/bugs.rs")));
    assert!(seeds.len() > 100, "only {} seeds were read", seeds.len());
    nobody_breaks("a seed's text stands in its file once", &lost(&seeds, read));
}

#[cfg(test)]
mod tests {
    use super::{bugs, lost, teeth};

    const SOURCE: &str = "let a = 1;\nlet b = 2;\nlet b = 2;\n";

    fn source(_: &str) -> String {
        SOURCE.to_owned()
    }

    #[test]
    fn a_text_that_is_gone_or_there_twice_is_named() {
        let text = "fault f\nmodel m\nfile x.rs\n<<<<\nlet a = 1;\n====\nlet a = 3;\n>>>>\n\
                    <<<<\nlet a = 3;\n====\n>>>>\nend\n\
                    fault g\nmodel m\nfile x.rs\n<<<<\nlet b = 2;\n====\n>>>>\nend\n";
        let seeds = teeth(text);
        assert_eq!(seeds.len(), 3);
        assert_eq!(
            lost(&seeds, source),
            ["x.rs: 2 times, for \"g\": let b = 2;"]
        );
        let text = "const B: &[Bug] = &[Bug { name: \"n\", file: \"x.rs\", \
                    original: r#\"let c\"#, replacement: \"\", rung: R }];";
        assert_eq!(
            lost(&bugs(text), source),
            ["x.rs: 0 times, for \"n\": let c"]
        );
    }
}
