//! What runs in a virtual machine: tells the switch what room the machine's UDP sockets have, so
//! that it holds what a full one would lose.
//!
//! ```text
//!    sockets ──▶ Watch ──▶ Teller ──▶ eth0 ═══▶ the switch's gate before this machine
//!                 bell        ▲         ║
//!                             └─ Asks ◀─╝
//! ```
//!
//! One thread sleeps until the switch asks, a socket rings, or a second is over. It is the same in
//! a container whose sockets the agent does not watch itself.

#![forbid(unsafe_code)]

mod obstacles;

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kernel::netlink::{Netlink, NetlinkError};
use kernel::{packet, thread};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use udp_gate::{Heard, Teller, Watch, WatchError, Watched};
use units::Span;
use wire::room;

const EXAMPLES: &str = "\
Examples:
  zovn guest                        tell of the sockets behind eth0, until SIGTERM or Ctrl-C
  zovn guest --interface ens3       another interface; one program for each
  zovn guest --json | jq            one JSON object a line

With Linux 6.3 and BTF, BPF programs tell how full the sockets are (root, or CAP_BPF, CAP_PERFMON,
CAP_SYS_ADMIN and CAP_NET_ADMIN). Elsewhere they are listed, up to 1000 times a second while
somebody waits: that takes the module udp_diag. Either way it takes CAP_NET_RAW.";

/// Tell the switch what room this machine's UDP sockets have.
///
/// A kernel drops a datagram whose socket is full. A zovn switch holds it instead, if it knows: of
/// containers it sees for itself, of virtual machines it is told by this program, which runs in
/// there. Of a network namespace only the sockets in it are told of: those of containers inside the
/// machine are not.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The interface at whose other end the switch is.
    #[arg(short, long, value_name = "NAME", default_value = "eth0")]
    interface: String,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
    /// List the sockets, even if BPF could tell.
    #[arg(long)]
    list: bool,
}

/// Why the program ends.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// There is no such interface.
    #[error(transparent)]
    Interface(#[from] NetlinkError),
    /// What has no Ethernet address has no switch at its other end.
    #[error(
        "{0} has no Ethernet address: name the interface that leads to the switch with `--interface`"
    )]
    NoEthernet(String),
    /// No frames can be sent.
    #[error("cannot send frames through {interface}: {source}; run as root, or with CAP_NET_RAW")]
    Frames {
        /// The interface.
        interface: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The sockets cannot be seen.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// They could be seen, and can no more.
    #[error("cannot look at the UDP sockets any more: {0}")]
    Look(#[source] io::Error),
    /// The rest of what the kernel has for programs.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

/// What is worth to be said.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "event")]
enum Event<'a> {
    /// It has begun.
    Watching { interface: &'a str, by: By, because: Option<String> },
    /// Something may be lost whatever the switch does.
    InTheWay { what: String },
    /// The switch holds what would be lost.
    Heard,
    /// Nobody answers.
    Unheard,
    /// The switch is of another release.
    OtherVersion { ours: u8, theirs: u8 },
    /// It has ended.
    Ended,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum By {
    Bpf,
    Listing,
}

/// How often the switch is told that we are there, and what nothing tells of is looked for.
const ROUND: Duration = Duration::from_secs(1);

/// How long the switch may say nothing before we say so. As long as it waits for us.
const SILENCE: Duration = Duration::from_secs(10);

/// How soon sockets without a bell are looked at again while somebody waits for room.
const AGAIN: Duration = Duration::from_millis(1);

/// A datagram waits for our answer, so we go before others.
const NICE: i32 = -10;
const SLICE: Span = Span::from_micros(100);

/// Runs until a signal ends it.
///
/// # Errors
///
/// [`GuestError`]
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn std::error::Error + Send + Sync>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        let registered = signal_hook::flag::register(signal, Arc::clone(&stop));
        registered.map_err(system("wait for signals"))?;
    }
    // Without the privilege to go first, it answers when it may.
    let _ = thread::schedule(NICE, SLICE).or_else(|_| thread::schedule(0, SLICE));
    let mut talk = Talk::begin(args)?;
    while !stop.load(Ordering::Relaxed) {
        talk.turn()?;
    }
    talk.end()?;
    Ok(ExitCode::SUCCESS)
}

/// The conversation with the switch.
struct Talk<'a> {
    args: &'a Args,
    link: OwnedFd,
    watch: Watch,
    teller: Teller,
    sockets: Vec<Watched>,
    /// What the kernel had lost before us.
    lost_before: u64,
    lost: u32,
    hello_at: Instant,
    /// When the switch spoke last.
    heard_at: Instant,
    /// What was said of that last.
    is_heard: Option<bool>,
    /// The switch asks in another version of the protocol.
    version: Option<u8>,
}

impl<'a> Talk<'a> {
    fn begin(args: &'a Args) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let interface = &args.interface;
        let link = Netlink::open().and_then(|mut netlink| netlink.link(interface));
        let link = link.map_err(GuestError::Interface)?;
        let mac = link.mac.ok_or_else(|| GuestError::NoEthernet(interface.clone()))?;
        let frames = |source| GuestError::Frames { interface: interface.clone(), source };
        let index = link.index;
        let link = packet::socket(index, room::ETHERTYPE).map_err(frames)?;
        packet::hurry(&link).map_err(frames)?;
        let (watch, why) = if args.list {
            (Watch::by_listing().map_err(GuestError::Watch)?, Some("--list was given".to_owned()))
        } else {
            let (watch, why) = Watch::open().map_err(GuestError::Watch)?;
            (watch, why.map(|why| why.to_string()))
        };
        let now = Instant::now();
        // No other life of this program has this number.
        let session = RandomState::new().hash_one(std::process::id());
        let talk = Self {
            args,
            link,
            teller: Teller::new(mac, session, rustix::param::page_size() as u32),
            sockets: Vec::new(),
            lost_before: lost(),
            lost: 0,
            hello_at: now,
            heard_at: now,
            is_heard: None,
            version: None,
            watch,
        };
        let by = if talk.watch.rings() { By::Bpf } else { By::Listing };
        talk.say(&Event::Watching { interface, by, because: why })?;
        for what in obstacles::of(interface, index) {
            talk.say(&Event::InTheWay { what })?;
        }
        Ok(talk)
    }

    /// Sleeps until there is something to do, and does it.
    fn turn(&mut self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let now = Instant::now();
        if now >= self.hello_at {
            self.hello_at = now + ROUND;
            self.lost = u32::try_from(lost().saturating_sub(self.lost_before)).unwrap_or(u32::MAX);
            // What it would find is found a second later, if not now.
            let _ = self.watch.survey();
            let hello = self.teller.hello(self.lost);
            send(&self.link, hello.frame(), &self.args.interface)?;
            self.say_whether_heard(now)?;
        }
        let waits = self.teller.awaited().next().is_some();
        let again = waits && !self.watch.rings();
        let patience =
            self.hello_at.saturating_duration_since(now).min(if again { AGAIN } else { ROUND });
        let rang = self.sleep(patience)?;
        if rang {
            self.watch.silence();
        }
        let asked = self.listen()?;
        if asked || rang || waits {
            self.tell()?;
            // Who waits for room is told of by the bell from here on. What came in between is told
            // of now.
            if self.watch.rings() && self.teller.awaited().next().is_some() {
                self.watch.arm(self.teller.awaited());
                self.tell()?;
            }
        }
        Ok(())
    }

    fn end(mut self) -> io::Result<()> {
        // An interface that is gone has nobody to take leave of.
        let _ = send(&self.link, self.teller.bye().frame(), &self.args.interface);
        self.say(&Event::Ended)
    }

    /// Sleeps until a frame comes, a socket rings, a signal comes or patience ends. Whether it
    /// rang.
    fn sleep(&self, patience: Duration) -> Result<bool, GuestError> {
        let wait = Timespec::try_from(patience).expect("patience is short");
        let link = PollFd::new(&self.link, PollFlags::IN);
        let bell = self.watch.bell().map(|bell| PollFd::from_borrowed_fd(bell, PollFlags::IN));
        let mut sources: Vec<_> = [Some(link), bell].into_iter().flatten().collect();
        match poll(&mut sources, Some(&wait)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(system("wait for frames")(error.into())),
        }
        Ok(sources.get(1).is_some_and(|bell| bell.revents().contains(PollFlags::IN)))
    }

    /// Takes in every frame that has come. Whether one of them asks something.
    fn listen(&mut self) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
        let mut frame = [0; room::LONGEST];
        let mut asked = false;
        loop {
            let length = match rustix::net::recv(&self.link, &mut frame, RecvFlags::DONTWAIT) {
                Ok((_, length)) => length.min(frame.len()),
                Err(Errno::AGAIN) => return Ok(asked),
                // The interface went down: told of once.
                Err(Errno::INTR | Errno::NETDOWN) => continue,
                Err(source) => {
                    let interface = self.args.interface.clone();
                    return Err(GuestError::Frames { interface, source: source.into() }.into());
                }
            };
            match self.teller.hear(&frame[..length]) {
                Heard::Nothing => {}
                Heard::Asked => {
                    self.heard_at = Instant::now();
                    (asked, self.version) = (true, None);
                    if !self.teller.is_on() {
                        // It holds nothing before it knows that we hear it, and we are to know that
                        // it does.
                        (self.hello_at, self.is_heard) = (self.heard_at, None);
                    } else if self.is_heard != Some(true) {
                        self.is_heard = Some(true);
                        self.say(&Event::Heard)?;
                    }
                }
                Heard::Version(theirs) => {
                    self.heard_at = Instant::now();
                    if self.version.replace(theirs) != Some(theirs) {
                        self.say(&Event::OtherVersion { ours: room::VERSION, theirs })?;
                    }
                }
            }
        }
    }

    fn tell(&mut self) -> Result<(), GuestError> {
        self.watch.look(&mut self.sockets).map_err(GuestError::Look)?;
        let Self { teller, sockets, lost, link, args, .. } = self;
        let mut sent = Ok(());
        teller.tell(sockets, *lost, |frame| {
            if sent.is_ok() {
                sent = send(link.as_fd(), frame, &args.interface);
            }
        });
        sent
    }

    fn say_whether_heard(&mut self, now: Instant) -> io::Result<()> {
        if self.is_heard != Some(false) && now.saturating_duration_since(self.heard_at) > SILENCE {
            self.is_heard = Some(false);
            self.say(&Event::Unheard)?;
        }
        Ok(())
    }

    fn say(&self, event: &Event<'_>) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        if self.args.json {
            serde_json::to_writer(&mut stdout, event)?;
            writeln!(stdout)?;
        } else {
            writeln!(stdout, "{}", sentence(event))?;
        }
        stdout.flush()
    }
}

/// An event in words.
fn sentence(event: &Event<'_>) -> String {
    match event {
        Event::Watching { interface, by: By::Bpf, .. } => {
            format!("{interface}: BPF programs tell how full the UDP sockets are")
        }
        Event::Watching { interface, by: By::Listing, because } => {
            let because = because.as_deref().unwrap_or_default();
            format!(
                "{interface}: the UDP sockets are listed as often as need be, since BPF does not tell: {because}"
            )
        }
        Event::InTheWay { what } => what.clone(),
        Event::Heard => "the switch hears us: it holds what a full socket would lose".into(),
        Event::Unheard => {
            "the switch does not answer: full sockets lose what they are sent; is it one of zovn's?"
                .into()
        }
        Event::OtherVersion { ours, theirs } => {
            format!(
                "the switch speaks version {theirs} of the protocol, and we {ours}: use the same release of zovn"
            )
        }
        Event::Ended => "done: the switch holds nothing for us any more".into(),
    }
}

/// Sends a frame, or not: what is lost is said again.
fn send(link: impl AsFd, frame: &[u8], interface: &str) -> Result<(), GuestError> {
    match rustix::net::send(link, frame, SendFlags::DONTWAIT) {
        Ok(_) | Err(Errno::AGAIN | Errno::NOBUFS | Errno::NETDOWN | Errno::INTR) => Ok(()),
        Err(source) => {
            Err(GuestError::Frames { interface: interface.to_owned(), source: source.into() })
        }
    }
}

/// Datagrams that found no room in this namespace, ever (`RcvbufErrors`, of either IP); 0 if nobody
/// says.
fn lost() -> u64 {
    let v4 = fs::read_to_string("/proc/thread-self/net/snmp").unwrap_or_default();
    let mut udp =
        v4.lines().filter_map(|line| line.strip_prefix("Udp: ")).map(|line| line.split(' '));
    let v4 = udp.next().zip(udp.next()).and_then(|(mut names, mut values)| {
        let place = names.position(|name| name == "RcvbufErrors")?;
        values.nth(place)?.parse::<u64>().ok()
    });
    let v6 = fs::read_to_string("/proc/thread-self/net/snmp6").unwrap_or_default();
    let v6 = v6
        .lines()
        .find_map(|line| line.strip_prefix("Udp6RcvbufErrors")?.trim().parse::<u64>().ok());
    v4.unwrap_or(0) + v6.unwrap_or(0)
}

fn system(what: &'static str) -> impl Fn(io::Error) -> GuestError {
    move |source| GuestError::System { what, source }
}
