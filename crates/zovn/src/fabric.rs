//! `zovn fabric`: a physical switch between hosts, started and driven by whoever builds them.
//!
//! ```text
//!   owner ──"counters"──▶                               (end of file or SIGTERM: it ends)
//!         ◀──{"ready":true}──  ◀──{"balanced":…,"ports":…}──  and the same once more at the end
//! ```
//!
//! Others ask by its Unix socket, if it is given one: who connects is told the counters.

use std::error::Error;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{fs, thread};

use lab::physical::{FabricReport, FabricSpec, PhysicalSwitch};
use rustix::fs::FileType;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use crate::ending::Outcome;

/// A physical switch between hosts, as a file describes it.
#[derive(clap::Args)]
pub struct Args {
    /// The switch's file (TOML; docs/lab.md shows every key).
    #[arg(short, long)]
    config: PathBuf,
    /// Tell the counters to whoever connects to this Unix socket, as one line of JSON.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// Serves until it is told to end.
pub fn run(args: Args) -> Outcome {
    let mut orders = Orders::new()?;
    let questions = args.socket.as_deref().map(Questions::listen).transpose()?;
    let mut switch = PhysicalSwitch::up(FabricSpec::read(&args.config)?)?;
    let served = serve(&mut switch, &mut orders, questions.as_ref());
    let report = switch.report();
    switch.down()?;
    served?;
    tell(&report)?;
    Ok(ExitCode::SUCCESS)
}

fn serve(
    switch: &mut PhysicalSwitch,
    orders: &mut Orders,
    questions: Option<&Questions>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    tell(&Ready { ready: true })?;
    loop {
        switch.turn()?;
        // Without a socket, the one that says when to end is waited for twice.
        let asked = questions.map_or(orders.stop.as_fd(), |questions| questions.listener.as_fd());
        let [stop, asked, stdin] =
            switch.wait([orders.stop.as_fd(), asked, orders.stdin.as_fd()])?;
        if stop {
            return Ok(());
        }
        if let (true, Some(questions)) = (asked, questions) {
            questions.answer(&switch.report())?;
        }
        if stdin {
            let Some(lines) = orders.lines()? else { return Ok(()) };
            for line in lines {
                if line != "counters" {
                    return Err(
                        format!("`{line}` is no order: say `counters`, or close stdin").into()
                    );
                }
                tell(&switch.report())?;
            }
        }
    }
}

/// Writes a line of JSON to stdout.
fn tell(what: &impl Serialize) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, what)?;
    writeln!(stdout)?;
    stdout.flush()
}

/// Frames flow.
#[derive(Serialize)]
struct Ready {
    ready: bool,
}

/// Where orders come from.
struct Orders {
    /// Readable once SIGTERM or its like has come.
    stop: UnixStream,
    stdin: OwnedFd,
    /// What stdin has said behind its last whole line.
    rest: Vec<u8>,
}

/// The longest line that may be an order.
const LONGEST_LINE: usize = 256;

/// Where orders are read: stdin, if somebody can say something there or end it. Of others, a
/// terminal or /dev/null, nothing is heard.
fn told() -> io::Result<OwnedFd> {
    let stdin = io::stdin().as_fd().try_clone_to_owned()?;
    match FileType::from_raw_mode(rustix::fs::fstat(&stdin)?.st_mode) {
        FileType::Fifo | FileType::Socket => Ok(stdin),
        _ => {
            let (silent, other) = UnixStream::pair()?;
            // As long as it is there, the end is not.
            std::mem::forget(other);
            Ok(silent.into())
        }
    }
}

impl Orders {
    fn new() -> io::Result<Self> {
        let (stop, write) = UnixStream::pair()?;
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            pipe::register(signal, write.try_clone()?)?;
        }
        Ok(Self { stop, stdin: told()?, rest: Vec::new() })
    }

    /// What stdin, which is readable, has to say; `None` if that is its end.
    fn lines(&mut self) -> io::Result<Option<Vec<String>>> {
        // Not by way of a buffered reader: what that has read already wakes nobody.
        let mut buffer = [0; LONGEST_LINE];
        let len = rustix::io::read(&self.stdin, &mut buffer)?;
        if len == 0 {
            return Ok(None);
        }
        self.rest.extend_from_slice(&buffer[..len]);
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        if self.rest.len() > LONGEST_LINE {
            return Err(io::Error::other("stdin says what is no line"));
        }
        Ok(Some(
            String::from_utf8_lossy(&lines).lines().map(|line| line.trim().to_owned()).collect(),
        ))
    }
}

/// A Unix socket at which others ask for the counters. Dropped, its file is gone.
struct Questions<'a> {
    listener: UnixListener,
    path: &'a Path,
}

/// How long an asker may take to read what it is told.
const PATIENCE: Duration = Duration::from_secs(10);

impl<'a> Questions<'a> {
    fn listen(path: &'a Path) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let listener = UnixListener::bind(path).map_err(|error| {
            format!(
                "cannot listen at {}: {error}; remove that file, or name another",
                path.display()
            )
        })?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, path })
    }

    /// Tells one asker, by a thread of its own: frames do not wait for a slow reader.
    fn answer(&self, report: &FabricReport) -> io::Result<()> {
        // One that has gone again asks nothing.
        let Ok((mut asker, _)) = self.listener.accept() else { return Ok(()) };
        asker.set_write_timeout(Some(PATIENCE))?;
        let mut line = serde_json::to_vec(report)?;
        line.push(b'\n');
        thread::Builder::new().name("counters".into()).spawn(move || asker.write_all(&line))?;
        Ok(())
    }
}

impl Drop for Questions<'_> {
    fn drop(&mut self) {
        // If it is gone already, so much the better.
        let _ = fs::remove_file(self.path);
    }
}
