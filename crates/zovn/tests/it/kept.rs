//! A controller of a test's own, and commands that ask it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use serde_json::Value;
use tempfile::TempDir;

/// A controller on this host, and a context for it.
pub struct Kept {
    folder: TempDir,
    flags: Vec<String>,
    controller: Child,
    listen: String,
}

impl Kept {
    /// One that answers everybody.
    pub fn new() -> Self {
        let kept = Self::started(&["--open"]);
        kept.zovn(&["context", "set", "here", "--server", &format!("http://{}", kept.listen)]);
        kept
    }

    /// One that asks for tokens.
    pub fn asking() -> Self {
        Self::started(&[])
    }

    /// One with these flags, and without a context.
    pub fn started(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let flags: Vec<_> = flags.iter().map(ToString::to_string).collect();
        let (controller, listen) = start(folder.path(), &flags);
        Self { folder, flags, controller, listen }
    }

    /// Kills the controller.
    pub fn kill(&mut self) {
        self.controller.kill().unwrap();
        self.controller.wait().unwrap();
    }

    /// Starts the controller that was killed again, elsewhere.
    pub fn start(&mut self) {
        (self.controller, self.listen) = start(self.folder.path(), &self.flags);
        self.zovn(&["context", "set", "here", "--server", &format!("http://{}", self.listen)]);
    }

    /// The controller's process.
    pub fn process(&self) -> &Child {
        &self.controller
    }

    /// Has a context of this name be somebody with a token for this.
    pub fn context(&self, name: &str, role: &[&str]) {
        let (data, server) = (self.data(), format!("http://{}", self.listen));
        let create = ["controller", "token", "create", name, "--role"];
        let token = self.zovn(&[&create[..], role, &["--data", data.to_str().unwrap()]].concat());
        let file = self.file(name, &token);
        self.zovn(&["context", "set", name, "--server", &server, "--token-file", &file]);
        // A controller that runs knows it a moment later.
        while self.run(&["whoami", "--context", name]).status.code() != Some(0) {}
    }

    /// Ends the controller.
    pub fn end(&mut self) {
        self.controller.kill().unwrap();
        self.controller.wait().unwrap();
    }

    /// Where it takes requests.
    pub fn listen(&self) -> &str {
        &self.listen
    }

    /// The controller's folder.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The folder of the contexts.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        command.args(words).env("XDG_CONFIG_HOME", self.folder.path()).env_remove("ZOVN_CONTEXT");
        command.output().unwrap()
    }

    /// What a command prints that ends so.
    #[track_caller]
    pub fn ends(&self, code: i32, words: &[&str]) -> String {
        let output = self.run(words);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    pub fn zovn(&self, words: &[&str]) -> String {
        self.ends(0, words)
    }

    /// A file that has this.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.controller.kill();
        let _ = self.controller.wait();
    }
}

/// Starts a controller on a folder. It, and where it takes requests.
fn start(folder: &Path, flags: &[String]) -> (Child, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
    command.args(["controller", "--listen", "127.0.0.1:0", "--agents", "127.0.0.1:0"]);
    command.args(["--log-format", "json"]).args(flags).arg("--data");
    command.arg(folder.join("data")).stderr(Stdio::piped());
    let mut controller = command.spawn().unwrap();
    let mut log = BufReader::new(controller.stderr.take().unwrap()).lines();
    let listen = log.find_map(|line| {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        line["fields"]["listen"].as_str().map(ToOwned::to_owned)
    });
    thread::spawn(move || log.for_each(drop));
    (controller, listen.unwrap())
}
