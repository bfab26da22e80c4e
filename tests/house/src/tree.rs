//! The crate as a tree of modules, and what a path in it leads to.

use std::collections::BTreeMap;

use crate::builds::Builds;
use crate::mentions::{self, Content, Import, Mention};
use crate::source::Source;

/// A module, by its place in [`Tree::modules`].
pub(crate) type Id = usize;

/// Where [`Tree`] keeps `lib.rs`.
const ROOT: Id = 0;

#[derive(Debug)]
pub(crate) struct Module {
    /// Its file, by its place among the sources.
    pub(crate) file: usize,
    parent: Id,
    children: BTreeMap<String, Id>,
    items: Vec<String>,
    pub(crate) imports: Vec<Import>,
    pub(crate) paths: Vec<Mention>,
}

/// What the check knows of a file.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: String,
}

#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
    pub(crate) modules: Vec<Module>,
}

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Found {
    pub(crate) what: What,
    /// The segment of the path that names it; those after it name its parts.
    pub(crate) named_by: usize,
    /// The modules that only hand it on.
    pub(crate) through: Vec<Id>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    Module(Id),
    /// Something that this module defines, or takes from another crate.
    Item(Id),
}

impl What {
    pub(crate) fn module(self) -> Id {
        match self {
            Self::Module(id) | Self::Item(id) => id,
        }
    }
}

/// Names that are being looked up, so that one that leads back to itself ends.
type Asked<'a> = Vec<(Id, &'a str)>;

impl Tree {
    /// Puts sources together, from `src/lib.rs` on.
    ///
    /// Panics if a source is no part of the crate: nobody would check it.
    pub(crate) fn of(sources: &[Source]) -> Self {
        let mut growing = Growing {
            sources,
            tree: Self {
                files: Vec::new(),
                modules: Vec::new(),
            },
        };
        growing.file("src/lib.rs", "src", ROOT, Builds::ALL);
        let known: Vec<_> = growing.tree.files.iter().map(|file| &file.path).collect();
        let mut paths = sources.iter().map(|source| &source.path);
        let lost = paths.find(|path| !known.contains(path));
        assert!(lost.is_none(), "no module of the crate: {lost:?}");
        growing.tree
    }

    /// What a path in a module leads to. Nothing if that is another crate's, or a
    /// local name; more than one thing where the build decides.
    pub(crate) fn resolve(&self, from: Id, path: &[String]) -> Vec<Found> {
        self.follow(from, path, &mut Vec::new())
    }

    fn follow<'a>(&'a self, from: Id, path: &'a [String], asked: &mut Asked<'a>) -> Vec<Found> {
        let Some((first, rest)) = path.split_first() else {
            return Vec::new();
        };
        let begin = match first.as_str() {
            "crate" => vec![module(ROOT)],
            "self" => vec![module(from)],
            "super" => vec![module(self.modules[from].parent)],
            name => self.look_up(from, name, asked),
        };
        let rest = rest.iter().zip(1..);
        rest.fold(begin, |found, (segment, place)| {
            let next = inner(found).into_iter();
            next.flat_map(|found| self.step(found, segment, place, asked))
                .collect()
        })
    }

    fn step<'a>(
        &'a self,
        found: Found,
        name: &'a str,
        place: usize,
        asked: &mut Asked<'a>,
    ) -> Vec<Found> {
        // What follows an item is a part of it: a variant, a function of a type.
        let What::Module(at) = found.what else {
            return vec![found];
        };
        let mut next = match name {
            "super" => vec![module(self.modules[at].parent)],
            name => self.look_up(at, name, asked),
        };
        if next.is_empty() {
            next.push(item(at));
        }
        for next in &mut next {
            next.named_by = place;
            next.through.splice(0..0, found.through.iter().copied());
        }
        next
    }

    /// What a module calls by a name.
    fn look_up<'a>(&'a self, at: Id, name: &'a str, asked: &mut Asked<'a>) -> Vec<Found> {
        if asked.contains(&(at, name)) {
            return Vec::new();
        }
        asked.push((at, name));
        let here = &self.modules[at];
        let mut found: Vec<_> = here
            .children
            .get(name)
            .map(|id| module(*id))
            .into_iter()
            .collect();
        if here.items.iter().any(|item| item == name) {
            found.push(item(at));
        }
        for import in &here.imports {
            if import.name.as_deref() == Some(name) {
                found.extend(self.handed_on(at, import, asked));
            }
        }
        if found.is_empty() {
            let globs = here.imports.iter().filter(|import| import.name.is_none());
            found = globs
                .flat_map(|glob| self.in_glob(at, glob, name, asked))
                .collect();
        }
        asked.pop();
        found.sort();
        found.dedup();
        found
    }

    fn handed_on<'a>(&'a self, at: Id, import: &'a Import, asked: &mut Asked<'a>) -> Vec<Found> {
        let mut found = self.follow(at, &import.mention.segments, asked);
        for found in &mut found {
            found.named_by = 0;
            found.through.insert(0, at);
        }
        if found.is_empty() {
            found.push(item(at));
        }
        found
    }

    fn in_glob<'a>(
        &'a self,
        at: Id,
        glob: &'a Import,
        name: &'a str,
        asked: &mut Asked<'a>,
    ) -> Vec<Found> {
        let mut all = Vec::new();
        for found in self.follow(at, &glob.mention.segments, asked) {
            if let What::Module(from) = found.what {
                all.extend(self.look_up(from, name, asked));
            }
        }
        all
    }
}

/// What a path can go on from. A function may be called like a module, and is
/// meant only where the path ends.
fn inner(mut found: Vec<Found>) -> Vec<Found> {
    let is_module = |found: &Found| matches!(found.what, What::Module(_));
    if found.iter().any(is_module) {
        found.retain(is_module);
    }
    found
}

fn module(id: Id) -> Found {
    Found {
        what: What::Module(id),
        named_by: 0,
        through: Vec::new(),
    }
}

fn item(id: Id) -> Found {
    Found {
        what: What::Item(id),
        named_by: 0,
        through: Vec::new(),
    }
}

struct Growing<'a> {
    sources: &'a [Source],
    tree: Tree,
}

impl Growing<'_> {
    /// Adds a file whose modules stand in `dir`.
    fn file(&mut self, path: &str, dir: &str, parent: Id, builds: Builds) -> Id {
        let source = self.sources.iter().find(|source| source.path == path);
        let source = source.unwrap_or_else(|| panic!("no source {path}"));
        let parsed = syn::parse_file(&source.text).unwrap_or_else(|e| panic!("{path}: {e}"));
        let builds = builds.under(&parsed.attrs);
        let content = mentions::read(&parsed, builds);
        let file = self.tree.files.len();
        self.tree.files.push(File {
            path: path.to_owned(),
        });
        self.module(file, dir, parent, content)
    }

    fn module(&mut self, file: usize, dir: &str, parent: Id, content: Content) -> Id {
        let id = self.tree.modules.len();
        self.tree.modules.push(Module {
            file,
            parent,
            children: BTreeMap::new(),
            items: content.items,
            imports: content.imports,
            paths: content.paths,
        });
        for (name, builds) in content.files {
            let child = self.file_of(&name, dir, id, builds);
            self.tree.modules[id].children.insert(name, child);
        }
        for (name, _, inner) in content.inline {
            let child = self.module(file, &format!("{dir}/{name}"), id, inner);
            self.tree.modules[id].children.insert(name, child);
        }
        id
    }

    fn file_of(&mut self, name: &str, dir: &str, parent: Id, builds: Builds) -> Id {
        let below = format!("{dir}/{name}");
        let beside = format!("{below}.rs");
        let is_source = |path: &str| self.sources.iter().any(|source| source.path == path);
        if is_source(&beside) {
            self.file(&beside, &below, parent, builds)
        } else {
            self.file(&format!("{below}/mod.rs"), &below, parent, builds)
        }
    }
}
