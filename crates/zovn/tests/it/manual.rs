//! The pages of the manual, and what shells complete.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn zovn(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zovn")).args(words).output().unwrap()
}

#[test]
fn the_manual_has_a_page_for_each_command_and_mandoc_takes_it() {
    let folder = tempfile::tempdir().unwrap();
    let written = zovn(&["man", folder.path().to_str().unwrap()]);
    assert!(written.status.success(), "{written:?}");
    let pages: Vec<_> = fs::read_dir(&folder).unwrap().map(|page| page.unwrap().path()).collect();
    let has = |name: &str| pages.iter().any(|page| page.ends_with(name));
    for page in ["zovn.1", "zovn-agent.1", "zovn-attach.1", "zovn-lab-up.1", "zovn-measure-pa.1"] {
        assert!(has(page), "{page} is not among {pages:?}");
    }
    // What is hidden is nobody's business.
    assert!(!has("zovn-endpoint.1") && !has("zovn-man.1"));
    if !needs::program("mandoc", "mandoc") {
        return;
    }
    let lint = Command::new("mandoc").args(["-T", "lint", "-W", "error"]).args(&pages).output();
    let lint = lint.unwrap();
    assert!(lint.status.success(), "{}", String::from_utf8_lossy(&lint.stdout));
}

#[test]
fn bash_completes_commands_and_flags() {
    let script = zovn(&["completion", "bash"]);
    assert!(script.status.success());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("zovn");
    fs::write(&file, &script.stdout).unwrap();
    let completed = |words: &str, current: usize| {
        let ask = format!(
            "source {} && COMP_WORDS=({words}) COMP_CWORD={current} && _clap_complete_zovn zovn '' '' && printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            file.display()
        );
        // The script asks the `zovn` of the path.
        let programs = Path::new(env!("CARGO_BIN_EXE_zovn")).parent().unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let output = Command::new("bash").args(["-c", &ask]).env("PATH", path).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let commands = completed("zovn ''", 1);
    for command in ["attach", "detach", "apply", "capture", "completion"] {
        assert!(commands.split_whitespace().any(|word| word == command), "{command}: {commands}");
    }
}

#[test]
fn every_shell_gets_a_script() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = zovn(&["completion", shell]);
        assert!(script.status.success(), "{shell}");
        let script = String::from_utf8(script.stdout).unwrap();
        assert!(script.contains("_ZOVN_COMPLETE") && script.contains(shell), "{shell}: {script}");
    }
    assert_eq!(zovn(&["completion", "nonsense"]).status.code(), Some(2));
}
