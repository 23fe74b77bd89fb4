//! `zovn fabric`: a physical switch between hosts, started and driven by whoever builds them.
//!
//! ```text
//!   owner ──"counters"──▶                               (end of file or SIGTERM: it ends)
//!         ◀──{"ready":true}──  ◀──{"balanced":…,"ports":…}──  and the same once more at the end
//! ```

use std::error::Error;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;

use lab::physical::{FabricSpec, PhysicalSwitch};
use rustix::fs::FileType;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::low_level::pipe;

use crate::Outcome;

/// A physical switch between hosts, as a file describes it.
#[derive(clap::Args)]
pub struct Args {
    /// The switch's file (TOML; docs/lab.md shows every key).
    #[arg(short, long)]
    config: PathBuf,
}

/// Serves until it is told to end.
pub fn run(args: Args) -> Outcome {
    let mut orders = Orders::new()?;
    let mut switch = PhysicalSwitch::up(FabricSpec::read(&args.config)?)?;
    let served = serve(&mut switch, &mut orders);
    let report = switch.report();
    switch.down()?;
    served?;
    tell(&report)?;
    Ok(ExitCode::SUCCESS)
}

fn serve(switch: &mut PhysicalSwitch, orders: &mut Orders) -> Result<(), Box<dyn Error + Send + Sync>> {
    tell(&Ready { ready: true })?;
    loop {
        switch.turn()?;
        let [stop, counters, stdin] =
            switch.wait([orders.stop.as_fd(), orders.counters.as_fd(), orders.stdin.as_fd()])?;
        if stop {
            return Ok(());
        }
        if counters {
            // Several signals that come together are one question.
            let _ = orders.counters.read(&mut [0; 64])?;
            tell(&switch.report())?;
        }
        if stdin {
            let Some(lines) = orders.lines()? else { return Ok(()) };
            for line in lines {
                if line != "counters" {
                    return Err(format!("`{line}` is no order: say `counters`, or close stdin").into());
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
    /// Readable when SIGUSR1 has come.
    counters: UnixStream,
    stdin: OwnedFd,
    /// What stdin has said behind its last whole line.
    rest: Vec<u8>,
}

/// The longest line that may be an order.
const LONGEST_LINE: usize = 256;

/// Where orders are read: stdin, if somebody can say something there or end it. Of others, a terminal or /dev/null, nothing is
/// heard.
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
        let on = |signals: &[i32]| {
            let (read, write) = UnixStream::pair()?;
            for signal in signals {
                pipe::register(*signal, write.try_clone()?)?;
            }
            io::Result::Ok(read)
        };
        let (stop, counters) = (on(&[SIGTERM, SIGINT, SIGHUP])?, on(&[SIGUSR1])?);
        Ok(Self { stop, counters, stdin: told()?, rest: Vec::new() })
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
        Ok(Some(String::from_utf8_lossy(&lines).lines().map(|line| line.trim().to_owned()).collect()))
    }
}
