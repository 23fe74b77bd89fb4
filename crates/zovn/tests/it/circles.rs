//! The files of a crate form no circles: of two files, at most one uses the other, directly or
//! through others.
//!
//! ARCHITECTURE.md states the rule. This test reads the sources of every crate, finds for each name
//! that a file uses the file that defines it, and fails on a circle.
//!
//! ```text
//! sources ─syn─▶ names, mentions ─resolve─▶ file uses file ─reach each other─▶ circles
//! ```
//!
//! A file uses another if it names something that the other defines: in a `use`, or by a path in
//! its code, the arguments of macros included. Re-exports are followed to the definition, so that
//! `mod x;` and `pub use x::Y` make no use of `x`. The file of a parent module is a file like any
//! other: if it uses a child, and the child uses what the parent defines, that is a circle. Calls
//! of methods are not seen, because their names do not tell where they are defined. Test code does
//! not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// A place that a path can lead to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// A module, by its index.
    Module(usize),
    /// Something that is no module, in the file with this index.
    Item(usize),
}

/// What a name in a module stands for.
enum Meaning {
    Place(Place),
    /// What a `use` leads to.
    Use(Vec<String>),
}

/// A module, which may be a file or a part of one.
struct Module {
    file: usize,
    parent: usize,
    /// The module that `crate` means here.
    root: usize,
    names: BTreeMap<String, Vec<Meaning>>,
    /// The paths of `use path::*`.
    globs: Vec<Vec<String>>,
}

/// A path in a file's code.
struct Mention {
    module: usize,
    path: Vec<String>,
    line: usize,
}

/// The sources of one crate.
#[derive(Default)]
struct Sources {
    /// File names, relative to the crate's folder.
    files: Vec<PathBuf>,
    modules: Vec<Module>,
    mentions: Vec<Mention>,
}

/// By what one file uses another: the names, each with the first line that has it.
type Uses = BTreeMap<(usize, usize), BTreeMap<String, usize>>;

impl Sources {
    /// Reads a crate by its folder: its library and its programs.
    fn read(folder: &Path) -> Self {
        let mut sources = Self::default();
        let programs = fs::read_dir(folder.join("src/bin")).into_iter().flatten();
        let programs = programs.map(|entry| entry.expect("src/bin can be listed").path());
        let mut roots: Vec<PathBuf> =
            ["src/lib.rs", "src/main.rs"].map(|root| folder.join(root)).into();
        roots.extend(
            programs.filter(|path| path.extension().is_some_and(|extension| extension == "rs")),
        );
        for root in roots.iter().filter(|root| root.exists()) {
            let index = sources.modules.len();
            let below = root.parent().expect("a file lies in a folder");
            sources.read_file(folder, root, below, index, index);
        }
        sources
    }

    /// Reads the file of a module whose children lie in the folder `below`.
    fn read_file(
        &mut self,
        folder: &Path,
        path: &Path,
        below: &Path,
        parent: usize,
        root: usize,
    ) -> usize {
        let text =
            fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let parsed =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let name = path.strip_prefix(folder).expect("sources lie in the crate's folder");
        self.files.push(name.to_owned());
        let file = self.files.len() - 1;
        let module = self.add_module(file, parent, root);
        Reader { sources: self, folder, below: below.to_owned(), module }.read_items(&parsed.items);
        module
    }

    fn add_module(&mut self, file: usize, parent: usize, root: usize) -> usize {
        self.modules.push(Module { file, parent, root, names: BTreeMap::new(), globs: Vec::new() });
        self.modules.len() - 1
    }

    /// Where a path in a module leads. More than one place if a name stands for a module and a
    /// function, say.
    fn resolve(
        &self,
        module: usize,
        path: &[String],
        seen: &mut BTreeSet<(usize, String)>,
    ) -> BTreeSet<Place> {
        let mut places = BTreeSet::from([Place::Module(module)]);
        for (step, name) in path.iter().enumerate() {
            let mut next = BTreeSet::new();
            for place in places {
                let Place::Module(at) = place else {
                    // A variant or an associated item is where its type is.
                    next.insert(place);
                    continue;
                };
                match name.as_str() {
                    "crate" if step == 0 => _ = next.insert(Place::Module(self.modules[at].root)),
                    "self" => _ = next.insert(place),
                    "super" => _ = next.insert(Place::Module(self.modules[at].parent)),
                    _ => {
                        let found = self.look_up(at, name, seen);
                        // What a module of this crate does not name was made there by a macro.
                        let is_named = self.modules[at].names.contains_key(name);
                        let made = found.is_empty() && step > 0 && !is_named;
                        next.extend(made.then_some(Place::Item(self.modules[at].file)));
                        next.extend(found);
                    }
                }
            }
            places = next;
        }
        places
    }

    fn look_up(
        &self,
        module: usize,
        name: &str,
        seen: &mut BTreeSet<(usize, String)>,
    ) -> BTreeSet<Place> {
        let mut places = BTreeSet::new();
        // Imports may lead back to themselves, globs above all.
        if !seen.insert((module, name.to_owned())) {
            return places;
        }
        for meaning in self.modules[module].names.get(name).into_iter().flatten() {
            match meaning {
                Meaning::Place(place) => _ = places.insert(*place),
                Meaning::Use(path) => places.extend(self.resolve(module, path, seen)),
            }
        }
        if places.is_empty() {
            for glob in &self.modules[module].globs {
                for place in self.resolve(module, glob, seen) {
                    if let Place::Module(at) = place {
                        places.extend(self.look_up(at, name, seen));
                    }
                }
            }
        }
        seen.remove(&(module, name.to_owned()));
        places
    }

    /// Which file uses which.
    fn uses(&self) -> Uses {
        let mut uses = Uses::new();
        for Mention { module, path, line } in &self.mentions {
            let from = self.modules[*module].file;
            for place in self.resolve(*module, path, &mut BTreeSet::new()) {
                // A module alone defines nothing.
                let Place::Item(to) = place else { continue };
                if to != from {
                    let names = uses.entry((from, to)).or_default();
                    let name =
                        path.iter().rfind(|name| *name != "self").expect("a path names something");
                    names.entry(name.clone()).or_insert(*line);
                }
            }
        }
        uses
    }
}

/// Reads one module: its names, and every path in its code.
struct Reader<'a> {
    sources: &'a mut Sources,
    folder: &'a Path,
    /// Where the files of child modules lie.
    below: PathBuf,
    module: usize,
}

impl Reader<'_> {
    fn read_items(&mut self, items: &[syn::Item]) {
        items.iter().for_each(|item| self.visit_item(item));
    }

    fn name(&mut self, ident: &Ident, meaning: Meaning) {
        self.sources.modules[self.module].names.entry(ident.to_string()).or_default().push(meaning);
    }

    fn mention(&mut self, path: Vec<String>, line: usize) {
        self.sources.mentions.push(Mention { module: self.module, path, line });
    }

    fn read_module(&mut self, item: &syn::ItemMod) {
        let Module { file, root, .. } = self.sources.modules[self.module];
        let below = self.below.join(item.ident.to_string());
        let child = if let Some((_, items)) = &item.content {
            let child = self.sources.add_module(file, self.module, root);
            let mut reader =
                Reader { sources: self.sources, folder: self.folder, below, module: child };
            reader.read_items(items);
            child
        } else {
            let beside = below.with_extension("rs");
            let path = if beside.exists() { beside } else { below.join("mod.rs") };
            self.sources.read_file(self.folder, &path, &below, self.module, root)
        };
        self.name(&item.ident, Meaning::Place(Place::Module(child)));
    }

    /// Takes in what a `use` names. `private`: it is here for this module's own code.
    fn read_use(&mut self, tree: &syn::UseTree, mut path: Vec<String>, private: bool) {
        let (own, ident) = match tree {
            syn::UseTree::Path(tree) => {
                path.push(tree.ident.to_string());
                return self.read_use(&tree.tree, path, private);
            }
            syn::UseTree::Group(tree) => {
                return tree
                    .items
                    .iter()
                    .for_each(|item| self.read_use(item, path.clone(), private));
            }
            syn::UseTree::Glob(_) => return self.sources.modules[self.module].globs.push(path),
            syn::UseTree::Name(tree) => (&tree.ident, &tree.ident),
            syn::UseTree::Rename(tree) => (&tree.rename, &tree.ident),
        };
        // `use a::{self}` brings `a`.
        let brought = if own == "self" { path.last().cloned() } else { Some(own.to_string()) };
        path.push(ident.to_string());
        if private {
            self.mention(path.clone(), ident.span().start().line);
        }
        if let Some(brought) = brought {
            self.sources.modules[self.module]
                .names
                .entry(brought)
                .or_default()
                .push(Meaning::Use(path));
        }
    }

    /// Takes in the paths among a macro's tokens: `a::b`, and `a` alone.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<Ident> = Vec::new();
        // How many colons came last, behind a name.
        let mut colons = 0;
        let mut after_dot = false;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.mention_idents(&mut path);
                    }
                    if !after_dot {
                        path.push(ident);
                    }
                    (colons, after_dot) = (0, false);
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.mention_idents(&mut path);
                    after_dot = matches!(&other, TokenTree::Punct(punct) if punct.as_char() == '.');
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.read_tokens(group.stream());
                    }
                }
            }
        }
        self.mention_idents(&mut path);
    }

    fn mention_idents(&mut self, path: &mut Vec<Ident>) {
        if let Some(first) = path.first() {
            let line = first.span().start().line;
            let names = path.drain(..).map(|ident| ident.to_string()).collect();
            self.mention(names, line);
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let (attributes, ident) = match item {
            syn::Item::Const(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
            syn::Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
            syn::Item::Static(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::TraitAlias(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Type(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Union(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Impl(item) => (&item.attrs, None),
            syn::Item::Mod(item) => (&item.attrs, None),
            syn::Item::Use(item) => (&item.attrs, None),
            _ => return visit::visit_item(self, item),
        };
        if is_for_tests(attributes) {
            return;
        }
        if let Some(ident) = ident {
            let file = self.sources.modules[self.module].file;
            self.name(ident, Meaning::Place(Place::Item(file)));
        }
        match item {
            syn::Item::Mod(item) => self.read_module(item),
            syn::Item::Use(item) => {
                let private = matches!(item.vis, syn::Visibility::Inherited);
                // Nothing here has no name: such a path leads out of the crate.
                let outside = item.leading_colon.as_ref().map(|_| String::new());
                self.read_use(&item.tree, outside.into_iter().collect(), private);
            }
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        visit::visit_path(self, path);
        if path.leading_colon.is_some() {
            return;
        }
        let names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let line = path.segments.first().map_or(0, |segment| segment.ident.span().start().line);
        self.mention(names, line);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        visit::visit_macro(self, call);
        self.read_tokens(call.tokens.clone());
    }
}

/// Whether these attributes keep something for tests: `cfg(test)`, alone or with other conditions.
fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let words: Vec<String> =
                list.tokens.clone().into_iter().map(|token| token.to_string()).collect();
            words == ["test"] || (words[0] == "all" && words[1].contains("test"))
        }
        _ => false,
    })
}

/// The circles: sets of files, each of which uses all others of its set, directly or through
/// others.
fn circles(files: usize, uses: &Uses) -> BTreeSet<BTreeSet<usize>> {
    let reach = |from: usize| {
        let mut reached = BTreeSet::new();
        let mut left = vec![from];
        while let Some(file) = left.pop() {
            let next = uses.range((file, 0)..(file + 1, 0)).map(|((_, to), _)| *to);
            left.extend(next.filter(|to| reached.insert(*to)));
        }
        reached
    };
    let reached: Vec<BTreeSet<usize>> = (0..files).map(reach).collect();
    (0..files)
        .map(|file| {
            reached[file].iter().copied().filter(|to| reached[*to].contains(&file)).collect()
        })
        .filter(|circle: &BTreeSet<usize>| !circle.is_empty())
        .collect()
}

/// How many files of a crate are in circles, and what ties them, a line for each pair.
fn read_circles(folder: &Path) -> (usize, String) {
    let sources = Sources::read(folder);
    let uses = sources.uses();
    let circles = circles(sources.files.len(), &uses);
    let mut ties = String::new();
    for circle in &circles {
        ties += &format!("a circle of {} files:\n", circle.len());
        for ((from, to), names) in &uses {
            if circle.contains(from) && circle.contains(to) {
                let [from, to] = [from, to].map(|file| sources.files[*file].display());
                let names: Vec<String> =
                    names.iter().map(|(name, line)| format!("{name} (line {line})")).collect();
                ties += &format!("  {from} uses of {to}: {}\n", names.join(", "));
            }
        }
    }
    (circles.iter().map(BTreeSet::len).sum(), ties)
}

#[test]
fn no_crate_has_a_circle_between_its_files() {
    let crates =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/zovn lies in crates/");
    let mut faults = String::new();
    for entry in fs::read_dir(crates).expect("crates/ can be listed") {
        let folder = entry.expect("crates/ can be listed").path();
        let name =
            folder.file_name().expect("a listed folder has a name").to_string_lossy().into_owned();
        let (found, ties) = read_circles(&folder);
        if found > 0 {
            faults += &format!("{name} has {found} files in circles:\n{ties}");
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

/// Writes a small crate of these files and reads its circles.
fn circles_of(files: &[(&str, &str)]) -> (usize, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join("src").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    read_circles(folder.path())
}

#[test]
fn a_circle_is_found_whatever_ties_it() {
    let root = ("lib.rs", "mod a; mod b; pub use a::A; pub use b::B;");
    let a = "use crate::b::B; pub struct A(B);";
    for b in [
        "use crate::a::A; pub struct B;",
        "use super::a::{self, A as Other}; pub struct B;",
        "pub struct B; fn f() -> Option<super::a::A> { None }",
        // By a re-export, by a glob, and by the name of a module.
        "pub struct B;\n\nuse crate::A;",
        "use crate::*; pub struct B; type Other = A;",
        "use crate::a; pub struct B; fn f(_: a::A) {}",
        // In the arguments of a macro, and in the body of one.
        "pub struct B; fn f() { println!(\"{:?}\", (1, crate::a::A(B))) }",
        "pub struct B; macro_rules! make { () => { $crate::a::A(B) } }",
        // Within a module of the same file.
        "pub struct B; mod inner { use super::super::a::A; }",
    ] {
        let (files, ties) = circles_of(&[root, ("a.rs", a), ("b.rs", b)]);
        assert_eq!(files, 2, "{b}");
        assert!(ties.contains("src/a.rs uses of src/b.rs: B (line 1)"), "{ties}");
    }
    let late = ("b.rs", "pub struct B;\n\nuse crate::A;");
    assert!(
        circles_of(&[root, ("a.rs", a), late]).1.contains("src/b.rs uses of src/a.rs: A (line 3)")
    );
}

#[test]
fn a_parent_is_in_a_circle_with_a_child_that_uses_what_it_defines() {
    let parent = "mod below; use below::Below; pub struct Own(Below);";
    let files = [("lib.rs", "pub mod parent;"), ("parent/mod.rs", parent)];
    let child = ("parent/below.rs", "use super::Own; pub struct Below;");
    assert_eq!(circles_of(&[files[0], files[1], child]).0, 2);
    let alone = ("parent/below.rs", "pub struct Below;");
    assert_eq!(circles_of(&[files[0], files[1], alone]).0, 0);
    // What comes from other crates ties nobody.
    let parent = "mod below; pub use ::a::A; pub use serde::S; use below::Below; type Own = Below;";
    let child = ("parent/below.rs", "use super::{A, S}; pub struct Below;");
    assert_eq!(circles_of(&[files[0], ("parent/mod.rs", parent), child]).0, 0);
    // Three files, of which none ties two alone.
    let files =
        [("lib.rs", "pub mod a; mod b; mod c;"), ("a.rs", "use crate::b::B; pub struct A;")];
    let rest =
        [("b.rs", "use crate::c::C; pub struct B;"), ("c.rs", "use crate::a::A; pub struct C;")];
    assert_eq!(circles_of(&[files[0], files[1], rest[0], rest[1]]).0, 3);
}

#[test]
fn other_ties_make_no_circle() {
    let root = ("lib.rs", "pub mod a; mod b; pub use a::A; pub use b::B; pub const ALL: u8 = 1;");
    for b in [
        "pub struct B;",
        // All may use what the root defines: it re-exports them, and uses none of them.
        "use crate::ALL; pub struct B;",
        // Test code does not count.
        "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }",
        "pub struct B; #[cfg(test)] use crate::a::A; #[cfg(all(test, unix))] fn f(_: crate::A) {}",
        // Another crate, a module alone, a field and a comment.
        "use ::a::A; use serde::A as Other; pub struct B;",
        "use crate::a; pub struct B;",
        "pub struct B { A: u8 } fn f(b: B) { assert!(b.A == 1); /* crate::a::A */ }",
    ] {
        let (files, ties) =
            circles_of(&[root, ("a.rs", "use crate::B; pub struct A(B);"), ("b.rs", b)]);
        assert_eq!(files, 0, "{b}: {ties}");
    }
}
