//! `zovn capture`: an agent's frames, as a pcapng file for Wireshark.
//!
//! ```text
//! agent ─pieces─▶ Copy: whole blocks, counted ─▶ a file, or stdout
//! ```
//!
//! Only whole blocks are written, so that the file is good wherever it ends.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use model::{CaptureDirection, CaptureSpec, Filter, PortName};
use pcap_file::pcapng::blocks::block_common::Block;
use pcap_file::pcapng::blocks::interface_statistics::InterfaceStatisticsOption;
use pcap_file::pcapng::{PcapNgParseError, PcapNgParser};
use units::Span;

use crate::client::AgentArgs;
use crate::ending::{Outcome, USAGE};
use crate::number::within;
use crate::signals;

const EXAMPLES: &str = "\
Examples:
  zovn capture -w all.pcapng                 everything, until Ctrl-C
  zovn capture --port web --snap 128 --duration 10s -w web.pcapng
  zovn capture --port web -w dns.pcapng udp port 53 and not host 10.0.0.9
  zovn capture --refused | tshark -r -       what is refused, and why
  zovn capture --port shop/db-1 --refused -w db.pcapng      a logical port's, and by which rule it refuses
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
    /// Frames of this port, a logical one also by its own name, as `shop/web-1`; may be given
    /// again. Of what is refused, only what concerns it.
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
    /// What frames have to be, in tcpdump's words: host, net, port (with src or dst before them),
    /// ether host, vlan, ip, ip6, arp, tcp, udp, icmp, icmp6; and, or, not and parentheses.
    #[arg(value_name = "EXPRESSION")]
    filter: Vec<String>,
    /// Keep no more of each frame.
    #[arg(long, value_name = "BYTES", value_parser = within(1..=u32::MAX))]
    snap: Option<u32>,
    /// End after so many frames.
    #[arg(long, value_name = "N", value_parser = within(1..=u64::MAX))]
    count: Option<u64>,
    /// End after so long.
    #[arg(long, value_name = "TIME")]
    duration: Option<Span>,
    /// Where the file goes; `-` is stdout, as is nothing where stdout is no terminal.
    #[arg(short, long, value_name = "FILE")]
    write: Option<PathBuf>,
    #[command(flatten)]
    agent: AgentArgs,
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
    let filter = match args.filter.join(" ") {
        words if words.is_empty() => None,
        words => match words.parse::<Filter>() {
            Ok(filter) => Some(filter),
            Err(error) => {
                eprintln!("zovn: `{words}` is no filter: {error}");
                return Ok(ExitCode::from(USAGE));
            }
        },
    };
    let spec = CaptureSpec { ports, uplink, refused, direction, filter, snap, count, duration };
    let client = args.agent.client()?;
    let mut stream = client.capture(&spec)?;
    // Only now: a capture that does not begin leaves what is there.
    let mut copy = Copy::new(Sink::open(args.write.as_deref())?);
    let mut progress = Progress::new();
    let outcome = loop {
        if stop.load(Ordering::Relaxed) {
            break Ok(());
        }
        match stream.next(PATIENCE) {
            Ok(Some(piece)) => {
                if let Err(error) = copy.take(&piece) {
                    progress.end(&copy);
                    return Err(error);
                }
            }
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

/// Where a capture goes: a file, or stdout.
struct Sink {
    out: Box<dyn Write>,
    /// The file, if it is one that has an end to cut off, and its name.
    file: Option<(fs::File, PathBuf)>,
    /// How many bytes of whole blocks were written.
    whole: u64,
}

impl Sink {
    fn open(path: Option<&Path>) -> Result<Self, String> {
        match path {
            Some(path) if path != Path::new("-") => {
                let file = fs::File::create(path).and_then(|file| Ok((file.try_clone()?, file)));
                match file {
                    Ok((out, file)) => {
                        let out = Box::new(out);
                        Ok(Self { out, file: Some((file, path.into())), whole: 0 })
                    }
                    Err(error) => Err(format!("cannot write {}: {error}", path.display())),
                }
            }
            None if io::stdout().is_terminal() => Err(
                "a capture is nothing to read: write it to a file with -w, or pipe it to `tshark -r -`"
                    .into(),
            ),
            _ => Ok(Self { out: Box::new(io::stdout()), file: None, whole: 0 }),
        }
    }

    /// Writes whole blocks, or nothing of them.
    fn write(&mut self, blocks: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        let written = self.out.write_all(blocks).and_then(|()| self.out.flush());
        match (written, &self.file) {
            (Ok(()), _) => {
                self.whole += blocks.len() as u64;
                Ok(())
            }
            // What is before stays a good file. A pipe has no end to cut off.
            (Err(error), Some((file, path))) => {
                let _ = file.set_len(self.whole);
                Err(format!("cannot write {}: {error}", path.display()).into())
            }
            (Err(error), None) => Err(error.into()),
        }
    }
}

/// Copies whole blocks, and counts what they tell.
struct Copy {
    sink: Sink,
    /// What has come, from the first block on that is not whole.
    pending: Vec<u8>,
    parser: Option<PcapNgParser>,
    captured: u64,
    /// By interface: frames that found no room, and the block that says so, which is written at the
    /// end.
    dropped: BTreeMap<u32, (u64, Vec<u8>)>,
}

impl Copy {
    fn new(sink: Sink) -> Self {
        Self { sink, pending: Vec::new(), parser: None, captured: 0, dropped: BTreeMap::new() }
    }

    /// Takes what comes next in the stream.
    fn take(&mut self, piece: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.pending.extend(piece);
        let (mut blocks, mut captured) = (Vec::new(), 0);
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
            blocks.extend(bytes);
            captured += u64::from(matches!(block, Some(Block::EnhancedPacket(_))));
        }
        let done = self.pending.len() - rest.len();
        self.pending.drain(..done);
        self.sink.write(&blocks)?;
        self.captured += captured;
        Ok(())
    }

    fn dropped(&self) -> u64 {
        self.dropped.values().map(|(frames, _)| frames).sum()
    }

    /// Writes what was dropped: at the end, once for each interface, as readers expect it.
    fn finish(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let Self { sink, dropped, .. } = self;
        dropped.values().try_for_each(|(_, block)| sink.write(block))
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
