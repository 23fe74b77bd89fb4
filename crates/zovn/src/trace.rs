//! `zovn trace`: what would become of a frame now.

use std::net::IpAddr;
use std::process::ExitCode;

use api::Client;
use comfy_table::Table;
use figures::{Unit, si};
use model::{
    FrameBytes, LogicalPortName, PacketTraceSpec, PausedBy, PortName, TraceEgress, TraceHop,
    TraceIngress, TraceOutcome, TraceReport, TraceSession, TraceSpec, TraceTable,
};
use units::{Class, Mac};

use crate::client::AnswerArgs;
use crate::ending::{Outcome, USAGE};
use crate::net::packet::Asks;
use crate::net::trace::{exit, told};
use crate::number::within;
use crate::table::{bare, text};

const EXAMPLES: &str = "\
Examples:
  zovn trace --port web --to 10.0.0.2        a datagram to the machine that has this address
  zovn trace --port web --to 10.0.0.2 --udp 53
  zovn trace --port web --to 02:00:00:00:00:02 --size 1514 --class 5
  zovn trace --port web                      a broadcast
  zovn trace --port web --to 10.0.0.2 --size 4000 --may-fragment
  zovn trace --port web --to fd00::2 --json | jq -r .outcome
  zovn trace --port shop/web-1 --to 10.0.2.1 --tcp 5432     of a logical port: by which rules, of which generation
  zovn trace --port web-1 --to shop/db-1 --icmp 8           the host's port that it is does as well

Exit codes: 0 it would be delivered, held or answered by the switch, 1 there is no agent or it has no answer, 2 wrong usage, 3 it would be refused.";

/// The exit code if the frame would be refused.
const REFUSED: u8 = 3;

/// The shortest Ethernet frame, without its check sequence (802.3 §3.2.8).
const SHORTEST: u32 = 60;

/// Ask what would become of a frame from a port now, hop by hop; nothing changes.
///
/// The switch walks by its own rules: whether the sender may send, whether the switch answers
/// itself, whom the frame is for, what is before it there, and for another host how the session is.
/// Of a logical port its network decides, by the generation and the connections that are there now,
/// and each step tells the object and the rule.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The port that it comes by; a logical port also by its own name, as `shop/web-1`.
    #[arg(long, value_name = "NAME")]
    port: String,
    /// Whom it is for: an Ethernet address, or the IP address of a machine that the switch knows;
    /// everybody if left out. Of a logical port: an IP address, or another logical port.
    #[arg(long, value_name = "MAC|IP|PORT")]
    to: Option<String>,
    /// The priority of its tag, 0 to 7; without a tag, and of its port's class, if left out.
    #[arg(long, value_name = "N", value_parser = within(0..=7u8))]
    class: Option<u8>,
    /// Its length, from the Ethernet header on: 60 if left out.
    #[arg(long, value_name = "BYTES")]
    size: Option<u32>,
    /// The VLAN of its tag.
    #[arg(long, value_name = "N", value_parser = within(0..=4094u16))]
    vlan: Option<u16>,
    /// Its packet may be fragmented on its way: IPv4 without DF.
    #[arg(long)]
    may_fragment: bool,
    /// The UDP port that it is for: says what becomes of it at the socket, too.
    #[arg(long, value_name = "PORT", requires = "to", group = "asks")]
    udp: Option<u16>,
    #[command(flatten, next_help_heading = "Packets of logical ports")]
    asks: Asks,
    #[command(flatten, next_help_heading = "Options")]
    answer: AnswerArgs,
}

/// Asks, and says what the agent says.
pub fn run(args: Args) -> Outcome {
    let client = args.answer.client()?;
    let logical = match args.port.parse() {
        Ok(name) => Some(name),
        // What is wrong with the name the trace itself says.
        Err(_) => client.port(&PortName(args.port.clone())).ok().and_then(|port| port.logical),
    };
    match logical {
        Some(name) => of_logical(&client, &args, &name),
        None => of_plain(&client, args),
    }
}

/// What the switch does with a frame.
fn of_plain(client: &Client, args: Args) -> Outcome {
    let Args { port, to, class, size, vlan, may_fragment, udp, asks, answer } = args;
    if !asks.is_empty() {
        return usage(
            "only of a logical port can be asked what its packets ask for: leave out all but --udp",
        );
    }
    if let Some(Err(wrong)) = to.as_deref().map(address) {
        return usage(wrong);
    }
    let (port, class) = (PortName(port), class.map(Class::from_low_bits));
    let size = size.unwrap_or(SHORTEST);
    let spec = TraceSpec { port, to, class, size, vlan, may_fragment, udp };
    let report = client.trace(&spec)?;
    answer.show(&report, || format!("{}\n{}", table(&report), report.verdict))?;
    let is_refused = report.outcome == TraceOutcome::Refused;
    Ok(if is_refused { ExitCode::from(REFUSED) } else { ExitCode::SUCCESS })
}

/// What its network does with a packet of a logical port. The packet is made by the objects that
/// the agent has been told.
fn of_logical(client: &Client, args: &Args, name: &LogicalPortName) -> Outcome {
    let Args { port, to, class, size, vlan, may_fragment, udp, asks, answer } = args;
    if class.is_some() || vlan.is_some() || *may_fragment {
        return usage(
            "a packet of a logical port has no tag and no fragments here: leave out --class, --vlan and --may-fragment; a \
             port behind another's VLAN has a name of its own",
        );
    }
    let Some(to) = to else { return usage("say whom it is for: --to 10.0.2.1, or --to shop/db-1") };
    let objects = serde_json::to_string(&client.logical()?.objects)?;
    let topology = logical::read(&objects).resolve().map_err(|faults| {
        let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
        format!("this zovn does not understand the agent's objects: {}", faults.join("; "))
    })?;
    let mut question = asks.question(&name.to_string(), to, *udp);
    let (_, mut frame) = question.frame(&topology)?;
    if let Some(more) = size.and_then(|size| (size as usize).checked_sub(frame.len())) {
        question.size = u16::try_from(more).unwrap_or(u16::MAX);
        (_, frame) = question.frame(&topology)?;
    }
    let spec = PacketTraceSpec { port: PortName(port.clone()), frame: FrameBytes(frame) };
    let trace = client.trace_packet(&spec)?;
    answer.show(&trace, || told(&trace))?;
    Ok(exit(&trace))
}

/// Tells what is wrong with the flags.
fn usage(wrong: &str) -> Outcome {
    eprintln!("zovn: {wrong}");
    Ok(ExitCode::from(USAGE))
}

/// An address as the agent will read it.
fn address(word: &str) -> Result<(), &'static str> {
    let known = word.parse::<Mac>().is_ok() || word.parse::<IpAddr>().is_ok();
    if known { Ok(()) } else { Err("write --to as 02:00:00:00:00:02, 10.0.0.2 or fd00::2") }
}

/// A line for each hop.
fn table(report: &TraceReport) -> String {
    let mut table = bare();
    report.hops.iter().for_each(|hop| add(&mut table, hop));
    text(table)
}

fn add(table: &mut Table, hop: &TraceHop) {
    let (at, where_, what) = match hop {
        TraceHop::Ingress(ingress) => ("ingress", ingress.port.to_string(), ingress_line(ingress)),
        TraceHop::Responder { reply } => ("responder", String::new(), reply.clone()),
        TraceHop::Table(table) => ("table", table.to.to_string(), table_line(table)),
        TraceHop::Egress(egress) => ("egress", egress.port.to_string(), egress_line(egress)),
        TraceHop::Session(session) => ("session", session.vtep.to_string(), session_line(session)),
    };
    table.add_row([at, &where_, &what]);
}

fn ingress_line(
    TraceIngress { class, free_frames, paused_by, reason, .. }: &TraceIngress,
) -> String {
    let held = match (reason, paused_by) {
        (Some(reason), _) => format!(", nothing is taken: {reason}"),
        (None, Some(PausedBy::Egress)) => ", held back by its quota at a receiver".into(),
        (None, Some(PausedBy::Ingress)) => ", held back: all that may be held is".into(),
        (None, None) => String::new(),
    };
    format!("class {}, {free_frames} more frames may be held{held}", class.pcp())
}

fn table_line(table: &TraceTable) -> String {
    let network =
        table.network.as_ref().map_or("no network".into(), |name| format!("network {name}"));
    let vlan = if table.vlan == 0 { String::new() } else { format!(", VLAN {}", table.vlan) };
    let egresses: Vec<_> = table.egresses.iter().map(ToString::to_string).collect();
    let way = match (&table.refused, table.flooded) {
        (Some(reason), _) => format!("refused: {reason}"),
        (None, true) => format!("flooded to {}", egresses.join(", ")),
        (None, false) => format!("to {}", egresses.join(", ")),
    };
    format!("{network}{vlan}: {way}")
}

fn egress_line(egress: &TraceEgress) -> String {
    let TraceEgress { queued_frames, queued_bytes, waiting_frames, held_flows, .. } = egress;
    let mut line = format!("{queued_frames} frames ({queued_bytes} bytes) queued before it");
    let mut add = |words: String| line.push_str(&words);
    if *waiting_frames > 0 {
        add(format!(", {waiting_frames} wait for a place in the queue"));
    }
    if *held_flows > 0 {
        add(format!(", {held_flows} flows held"));
    }
    if let Some(rate) = egress.rate {
        add(format!(", at {rate}"));
    }
    if egress.stalled {
        add(", stalled".into());
    }
    if let Some(reason) = &egress.reason {
        let outcome = if egress.outcome == TraceOutcome::Refused { "refused" } else { "held" };
        add(format!("; {outcome}: {reason}"));
    }
    line
}

fn session_line(session: &TraceSession) -> String {
    let TraceSession { vni, outstanding, .. } = session;
    let label = session.label.map_or(String::new(), |label| format!(", label {label}"));
    let figures = match (
        session.credit_bytes,
        session.in_flight_bytes,
        session.congestion_window_bytes,
        session.rtt,
    ) {
        (Some(credit), Some(in_flight), Some(window), Some(rtt)) => format!(
            ", credit {credit} bytes, {in_flight} of {window} bytes in flight, RTT {}, {outstanding} frames \
             outstanding",
            si(rtt.as_nanos() as f64 / 1e9, Unit::SECONDS)
        ),
        _ => ", without a session".into(),
    };
    let form = match (session.parts, session.fragments) {
        (Some(parts), _) => format!(", in {parts} parts"),
        (None, Some(fragments)) => format!(", in {fragments} fragments"),
        (None, None) => String::new(),
    };
    format!("vni {vni}{label}{form}{figures}")
}
