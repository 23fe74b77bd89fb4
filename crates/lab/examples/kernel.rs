//! Fetches the kernel of tests' virtual machines into a folder, unless it is there: `make kernel`.

use std::path::Path;
use std::process::ExitCode;

use lab::guest::Kernel;

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("kernel: say which folder");
        return ExitCode::from(2);
    };
    match Kernel::fetch(Path::new(&folder)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kernel: {error}");
            ExitCode::FAILURE
        }
    }
}
