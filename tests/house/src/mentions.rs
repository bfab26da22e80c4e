//! What the code of one file names: its modules, items, imports and paths.

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

use crate::builds::Builds;

/// What stands in one module of a file.
#[derive(Debug, Default)]
pub(crate) struct Content {
    /// Modules with a body of their own in this file.
    pub(crate) inline: Vec<(String, Builds, Content)>,
    /// Modules that are files.
    pub(crate) files: Vec<(String, Builds)>,
    /// The names of what the module defines.
    pub(crate) items: Vec<String>,
    pub(crate) imports: Vec<Import>,
    pub(crate) paths: Vec<Mention>,
}

/// A path that code names.
#[derive(Clone, Debug)]
pub(crate) struct Mention {
    pub(crate) segments: Vec<String>,
    pub(crate) builds: Builds,
    pub(crate) line: usize,
}

/// One leaf of a `use`.
#[derive(Debug)]
pub(crate) struct Import {
    pub(crate) mention: Mention,
    /// What it is called from here on; everything, if nothing.
    pub(crate) name: Option<String>,
}

/// Reads what a file of these builds contains.
pub(crate) fn read(file: &syn::File, builds: Builds) -> Content {
    let mut reader = Reader {
        content: Content::default(),
        builds,
    };
    reader.visit_file(file);
    reader.content
}

struct Reader {
    content: Content,
    builds: Builds,
}

impl Reader {
    fn under(&mut self, attributes: &[Attribute], visit: impl FnOnce(&mut Self)) {
        let outer = self.builds;
        self.builds = outer.under(attributes);
        visit(self);
        self.builds = outer;
    }

    fn mention(&mut self, segments: Vec<String>, line: usize) {
        let builds = self.builds;
        self.content.paths.push(Mention {
            segments,
            builds,
            line,
        });
    }

    fn import(&mut self, tree: &UseTree, before: &[String]) {
        let mut segments = before.to_vec();
        match tree {
            UseTree::Path(path) => {
                segments.push(path.ident.to_string());
                self.import(&path.tree, &segments);
            }
            UseTree::Group(group) => group.items.iter().for_each(|t| self.import(t, before)),
            UseTree::Glob(_) => self.leaf(segments, None, tree),
            UseTree::Name(name) => self.named_leaf(segments, &name.ident, None, tree),
            UseTree::Rename(name) => {
                self.named_leaf(segments, &name.ident, Some(&name.rename), tree);
            }
        }
    }

    fn named_leaf(
        &mut self,
        mut segments: Vec<String>,
        ident: &syn::Ident,
        rename: Option<&syn::Ident>,
        tree: &UseTree,
    ) {
        if ident != "self" {
            segments.push(ident.to_string());
        }
        let name = rename.map(ToString::to_string);
        let name = name.or_else(|| segments.last().cloned());
        self.leaf(segments, name, tree);
    }

    fn leaf(&mut self, segments: Vec<String>, name: Option<String>, tree: &UseTree) {
        let mention = Mention {
            segments,
            builds: self.builds,
            line: tree.span().start().line,
        };
        self.content.imports.push(Import { mention, name });
    }

    fn inline_module(&mut self, module: &syn::ItemMod, items: &[Item]) {
        let outer = std::mem::take(&mut self.content);
        for item in items {
            self.visit_item(item);
        }
        let inner = std::mem::replace(&mut self.content, outer);
        let name = module.ident.to_string();
        self.content.inline.push((name, self.builds, inner));
    }

    /// Paths among tokens that nobody has parsed: a macro's arguments, or its rules.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let (mut line, mut colons, mut field) = (0, 0, false);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.end_path(&mut path, line);
                        line = ident.span().start().line;
                    }
                    if !field {
                        path.push(ident.to_string());
                    }
                    (colons, field) = (0, false);
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' && colons < 2 => colons += 1,
                TokenTree::Group(group) => {
                    self.end_path(&mut path, line);
                    self.tokens(group.stream());
                    (colons, field) = (0, false);
                }
                TokenTree::Punct(punct) => {
                    self.end_path(&mut path, line);
                    (colons, field) = (0, punct.as_char() == '.');
                }
                TokenTree::Literal(_) => {
                    self.end_path(&mut path, line);
                    (colons, field) = (0, false);
                }
            }
        }
        self.end_path(&mut path, line);
    }

    fn end_path(&mut self, path: &mut Vec<String>, line: usize) {
        if !path.is_empty() {
            self.mention(std::mem::take(path), line);
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        self.content.items.extend(name_of(item));
        self.under(attributes_of(item), |reader| {
            visit::visit_item(reader, item);
        });
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let attributes: &[Attribute] = match item {
            syn::ImplItem::Const(item) => &item.attrs,
            syn::ImplItem::Fn(item) => &item.attrs,
            syn::ImplItem::Type(item) => &item.attrs,
            _ => &[],
        };
        self.under(attributes, |reader| {
            visit::visit_impl_item(reader, item);
        });
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        self.under(&field.attrs, |reader| {
            visit::visit_field(reader, field);
        });
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.under(&variant.attrs, |reader| {
            visit::visit_variant(reader, variant);
        });
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let moved = module.attrs.iter().any(|a| a.path().is_ident("path"));
        assert!(
            !moved,
            "a module with #[path] is not looked for: {}",
            module.ident
        );
        if let Some((_, items)) = &module.content {
            self.inline_module(module, items);
        } else {
            let file = (module.ident.to_string(), self.builds);
            self.content.files.push(file);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() {
            self.import(&item.tree, &[]);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let segments = path.segments.iter().map(|s| s.ident.to_string());
            self.mention(segments.collect(), path.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.visit_path(&called.path);
        self.tokens(called.tokens.clone());
    }

    /// A visibility says who may import, and an attribute is for the compiler.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

fn name_of(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

fn attributes_of(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
