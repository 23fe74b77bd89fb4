//! What a shell completes: commands, flags and files, and names of what a controller keeps.
//!
//! ```text
//! shell ─ _ZOVN_COMPLETE=bash zovn -- words ─▶ clap_complete ─┬▶ commands, flags, files
//!                                                             └▶ names ─▶ controller, for 0.8 s
//! ```
//!
//! Nobody who presses a key has asked for a sentence: what cannot be told in time is left out, and
//! nothing is said of it.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::Command;
use clap_complete::env::{EnvCompleter, Shells};
use clap_complete::{ArgValueCompleter, CompleteEnv, CompletionCandidate, Shell};

/// By this variable a shell asks, with its own name.
const VARIABLE: &str = "_ZOVN_COMPLETE";

/// How long a controller is waited for: with all else, a key is answered within a second.
const PATIENCE: Duration = Duration::from_millis(800);

/// What zsh runs when it first completes `zovn`, by a file of its function path: that defines how,
/// and is to do it, too.
const AUTOLOADED: &str = "
if [ \"$funcstack[1]\" = \"_zovn\" ]; then
    _clap_dynamic_completer_zovn \"$@\"
fi
";

/// Answers a shell, if one asks. Whether one did.
pub fn answered(cli: fn() -> Command) -> bool {
    let folder = env::current_dir().ok();
    let completing = CompleteEnv::with_factory(cli).var(VARIABLE);
    completing.try_complete(env::args_os(), folder.as_deref()).unwrap_or(true)
}

/// What has a shell ask.
pub fn script(shell: Shell) -> io::Result<Vec<u8>> {
    let (name, shells, mut script) = (shell.to_string(), Shells::builtins(), Vec::new());
    let unknown = || io::Error::other(format!("nothing completes for {name}: name another shell"));
    let completer: &dyn EnvCompleter = shells.completer(&name).ok_or_else(unknown)?;
    completer.write_registration(VARIABLE, "zovn", "zovn", "zovn", &mut script)?;
    if shell == Shell::Zsh {
        script.extend_from_slice(AUTOLOADED.as_bytes());
    }
    Ok(script)
}

/// Completes a value by those of these words that begin as it does. They are looked for while the
/// shell waits; where that takes too long there are none.
pub fn by(words: fn(&str) -> Option<Vec<String>>) -> ArgValueCompleter {
    ArgValueCompleter::new(move |begun: &OsStr| -> Vec<CompletionCandidate> {
        let begun = begun.to_string_lossy().into_owned();
        let (tell, told) = mpsc::channel();
        let asked = begun.clone();
        // It may outlive the answer, and ends with the process.
        let looking = thread::Builder::new().spawn(move || drop(tell.send(words(&asked))));
        let found = looking.ok().and_then(|_| told.recv_timeout(PATIENCE).ok().flatten());
        let fitting = found.into_iter().flatten().filter(|it| it.starts_with(&begun));
        fitting.map(CompletionCandidate::new).collect()
    })
}

/// The value of a flag of the line that is completed.
pub fn said(flag: &str) -> Option<String> {
    let words: Vec<_> = env::args_os().map(|it| it.to_string_lossy().into_owned()).collect();
    value(&words, flag)
}

fn value(words: &[String], flag: &str) -> Option<String> {
    let line = words.iter().skip_while(|it| *it != "--").skip(1);
    let mut rest = line.skip_while(|it| it.split('=').next() != Some(flag));
    let one = rest.next()?;
    one.split_once('=').map(|(_, value)| value.to_owned()).or_else(|| rest.next().cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_of_the_line_has_its_value() {
        let words = |line: &str| line.split(' ').map(ToOwned::to_owned).collect::<Vec<_>>();
        for (line, expected) in [
            ("zovn -- zovn get objects --context prod x", Some("prod")),
            ("zovn -- zovn get objects --context=prod x", Some("prod")),
            ("zovn -- zovn get objects --context", None),
            ("zovn -- zovn get objects --contexts prod", None),
            ("zovn --context prod -- zovn get", None),
        ] {
            assert_eq!(value(&words(line), "--context").as_deref(), expected, "{line}");
        }
    }
}
