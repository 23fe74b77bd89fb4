//! Compiles the BPF programs (bpf/) with the system's clang.

use std::env;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = "../../bpf/udp_occupancy.bpf.c";
const PACKAGES: &str = "Debian's packages clang, libbpf-dev and linux-libc-dev";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    let out = env::var("OUT_DIR").expect("cargo sets it");
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");

    // Version 3 of the instruction set has the atomic operations. Types (-g) are what the loader
    // relocates by.
    let compiled = Command::new("clang")
        .args([
            "-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Wextra", "-Werror", "-c", SOURCE,
            "-o",
        ])
        .arg(Path::new(&out).join("udp_occupancy.bpf.o"))
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
