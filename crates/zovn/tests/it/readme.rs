//! The README's commands exist.

use std::process::Command;

#[test]
fn every_command_that_the_readme_names_exists() {
    let readme = include_str!("../../../../README.md");
    let named =
        readme.split("`zovn ").skip(1).map(|rest| rest.split([' ', '`', ',']).next().unwrap());
    for command in named {
        let help =
            Command::new(env!("CARGO_BIN_EXE_zovn")).args([command, "--help"]).output().unwrap();
        assert!(help.status.success(), "zovn {command} --help");
    }
}
