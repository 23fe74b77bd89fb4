//! `zovn lab`: labs brought up, listed, entered and taken down.

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use comfy_table::Table;
use lab::physical::FabricReport;
use lab::{
    Counters, DeviceCounters, Found, Home, HostLink, Lab, LabError, LabSpec, State, SwitchKind,
};

use crate::ending::{self, Outcome, USAGE, print_json};
use crate::net::files::{complain, load_objects};
use crate::pings;
use crate::signals;
use crate::table::{headed, text};

/// What a shell says of a command that is not there.
const NO_PROGRAM: u8 = 127;

const EXAMPLES: &str = "\
Examples:
  zovn lab up examples/lab/pair.toml                     two endpoints around zovn
  zovn lab up examples/lab/pair.toml --switch bridge --name peer
  zovn lab up examples/lab/bridged.toml                  four hosts joined by a bridge with shaped links
  zovn lab up examples/lab/leaf-spine.toml               two leaves, two spines, and PFC between them
  zovn lab up examples/lab/controlled.toml               two hosts whose agents follow a controller
  zovn lab exec pair left -- ping -c 3 10.0.0.2
  zovn lab ps
  zovn lab counters pair                                 where frames went
  zovn lab declare shop examples/shop.yaml               tell agents the logical networks of their ports
  zovn lab ping-matrix shop examples/shop.yaml           who reaches whom, against what the file says
  zovn lab down pair peer

docs/lab.md shows every key of a lab's file and what its rates and buffers mean.";

/// Bring up endpoints, links and a switch under test as network namespaces on this machine.
///
/// A lab stays until it is taken down, is entered by name, and leaves nothing behind. Labs need
/// root.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Bring up the lab that a file describes; it stays until it is taken down.
    Up {
        /// The lab's file (TOML; docs/lab.md shows every key), or testbed1 or testbed2: those of
        /// the zOVN paper.
        file: String,
        /// Call it this instead of what the file says.
        #[arg(long)]
        name: Option<String>,
        /// Put this switch under test instead of the file's: bridge, ovs, zovn-lossy or zovn.
        #[arg(long)]
        switch: Option<SwitchKind>,
        /// Say what is up as JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the labs on this machine.
    Ps {
        /// List them as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run a command inside an endpoint, or where the controller is; its exit code is ours.
    Exec {
        /// The lab's name or id.
        lab: String,
        /// The endpoint's name, or `controller`.
        endpoint: String,
        /// The command and its arguments.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// Tell what a lab has counted, at each place where a frame can be lost.
    Counters {
        /// The lab's name or id.
        lab: String,
        /// Tell every counter, as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Tell a lab's agents the logical networks of its endpoints; they execute them then.
    ///
    /// Where agents follow a controller, it is told, beside what it has, and has all of them
    /// execute it. On several hosts, files that have no TransportNode and no Binding get those that
    /// the lab has. Exit code 2 if a file is wrong.
    Declare {
        /// The lab's name or id.
        lab: String,
        /// The networks' files (YAML or JSON).
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    PingMatrix(pings::Args),
    /// Take labs down, with everything that runs in them.
    Down {
        /// Their names or ids.
        #[arg(required_unless_present = "all")]
        labs: Vec<String>,
        /// Every lab, and what killed ones left; only those that a running measurement uses stay.
        #[arg(long, conflicts_with = "labs")]
        all: bool,
    },
}

/// Does what was asked.
pub fn run(args: Args) -> Outcome {
    let home = Home::system();
    match args.command {
        Command::Up { file, name, switch, json } => {
            let mut spec = LabSpec::find(&file)?;
            spec.name = name.unwrap_or(spec.name);
            spec.switch = switch.unwrap_or(spec.switch);
            up(&spec, &home, json)
        }
        Command::Ps { json } => ps(&home, json),
        Command::Exec { lab, endpoint, command } => {
            let (program, arguments) =
                command.split_first().expect("clap asks for at least one word");
            match Lab::open(&lab, &home)?.exec(&endpoint, program, arguments) {
                error @ LabError::NoProgram(_) => {
                    eprintln!("zovn: {error}");
                    Ok(ExitCode::from(NO_PROGRAM))
                }
                error => Err(error.into()),
            }
        }
        Command::Counters { lab, json } => counters(&Lab::open(&lab, &home)?.counters()?, json),
        Command::Declare { lab, files } => declare(&Lab::open(&lab, &home)?, &files),
        Command::PingMatrix(args) => pings::run(&args),
        Command::Down { all: true, .. } => down_all(&home),
        Command::Down { labs, .. } => {
            for lab in labs {
                home.remove(&home.find(&lab)?.id)?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn up(spec: &LabSpec, home: &Home, json: bool) -> Outcome {
    if home.list()?.iter().any(|lab| lab.name() == Some(&spec.name)) {
        return Err(LabError::Taken(spec.name.clone()).into());
    }
    let lab = match Lab::up_unless(spec, home, &*signals::stop()?) {
        Err(error @ LabError::Interrupted) => {
            eprintln!("zovn: {error}");
            return Ok(ExitCode::from(signals::INTERRUPTED));
        }
        lab => lab?,
    };
    let (id, controller) = (lab.id().to_owned(), lab.controller_at());
    lab.keep()?;
    let found = home.find(&id)?;
    if json {
        print_json(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = headed(["endpoint", "addresses", "mac", "rate", "buffer"]);
    for endpoint in found.record.iter().flat_map(|record| &record.resolved) {
        let addresses: Vec<_> = endpoint.addresses.iter().map(ToString::to_string).collect();
        table.add_row([
            endpoint.name.clone(),
            addresses.join(" "),
            endpoint.mac.to_string(),
            endpoint.rate.map_or("-".into(), |rate| rate.to_string()),
            endpoint.buffer.map_or("-".into(), |frames| frames.to_string()),
        ]);
    }
    writeln!(io::stdout(), "{}", text(table))?;
    let name = &spec.name;
    eprintln!(
        "lab {name} ({id}) is up around {}: enter with `zovn lab exec {name} ENDPOINT -- COMMAND`,",
        spec.switch
    );
    eprintln!("take down with `zovn lab down {name}`");
    if let Some(agents) = controller {
        eprintln!(
            "agents follow the controller at {agents}; commands ask it at http://127.0.0.1:6640 when they run there,"
        );
        eprintln!("by `zovn lab exec {name} controller -- COMMAND`");
    }
    Ok(ExitCode::SUCCESS)
}

fn declare(lab: &Lab, files: &[PathBuf]) -> Outcome {
    let objects = match load_objects(files)? {
        Ok(objects) => objects,
        Err(faults) => {
            complain(&faults)?;
            return Ok(ExitCode::from(USAGE));
        }
    };
    let stop = signals::stop()?;
    match lab.declare(&objects, &stop).and_then(|_| lab.await_networks(&stop)) {
        Err(LabError::Interrupted) => {
            eprintln!("zovn: interrupted: hosts may execute some of it; declare it again");
            return Ok(ExitCode::from(signals::INTERRUPTED));
        }
        declared => declared?,
    }
    Ok(ExitCode::SUCCESS)
}

fn ps(home: &Home, json: bool) -> Outcome {
    let labs = home.list()?;
    if json {
        print_json(&labs)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = headed(["id", "name", "switch", "hosts", "endpoints", "state"]);
    for lab in &labs {
        let (name, switch, hosts, endpoints) = match &lab.record {
            Some(record) => {
                let spec = &record.spec;
                let hosts = spec.hosts.as_ref().map_or(1, |hosts| hosts.count).to_string();
                let endpoints = record.resolved.len().to_string();
                (spec.name.as_str(), spec.switch.to_string(), hosts, endpoints)
            }
            None => ("-", "-".into(), "-".into(), "-".into()),
        };
        table.add_row([&lab.id, name, &switch, &hosts, &endpoints, word(lab.state)]);
    }
    writeln!(io::stdout(), "{}", text(table))?;
    Ok(ExitCode::SUCCESS)
}

/// The six places of figure 1 of the zOVN paper, for every endpoint as a sender and as a receiver.
fn counters(counters: &Counters, json: bool) -> Outcome {
    if json {
        print_json(counters)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = headed([
        "endpoint",
        "socket full",
        "sent",
        "dropped",
        "switch in",
        "switch out",
        "dropped",
        "received",
        "dropped",
        "socket full",
    ]);
    for (name, endpoint) in &counters.endpoints {
        let port = counters.ports.get(name).copied().unwrap_or_default();
        let (device, queue) = (endpoint.device, endpoint.queue);
        let figures = [
            endpoint.udp("SndbufErrors"),
            device.tx_packets,
            device.tx_dropped + queue.dropped,
            port.device.rx_packets,
            port.device.tx_packets,
            port.device.tx_dropped + port.queue.dropped,
            device.rx_packets,
            device.rx_dropped,
            endpoint.udp("RcvbufErrors"),
        ];
        table
            .add_row(std::iter::once(name.clone()).chain(figures.map(|figure| figure.to_string())));
    }
    writeln!(io::stdout(), "{}", text(table))?;
    if let Some(fabric) = &counters.fabric {
        writeln!(io::stdout(), "\n{}", text(between_hosts(fabric)))?;
    }
    if !counters.links.is_empty() {
        writeln!(io::stdout(), "\n{}", text(over_bridge(&counters.links)))?;
    }
    if !counters.cable.is_empty() {
        writeln!(io::stdout(), "\n{}", text(over_cable(&counters.cable)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What the physical switches did with frames, by the port that they came by: a host's, or the end
/// of a link between switches.
fn between_hosts(fabric: &FabricReport) -> Table {
    let mut table = headed([
        "port",
        "received",
        "passed",
        "dropped",
        "held",
        "sent",
        "marked",
        "pauses",
        "pauses obeyed",
    ]);
    for name in fabric.ports.keys() {
        let port = fabric.port(name);
        let figures = [
            port.received.frames,
            port.passed.frames,
            port.dropped.values().map(|tally| tally.frames).sum(),
            port.held.frames,
            port.sent.frames,
            port.marked,
            port.pauses_sent,
            port.pauses_obeyed,
        ];
        table
            .add_row(std::iter::once(name.clone()).chain(figures.map(|figure| figure.to_string())));
    }
    table
}

/// What each host sent by the bridge and got from it, and what its link's two queues dropped.
fn over_bridge(links: &BTreeMap<String, HostLink>) -> Table {
    let mut table = headed(["host", "dropped", "switch in", "switch out", "dropped", "waiting"]);
    for (name, HostLink { host, port }) in links {
        let figures = [
            host.dropped,
            port.device.rx_packets,
            port.device.tx_packets,
            port.device.tx_dropped + port.queue.dropped,
            port.queue.waiting,
        ];
        table
            .add_row(std::iter::once(name.clone()).chain(figures.map(|figure| figure.to_string())));
    }
    table
}

/// What each host put on the cable.
fn over_cable(ends: &[DeviceCounters]) -> Table {
    let mut table = headed(["host", "sent", "bytes", "dropped"]);
    for (number, end) in (1..).zip(ends) {
        let figures =
            [end.tx_packets, end.tx_bytes, end.tx_dropped].map(|figure| figure.to_string());
        table.add_row(std::iter::once(format!("host{number}")).chain(figures));
    }
    table
}

fn down_all(home: &Home) -> Outcome {
    let mut failed = false;
    for Found { id, state, .. } in home.list()? {
        if state == State::InUse {
            eprintln!(
                "lab {id} is in use by a running program and stays: `zovn lab down {id}` removes it all the same"
            );
            continue;
        }
        if let Err(error) = home.remove(&id) {
            eprintln!("zovn: lab {id}: {}", ending::sentence(&error as &dyn Error));
            failed = true;
        }
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn word(state: State) -> &'static str {
    match state {
        State::Up => "up",
        State::InUse => "in use",
        State::Broken => "broken: its switch has ended",
        State::LeftOver => "left over",
    }
}
