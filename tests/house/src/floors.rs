//! Which way imports go.

use crate::imports::{CRATE, Edge, edges};
use crate::nobody_breaks;
use crate::source::room;
use crate::tree::Tree;

/// The files directly under `src`. A name that the root hands on belongs to the file that defines
/// it.
const VOCABULARY: [&str; 2] = ["src/lib.rs", "src/guide.rs"];

/// The rooms under `src`, by how high they stand.
const FLOORS: [(&str, u32); 5] = [
    ("disk", 1),
    ("engine", 2),
    ("maintenance", 3),
    ("front", 3),
    ("compat", 3),
];

fn height(path: &str) -> Option<u32> {
    let floor = FLOORS.iter().find(|(name, _)| room(path) == Some(name));
    floor.map(|(_, height)| *height)
}

fn may(edge: &Edge<'_>) -> bool {
    let anything = room(edge.from) == Some("testing") || edge.from == "src/lib.rs";
    anything || edge.files().all(|file| may_reach(edge, file))
}

fn may_reach(edge: &Edge<'_>, file: &str) -> bool {
    if room(file) == Some("testing") {
        return !edge.builds().shipped;
    }
    VOCABULARY.contains(&file) || height(edge.from) >= height(file)
}

fn offenders(tree: &Tree) -> Vec<Edge<'_>> {
    edges(tree).into_iter().filter(|edge| !may(edge)).collect()
}

/// What a lower floor knows of a higher one, it can neither be tested nor be read
/// without.
#[test]
fn imports_go_down_the_floors_only() {
    nobody_breaks(
        "disk < engine < maintenance, front and compat; testing only for tests",
        &offenders(&CRATE),
    );
}

/// What stands elsewhere has no floor, and could import what it likes.
#[test]
fn every_source_stands_on_a_floor() {
    let homeless: Vec<_> = CRATE.files.iter().map(|file| file.path.as_str()).collect();
    let homeless: Vec<_> = homeless
        .into_iter()
        .filter(|path| !VOCABULARY.contains(path) && room(path) != Some("testing"))
        .filter(|path| height(path).is_none())
        .collect();
    nobody_breaks("every file has a floor", &homeless);
}

#[cfg(test)]
mod tests {
    use super::offenders;
    use crate::imports::made_up;

    /// The offenders of a small crate in which one file says something.
    fn of(path: &str, text: &str) -> Vec<String> {
        let mut files = vec![
            (
                "src/lib.rs",
                "mod compat; mod disk; mod engine; mod front;\
                 #[cfg(any(test, feature = \"testing\"))] pub mod testing;\
                 pub use front::Handle;",
            ),
            ("src/disk/mod.rs", "pub struct Lock;"),
            ("src/engine/mod.rs", "pub struct Engine;"),
            (
                "src/front/mod.rs",
                "pub struct Handle; pub(crate) use crate::disk::Lock;",
            ),
            ("src/compat/mod.rs", "pub struct Kimi;"),
            (
                "src/testing/mod.rs",
                "pub struct Model; use crate::front::Handle;",
            ),
        ];
        for file in &mut files {
            if file.0 == path {
                file.1 = text;
            }
        }
        let tree = made_up(&files);
        offenders(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_goes_up_is_named_with_its_line() {
        let engine = "src/engine/mod.rs";
        assert_eq!(
            of(engine, "\n\nuse crate::front::Handle;"),
            ["src/engine/mod.rs:3 -> src/front/mod.rs: crate::front::Handle"]
        );
        for upward in [
            "use crate::Handle;",
            "fn f(_: &crate::Handle) {}",
            "use crate::compat;",
            "use crate::front::Lock;",
            "#[cfg(test)] mod tests { use crate::Handle; }",
            "use crate::testing::Model;",
            "#[cfg(not(sessionlog_loom))] use crate::testing::Model;",
        ] {
            assert_eq!(of(engine, upward).len(), 1, "{upward}");
        }
        assert_eq!(of("src/disk/mod.rs", "use crate::Handle;").len(), 1);
    }

    #[test]
    fn what_stays_or_goes_down_is_not() {
        for fine in [
            "use crate::disk::Lock;",
            "#[cfg(test)] mod tests { use crate::testing::Model; }",
            "#[cfg(feature = \"testing\")] use crate::testing::Model;",
            "/// [`Handle`](crate::Handle)\npub struct Engine;",
        ] {
            assert_eq!(
                of("src/engine/mod.rs", fine),
                Vec::<String>::new(),
                "{fine}"
            );
        }
        assert_eq!(
            of("src/compat/mod.rs", "use crate::Handle;"),
            Vec::<String>::new()
        );
        assert_eq!(
            of("src/front/mod.rs", "use crate::compat::Kimi;"),
            Vec::<String>::new()
        );
    }
}
