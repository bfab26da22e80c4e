//! Puts many faults into one copy of a source file. Each stands beside the code it replaces, in
//! the functions that it changes; the environment chooses one when a program runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// What the library's root gains. A name that is not there would be a fault never chosen.
pub(crate) const CHOICE: &str = r#"
#[doc(hidden)]
pub(crate) fn is_fault(number: usize) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<usize>> = std::sync::OnceLock::new();
    *CHOSEN.get_or_init(|| Some(std::env::var("SESSIONLOG_FAULT").ok()?.parse().unwrap()))
        == Some(number)
}
"#;

/// A file, and the bodies that faults give its functions.
#[derive(Debug)]
pub(crate) struct Combined {
    text: String,
    bodies: Vec<Range<usize>>,
    /// By function, then by fault.
    others: BTreeMap<usize, BTreeMap<usize, String>>,
}

impl Combined {
    /// # Errors
    /// If the text is no Rust.
    pub(crate) fn new(text: String) -> syn::Result<Self> {
        let bodies = bodies(&text)?;
        Ok(Self {
            text,
            bodies,
            others: BTreeMap::new(),
        })
    }

    /// Takes in what a fault makes of the file. False if it changes more than the bodies of
    /// functions: such a fault is built by itself.
    pub(crate) fn add(&mut self, fault: usize, changed: &str) -> bool {
        let Ok(changed_bodies) = bodies(changed) else {
            return false;
        };
        if outside(&self.text, &self.bodies) != outside(changed, &changed_bodies) {
            return false;
        }
        for (number, (old, new)) in self.bodies.iter().zip(changed_bodies).enumerate() {
            let new = &changed[new];
            if &self.text[old.clone()] != new {
                let others = self.others.entry(number).or_default();
                others.insert(fault, new.to_owned());
            }
        }
        true
    }

    /// Leaves a fault out.
    pub(crate) fn remove(&mut self, fault: usize) {
        for others in self.others.values_mut() {
            others.remove(&fault);
        }
        self.others.retain(|_, others| !others.is_empty());
    }

    /// The file with all its faults.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut end = 0;
        for (number, body) in self.bodies.iter().enumerate() {
            text += &self.text[end..body.start];
            end = body.end;
            let own = &self.text[body.clone()];
            let Some(others) = self.others.get(&number) else {
                text += own;
                continue;
            };
            text.push('{');
            for (fault, other) in others {
                let _ = write!(text, "if crate::is_fault({fault}) {other} else ");
            }
            text += own;
            text.push('}');
        }
        text += &self.text[end..];
        text
    }

    /// The faults that stand in the functions around these lines of [`Combined::text`]: some of
    /// them do not compile there.
    pub(crate) fn at_lines(&self, lines: &BTreeSet<usize>) -> BTreeSet<usize> {
        let text = self.text();
        let Ok(bodies) = bodies(&text) else {
            return self
                .others
                .values()
                .flat_map(BTreeMap::keys)
                .copied()
                .collect();
        };
        let line_of = |byte: usize| text[..byte].matches('\n').count() + 1;
        self.others
            .iter()
            .filter(|(number, _)| {
                let body = &bodies[**number];
                lines
                    .range(line_of(body.start)..=line_of(body.end))
                    .next()
                    .is_some()
            })
            .flat_map(|(_, others)| others.keys().copied())
            .collect()
    }
}

/// The text without these parts.
fn outside(text: &str, parts: &[Range<usize>]) -> String {
    let mut rest = String::new();
    let mut end = 0;
    for part in parts {
        rest += &text[end..part.start];
        end = part.end;
    }
    rest += &text[end..];
    rest
}

/// Where the bodies of functions stand, in their order; those within others are left out.
fn bodies(text: &str) -> syn::Result<Vec<Range<usize>>> {
    struct Bodies(Vec<Range<usize>>);
    impl<'ast> Visit<'ast> for Bodies {
        fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
            self.0.push(function.block.span().byte_range());
        }
        fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
            self.0.push(function.block.span().byte_range());
        }
        fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
            if let Some(block) = &function.default {
                self.0.push(block.span().byte_range());
            }
        }
    }
    let file = syn::parse_file(text)?;
    let mut bodies = Bodies(Vec::new());
    visit::visit_file(&mut bodies, &file);
    Ok(bodies.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_stand_beside_what_they_replace() {
        let mut combined = Combined::new("fn a() -> u8 { 1 }\nfn b() {}\n".to_owned()).unwrap();
        assert!(combined.add(4, "fn a() -> u8 { 2 }\nfn b() {}\n"));
        assert!(combined.add(7, "fn a() -> u8 { 3 }\nfn b() {}\n"));
        assert!(!combined.add(8, "fn a() -> u16 { 1 }\nfn b() {}\n"));
        let both = "fn a() -> u8 {if crate::is_fault(4) { 2 } else if crate::is_fault(7) { 3 } \
                    else { 1 }}\nfn b() {}\n";
        assert_eq!(combined.text(), both);
        assert_eq!(combined.at_lines(&[1].into()), [4, 7].into());
        assert_eq!(combined.at_lines(&[2].into()), [].into());
        combined.remove(4);
        assert_eq!(combined.at_lines(&[1].into()), [7].into());
    }
}
