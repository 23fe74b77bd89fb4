//! Compiles the BPF program (bpf/) with the system's clang.

use std::env;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = "../../bpf/lanes.bpf.c";
const PACKAGES: &str = "Debian's packages clang, libbpf-dev and linux-libc-dev";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    let out = env::var("OUT_DIR").expect("cargo sets it");
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");

    // Types (-g) tell the loader of the map.
    let compiled = Command::new("clang")
        .args([
            "-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Wextra", "-Werror", "-c", SOURCE,
            "-o",
        ])
        .arg(Path::new(&out).join("lanes.bpf.o"))
        // Where Debian keeps <asm/types.h>.
        .arg(format!("-I/usr/include/{architecture}-linux-gnu"))
        .status();
    match compiled {
        Ok(status) if status.success() => {}
        Ok(_) => {
            panic!(
                "clang could not compile {SOURCE}, see above: if a header is missing, install {PACKAGES}"
            )
        }
        Err(error) => {
            panic!("cannot run clang, which compiles {SOURCE}: {error}; install {PACKAGES}")
        }
    }
}
