//! `zovn measure`: an experiment's flags.

mod common;
mod control;
mod pa;
mod policy;
mod profile;

use clap::{Subcommand, ValueEnum};
use lab::Cable;
use measure::isolation::adversary::{self, Adversary, Sends};
use measure::isolation::{self, Meeting, Peer, Set, machines};
use measure::throughput::Ports;
use measure::tunnel::{self, Tunnel};
use measure::{MeasureError, SwitchKind, bfd, loss, paths, ramp, throughput, vhost};
use model::ClassKind;
use units::{Rate, Span};

use self::common::{CONTAINERS, Common, MACHINES, MEMORY, Output};
use crate::ending::Outcome;

/// Measure loss, ramp, Partition-Aggregate, throughput, tunnels, policy and profiles, on zovn and
/// on its peers; what BFD and a second path bring; and what a controller takes.
///
/// Each switch gets a lab of network namespaces, which needs root; only `throughput --ports memory`
/// and `control` do without.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    /// Flood one receiver, and see what is lost and where.
    Loss(LossArgs),
    /// Inject more and more, and see from where on the switch cannot follow.
    Ramp(RampArgs),
    /// Ask many workers at once, and see when the last byte of the last answer arrives
    /// (Partition-Aggregate).
    Pa(pa::PaArgs),
    /// See how much the switch carries.
    ///
    /// Between virtual machines: zovn measure throughput --ports vhost-user --switch zovn,ovs-dpdk
    /// --sizes 64,1500 --flows 1,1000. One core is the switch's, another that of our own
    /// front-ends. A receiver that takes one frame where it could take twenty: --senders 2
    /// --slow-receiver 20 --frames 100000000. Large segments: --sizes 65226. One receiver that
    /// takes nothing, beside another: --stalled. Somebody else who wants half of the switch's core:
    /// --disturb 0.5.
    Throughput(ThroughputArgs),
    /// What tunnels between two hosts cost: TCP throughput, and processors' time for it.
    ///
    /// Example: zovn measure tunnel --tunnels kernel-vxlan,geneve,vxlan --streams 1,4 --cable cut
    Tunnel(TunnelArgs),
    /// See what bursts of one virtual network do to another that keeps to its rate.
    ///
    /// For instance: zovn measure isolation --quick --report isolation.html. P1 to P6 are the
    /// parameter sets, p1, pa1 and ti the figures, of Gusat et al., "Virtual network isolation". It
    /// fails if zovn loses a frame.
    Isolation(IsolationArgs),
    /// See what it costs to watch the paths to many hosts by BFD, and how soon a cut is noticed.
    ///
    /// For instance: zovn measure bfd --sessions 5000 --interval 500ms --duration 10s --json. Both
    /// ends are the agent's own, in two network namespaces. It fails if a session goes down that
    /// was not cut.
    Bfd(BfdArgs),
    /// See how soon frames go on by another path when theirs is cut, and that none is lost.
    ///
    /// For instance: zovn measure paths --cuts 20 --json. Two hosts in a lab, two cables between
    /// them: the one that is used is pulled out at its far end. It fails if a datagram does not
    /// come, or nobody notices.
    Paths(PathsArgs),
    /// See what policy costs between virtual machines, or between containers: logical switches,
    /// rules, connections, routers, translations.
    ///
    /// For instance: zovn measure policy --switch ovs-dpdk,zovn --through plain,l2,acl,stateful
    /// --rules 10,10000 --flows 1,1000. One core is the switch's, another that of both machines.
    /// Between containers: zovn measure policy --ports container --through l2,acl,stateful,nat
    /// --rules 10,1000. The kernel's bridge has nftables' rules then. It fails if zovn loses a
    /// frame.
    Policy(policy::PolicyArgs),
    /// See how long a controller takes for thousands of hosts, what a change costs, and that pings
    /// go as intended.
    ///
    /// For instance: zovn measure control --quick --json. A controller runs in a folder of its own,
    /// and agents' sessions in this process. It needs no root. It fails if a ping goes otherwise
    /// than the objects say. Goals that are missed are named, and are no failure.
    Control(control::ControlArgs),
    /// See what this host's switches carry before they cannot follow, and what it was that could do
    /// no more: the file that `zovn plan` reads.
    ///
    /// For instance: zovn measure profile --switch bridge,zovn --json > profile.json. No delay is
    /// added. It fails if zovn loses a frame.
    Profile(profile::ProfileArgs),
}

#[derive(clap::Args)]
struct LossArgs {
    #[command(flatten)]
    common: Common,
    /// How many senders flood.
    #[arg(long, default_value_t = 2)]
    senders: u32,
    /// How long they do, each round.
    #[arg(long, default_value = "10s")]
    duration: Span,
    /// Frames a second that the receiving program takes; as fast as it can if left out.
    #[arg(long, value_name = "FRAMES", value_parser = positive)]
    receiver_rate: Option<f64>,
    /// Bytes a frame, Ethernet header included.
    #[arg(long, default_value_t = 1514)]
    size: u32,
    /// How often each switch has its turn.
    #[arg(long, default_value_t = 1)]
    rounds: u32,
}

#[derive(clap::Args)]
struct RampArgs {
    #[command(flatten)]
    common: Common,
    /// How many senders inject.
    #[arg(long, default_value_t = 2)]
    senders: u32,
    /// How much faster each sender goes at each step, in frames a second.
    #[arg(long, value_name = "FRAMES", default_value_t = 20_000)]
    step: u64,
    /// What each sender aims at in the end; ten steps if left out.
    #[arg(long, value_name = "FRAMES")]
    to: Option<u64>,
    /// How long each step lasts.
    #[arg(long, default_value = "2s")]
    duration: Span,
    /// Frames a second that the receiving program takes; as fast as it can if left out.
    #[arg(long, value_name = "FRAMES", value_parser = positive)]
    receiver_rate: Option<f64>,
    /// Bytes a frame, Ethernet header included.
    #[arg(long, default_value_t = 1514)]
    size: u32,
    /// How often each switch has its turn.
    #[arg(long, default_value_t = 1)]
    rounds: u32,
}

#[derive(clap::Args)]
struct ThroughputArgs {
    #[command(flatten)]
    common: Common,
    /// Where frames enter and leave: interfaces of containers, rings in the switch's own memory, or
    /// rings of virtual machines.
    #[arg(long, value_enum, default_value = "container")]
    ports: PortsArg,
    /// Bytes a frame, Ethernet header included. Between virtual machines up to 65549 (ovs-dpdk
    /// 65368, testpmd 1514): above 1514 they are TCP segments, still to be cut and summed, which
    /// are moved whole.
    #[arg(long, value_delimiter = ',', default_value = "64,1500")]
    sizes: Vec<u32>,
    /// How many flows. Of containers and of ports in memory each is a sender of its own, and one
    /// number is given; virtual machines share them, and several numbers are compared.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    flows: Vec<u16>,
    /// How many virtual machines send to one that receives; several numbers are compared (1 if left
    /// out).
    #[arg(long, value_delimiter = ',')]
    senders: Vec<u16>,
    /// Between virtual machines: the receiver takes one frame where it could take N.
    #[arg(long, value_name = "N")]
    slow_receiver: Option<u32>,
    /// Between virtual machines: measure everything a second time, beside one more machine, which
    /// is sent one in 16 buffers and takes nothing.
    #[arg(long)]
    stalled: bool,
    /// Between virtual machines: somebody else (nice 5) wants the switch's core for this share of
    /// the time, such as 0.5.
    #[arg(long, value_name = "SHARE", value_parser = positive)]
    disturb: Option<f64>,
    /// Between virtual machines: how many frames each run has at least, however long it lasts.
    #[arg(long)]
    frames: Option<u64>,
    /// How long each run lasts at least.
    #[arg(long, default_value = "3s")]
    duration: Span,
    /// TCP's congestion control: cubic, reno, bbr.
    #[arg(long, default_value = "cubic")]
    tcp: String,
    /// How often each switch has its turn: 3 times if left out, and 5 between virtual machines.
    #[arg(long)]
    rounds: Option<u32>,
}

#[derive(clap::Args)]
struct TunnelArgs {
    #[command(flatten)]
    output: Output,
    /// What to compare, in this order: none (one host), none-two-hosts, geneve, geneve-plain,
    /// geneve-integrity, geneve-encrypt, vxlan, nvgre, stt, kernel-vxlan,
    /// wireguard-vxlan, ovs-vxlan.
    #[arg(long, value_delimiter = ',', default_values_t = Tunnel::ALL)]
    tunnels: Vec<Tunnel>,
    /// What becomes of large packets between the hosts: they cross whole, as with network cards
    /// that have all offloads, or are cut to the MTU by the sending host.
    #[arg(long, default_value_t)]
    cable: Cable,
    /// How many streams; several numbers are compared.
    #[arg(long, value_delimiter = ',', default_value = "1,4")]
    streams: Vec<u32>,
    /// How long each run lasts.
    #[arg(long, default_value = "3s")]
    duration: Span,
    /// TCP's congestion control: cubic, reno, bbr.
    #[arg(long, default_value = "cubic")]
    tcp: String,
    /// How often each tunnel has its turn.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
}

#[derive(clap::Args)]
struct IsolationArgs {
    #[command(flatten)]
    output: Output,
    /// The switches to compare: bridge, bridge-htb, bridge-bucket, bridge-sender, ovs-meter,
    /// ovs-htb, ovs-dpdk-unshared, ovs-dpdk, zovn-lossy-unshared, zovn-lossy, zovn-unshared,
    /// zovn-max, zovn, zovn-granted. At an uplink zovn is told the link's rate and what each
    /// network may send, as its minimum; zovn-max the second one's maximum as well; the unshared
    /// are told nothing. At a downlink the receiver of zovn-granted grants what arrives, by the
    /// same terms. Between virtual machines ovs-dpdk polices what others than the victim send, and
    /// both zovns promise the victim frames.
    #[arg(long = "switch", value_name = "SWITCH", value_delimiter = ',', default_values_t = Peer::ALL)]
    peers: Vec<Peer>,
    /// The parameter sets: what the second network sends and may send.
    #[arg(long, value_name = "SET", value_delimiter = ',', default_values_t = Set::ALL)]
    sets: Vec<Set>,
    /// Where the networks meet: at one port; at the uplink of the host that both send from; at the
    /// downlink of the host that both send to. Switches that join no hosts are left out there: all
    /// of zovn do, and bridge at an uplink. At a port, where networks have no terms, zovn-lossy and
    /// zovn are all of zovn. A port if left out; with --adversary, wherever each does most harm.
    #[arg(long, value_name = "PLACE", value_delimiter = ',')]
    at: Vec<Meeting>,
    /// What the fabric between hosts promises: lossless, lossy; several are compared. If left out
    /// it is lossless for zovn and lossy for the others; bridge has none that is lossless.
    #[arg(
        long = "promise",
        value_name = "PROMISE",
        value_delimiter = ',',
        value_parser = promise
    )]
    promises: Vec<ClassKind>,
    /// The rate of the link where both networks meet, in bits of L2 frame without tunnels' headers.
    #[arg(long, default_value = "250mbit")]
    rate: Rate,
    /// How many frames of each network wait at a port, at most.
    #[arg(long, value_name = "FRAMES", default_value_t = 64)]
    buffer: u32,
    /// How long a burst of the second network lasts; several are compared.
    #[arg(long = "tb", value_name = "TIME", value_delimiter = ',', default_value = "1s,2s,5s")]
    bursts_last: Vec<Span>,
    /// How long the second network is silent behind each burst.
    #[arg(long, value_name = "TIME", default_value = "3s")]
    gap: Span,
    /// How many bursts there are, each round.
    #[arg(long, default_value_t = 5)]
    bursts: u32,
    /// How long the first network is alone at first.
    #[arg(long, value_name = "TIME", default_value = "2s")]
    lead: Span,
    /// How often each switch has its turn.
    #[arg(long, default_value_t = 10)]
    rounds: u32,
    /// Beside a network that keeps to its minimum, others do this instead, for the first --tb, each
    /// round: bytes, packets (short frames), flows (many senders in one network), onoff (5 ms of
    /// 20), onoff-1ms (1 ms of 4), onoff-200us (0.2 ms of 0.8), gso (TCP in large segments), tcp,
    /// priority (the highest class and code point), incast (from fifteen hosts), streams (to 64
    /// machines in two classes, half of which read nothing), parked (to 4000 UDP sockets that
    /// nobody reads), broadcast, addresses (two ports claim one), churn (networks come, go and
    /// change their minimum, 50 times a second). They meet at an uplink; incast at a downlink;
    /// parked, broadcast and addresses at a switch alone (port). --rate 100mbit leaves two
    /// processors time. Neither --sets, --buffer nor --bursts applies.
    #[arg(long = "adversary", value_name = "WHAT", value_delimiter = ',')]
    adversaries: Vec<Adversary>,
    /// How many networks are adversaries; flows, incast, streams, parked, broadcast and addresses
    /// are one network.
    #[arg(long, default_value_t = 8, requires = "adversaries")]
    tenants: u32,
    /// What the victim sends: cbr (0.95 of its minimum, evenly), request (1 kB, 500 times a second,
    /// each answered before the next), tcp (a stream). Virtual machines send cbr.
    #[arg(long, default_value = "cbr", requires = "adversaries")]
    victim: Sends,
    /// Where frames enter and leave: interfaces of containers, or rings of virtual machines
    /// (vhost-user). Those meet at a switch alone, in frames and not in bits: bytes, packets,
    /// priority, incast, broadcast and churn are there, and neither --at, --rate nor --promise
    /// applies.
    #[arg(long, value_enum, default_value = "container", requires = "adversaries")]
    ports: IsolationPorts,
    /// The frames of 64 bytes a second that a victim among virtual machines is promised; it sends
    /// 0.95 of them.
    #[arg(long, value_name = "FRAMES", default_value_t = 1_000_000)]
    min_packets: u32,
    /// About twenty minutes instead of hours: --tb 1s,2s --gap 1500ms --bursts 3 --lead 1s --rounds
    /// 1.
    #[arg(long, conflicts_with_all = ["bursts_last", "gap", "bursts", "lead", "rounds"])]
    quick: bool,
}

#[derive(clap::Args)]
struct BfdArgs {
    #[command(flatten)]
    output: Output,
    /// How many paths are watched.
    #[arg(long, default_value_t = 5000)]
    sessions: u32,
    /// The time between two packets of a session, in each direction.
    #[arg(long, default_value = "500ms")]
    interval: Span,
    /// How long each round counts.
    #[arg(long, default_value = "10s")]
    duration: Span,
    /// How often all of it is done.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
}

#[derive(clap::Args)]
struct PathsArgs {
    #[command(flatten)]
    output: Output,
    /// How often a path is cut.
    #[arg(long, default_value_t = 20)]
    cuts: u32,
    /// Datagrams a second.
    #[arg(long, default_value_t = 1000)]
    rate: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum PortsArg {
    Container,
    Memory,
    VhostUser,
}

#[derive(Clone, Copy, Eq, PartialEq, ValueEnum)]
enum IsolationPorts {
    Container,
    VhostUser,
}

/// Makes the experiment. Its exit code is 1 if something was not as promised, 2 if it asks for what
/// cannot be, 130 if it was interrupted.
pub fn run(args: Args) -> Outcome {
    match args.experiment {
        Experiment::Loss(args) => {
            let LossArgs { common, senders, duration, receiver_rate, size, rounds } = args;
            let switches = common.switches(&CONTAINERS);
            let config = loss::Config { switches, senders, duration, receiver_rate, size, rounds };
            common.output.make(|bench| loss::run(bench, config))
        }
        Experiment::Ramp(args) => {
            let RampArgs { common, senders, step, to, duration, receiver_rate, size, rounds } =
                args;
            let (switches, to) =
                (common.switches(&CONTAINERS), to.unwrap_or(step.saturating_mul(10)));
            let config =
                ramp::Config { switches, senders, step, to, duration, receiver_rate, size, rounds };
            common.output.make(|bench| ramp::run(bench, config))
        }
        Experiment::Pa(args) => {
            let config = args.config();
            args.common.output.make(|bench| measure::pa::run(bench, config?))
        }
        Experiment::Throughput(args) => match args.ports {
            PortsArg::VhostUser => {
                let config = args.between_machines();
                args.common.output.make(|bench| vhost::run(bench, config))
            }
            PortsArg::Container => {
                let config = args.between(Ports::Container, &CONTAINERS);
                args.common.output.make(|bench| throughput::run(bench, config?))
            }
            PortsArg::Memory => {
                let config = args.between(Ports::Memory, &MEMORY);
                args.common.output.make(|bench| throughput::run(bench, config?))
            }
        },
        Experiment::Tunnel(args) => {
            let TunnelArgs { output, tunnels, cable, streams, duration, tcp, rounds } = args;
            let config = tunnel::Config { tunnels, cable, streams, duration, tcp, rounds };
            output.make(|bench| tunnel::run(bench, config))
        }
        Experiment::Isolation(args) => {
            let config = args.config();
            if args.ports == IsolationPorts::VhostUser {
                let config = args.between_machines(config);
                args.output.make(|bench| machines::run(bench, config))
            } else if args.adversaries.is_empty() {
                args.output.make(|bench| isolation::run(bench, config))
            } else {
                let config = args.besides(config);
                args.output.make(|bench| adversary::run(bench, config))
            }
        }
        Experiment::Bfd(args) => {
            let BfdArgs { output, sessions, interval, duration, rounds } = args;
            let config = bfd::Config { sessions, interval, duration, rounds };
            output.make(|bench| bfd::run(bench, config))
        }
        Experiment::Paths(args) => {
            let PathsArgs { output, cuts, rate } = args;
            output.make(|bench| paths::run(bench, paths::Config { cuts, rate }))
        }
        Experiment::Policy(args) => args.run(),
        Experiment::Control(args) => args.run(),
        Experiment::Profile(args) => args.run(),
    }
}

impl IsolationArgs {
    fn config(&self) -> isolation::Config {
        let config = isolation::Config {
            peers: self.peers.clone(),
            sets: self.sets.clone(),
            at: if self.at.is_empty() { vec![Meeting::Port] } else { self.at.clone() },
            promises: self.promises.clone(),
            rate: self.rate,
            buffer: self.buffer,
            bursts_last: self.bursts_last.clone(),
            gap: self.gap,
            bursts: self.bursts,
            lead: self.lead,
            rounds: self.rounds,
        };
        if !self.quick {
            return config;
        }
        isolation::Config {
            bursts_last: [1, 2].map(Span::from_secs).into(),
            gap: Span::from_millis(1500),
            bursts: 3,
            lead: Span::from_secs(1),
            rounds: 1,
            ..config
        }
    }
}

impl IsolationArgs {
    /// What is measured with adversaries that are virtual machines.
    fn between_machines(&self, config: isolation::Config) -> machines::Config {
        let isolation::Config { peers, bursts_last, gap, lead, rounds, .. } = config;
        machines::Config {
            peers,
            adversaries: self.adversaries.clone(),
            tenants: self.tenants,
            min_packets: self.min_packets,
            lead,
            lasts: bursts_last.first().copied().unwrap_or(Span::ZERO),
            rest: gap,
            rounds,
        }
    }

    /// What is measured with adversaries.
    fn besides(&self, config: isolation::Config) -> adversary::Config {
        let isolation::Config { peers, promises, rate, bursts_last, gap, lead, rounds, .. } =
            config;
        adversary::Config {
            peers,
            adversaries: self.adversaries.clone(),
            victim: self.victim,
            at: self.at.clone(),
            promises,
            tenants: self.tenants,
            rate,
            lead,
            lasts: bursts_last.first().copied().unwrap_or(Span::ZERO),
            rest: gap,
            rounds,
        }
    }
}

impl ThroughputArgs {
    fn between(
        &self,
        ports: Ports,
        otherwise: &[SwitchKind],
    ) -> Result<throughput::Config, MeasureError> {
        let Self {
            common,
            sizes,
            flows,
            senders,
            slow_receiver,
            stalled,
            disturb,
            frames,
            duration,
            tcp,
            rounds,
            ..
        } = self;
        let is_of_machines = !senders.is_empty()
            || slow_receiver.is_some()
            || *stalled
            || disturb.is_some()
            || frames.is_some();
        if is_of_machines {
            let what = "--senders, --slow-receiver, --stalled, --disturb and --frames are of virtual machines: add --ports \
                 vhost-user";
            return Err(MeasureError::Config(what.into()));
        }
        let [flows] = flows[..] else {
            let what = "several numbers of flows are compared between virtual machines only (--ports vhost-user)";
            return Err(MeasureError::Config(what.into()));
        };
        Ok(throughput::Config {
            switches: common.switches(otherwise),
            ports,
            sizes: sizes.clone(),
            flows: flows.into(),
            duration: *duration,
            tcp: tcp.clone(),
            rounds: rounds.unwrap_or(3),
        })
    }

    fn between_machines(&self) -> vhost::Config {
        vhost::Config {
            switches: self.common.switches(&MACHINES),
            ports: vhost::Ports::VhostUser,
            sizes: self.sizes.clone(),
            flows: self.flows.clone(),
            senders: if self.senders.is_empty() { vec![1] } else { self.senders.clone() },
            duration: self.duration,
            frames: self.frames.unwrap_or(0),
            slow_receiver: self.slow_receiver,
            stalled: self.stalled,
            disturb: self.disturb,
            rounds: self.rounds.unwrap_or(5),
        }
    }
}

fn promise(text: &str) -> Result<ClassKind, String> {
    match text {
        "lossless" => Ok(ClassKind::Lossless),
        "lossy" => Ok(ClassKind::Lossy),
        _ => Err("write lossless or lossy".into()),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "write a number")?;
    if number.is_finite() && number > 0.0 {
        Ok(number)
    } else {
        Err("write a number above 0".into())
    }
}
