//! `zovn capture`: an agent's frames, as a pcapng file for Wireshark.
//!
//! ```text
//! agent ─pieces─▶ Copy: whole blocks, counted ─▶ a file, or stdout
//! ```
//!
//! Only whole blocks are written, so that the file is good wherever it ends.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use api::Client;
use clap::ValueEnum;
use model::{CaptureDirection, CaptureSpec, PortName};
use pcap_file::pcapng::blocks::block_common::Block;
use pcap_file::pcapng::blocks::interface_statistics::InterfaceStatisticsOption;
use pcap_file::pcapng::{PcapNgParseError, PcapNgParser};
use units::Span;

use crate::ending::Outcome;
use crate::signals;

const EXAMPLES: &str = "\
Examples:
  zovn capture -w all.pcapng                 everything, until Ctrl-C
  zovn capture --port web --snap 128 --duration 10s -w web.pcapng
  zovn capture --refused | tshark -r -       what is refused, and why
  zovn capture --uplink --count 100 | tcpdump -nr -

Each place is an interface of the file: `web ingress`, `web egress`, `uplink`, `refused`. In and out are seen from the switch.
Frames are as the switch has them: what is left to their receiver, a checksum or the cutting into segments, a comment says.";

/// How long a wait for frames may be before signals are looked at.
const PATIENCE: Duration = Duration::from_millis(100);

/// How often a terminal is told of progress.
const PROGRESS: Duration = Duration::from_millis(500);

/// Capture an agent's frames, for Wireshark.
///
/// The switch does not wait for the capture: what is captured faster than it is written is not in
/// the file, and counted. With none of --port, --uplink and --refused, everything is captured.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Frames of this port; may be given again. Of what is refused, only what concerns it.
    #[arg(long, value_name = "NAME")]
    port: Vec<String>,
    /// What goes to other hosts and comes from them, as it is in the underlay.
    #[arg(long)]
    uplink: bool,
    /// What is refused; a comment says why.
    #[arg(long)]
    refused: bool,
    /// Which way frames go, seen from the switch.
    #[arg(long, value_name = "WAY", value_enum, default_value_t)]
    direction: Direction,
    /// Keep no more of each frame.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    snap: Option<u32>,
    /// End after so many frames.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after so long.
    #[arg(long, value_name = "TIME")]
    duration: Option<Span>,
    /// Where the file goes; `-` is stdout, as is nothing where stdout is no terminal.
    #[arg(short, long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// The agent's socket.
    #[arg(long, value_name = "PATH", default_value = api::DEFAULT_SOCKET)]
    socket: PathBuf,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Direction {
    /// Into the switch.
    In,
    /// Out of it.
    Out,
    /// Either.
    #[default]
    Both,
}

/// Captures until there is enough, or a signal comes.
pub fn run(args: Args) -> Outcome {
    let stop = signals::stop()?;
    let direction = match args.direction {
        Direction::In => CaptureDirection::In,
        Direction::Out => CaptureDirection::Out,
        Direction::Both => CaptureDirection::Both,
    };
    let Args { uplink, refused, snap, count, duration, .. } = args;
    let ports = args.port.into_iter().map(PortName).collect();
    let spec = CaptureSpec { ports, uplink, refused, direction, snap, count, duration };
    let client = Client::new(args.socket)?;
    let mut stream = client.capture(&spec)?;
    // Only now: a capture that does not begin leaves what is there.
    let mut copy = Copy::new(open(args.write.as_deref())?);
    let mut progress = Progress::new();
    let outcome = loop {
        if stop.load(Ordering::Relaxed) {
            break Ok(());
        }
        match stream.next(PATIENCE) {
            Ok(Some(piece)) => copy.take(&piece)?,
            Ok(None) => break Ok(()),
            // What has come is good.
            Err(error) => break Err(error),
        }
        progress.show(&copy);
    };
    copy.finish()?;
    progress.end(&copy);
    outcome?;
    Ok(ExitCode::SUCCESS)
}

fn open(path: Option<&Path>) -> Result<Box<dyn Write>, String> {
    match path {
        Some(path) if path != Path::new("-") => match fs::File::create(path) {
            Ok(file) => Ok(Box::new(file)),
            Err(error) => Err(format!("cannot write {}: {error}", path.display())),
        },
        None if io::stdout().is_terminal() => Err(
            "a capture is nothing to read: write it to a file with -w, or pipe it to `tshark -r -`"
                .into(),
        ),
        _ => Ok(Box::new(io::stdout())),
    }
}

/// Copies whole blocks, and counts what they tell.
struct Copy {
    sink: Box<dyn Write>,
    /// What has come, from the first block on that is not whole.
    pending: Vec<u8>,
    parser: Option<PcapNgParser>,
    captured: u64,
    /// By interface: frames that found no room, and the block that says so, which is written at the
    /// end.
    dropped: BTreeMap<u32, (u64, Vec<u8>)>,
}

impl Copy {
    fn new(sink: Box<dyn Write>) -> Self {
        Self { sink, pending: Vec::new(), parser: None, captured: 0, dropped: BTreeMap::new() }
    }

    /// Takes what comes next in the stream.
    fn take(&mut self, piece: &[u8]) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.pending.extend(piece);
        let mut rest = self.pending.as_slice();
        while !rest.is_empty() {
            let next = match &mut self.parser {
                None => PcapNgParser::new(rest).map(|(next, parser)| {
                    self.parser = Some(parser);
                    (next, None)
                }),
                Some(parser) => parser.next_block(rest).map(|(next, block)| (next, Some(block))),
            };
            let (next, block) = match next {
                Ok(next) => next,
                Err(PcapNgParseError::IncompleteBuffer { .. }) => break,
                Err(error) => {
                    return Err(format!("the agent sent what is no pcapng: {error}").into());
                }
            };
            let bytes = &rest[..rest.len() - next.len()];
            rest = next;
            if let Some(Block::InterfaceStatistics(block)) = &block {
                let dropped = block.options.iter().find_map(|option| match option {
                    InterfaceStatisticsOption::IsbIfDrop(frames) => Some(*frames),
                    _ => None,
                });
                self.dropped.insert(block.interface_id, (dropped.unwrap_or(0), bytes.into()));
                continue;
            }
            self.captured += u64::from(matches!(block, Some(Block::EnhancedPacket(_))));
            self.sink.write_all(bytes)?;
        }
        let done = self.pending.len() - rest.len();
        self.pending.drain(..done);
        self.sink.flush()?;
        Ok(())
    }

    fn dropped(&self) -> u64 {
        self.dropped.values().map(|(frames, _)| frames).sum()
    }

    /// Writes what was dropped: at the end, once for each interface, as readers expect it.
    fn finish(&mut self) -> io::Result<()> {
        for (_, block) in self.dropped.values() {
            self.sink.write_all(block)?;
        }
        self.sink.flush()
    }
}

/// How many frames there are, on stderr: now and then on a terminal, at the end elsewhere.
struct Progress {
    is_terminal: bool,
    next: Instant,
}

impl Progress {
    fn new() -> Self {
        Self { is_terminal: io::stderr().is_terminal(), next: Instant::now() }
    }

    fn show(&mut self, copy: &Copy) {
        if self.is_terminal && Instant::now() >= self.next {
            self.next = Instant::now() + PROGRESS;
            eprint!("\r{}", told(copy));
        }
    }

    fn end(&self, copy: &Copy) {
        eprintln!("{}{}", if self.is_terminal { "\r" } else { "" }, told(copy));
    }
}

fn told(copy: &Copy) -> String {
    format!("captured {} frames, dropped {}", copy.captured, copy.dropped())
}
