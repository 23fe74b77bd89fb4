//! Checks the rules, so that what is wrong with them is told where it is, and when it is built.

use std::process::ExitCode;

#[path = "src/files.rs"]
mod files;

fn main() -> ExitCode {
    println!("cargo:rerun-if-changed=rules");
    println!("cargo:rerun-if-changed=src/files.rs");
    match nlog::Program::parse(files::FILES) {
        Ok(_) => ExitCode::SUCCESS,
        Err(faults) => {
            faults.iter().for_each(|fault| println!("cargo:error={fault}"));
            ExitCode::FAILURE
        }
    }
}
