//! Connections that are carried from host to host.

use std::process::{Command, Stdio};

#[test]
fn where_nothing_was_handed_over_no_agent_is_asked() {
    for (file, sentence) in [
        ("-", "zovn: nothing was handed over: look at what `zovn hand-over` says\n"),
        ("/none", "zovn: cannot read /none: No such file or directory (os error 2)\n"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        command.args(["take-over", "db-1", file, "--socket", "/none"]).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(String::from_utf8(output.stderr).unwrap(), sentence);
    }
}
