//! Times what an agent does of one generation of a controller, but for the switch's thread: rows,
//! its part of them made ready, and the copy on disk.
//!
//! `cargo run --release -p agent --example delta [MACHINES] [FOLDER]`: a tenant's machines are all
//! in one group but for the last, 100 rules speak of the group, and 21 of the machines are here.
//! The copy is in the folder: fsync costs nothing where that is in memory, as /tmp often is.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "it measures time")]
#![allow(clippy::print_stdout, reason = "it prints what it measured")]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use agent::{Keeper, Logical, Rows};
use datapath::Peer;
use image::{Domain, Site, Told};
use logical::objects::{Identity, Kind};
use model::{Generation, LogicalPortName, VtepList};
use replica::{Delta, Fence, Map, Name, Store};

/// Machines in a switch.
const MACHINES: usize = 63;

/// Ports of this host, and how many hosts the others are at.
const OWN: usize = 21;
const HOSTS: usize = 500;

/// How often each change is made and taken back.
const ROUNDS: usize = 50;

/// An agent, as far as it is measured.
struct Agent {
    copy: Map,
    rows: Rows,
    logical: Logical,
    keeper: Keeper,
    name: Name,
    vtep: VtepList,
    own: BTreeSet<LogicalPortName>,
}

/// How long rows took, and a host's part of them; and the copy on disk.
#[derive(Default)]
struct Times([Vec<Duration>; 2]);

fn main() {
    let mut args = std::env::args().skip(1);
    let machines = args.next().map_or(10_000, |it| it.parse().expect("a number of machines"));
    let folder = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(folder).expect("the folder can be written");
    let [(name, rows), (_, larger)] = [machines - 1, machines].map(|members| {
        let topology = logical::load(&text(machines, members)).expect("the networks are valid");
        compiler::compile(&topology).pop_first().expect("there is a domain")
    });
    let port = |it: usize| Identity {
        kind: Kind::LogicalPort,
        tenant: Some("t".parse().expect("a name")),
        name: format!("p{it}").parse().expect("a name"),
    };
    let at = |it: usize| Told::Site(port(it), Some(site(it)));
    let all = Domain::default().diff(&rows).into_iter().map(Told::Row);
    let label = |(id, label): (&Identity, u32)| Told::Label(id.clone(), Some(label));
    let labels = rows.labelled().zip(1..).map(label);
    let cold = delta(all.chain((0..machines).map(at)).chain(labels));
    let own = (0..OWN).map(|it| format!("t/p{it}").parse().expect("a port"));
    let vtep = VtepList::try_from(site(0)).expect("there is an address");
    let mut agent = Agent {
        copy: Map::default(),
        rows: Rows::default(),
        logical: Logical::of(Some(&vtep)),
        keeper: Keeper::new(folder.path(), "h0").expect("the folder can be written"),
        name: name.to_string().as_str().into(),
        own: own.collect(),
        vtep,
    };
    println!("{machines} machines, {} rows, {OWN} ports here", rows.len());
    agent.step("cold", &[cold], 1);

    let [one, none] = [rows.diff(&larger), larger.diff(&rows)];
    let member = [one, none].map(|changes| delta(changes.into_iter().map(Told::Row)));
    agent.step("a member more, or less", &member, ROUNDS);

    let last = machines - 1;
    let moved = [site(last + 1), site(last)].map(|it| delta([Told::Site(port(last), Some(it))]));
    agent.step("a machine moves", &moved, ROUNDS);
}

impl Agent {
    /// Executes generations in turn, as often as that, and prints how long they took.
    fn step(&mut self, what: &str, deltas: &[Delta], rounds: usize) {
        let mut times = Times::default();
        for delta in deltas.iter().cycle().take(deltas.len() * rounds) {
            self.execute(delta, &mut times);
        }
        let [made, kept] = times.0.map(|mut times| {
            times.sort_unstable();
            times[times.len() / 2]
        });
        println!("{what}: {made:.2?} until it can be executed, {kept:.2?} more until it is kept");
    }

    fn execute(&mut self, delta: &Delta, times: &mut Times) {
        // The follower has that of what it was sent.
        let digest = self.copy.digest_after(delta);
        self.copy.apply(delta.clone());
        let start = Instant::now();
        let generation = Generation(self.rows.newest().0 + 1);
        let own = self.own.iter().map(|it| Identity {
            kind: Kind::LogicalPort,
            tenant: it.tenant().parse().ok(),
            name: it.port().parse().expect("a name"),
        });
        let own = own.collect();
        let rows = self.rows.with(&self.name, generation, delta, &own).expect("rows are valid");
        let (domains, sites, labels) = rows.executed();
        let logical = self.logical.followed(generation, domains, &sites, &labels, &self.own);
        let logical = logical.expect("labels differ");
        let realization = logical.realization(Some(&self.vtep), peer);
        assert_eq!((logical.labelled().len(), realization.nets.len()), (1, 1));
        times.0[0].push(start.elapsed());

        let start = Instant::now();
        let followed = rows.domain(&self.name).expect("it is followed");
        self.keeper.keep((Store(1), Fence(1)), &self.name, followed, (delta, digest));
        self.keeper.settle();
        times.0[1].push(start.elapsed());
        // What was before is let go of by nobody who is waited for.
        (self.rows, self.logical) = (rows, logical);
    }
}

/// How another host is known.
fn peer(host: IpAddr) -> Option<Peer> {
    let IpAddr::V4(host) = host else { return None };
    Peer::new(host.to_bits() & 0xffff)
}

/// The host of a machine: the first ports are here.
fn site(machine: usize) -> Site {
    let host = if machine < OWN { 0 } else { 1 + machine % HOSTS };
    vec![IpAddr::from([10, 255, (host >> 8) as u8, host as u8])]
}

fn delta(told: impl IntoIterator<Item = Told>) -> Delta {
    let encoded = told.into_iter().map(|told| told.encode());
    encoded.map(|(key, row)| (key.into(), row.map(Into::into))).collect()
}

/// Switches around a router, a group of so many machines, and 100 rules that speak of it.
fn text(machines: usize, members: usize) -> String {
    let mut text = String::from(
        "- {kind: Tenant, metadata: {name: t}, spec: {}}\n\
         - {kind: LogicalRouter, metadata: {name: r, tenant: t}, spec: {}}\n",
    );
    let mut line = |kind: &str, name: &str, spec: &str| {
        writeln!(
            text,
            "- {{kind: {kind}, metadata: {{name: {name}, tenant: t}}, spec: {{{spec}}}}}"
        )
        .expect("texts can be written");
    };
    for switch in 0..machines.div_ceil(MACHINES) {
        let network = |host: u8| format!("10.{}.{}.{host}", switch / 256, switch % 256);
        let subnet = format!("subnets: [{}/24]", network(0));
        line("LogicalSwitch", &format!("s{switch}"), &subnet);
        let (high, low) = (switch / 256, switch % 256);
        let mac = format!("'02:00:00:01:{high:02x}:{low:02x}'");
        let joined = format!("router: r, mac: {mac}, addresses: [{}/24]", network(254));
        line("RouterPort", &format!("s{switch}"), &joined);
        let stands = format!("switch: s{switch}, router: {{routerPort: s{switch}}}");
        line("LogicalPort", &format!("r{switch}"), &stands);
    }
    for machine in 0..machines {
        let (switch, host) = (machine / MACHINES, 1 + machine % MACHINES);
        let address = format!("10.{}.{}.{host}", switch / 256, switch % 256);
        let spec = format!("switch: s{switch}, vif: {{}}, addresses: [{address}]");
        line("LogicalPort", &format!("p{machine}"), &spec);
    }
    let ports: Vec<_> = (0..members).map(|it| format!("p{it}")).collect();
    line("PortGroup", "g", &format!("ports: [{}]", ports.join(", ")));
    for rule in 0..100 {
        let here = rule % OWN;
        let says = "direction: toPort, action: allow, peer: {groups: [g]}";
        let spec = format!("appliesTo: {{ports: [p{here}]}}, rules: [{{name: a, {says}}}]");
        line("Policy", &format!("rule{rule}"), &spec);
    }
    text
}
