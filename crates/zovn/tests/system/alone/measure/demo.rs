//! The demo.

use std::process::Command;

#[test]
fn a_short_demo_tells_both_chapters() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_zovn")).args(["demo", "--short"]).output().unwrap();
    let (told, said) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}\n{said}");
    for words in
        ["1. A flood", "2. A question to 4 workers", "TCP as in 2013", "TCP of today", "zovn-lossy"]
    {
        assert!(told.contains(words), "{words} missing in\n{told}");
    }
}
