//! The house stands: each crate depends on lower floors only, and the crates below the purity line
//! stay pure.
//!
//! The law is ARCHITECTURE.md's; this reads every crate's manifest, so a new arrow or a new crate
//! fails here until it has been given its place.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use toml::Table;

/// Every crate and its floor, from the ground up.
const FLOORS: &[(&str, u8)] = &[
    ("callgrind", 0),
    ("needs", 0),
    ("prefetch", 0),
    ("units", 0),
    ("wire", 1),
    ("model", 1),
    ("shares", 1),
    ("classifier", 1),
    ("demand", 1),
    ("tree", 1),
    ("logical", 2),
    ("nlog", 2),
    ("replica", 2),
    ("admission", 2),
    ("conntrack", 2),
    ("lossless", 2),
    ("placement", 2),
    ("tcp", 3),
    ("tunnel", 3),
    ("datapath", 3),
    ("image", 3),
    ("packet", 3),
    ("worlds", 3),
    ("traffic", 3),
    ("fabric", 4),
    ("interpreter", 4),
    ("compiler", 4),
    ("pipeline", 4),
    ("binding", 5),
    ("cases", 5),
    ("hypervisor", 5),
    ("reach", 5),
    ("kernel", 6),
    ("port", 6),
    ("connections", 6),
    ("figures", 6),
    ("seal", 6),
    ("store", 6),
    ("tls", 6),
    ("api", 7),
    ("nic", 7),
    ("southbound", 7),
    ("tap", 7),
    ("vhost", 7),
    ("underlay", 7),
    ("plane", 7),
    ("planner", 7),
    ("overlay", 8),
    ("udp-gate", 8),
    ("forwarding", 8),
    ("agent", 9),
    ("controller", 9),
    ("guest", 9),
    ("lab", 9),
    ("sim", 9),
    ("measure", 10),
    ("zovn-agent", 10),
    ("zovn", 11),
];

/// The highest floor below the purity line.
const PURE: u8 = 5;

/// The pure crates that may be unsafe.
const UNSAFE: [&str; 1] = ["prefetch"];

/// The crates that only tests and benchmarks may depend on, wherever they are. They need not be
/// pure.
const TESTS: [&str; 3] = ["callgrind", "needs", "worlds"];

fn floor(name: &str) -> Option<u8> {
    FLOORS.iter().find(|(listed, _)| *listed == name).map(|(_, floor)| *floor)
}

/// What we look at of a crate.
struct Crate {
    manifest: Table,
    /// The crate's root file.
    root: String,
    /// Where its clippy.toml leads, if it is a link.
    clippy: Option<PathBuf>,
}

impl Crate {
    fn read(folder: &Path) -> Self {
        let text = |file| fs::read_to_string(folder.join(file));
        let manifest =
            text("Cargo.toml").unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        Self {
            manifest: manifest
                .parse()
                .unwrap_or_else(|error| panic!("{}: {error}", folder.display())),
            root: text("src/lib.rs").or_else(|_| text("src/main.rs")).unwrap_or_default(),
            clippy: fs::read_link(folder.join("clippy.toml")).ok(),
        }
    }

    /// Every crate of ours that this one names as a dependency of such kinds, for any target.
    fn dependencies(&self, kinds: &[&str]) -> Vec<&str> {
        let targets = self.manifest.get("target").and_then(|value| value.as_table());
        let per_target =
            targets.into_iter().flat_map(|targets| targets.values()).filter_map(|t| t.as_table());
        std::iter::once(&self.manifest)
            .chain(per_target)
            .flat_map(|table| kinds.iter().filter_map(|kind| table.get(*kind)))
            .filter_map(|dependencies| dependencies.as_table())
            .flat_map(|dependencies| dependencies.iter())
            .map(|(name, value)| {
                value.get("package").and_then(|package| package.as_str()).unwrap_or(name)
            })
            .filter(|name| floor(name).is_some())
            .collect()
    }

    /// Whether the root file has this attribute, under whatever condition.
    fn has(&self, attribute: &str) -> bool {
        self.root.lines().any(|line| line.starts_with("#![") && line.contains(attribute))
    }
}

/// What is wrong with a crate, a sentence each.
fn faults(name: &str, it: &Crate) -> Vec<String> {
    let Some(own) = floor(name) else {
        return vec![format!("{name} has no floor: give it one in FLOORS and in ARCHITECTURE.md")];
    };
    let mut faults = Vec::new();
    for dependency in it.dependencies(&["dependencies", "dev-dependencies", "build-dependencies"]) {
        let below = floor(dependency).expect("only listed crates are kept");
        if below >= own {
            faults.push(format!("{name} (floor {own}) depends on {dependency} (floor {below})"));
        }
    }
    let shipped = it.dependencies(&["dependencies", "build-dependencies"]);
    for dependency in shipped.into_iter().filter(|dependency| TESTS.contains(dependency)) {
        faults.push(format!("{name} depends on {dependency}, which only its tests may"));
    }
    if own <= PURE && !TESTS.contains(&name) {
        if !it.has("no_std") {
            faults.push(format!("{name} lacks #![no_std]"));
        }
        if !UNSAFE.contains(&name) && !it.has("forbid(unsafe_code)") {
            faults.push(format!("{name} lacks #![forbid(unsafe_code)]"));
        }
        if it.clippy.as_deref() != Some(Path::new("../../purity.clippy.toml")) {
            faults.push(format!("{name}'s clippy.toml does not link to purity.clippy.toml"));
        }
    }
    faults
}

#[test]
fn every_crate_stands_on_lower_floors_and_the_pure_ones_are_pure() {
    let crates =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/zovn lies in crates/");
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(crates).expect("crates/ can be listed") {
        let folder = entry.expect("crates/ can be listed").path();
        if folder.join("Cargo.toml").exists() {
            let name = folder
                .file_name()
                .expect("a listed folder has a name")
                .to_string_lossy()
                .into_owned();
            found.insert(name, Crate::read(&folder));
        }
    }
    let mut faults: Vec<String> = found.iter().flat_map(|(name, it)| faults(name, it)).collect();
    let gone = FLOORS.iter().filter(|(name, _)| !found.contains_key(*name));
    faults.extend(gone.map(|(name, _)| format!("{name} is listed in FLOORS and does not exist")));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_fault_is_found() {
    let make = |manifest: &str, root: &str, clippy: Option<&str>| Crate {
        manifest: manifest.parse().unwrap(),
        root: root.to_owned(),
        clippy: clippy.map(PathBuf::from),
    };
    let link = Some("../../purity.clippy.toml");
    let pure = "#![no_std]\n#![forbid(unsafe_code)]";
    let good = make("[dependencies]\nunits.workspace = true\nserde = '1'", pure, link);
    assert_eq!(faults("wire", &good), [""; 0]);

    // Any kind of dependency counts, under any name, and so does a sibling.
    for manifest in [
        "[dependencies]\nmodel.workspace = true",
        "[dev-dependencies]\nlossless = { path = '../lossless' }",
        "[build-dependencies]\nzovn.workspace = true",
        "[target.'cfg(unix)'.dependencies]\nport.workspace = true",
        "[dependencies]\nsomething = { package = 'model', path = '../model' }",
    ] {
        assert_eq!(faults("wire", &make(manifest, pure, link)).len(), 1, "{manifest}");
    }

    // Tests' own crates count where they are shipped.
    assert_eq!(
        faults("wire", &make("[dev-dependencies]\nneeds.workspace = true", pure, link)),
        [""; 0]
    );
    assert_eq!(
        faults("wire", &make("[dependencies]\nneeds.workspace = true", pure, link)).len(),
        1
    );

    // Purity in all its parts; words in a comment are not attributes.
    let impure = make("", "// #![no_std]\n//! forbid(unsafe_code)", Some("clippy.toml"));
    assert_eq!(faults("traffic", &impure).len(), 3);
    assert_eq!(faults("prefetch", &impure).len(), 2);
    assert_eq!(faults("port", &impure), [""; 0]);
    assert_eq!(faults("stranger", &good).len(), 1);
}

/// Every package that a package of the workspace is built with, by Cargo.lock.
fn built_with(package: &str) -> BTreeSet<String> {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    let lock: Table = fs::read_to_string(lock).unwrap().parse().unwrap();
    let text = |value: &toml::Value| value.as_str().unwrap().to_owned();
    let mut needs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in lock["package"].as_array().unwrap() {
        let listed = package.get("dependencies").and_then(|it| it.as_array()).into_iter().flatten();
        // A name that several versions have is listed with its version.
        let names = listed.map(|it| text(it).split(' ').next().unwrap().to_owned());
        needs.entry(text(&package["name"])).or_default().extend(names);
    }
    let (mut found, mut next) = (BTreeSet::new(), vec![package.to_owned()]);
    while let Some(name) = next.pop() {
        if found.insert(name.clone()) {
            next.extend(needs[&name].iter().cloned());
        }
    }
    found
}

#[test]
fn a_hosts_agent_alone_is_built_without_what_only_others_need() {
    let all = built_with("zovn");
    let small = built_with("zovn-agent");
    for package in ["sim", "measure", "planner", "parquet", "ratatui", "comfy-table", "indicatif"] {
        assert!(all.contains(package) && !small.contains(package), "{package}");
    }
}
