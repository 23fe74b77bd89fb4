//! The README's own commands, run as they are printed.

use std::path::Path;
use std::process::Command;

/// The first shell block after `heading`.
fn block<'a>(text: &'a str, heading: &str) -> &'a str {
    let section = text.split_once(heading).expect("the README has this section").1;
    let block = section.split_once("```sh\n").expect("it has a shell block").1;
    block.split_once("```").expect("the block ends").0
}

#[test]
fn two_containers_are_attached_as_the_readme_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_zovn")).parent().unwrap();
    // In mount and network namespaces of its own, so that /run is empty and nothing outlives the
    // test. Without any route, Linux would have every address be bound to.
    let script = format!(
        "set -e; mount -t tmpfs tmpfs /run; ip link set lo up; export PATH={}:$PATH\n\
         trap 'kill $!; wait $!' EXIT\n{}",
        binary.display(),
        block(&readme, "## Use it")
    );
    let output = Command::new("unshare")
        .args(["--mount", "--net", "bash", "-c", &script])
        .current_dir(&root)
        .output()
        .unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("3 received"), "{out}\n{err}");
    assert!(out.contains("web") && out.contains("store"), "{out}");
}
