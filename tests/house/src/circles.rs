//! Files that can only be understood together.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::imports::{Edge, edges};
use crate::nobody_breaks;
use crate::source::{CRATES, crate_sources};
use crate::tree::Tree;

/// The file in which all names of a crate are handed on.
const ROOT: &str = "src/lib.rs";

/// An import that counts in no circle: an error hands back the messages that were not written.
const EXCEPTION: (&str, &str, &str) = ("src/error.rs", "src/session_file/message.rs", "Message");

/// So many files may import each other in a circle.
const ENOUGH: usize = 4;

/// Whom a file imports, and the names it imports from there.
type Graph<'a> = BTreeMap<&'a str, BTreeMap<&'a str, BTreeSet<&'a str>>>;

/// Files each of which reaches all others by imports, with the imports between them.
struct Circle<'a> {
    files: BTreeSet<&'a str>,
    edges: Vec<String>,
}

impl fmt::Display for Circle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} files", self.files.len())?;
        self.files
            .iter()
            .try_for_each(|file| write!(f, "\n    {file}"))?;
        write!(f, "\n  by {} edges", self.edges.len())?;
        self.edges
            .iter()
            .try_for_each(|edge| write!(f, "\n    {edge}"))
    }
}

/// Which file imports which outside of tests. A path to a module alone is none: what it is
/// for stands where something in that module is named. The root defines nothing: a name that it
/// takes from another crate leads out of this one.
fn graph(tree: &Tree) -> Graph<'_> {
    let mut graph = Graph::new();
    let counts = |edge: &Edge<'_>| {
        let is_excepted = (edge.from, edge.to, edge.name.unwrap_or_default()) == EXCEPTION;
        edge.builds().outside_tests && !is_excepted
    };
    for edge in edges(tree).into_iter().filter(counts) {
        if let Some(name) = edge
            .name
            .filter(|_| edge.from != edge.to && edge.to != ROOT)
        {
            let names = graph.entry(edge.from).or_default();
            names.entry(edge.to).or_default().insert(name);
        }
    }
    graph
}

/// Everything a file imports, by however many steps.
fn reached<'a>(graph: &Graph<'a>, from: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut left = vec![from];
    while let Some(file) = left.pop() {
        for to in graph.get(file).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(*to) {
                left.push(to);
            }
        }
    }
    reached
}

/// Every circle, the largest first.
fn circles(tree: &Tree) -> Vec<Circle<'_>> {
    let graph = graph(tree);
    let files = graph.keys().map(|file| (*file, reached(&graph, file)));
    let reach: BTreeMap<_, _> = files.collect();
    let found: BTreeSet<_> = reach.keys().map(|file| around(&reach, file)).collect();
    let found = found.into_iter().filter(|files| files.len() > 1);
    let mut circles: Vec<_> = found.map(|files| with_edges(&graph, files)).collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.files.len()));
    circles
}

/// The files that a file reaches and that reach it.
fn around<'a>(reach: &BTreeMap<&'a str, BTreeSet<&'a str>>, file: &str) -> BTreeSet<&'a str> {
    let files = reach[file].iter().copied();
    let reaches = |other: &&str| reach.get(other).is_some_and(|back| back.contains(file));
    files.filter(reaches).collect()
}

fn with_edges<'a>(graph: &Graph<'a>, files: BTreeSet<&'a str>) -> Circle<'a> {
    let mut edges = Vec::new();
    for from in &files {
        let inside = graph[from].iter().filter(|(to, _)| files.contains(*to));
        edges.extend(inside.map(|(to, names)| {
            let names: Vec<_> = names.iter().copied().collect();
            format!("{from} -> {to}: {}", names.join(", "))
        }));
    }
    Circle { files, edges }
}

/// Who changes one of them must have understood all of them.
#[test]
fn no_circle_of_imports_is_larger_than_four_files() {
    for krate in CRATES {
        let tree = Tree::of(&crate_sources(krate));
        let circles = circles(&tree).into_iter();
        let large: Vec<_> = circles
            .filter(|circle| circle.files.len() > ENOUGH)
            .collect();
        nobody_breaks("at most four files import each other in a circle", &large);
    }
}

#[cfg(test)]
mod tests {
    use super::circles;
    use crate::imports::made_up;

    #[test]
    fn a_circle_is_found_and_its_edges_named() {
        let tree = made_up(&[
            ("src/lib.rs", "mod a; mod b; mod c; mod d; pub use a::A;"),
            ("src/a.rs", "use crate::b::B; pub struct A;"),
            ("src/b.rs", "pub struct B(crate::c::C);"),
            ("src/c.rs", "use crate::A; use crate::d::D; pub struct C;"),
            (
                "src/d.rs",
                "pub struct D; #[cfg(test)] mod tests { use crate::A; }",
            ),
        ]);
        let circles = circles(&tree);
        assert_eq!(circles.len(), 1);
        assert_eq!(
            circles[0].edges,
            [
                "src/a.rs -> src/b.rs: B",
                "src/b.rs -> src/c.rs: C",
                "src/c.rs -> src/a.rs: A",
            ]
        );
    }
}
