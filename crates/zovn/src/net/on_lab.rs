//! Cases on real hosts: an agent on each, and machines whose frames are sent and got as they are.
//!
//! ```text
//! case ─objects─▶ each host's agent        frames ─▶ a machine's interface ─▶ agents ─▶ machines
//!      └─ports──▶ attached at their hosts            nothing more comes: no agent holds any, and
//!                                                    none has counted anything since it was asked
//! ```
//!
//! Hosts and machines stay from case to case, and ports where they are the same. Between two cases
//! agents are told that there are no networks: nothing is known of the case before.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use api::{Client, ClientError, Condition};
use cases::{Declared, Execution, Known, OnPipeline, Op, Seen, Wanted};
use interpreter::{Down, Fields, Tuple};
use lab::{Home, LabError, Rack, Wire};
use logical::objects::{Identity, Kind, Object};
use logical::topology::Attachment as Attached;
use model::{
    AgentStatus, Attachment, BackendState, BackendStatus, Connection, ConnectionEnds,
    ConnectionState, Limits, LogicalPortName, PortName, PortSpec, PortState, PortStatus,
};
use units::{Class, Mac, Span};
use wire::ethernet::{self, Tag, ethertype};
use wire::ip::protocol;
use wire::tcp::{Flags, Header};
use wire::whole;
use zerocopy::IntoBytes;

use crate::seen::connections_of;

/// How often who waits looks whether that is wanted still.
const A_LOOK: Duration = Duration::from_millis(100);

/// How long agents may take to be still, or a port to be up.
const PATIENCE: Duration = Duration::from_secs(10);

/// What hosts cannot be asked yet: measures fill up while many frames go one after the other.
const CANNOT: [&str; 1] = ["limits"];

/// The largest packet of machines' interfaces.
const MTU: u32 = 9216;

/// How many frames of a machine wait in its host.
const FRAMES: u32 = 512;

/// Hosts that execute a topology's objects, and what their machines have got.
pub struct OnLab {
    rack: Rack,
    /// The longest time that a case may let go by at once.
    longest_wait: Span,
    interrupted: Arc<AtomicBool>,
    /// The machines' ports, as the case calls them.
    ports: BTreeMap<String, Placed>,
    /// Ports that are about to move, at the hosts that they go to.
    prepared: BTreeMap<String, Placed>,
    /// Machines behind others' tags, by those and by the tag.
    children: BTreeMap<(String, u16), String>,
    /// The logical port of each machine.
    logical: BTreeMap<String, Identity>,
    /// Ports that are taken away.
    away: BTreeSet<String>,
    arrived: Vec<Seen>,
    checks: Checks,
}

/// Checks of load balancers' backends, which machines answer as servers would: those that are down
/// with a reset.
#[derive(Default)]
struct Checks {
    /// The addresses of routers, which ask; none if nothing is checked.
    asking: BTreeSet<IpAddr>,
    down: Down,
}

impl Checks {
    fn of(declared: &Declared) -> Self {
        let Declared { topology, down, .. } = declared;
        let is_checked = topology.balancers().any(|(_, it)| it.health_check.is_some());
        let routers = topology.router_ports().filter(|_| is_checked);
        let addresses = routers.flat_map(|(_, port)| port.addresses.iter().map(|it| it.address));
        Self { asking: addresses.collect(), down: down.clone() }
    }

    /// A machine's answer to a frame of a check, if it answers it. `None`: it is another frame.
    fn answer(&self, frame: &[u8]) -> Option<Option<Vec<u8>>> {
        let fields = Fields::of(frame)?;
        let ip = fields.ip.filter(|ip| self.asking.contains(&ip.tuple.source.0))?;
        let asked = ip.tcp?;
        if !ip.begins() {
            return Some(None);
        }
        let Tuple { source, destination, .. } = ip.tuple.reversed();
        let is_down = self.down.values().any(|down| down.contains(&source));
        let flag = if is_down { Flags::RST } else { Flags::SYN };
        let mut segment = Header::new(source.1, destination.1, 0, flag | Flags::ACK);
        segment.acknowledgment = asked.sequence.get().wrapping_add(1).into();
        let (macs, ends) = ((fields.destination, fields.source), (source.0, destination.0));
        Some(whole::packet(macs, ends, protocol::TCP, segment.as_bytes()))
    }

    /// Whether a host has found out what is so.
    fn are_known(&self, host: &AgentStatus) -> bool {
        let is_down = |it: &BackendStatus| {
            let own = self.down.iter().filter(|(id, _)| id.to_string() == it.balancer);
            own.into_iter().any(|(_, down)| down.contains(&(it.address, it.port)))
        };
        let mut all = host.logical.iter().flat_map(|it| &it.backends);
        all.all(|it| (it.state == BackendState::Down) == is_down(it))
    }
}

/// Where a port is, and what is sent and got there.
struct Placed {
    place: Place,
    port: PortName,
    /// The machine's number.
    machine: usize,
    wire: Wire,
    sent: u64,
}

/// Which port of which host a machine is at.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Place {
    host: u8,
    logical: Identity,
    mac: Option<Mac>,
}

impl OnLab {
    /// Without hosts yet, for cases that let no more than this go by at once. `interrupted`:
    /// whoever waits for them wants no more.
    pub fn new(interrupted: Arc<AtomicBool>, longest_wait: Span) -> Result<Self, LabError> {
        Ok(Self {
            longest_wait,
            rack: Rack::up(&Home::system(), interrupted.clone())?,
            interrupted,
            ports: BTreeMap::new(),
            prepared: BTreeMap::new(),
            children: BTreeMap::new(),
            logical: BTreeMap::new(),
            away: BTreeSet::new(),
            arrived: Vec::new(),
            checks: Checks::default(),
        })
    }

    fn client(&mut self, host: u8) -> Result<&Client, String> {
        self.rack.host(host).map_err(|error| error.to_string())
    }

    /// Waits until something is so.
    fn until(
        &self,
        what: impl Fn() -> String,
        mut is_so: impl FnMut() -> Result<bool, ClientError>,
    ) -> Result<(), String> {
        let begun = Instant::now();
        while !is_so().map_err(|error| error.to_string())? {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err("interrupted".into());
            }
            if begun.elapsed() > PATIENCE {
                return Err(what());
            }
            thread::sleep(Duration::from_micros(500));
        }
        Ok(())
    }

    fn detach(&mut self, placed: &Placed) -> Result<(), String> {
        let client = self.client(placed.place.host)?;
        client.detach(&placed.port).map(drop).map_err(|error| error.to_string())
    }

    fn attach(&mut self, name: &str, place: Place) -> Result<Placed, String> {
        let all = self.ports.values().chain(self.prepared.values());
        let is_free = |number: &usize| !all.clone().any(|it| it.machine == *number);
        let number = (0..).find(is_free).unwrap_or_default();
        let machine = self.rack.machine(number).map_err(|error| error.to_string())?;
        let attach = Attachment::Container {
            netns: machine.netns().to_owned(),
            interface: lab::INTERFACE.into(),
            mac: None,
            addresses: Vec::new(),
            routes: Vec::new(),
            mtu: Some(MTU),
            offload: false,
        };
        let port = PortName(place.logical.name.to_string());
        let spec = PortSpec {
            ingress: Limits { frames: FRAMES, ..Limits::ingress() },
            logical: logical_name(&place.logical),
            ..PortSpec::new(port.clone(), attach)
        };
        let client = self.client(place.host)?;
        client.attach(&spec).map_err(|error| error.to_string())?;
        let client = &self.rack.hosts()[usize::from(place.host)];
        let is_up = || {
            let status = client.port(&port)?;
            let is_realized = status.logical_state.is_some_and(|it| it.realized.is_some());
            Ok(status.state == PortState::Up && is_realized)
        };
        self.until(|| format!("port {name} is not up"), is_up)?;
        let wire = self.rack.machine(number).and_then(lab::Machine::wire);
        let wire = wire.map_err(|error| error.to_string())?;
        Ok(Placed { place, port, machine: number, wire, sent: 0 })
    }

    /// Attaches a port at the host that it goes to, unless it is there, and hands over what its
    /// host knows of it. `stays`: it does not go yet.
    fn hand_over(&mut self, name: &str, to: Place, stays: bool) -> Result<(), String> {
        let Some(host) = self.ports.get(name).map(|it| it.place.host) else { return Ok(()) };
        if !self.prepared.get(name).is_some_and(|it| it.place == to) {
            let placed = self.attach(name, to)?;
            self.prepared.insert(name.to_owned(), placed);
        }
        let new = &self.prepared[name];
        let [from, to] = [host, new.place.host].map(|host| &self.rack.hosts()[usize::from(host)]);
        let handed = from.hand_over(&new.port, stays).map_err(|error| error.to_string())?;
        let taken = to.take_over(&new.port, handed).map_err(|error| error.to_string())?;
        if taken.lost > 0 {
            return Err(format!("port {name} has lost {} connections on its way", taken.lost));
        }
        Ok(())
    }

    /// Where the ports of a topology are to be, as the case calls them. A port that says nothing is
    /// at the first host.
    fn places(&mut self, wanted: Wanted<'_>) -> BTreeMap<String, Place> {
        let Wanted { network, declared, .. } = wanted;
        let mut places = BTreeMap::new();
        self.children.clear();
        self.logical.clear();
        for (index, port) in declared.topology.ports() {
            let Some(name) = declared.name(index) else { continue };
            let Some(told) = network.ports.get(name) else { continue };
            self.logical.insert(name.to_owned(), port.id.clone());
            let mut at = |name: String, host: usize| {
                let logical = port.id.clone();
                self.logical.insert(name.clone(), logical.clone());
                places.insert(name, Place { host: host as u8, logical, mac: told.mac });
            };
            match port.attachment {
                Attached::Child { parent, vlan } => {
                    let parent = declared.name(parent).unwrap_or_default();
                    self.children.insert((parent.to_owned(), vlan), name.to_owned());
                }
                Attached::Local => {
                    let hosts = network.hosts.iter().enumerate();
                    hosts.for_each(|(host, at_host)| at(format!("{name}@{at_host}"), host));
                }
                _ if self.away.contains(name) => {}
                _ => {
                    let is_it = |host: &String| told.at.as_ref() == Some(host);
                    at(name.to_owned(), network.hosts.iter().position(is_it).unwrap_or(0));
                }
            }
        }
        places
    }

    /// Attaches the ports of a topology where it says that they are, detaches the others, and has
    /// all hosts execute what is declared.
    fn place(&mut self, wanted: Wanted<'_>) -> Result<(), String> {
        match wanted.op {
            None => self.away.clear(),
            Some(Op::Detach(port)) => drop(self.away.insert(port.clone())),
            Some(Op::Attach { port, .. }) => drop(self.away.remove(port)),
            Some(_) => {}
        }
        let places = self.places(wanted);
        let mut moved = None;
        if let Some(Op::Move(it)) = wanted.op
            && let Some(now) = self.ports.get(&it.port).map(|it| it.place.clone())
            && let Some(host) = wanted.network.hosts.iter().position(|host| *host == it.to)
            && now.host != host as u8
        {
            // The topology says where the port is: where it was, as long as it only prepares.
            let stays = places.get(&it.port) == Some(&now);
            self.hand_over(&it.port, Place { host: host as u8, ..now }, stays)?;
            if !stays && let Some(new) = self.prepared.remove(&it.port) {
                moved = self.ports.insert(it.port.clone(), new);
            }
        }
        let is_gone = |name: &String, it: &mut Placed| places.get(name) != Some(&it.place);
        let mut gone: Vec<_> = self.ports.extract_if(.., is_gone).map(|(_, it)| it).collect();
        if wanted.op.is_none() {
            gone.extend(mem::take(&mut self.prepared).into_values());
        }
        gone.iter().try_for_each(|it| self.detach(it))?;
        let objects = logical::read(&wanted.declared.text).objects;
        let hosts = wanted.network.hosts.len();
        if wanted.op.is_none() {
            // Who has no port knows nothing of it: what the case before has left is forgotten.
            let nodes = objects.iter().filter(|it| it.identity().kind == Kind::TransportNode);
            self.apply(&nodes.cloned().collect::<Vec<_>>(), hosts)?;
        }
        self.apply(&objects, hosts)?;
        // All hosts know by now where it is, so nothing comes to where it was.
        moved.iter().try_for_each(|it| self.detach(it))?;
        for (name, place) in places {
            if !self.ports.contains_key(&name) {
                let placed = self.attach(&name, place)?;
                self.ports.insert(name, placed);
            }
        }
        self.checks = Checks::of(wanted.declared);
        self.find_out()
    }

    /// Waits until every host knows which backends of load balancers are down.
    fn find_out(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            self.gather()?;
            let all = self.rack.hosts().iter().map(Client::status).collect::<Result<Vec<_>, _>>();
            let all = all.map_err(|error| error.to_string())?;
            if all.iter().all(|host| self.checks.are_known(host)) {
                return Ok(());
            }
            if self.interrupted.load(Ordering::Relaxed) {
                return Err("interrupted".into());
            }
            if begun.elapsed() > PATIENCE {
                return Err("hosts do not find out which backends are down".into());
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Has all hosts execute objects.
    fn apply(&mut self, objects: &[Object], hosts: usize) -> Result<(), String> {
        self.client(hosts.max(1) as u8 - 1)?;
        let apply = |client: &Client| client.apply_if(Condition::default(), &objects).map(drop);
        self.rack.hosts().iter().try_for_each(apply).map_err(|error| error.to_string())
    }

    /// Takes what machines have got.
    fn gather(&mut self) -> Result<(), String> {
        let Self { ports, children, arrived, checks, .. } = self;
        for (name, placed) in ports {
            while let Some(frame) = placed.wire.receive().map_err(|error| error.to_string())? {
                if let Some(answer) = checks.answer(&frame) {
                    let sent = answer.map(|answer| placed.wire.send(&answer)).transpose();
                    sent.map_err(|error| error.to_string())?;
                    continue;
                }
                let child = ethernet::untagged(&frame)
                    .filter(|_| frame[12..14] == ethertype::VLAN.to_be_bytes())
                    .and_then(|(tag, inner)| {
                        Some((children.get(&(name.clone(), tag.vlan))?, inner))
                    });
                let (port, frame) = match child {
                    Some((child, inner)) => (child.clone(), inner),
                    None => (name.clone(), frame),
                };
                arrived.push(Seen { port, frame });
            }
        }
        Ok(())
    }

    /// What each agent has counted, and whether all that was sent has come to its end.
    fn counted(&self) -> Result<(Vec<Counted>, bool), String> {
        let mut all = Vec::new();
        let mut is_still = true;
        for (client, host) in self.rack.hosts().iter().zip(0..) {
            let status = client.status().map_err(|error| error.to_string())?;
            let here = self.ports.values().filter(|it| it.place.host == host);
            for placed in here {
                let port = status.ports.iter().find(|it| it.name == placed.port);
                is_still &= port.is_some_and(|port| taken(port) >= placed.sent);
            }
            is_still &= status.ledger.held == 0;
            all.push(Counted::of(&status));
        }
        Ok((all, is_still))
    }

    /// Waits until no agent holds a frame, and none has counted anything between two questions.
    fn settle(&mut self) -> Result<(), String> {
        let mut before = None;
        let begun = Instant::now();
        loop {
            let (counted, is_still) = self.counted()?;
            let counted = Some(counted);
            if is_still && counted == before {
                return Ok(());
            }
            before = counted;
            if self.interrupted.load(Ordering::Relaxed) {
                return Err("interrupted".into());
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("agents do not come to rest: {before:?}"));
            }
        }
    }
}

/// How many frames of a machine its host has taken: into its books, or answered or heard itself.
fn taken(port: &PortStatus) -> u64 {
    port.ingress.total.accepted + port.logical_state.as_ref().map_or(0, |it| it.taken)
}

/// A connection as cases know it; `None` of a flow that a load balancer translates, which is
/// another port's as well.
fn known(it: &Connection) -> Option<Known> {
    let protocol = match it.protocol.as_str() {
        "tcp" => protocol::TCP,
        "udp" => protocol::UDP,
        "icmp" => protocol::ICMP,
        "icmp6" => protocol::ICMPV6,
        "sctp" => 132,
        number => number.parse().ok()?,
    };
    let ConnectionEnds { source, source_port, destination, destination_port } = it.ends;
    let (source, destination) = ((source, source_port), (destination, destination_port));
    let state = match it.state {
        ConnectionState::Opening | ConnectionState::Crossing => "new",
        ConnectionState::Closing => "closing",
        ConnectionState::TimeWait | ConnectionState::Closed => "closed",
        ConnectionState::Accepting
        | ConnectionState::Established
        | ConnectionState::Asked
        | ConnectionState::Answered => "established",
    };
    let tuple = Tuple { protocol, source, destination };
    it.translated.is_none().then_some(Known { tuple, state })
}

/// How a port's declaration names a logical port.
fn logical_name(id: &Identity) -> Option<LogicalPortName> {
    format!("{}/{}", id.tenant.as_ref()?, id.name).parse().ok()
}

/// What an agent has counted of its frames.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Counted {
    accepted: u64,
    delivered: u64,
    refused: u64,
    answers: u64,
}

impl Counted {
    fn of(status: &AgentStatus) -> Self {
        let ledger = &status.ledger;
        Self {
            accepted: ledger.accepted,
            delivered: ledger.delivered,
            refused: ledger.refused_total(),
            answers: status.logical.as_ref().map_or(0, |it| it.answers + it.limited_answers),
        }
    }
}

impl Execution for OnLab {
    fn name(&self) -> &'static str {
        "lab"
    }

    /// What compiled rows can.
    fn can(&self, need: &str) -> bool {
        !CANNOT.contains(&need) && OnPipeline::new().can(need)
    }

    fn can_wait(&self, span: Span) -> bool {
        span <= self.longest_wait
    }

    fn realize(&mut self, wanted: Wanted<'_>) -> Result<(), String> {
        if wanted.op.is_none() {
            self.arrived.clear();
        }
        self.place(wanted)
    }

    fn send(&mut self, port: &str, frame: &[u8]) -> Result<(), String> {
        let child = self.children.iter().find(|(_, name)| *name == port);
        let (by, sent) = match child {
            Some(((parent, vlan), _)) => {
                let tag = Tag { class: Class::default(), vlan: *vlan };
                (parent.as_str(), ethernet::tagged(frame, tag))
            }
            None => (port, frame.to_vec()),
        };
        // Who is taken away says nothing.
        let Some(placed) = self.ports.get_mut(by) else { return Ok(()) };
        placed.wire.send(&sent).map_err(|error| format!("{port} cannot send: {error}"))?;
        placed.sent += 1;
        Ok(())
    }

    fn receive(&mut self) -> Result<Vec<Seen>, String> {
        self.settle()?;
        self.gather()?;
        Ok(mem::take(&mut self.arrived))
    }

    fn wait(&mut self, span: Span) {
        let end = Instant::now() + Duration::from_nanos(span.as_nanos());
        while !self.interrupted.load(Ordering::Relaxed)
            && let left = end.saturating_duration_since(Instant::now())
            && !left.is_zero()
        {
            thread::sleep(left.min(A_LOOK));
        }
    }

    fn connections(&self, port: &str) -> Result<Vec<Known>, String> {
        // A machine behind another's tag is at its parent's host.
        let parent = self.children.iter().find(|(_, name)| *name == port).map(|((it, _), _)| it);
        let placed = self.ports.get(parent.map_or(port, String::as_str));
        let Some(Placed { place, .. }) = placed else { return Ok(Vec::new()) };
        let logical = self.logical.get(port).and_then(logical_name);
        let Some(name) = logical else { return Err(format!("no port is called `{port}`")) };
        let client = &self.rack.hosts()[usize::from(place.host)];
        let all = connections_of(client, &PortName(name.to_string()));
        Ok(all.map_err(|error| error.to_string())?.iter().filter_map(known).collect())
    }

    fn end(&mut self) -> Result<(), String> {
        self.settle()?;
        for client in self.rack.hosts() {
            let status = client.status().map_err(|error| error.to_string())?;
            if !status.balanced || !status.ledger.balances() {
                return Err(format!("a host's books do not balance: {:?}", status.ledger));
            }
        }
        Ok(())
    }
}
