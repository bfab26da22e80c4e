//! Who imports what from whom, file by file.

use std::fmt;
use std::sync::LazyLock;

use crate::builds::Builds;
use crate::mentions::Mention;
use crate::source::{self, Source};
use crate::tree::{Id, Tree, What};

/// A path in a file that leads to another file.
#[derive(Debug)]
pub(crate) struct Edge<'a> {
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
    /// The files that only hand on what `to` defines.
    pub(crate) through: Vec<&'a str>,
    /// What `to` defines; nothing if the path leads to a module and no further.
    pub(crate) name: Option<&'a str>,
    mention: &'a Mention,
}

impl Edge<'_> {
    pub(crate) fn builds(&self) -> Builds {
        self.mention.builds
    }

    /// Every file the path leads to or through.
    pub(crate) fn files(&self) -> impl Iterator<Item = &str> {
        let through = self.through.iter().copied();
        through.chain([self.to]).filter(|file| *file != self.from)
    }
}

impl fmt::Display for Edge<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.from, self.mention.line)?;
        self.files().try_for_each(|file| write!(f, " -> {file}"))?;
        write!(f, ": {}", self.mention.segments.join("::"))
    }
}

/// `sessionlog` itself as it stands.
pub(crate) static CRATE: LazyLock<Tree> = LazyLock::new(|| Tree::of(&source::crate_sources("")));

/// A crate that exists in a test only, by paths and texts.
pub(crate) fn made_up(files: &[(&str, &str)]) -> Tree {
    let sources = files.iter().map(|(path, text)| Source {
        path: (*path).to_owned(),
        text: (*text).to_owned(),
    });
    Tree::of(&sources.collect::<Vec<_>>())
}

/// Every path of the crate that leads from one file to another.
pub(crate) fn edges(tree: &Tree) -> Vec<Edge<'_>> {
    let mut edges = Vec::new();
    for (id, module) in tree.modules.iter().enumerate() {
        let imports = module.imports.iter().map(|import| &import.mention);
        for mention in imports.chain(&module.paths) {
            edges_of(tree, id, mention, &mut edges);
        }
    }
    edges
}

fn edges_of<'a>(tree: &'a Tree, from: Id, mention: &'a Mention, edges: &mut Vec<Edge<'a>>) {
    let path = |id: Id| tree.files[tree.modules[id].file].path.as_str();
    for found in tree.resolve(from, &mention.segments) {
        let is_item = matches!(found.what, What::Item(_));
        let name = mention.segments[found.named_by].as_str();
        let edge = Edge {
            from: path(from),
            to: path(found.what.module()),
            through: found.through.iter().map(|id| path(*id)).collect(),
            name: is_item.then_some(name),
            mention,
        };
        if edge.files().next().is_some() {
            edges.push(edge);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{edges, made_up};

    /// The edges that one file of a small crate has.
    fn of(text: &str) -> Vec<String> {
        let tree = made_up(&[
            (
                "src/lib.rs",
                "mod high; mod low; pub use low::thing::Thing;",
            ),
            (
                "src/high/mod.rs",
                "mod face; mod user; pub(crate) struct Tall;",
            ),
            (
                "src/high/face.rs",
                "pub(crate) use crate::low::thing::Thing as Faced;",
            ),
            ("src/high/user.rs", text),
            (
                "src/low.rs",
                "pub(crate) mod thing; pub(crate) mod name; pub(crate) use name::thing;",
            ),
            ("src/low/name.rs", "pub(crate) fn thing() {}"),
            (
                "src/low/thing.rs",
                "pub struct Thing; pub(crate) fn thing() {} pub(crate) mod inner { pub(crate) const DEEP: u8 = 0; }",
            ),
        ]);
        let edges = edges(&tree).into_iter();
        let mut edges: Vec<_> = edges
            .filter(|edge| edge.from == "src/high/user.rs" && edge.name.is_some())
            .map(|edge| format!("{} {}", edge.to, edge.mention.segments.join("::")))
            .collect();
        edges.dedup();
        edges
    }

    /// A way of writing an import that the check does not see is a way round it.
    #[test]
    fn every_way_to_name_what_another_file_defines_is_seen() {
        let thing = "src/low/thing.rs";
        let seen = [
            (
                "use crate::low::thing::Thing;",
                vec!["crate::low::thing::Thing"],
            ),
            (
                "use crate::low::{self, thing::{Thing as T, thing}};",
                vec!["crate::low::thing::Thing", "crate::low::thing::thing"],
            ),
            (
                "use super::super::low::thing::Thing;",
                vec!["super::super::low::thing::Thing"],
            ),
            ("use crate::Thing;", vec!["crate::Thing"]),
            ("use crate::*; fn f(_: Thing) {}", vec!["Thing"]),
            ("use super::face::Faced;", vec!["super::face::Faced"]),
            ("use super::face::*; type T = Faced;", vec!["Faced"]),
            (
                "fn f() { crate::low::thing::thing() }",
                vec!["crate::low::thing::thing"],
            ),
            (
                "fn f() { vec![1, crate::low::thing::thing(), 2]; }",
                vec!["crate::low::thing::thing"],
            ),
            (
                "macro_rules! m { () => { $crate::low::thing::thing() } }",
                vec!["crate::low::thing::thing"],
            ),
            (
                "fn f() { use crate::low::thing::Thing; }",
                vec!["crate::low::thing::Thing"],
            ),
            (
                "mod inside { use super::super::super::Thing; }",
                vec!["super::super::super::Thing"],
            ),
            (
                "const D: u8 = crate::low::thing::inner::DEEP;",
                vec!["crate::low::thing::inner::DEEP"],
            ),
            ("impl From<crate::Thing> for u8 {}", vec!["crate::Thing"]),
            (
                "fn f() { let _ = crate::Thing::new; }",
                vec!["crate::Thing::new"],
            ),
        ];
        for (text, names) in seen {
            let expected: Vec<_> = names.iter().map(|name| format!("{thing} {name}")).collect();
            assert_eq!(of(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_the_crates_own_is_no_import_of_it() {
        for text in [
            "use std::sync::Arc; fn f(thing: u8) { thing.low(); Arc::new(thing); }",
            "/// See [`Thing`](crate::Thing).\npub(crate) struct Mine;",
            "pub(in crate::high) struct Mine;",
            "use ::thing::Thing;",
        ] {
            assert_eq!(of(text), Vec::<String>::new(), "{text}");
        }
    }

    /// A module and a function may have one name: before `::`, the module is meant.
    #[test]
    fn a_function_named_like_a_module_is_not_taken_for_it() {
        assert_eq!(
            of("fn f() { crate::low::thing::thing() }"),
            ["src/low/thing.rs crate::low::thing::thing"]
        );
        assert_eq!(
            of("use crate::low::thing as other; fn f() { other::thing() }"),
            [
                "src/low/name.rs crate::low::thing",
                "src/low/thing.rs other::thing"
            ]
        );
    }
}
