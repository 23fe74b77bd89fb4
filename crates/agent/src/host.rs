//! A host's ports, the switch between them, the tunnels to other hosts, and the names by which
//! people know them.

mod attached;
mod bound;
mod connections;
mod device;
mod ending;
mod error;
mod gate;
mod growth;
mod guarantees;
mod handover;
mod host_plane;
mod inspector;
mod interfaces;
mod lines;
mod news;
mod numbers;
mod packet;
mod paths;
mod porter;
mod ports;
mod realize;
mod report;
mod responder;
mod shares;
mod thread;
mod told;
mod trace;
mod watch;

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use admission::Promise;
use datapath::{Behind, Directory, MacEntry, Network};
use kernel::clock::{self, Watched};
use kernel::random;
use lossless::{Classes, Limits, PortConfig, PortId, Settings};
use model::{
    AddressStatus, AgentSettings, AgentStatus, CaptureSpec, Deleted, Ledgers, LogicalPortName,
    NetworkName, NetworkShare, NetworkStatus, PeerStatus, Polling, PortName, PortSpec, PortStatus,
    ResponderStatus, Uplink, UplinkStatus,
};
use overlay::{Delta, Overlay};
use plane::Work;
use plane::taps::Reader;
use rustix::event::epoll;
use seal::Keys;
use units::{Bytes, ClassMap, ClassSet, Instant, Mac, Span};

use crate::journal::Journal;
use crate::keys;
use crate::logical::Realization;
use crate::networks::FrameCost;
use crate::store::Store;
use attached::Attached;
pub use bound::{Room, memory};
pub(crate) use connections::ConnectionsAsked;
use device::Device;
pub use ending::Ending;
pub(crate) use error::CaptureError;
pub use error::{AttachError, ChangeError, DetachError, StartError, UplinkError};
use gate::HostGate;
use guarantees::Guarantees;
pub(crate) use handover::HandoverError;
use host_plane::HostPlane;
use interfaces::Interfaces;
use numbers::Numbers;
pub(crate) use packet::{PacketTraceError, RulesNow};
use paths::BfdMonitor;
use porter::{Porter, Ticket};
use responder::{HostResponder, Member};
use shares::{AtUplink, UplinkShares};
use thread::{ThreadNow, ThreadShares};
use told::News;
pub(crate) use trace::TraceError;
use watch::Watcher;

/// How often the switch looks at its clock for verdicts and ageing.
const TICK: Span = Span::from_millis(1);

/// How long after that it may be where nothing else happens, as long as something is diverted.
const NOW_AND_THEN: Span = Span::from_millis(100);

/// How long after they were armed devices are looked at once more: [`plane::Plane::check_armed`].
const LOOK_AGAIN: Span = Span::from_millis(1);

/// How soon a device that had no room, and that tells nobody when it has, is offered its frame
/// again.
const RETRY: Span = Span::from_micros(500);

/// The event that says that a held UDP flow may go; ports' events carry their numbers, below all of
/// these.
const BELL: u64 = 1 << 32;

/// The event that says that datagrams have come from other hosts, with the number of an uplink.
const UPLINK: u64 = 2 << 32;

/// The event that says that the link below is to be silent, or may go on, with the number of an
/// uplink.
const PAUSES: u64 = 3 << 32;

/// The event that says that a path to another host works, or does not any more.
const PATHS: u64 = 4 << 32;

/// The event that says that a port's device was made, or cannot be.
const PORTS: u64 = 5 << 32;

/// The event that says that a port's container was deleted.
const WATCH: u64 = 6 << 32;

/// The event that says that an interface with an address of the uplink is otherwise than before.
const INTERFACES: u64 = 7 << 32;

/// What is above the numbers.
const KIND: u64 = !0 << 32;

/// How a status proves that the books balance.
#[derive(Clone, Copy, Debug)]
pub enum Proof {
    /// Every frame that is held is counted now.
    Now,
    /// As the last completed round of audits found, a few ports each tick.
    LastRound,
}

/// A host's ports and the switch between them. One thread owns it, turns it, and sleeps on its
/// [events](Host::events) when a turn moves nothing.
pub struct Host {
    plane: HostPlane,
    numbers: Numbers,
    /// By name.
    attached: Vec<Attached>,
    /// Ports whose devices are being made.
    coming: Vec<Coming>,
    porter: Porter,
    watcher: Watcher,
    /// Ports whose containers were deleted and that hold what those have sent, at most until then.
    parting: Vec<(PortId, Instant)>,
    deleted: Deleted,
    epoll: OwnedFd,
    /// The time by which everybody is judged.
    clock: Watched,
    /// Whether it was told that there is no memory for all known flows.
    has_told_short: bool,
    /// The time of the last turn.
    turned_at: Instant,
    tick_at: Instant,
    /// When to ask the gate again.
    gate_due: Option<Instant>,
    /// When to offer a frame again to a device that had no room.
    retry_at: Option<Instant>,
    /// When devices that were armed are looked at once more.
    look_at: Option<Instant>,
    /// Its owner never sleeps.
    polled: bool,
    /// Where the members of virtual networks are.
    directory: Arc<Directory>,
    /// Where ports keep what has to outlive the agent.
    folder: PathBuf,
    /// Who keeps descriptors that have to.
    store: Store,
    /// What was to be sent to other hosts is: the kernel had room.
    all_sent: bool,
    /// When something falls due at a far host.
    peer_due: Option<Instant>,
    /// The uplink that is declared.
    uplink: Option<Uplink>,
    /// How networks share it, once it is there, if its rate is declared.
    shares: Option<UplinkShares>,
    /// What objects guarantee ports of it.
    guarantees: Guarantees,
    /// What they have of the thread.
    thread: ThreadShares,
    /// The interfaces that have its addresses.
    interfaces: Option<Interfaces>,
    /// What the log is told of.
    news: News,
    /// The files where machines' ports keep records that were not there before.
    new_records: Vec<PathBuf>,
    /// The ports that the next agent is to have.
    journal: Arc<Journal>,
    /// What was left of declared ports that are not attached yet.
    left: BTreeMap<PortName, OwnedFd>,
    /// The generation of logical networks that is executed.
    logical: Realization,
    /// How many of their connections may be followed.
    room: Room,
}

/// Hears what became of an order.
pub type Reply<T> = Box<dyn FnOnce(T) + Send>;

/// A port whose device is being made.
struct Coming {
    ticket: Ticket,
    spec: PortSpec,
    reply: Reply<Result<PortStatus, AttachError>>,
}

impl Host {
    /// A switch without ports, whose ports leave what can be left in `store`. It tells `frame` what
    /// frames cost, and follows at most so many connections of logical networks.
    ///
    /// # Errors
    ///
    /// [`StartError`] if the kernel gives no event queue, or no thread.
    pub fn new(
        settings: &AgentSettings,
        uplink: Option<&Uplink>,
        store: Store,
        journal: Arc<Journal>,
        frame: FrameCost,
        room: Room,
    ) -> Result<Self, StartError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?;
        let gate = HostGate::new(settings.udp_gate);
        let (porter, watcher) = (Porter::start()?, Watcher::start()?);
        let bells = gate.bell().map(|bell| (bell, BELL)).into_iter();
        let interfaces = uplink.map(Interfaces::start).transpose()?;
        let bells = bells.chain([(porter.as_fd(), PORTS), (watcher.as_fd(), WATCH)]);
        let bells = bells.chain(interfaces.iter().map(|them| (them.as_fd(), INTERFACES)));
        for (bell, event) in bells {
            epoll::add(&epoll, bell, epoll::EventData::new_u64(event), epoll::EventFlags::IN)
                .map_err(io::Error::from)?;
        }
        let classes = Classes(ClassMap(settings.classes));
        let switch = Settings {
            classes,
            stall_after: settings.stall_after,
            socket_stall_after: settings.socket_stall_after,
        };
        let datapath = datapath::Settings {
            priorities: ClassMap(settings.priorities),
            mac_age: settings.mac_age,
            forward_bpdus: settings.forward_bpdus,
            ..datapath::Settings::default()
        };
        Ok(Self {
            plane: HostPlane::with_stages(switch, datapath, HostResponder::default(), gate),
            numbers: Numbers::default(),
            attached: Vec::new(),
            coming: Vec::new(),
            porter,
            watcher,
            parting: Vec::new(),
            deleted: settings.deleted,
            epoll,
            clock: Watched::new(clock::now()),
            has_told_short: false,
            turned_at: Instant::ZERO,
            tick_at: Instant::ZERO,
            gate_due: None,
            retry_at: None,
            look_at: None,
            polled: settings.polling == Polling::Always,
            directory: Arc::default(),
            folder: Path::new(&settings.socket).parent().unwrap_or(Path::new("/")).into(),
            store,
            all_sent: true,
            peer_due: None,
            uplink: uplink.cloned(),
            shares: None,
            guarantees: Guarantees::default(),
            thread: ThreadShares::new(frame),
            interfaces,
            news: News::new(Instant::ZERO),
            new_records: Vec::new(),
            journal,
            left: BTreeMap::new(),
            logical: Realization::default(),
            room,
        })
    }

    /// Takes the host's place in the underlay, if one is declared and it has not. Tunnels lead from
    /// there once a [directory](Self::set_directory) says where.
    ///
    /// # Errors
    ///
    /// [`UplinkError`]; it can be tried again.
    pub fn connect(&mut self) -> Result<(), UplinkError> {
        let Some(uplink) = self.uplink.as_ref().filter(|_| self.plane.uplink().is_none()) else {
            return Ok(());
        };
        if let Some(slow) = self.interfaces.as_ref().and_then(Interfaces::slow) {
            return Err(UplinkError::Slow(slow));
        }
        let settings = *self.plane.switch().settings();
        let protection = uplink.key.as_ref().map(keys::protection).transpose()?;
        if protection.is_none() {
            tracing::warn!("{}", overlay::UNPROTECTED);
        }
        if uplink.is_uncredited() {
            tracing::warn!("{}", overlay::UNCREDITED);
        }
        let keys = protection.as_ref().map(|protection| protection.keys.clone());
        let monitor = |vtep, seed| {
            let monitor = BfdMonitor::new(uplink, keys.clone(), vtep, seed);
            Box::new(monitor) as Box<dyn overlay::Monitor>
        };
        let overlay = Overlay::new(uplink, protection, random::number, &settings, monitor)?;
        let once = epoll::EventFlags::IN | epoll::EventFlags::ET;
        let wait = |events: BorrowedFd<'_>, event: u64, flags| {
            epoll::add(&self.epoll, events, epoll::EventData::new_u64(event), flags)
                .map_err(|error| UplinkError::Events(error.into()))
        };
        for (number, link) in (0..).zip(overlay.links()) {
            link.with_events(|events| wait(events, UPLINK | number, once))?;
            if let Some(pauses) = link.pauses() {
                wait(pauses, PAUSES | number, once)?;
            }
            if let Some(bell) = link.monitor().events() {
                wait(bell, PATHS | number, epoll::EventFlags::IN)?;
            }
        }
        let around = overlay.around();
        self.plane.attach_uplink(self.now(), overlay, uplink_config())?;
        self.shares = UplinkShares::begin(uplink, &mut self.plane, around);
        Ok(())
    }

    /// Has tunnels use these keys from now on.
    pub fn set_keys(&mut self, keys: &Arc<Keys>) {
        let now = self.now();
        if let Some((overlay, _)) = self.plane.peers_mut() {
            overlay.set_keys(now, keys);
        }
    }

    /// Has frames go by another directory from now on, which differs from the one before by this.
    /// What was held for hosts that are in none of its networks is refused.
    pub fn set_directory(&mut self, directory: Arc<Directory>, delta: Delta) {
        self.directory = directory;
        let now = self.now();
        let Self { plane, numbers, .. } = self;
        if plane.uplink().is_none() {
            // What is declared of this host's machines holds without tunnels.
            self.follow_directory();
            return;
        }
        let mut networks = Vec::new();
        let mut gone = Vec::new();
        for (name, now_declared) in delta.networks {
            let is_declared = |network: &Network| plane.datapath().declared(*network).is_some();
            let network = match numbers.get(&name).filter(is_declared) {
                Some(network) => network,
                // It was left out when it came.
                None if now_declared.is_none() => continue,
                None => match numbers.acquire(&name) {
                    Some(network) => network,
                    None => {
                        tracing::error!(network = %name, "65,534 networks are in use: its machines on other hosts are not reached");
                        continue;
                    }
                },
            };
            if now_declared.is_none() {
                gone.push(name);
            }
            networks.push((network, now_declared));
        }
        if let Some((overlay, _)) = plane.peers_mut() {
            overlay.follow(now, &delta.gone, &delta.hosts, &networks);
        }
        for (network, declared) in networks {
            plane.datapath_mut().declare(network, declared);
        }
        plane.handle_peer_events(now);
        let freed = gone.iter().filter_map(|name| numbers.release(name));
        freed.for_each(|network| forget_network(plane, network));
        self.follow_directory();
    }

    /// Gives networks these terms; together they are promised so much.
    pub fn set_shares<'a>(
        &mut self,
        shares: impl Iterator<Item = (&'a NetworkName, &'a NetworkShare)>,
        promise: Promise,
    ) {
        let now = self.now();
        let shares: BTreeMap<_, _> = shares.map(|(name, share)| (name.clone(), *share)).collect();
        self.thread.set(shares.clone(), promise);
        self.guarantees.set_file(&shares, promise);
        self.share_thread();
        let Self { plane, numbers, shares: own, .. } = self;
        if let Some((overlay, _)) = plane.peers_mut() {
            for (name, network) in numbers.iter() {
                let memory = shares.get(name).and_then(|share| share.memory);
                overlay.keep_memory(network, memory.map_or(0, |memory| memory.0));
            }
        }
        if let Some(own) = own {
            own.set(now, plane, numbers, shares, promise);
        }
        self.share_uplink();
    }

    /// Has ports' terms at the uplink hold of those that are attached now.
    fn share_uplink(&mut self) {
        let now = self.now();
        let Self { plane, numbers, attached, shares, guarantees, logical, uplink, .. } = self;
        guarantees.settle(uplink.as_ref(), attached, &logical.facts);
        if let Some(shares) = shares {
            let ports = AtUplink { attached, facts: &logical.facts, guarantees };
            shares.set_ports(now, plane, numbers, ports);
        }
    }

    /// Has the thread's terms hold of the networks that have a port here now.
    fn share_thread(&mut self) {
        let Self { plane, numbers, attached, thread, .. } = self;
        thread.enforce(plane, numbers, attached);
    }

    /// Has what the directory says of machines here hold: whose addresses are theirs, and who is
    /// answered.
    fn follow_directory(&mut self) {
        let Self { plane, directory, attached, logical, .. } = self;
        // Without tunnels, nothing is too long for them.
        let inner_mtu = plane.peers().map_or(u16::MAX, Overlay::inner_mtu);
        for Attached { id, spec, .. } in &*attached {
            plane.datapath_mut().set_machine(*id, declared(directory, spec));
            let class = bound::class(&logical.facts, spec);
            plane.datapath_mut().set_class(*id, class, classes(directory, spec));
        }
        let member = |Attached { id, spec, .. }: &Attached| {
            let vni = directory.vni(spec.network.as_ref()?)?;
            let macs = declared(directory, spec).into_iter();
            let macs = macs.chain(spec.addresses().map(|(mac, _)| mac));
            let behind = spec.has_antispoof().then(|| Behind::new(macs));
            Some(Member { port: *id, vni, behind })
        };
        let ports = attached.iter().filter_map(member).collect();
        plane.responder_mut().follow(directory.clone(), inner_mtu, ports);
    }

    /// The directory that frames go by.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// What is declared of the ports that are attached, or about to be.
    pub fn specs(&self) -> impl Iterator<Item = &PortSpec> + Clone {
        let coming = self.coming.iter().map(|coming| &coming.spec);
        self.attached.iter().map(|port| &port.spec).chain(coming)
    }

    /// The state of the host, whose agent has run for `uptime` and was busy for `busy`, without far
    /// hosts.
    pub fn status(&self, uptime: Span, busy: Span, proof: Proof) -> AgentStatus {
        let (now, plane) = (self.now(), &self.plane);
        let responder = plane.responder().status();
        let uplink = |port| {
            let ledgers = [plane.ingress_ledgers(port).0, plane.egress_ledgers(port).0];
            let mut status = plane.peers()?.status(now, ledgers, responder);
            status.notes.extend(self.interfaces.iter().flat_map(Interfaces::notes));
            let shares = self.shares.as_ref();
            status.sharing =
                shares.map(|shares| shares.status(now, plane, &self.numbers, &self.attached));
            Some(status)
        };
        let mut uplink =
            plane.uplink().and_then(uplink).or_else(|| self.uplink.as_ref().map(waiting));
        if let (Some(uplink), Some(interfaces)) = (&mut uplink, &self.interfaces) {
            uplink.interfaces = interfaces.seen();
        }
        let thread = self.thread.now(now, plane);
        AgentStatus {
            version: env!("CARGO_PKG_VERSION").into(),
            uptime_ns: uptime.as_nanos(),
            busy_ns: busy.as_nanos(),
            // The thread counts them.
            turns: 0,
            empty_turns: 0,
            thread: thread.status(),
            udp_gate: plane.gate().status(),
            ports: self.attached.iter().map(|port| self.report(port, now)).collect(),
            networks: self.networks(now, &thread),
            logical: self.logical_status(),
            uplink,
            ledger: plane.total_ledger(),
            balanced: match proof {
                Proof::Now => plane.switch().audit().is_ok(),
                Proof::LastRound => plane.is_balanced(),
            },
        }
    }

    /// What each network has done here.
    fn networks(&self, now: Instant, thread: &ThreadNow<'_>) -> Vec<NetworkStatus> {
        let mut books = self.plane.books(now);
        let networks = self.numbers.iter();
        networks
            .filter_map(|(name, network)| {
                let memory = self.plane.peers().map_or(0, |overlay| overlay.memory_of(network));
                let books = books.remove(&network)?;
                Some(report::network(name, books, memory, thread.of(network, name)))
            })
            .collect()
    }

    /// How many numbers of far hosts there are.
    pub fn far_hosts(&self) -> usize {
        self.plane.peers().map_or(0, Overlay::places)
    }

    /// The state of the far hosts with these numbers.
    pub fn far_hosts_status(&self, places: Range<usize>) -> Vec<PeerStatus> {
        let plane = &self.plane;
        let declared = self
            .numbers
            .iter()
            .filter_map(|(name, network)| Some((name, &**plane.datapath().declared(network)?)));
        let far = plane.uplink().zip(plane.peers()).map(|(port, overlay)| {
            overlay.peers_status(self.now(), places, (plane.switch(), port), declared)
        });
        far.unwrap_or_default()
    }

    /// One port, if there is one of that name.
    pub fn port(&self, name: &PortName) -> Option<PortStatus> {
        let port = &self.attached[self.find(name).ok()?];
        Some(self.report(port, self.now()))
    }

    /// The table of addresses: what was learned, pinned, and declared of machines on other hosts.
    pub fn addresses(&self) -> Vec<AddressStatus> {
        let now = self.now();
        let ports = self.attached.iter().map(|port| (port.id.index(), &port.spec.name));
        let names: BTreeMap<_, _> = ports.collect();
        let status = |MacEntry { mac, vlan, port, seen, .. }| AddressStatus {
            mac,
            vlan,
            port: names[&port.index()].clone(),
            age: seen.map(|seen| now.since(seen)),
        };
        let datapath = self.plane.datapath();
        let mut addresses: Vec<_> = datapath.addresses().into_iter().map(status).collect();
        let declared = self.numbers.iter().filter_map(|(_, network)| datapath.declared(network));
        for (mac, remote) in declared.flat_map(|declared| declared.places()) {
            if let Some(trunk) = self.plane.peers().and_then(|peers| peers.trunk(remote.peer)) {
                let port = PortName(trunk.host().to_string());
                addresses.push(AddressStatus { mac, vlan: 0, port, age: None });
            }
        }
        addresses
    }

    /// Begins to capture frames.
    ///
    /// # Errors
    ///
    /// [`CaptureError`]
    pub(crate) fn capture(&mut self, mut spec: CaptureSpec) -> Result<Reader, CaptureError> {
        for name in &mut spec.ports {
            if let Ok(logical) = name.0.parse::<LogicalPortName>() {
                let is_it = |port: &&Attached| port.spec.logical.as_ref() == Some(&logical);
                let port = self.attached.iter().find(is_it);
                *name = port.ok_or(CaptureError::NotHere(logical))?.spec.name.clone();
            }
            if self.find(name).is_err() {
                return Err(CaptureError::UnknownPort(name.clone()));
            }
        }
        let Self { plane, attached, turned_at, clock, .. } = self;
        let taps = plane.taps_or_new();
        taps.set_missed(clock.missed());
        attached.iter().for_each(|port| taps.name(port.id, Some(port.spec.name.clone())));
        let reader = taps.begin(spec).ok_or(CaptureError::TooMany)?;
        if let Some((overlay, taps)) = plane.peers_mut() {
            // From now on packets are told of, also those that would not wait for that.
            overlay.flush(*turned_at, taps);
        }
        Ok(reader)
    }

    /// What time it is, in which its owner has looked: others' silence is judged by this time.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Its owner looks again, after it had meant to sleep for so long; `None`: until an event.
    /// Returns the time.
    pub fn look(&mut self, sleep: Option<Span>) -> Instant {
        if sleep != Some(Span::ZERO) {
            self.plane.book(Work::Sleep);
        }
        let before = self.clock.missed();
        let now = self.clock.look(clock::now(), sleep, clock::thread_time);
        let missed = self.clock.missed();
        if missed != before {
            let absent_ms = (missed.as_nanos() - before.as_nanos()) / 1_000_000;
            tracing::warn!(
                absent_ms,
                "the switch's thread was stopped, or had no processor, for so long: in that time it blames nobody for silence"
            );
            self.plane.gate_mut().set_missed(missed);
            self.plane.taps_mut().into_iter().for_each(|taps| taps.set_missed(missed));
        }
        now
    }

    /// Whether somebody's silence is being judged: its owner does not sleep for long then.
    pub fn is_judging(&self) -> bool {
        self.plane.switch().deadline(self.turned_at).is_some()
    }

    /// One visit to every port that may have something. Whether it did something; if not, it is
    /// time to sleep.
    pub fn turn(&mut self, now: Instant) -> bool {
        self.turned_at = now;
        self.plane.book(Work::Control);
        let received = self.receive(now);
        if now >= self.tick_at {
            self.tick_at = now + TICK;
            self.plane.tick(now);
            if let Some(defect) = self.plane.take_defect() {
                tracing::error!(%defect, "the books of frames do not balance: a defect of zovn, please report it");
            }
            self.plane.responder_mut().tick(now);
            self.tell_news(now);
            self.tell_short_flows();
            self.plane.gate_mut().tick();
            if self.thread.tick(now, &mut self.plane, &self.attached) {
                self.share_thread();
            }
        }
        let checked = self.check_backends(now);
        let attended = self.attend_neighbours(now);
        let moved = checked | attended | self.plane.turn(now);
        self.tell_lines(now);
        if !self.parting.is_empty() {
            self.part(now);
        }
        let overlay = self.plane.peers_mut();
        self.all_sent = overlay.is_none_or(|(overlay, taps)| overlay.flush(now, taps));
        self.plane.book(Work::Departures);
        self.plane.flush_taps();
        let is_due = self.look_at.is_some_and(|due| due <= now);
        let found = is_due && self.plane.check_armed();
        if is_due {
            self.look_at = self.plane.is_armed().then(|| now + LOOK_AGAIN);
        }
        let has_events = self.plane.peers().is_some_and(Overlay::has_events);
        let has_worked = received | moved | found | has_events;
        self.plane.book(Work::Control);
        self.plane.settle(has_worked);
        if has_worked {
            self.news.stir();
            return true;
        }
        let pauses_due = self.plane.peers().and_then(|overlay| overlay.pauses_deadline(now));
        self.peer_due = self.plane.peer_deadline().into_iter().chain(pauses_due).min();
        self.retry_at = (self.plane.is_any_tx_blocked() || !self.all_sent).then(|| now + RETRY);
        self.gate_due = self.plane.gate_mut().arm(now);
        self.gate_due.is_some_and(|due| due <= now)
    }

    /// Receives what has come from other hosts, and has those looked at for which something is due.
    fn receive(&mut self, now: Instant) -> bool {
        let Some((overlay, taps)) = self.plane.peers_mut() else { return false };
        overlay.handle_pauses(now);
        let received = overlay.receive(now, taps);
        self.plane.book(Work::Arrivals);
        // After that: what arrived may be what a timeout would have missed, as this thread was
        // late.
        self.plane.handle_peer_timeouts(now);
        received
    }

    /// Before its owner sleeps, after a turn that did nothing: has everything that may come make an
    /// event. Whether something has come already, so that it is no time to sleep.
    pub fn arm(&mut self) -> bool {
        let ready = self.plane.arm();
        if self.plane.is_armed() {
            self.look_at.get_or_insert(self.turned_at + LOOK_AGAIN);
        }
        if !self.plane.is_any_tx_blocked() && self.all_sent {
            self.retry_at = None;
        }
        ready
    }

    /// When something falls due although no event comes: a shaped frame, a verdict, a flow to ask
    /// about.
    pub fn deadline(&self) -> Option<Instant> {
        // As the last turn saw it: what became due since then has not been looked at.
        let switch = self.plane.switch().deadline(self.turned_at);
        let datapath = self.plane.datapath().deadline(self.turned_at);
        let parting = self.parting.iter().map(|(_, until)| *until).min();
        [
            switch,
            datapath,
            self.plane.pace_deadline(),
            self.plane.is_tick_urgent().then_some(self.tick_at),
            self.plane.needs_ticks().then_some(self.tick_at + NOW_AND_THEN),
            parting,
            self.news.deadline(),
            self.lines_due(),
            self.checks_due(),
            self.neighbours_due(),
            self.gate_due,
            self.retry_at,
            self.look_at,
            self.peer_due,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Readable when a port has something, or a held flow may go.
    pub fn events(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Takes the events that made it readable; the next turn looks at their ports.
    ///
    /// # Errors
    ///
    /// What `epoll_wait` says; there is no cause that we know of.
    pub fn wake(&mut self) -> io::Result<()> {
        let mut buffer = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; 64];
        let poll = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let count = match epoll::wait(&self.epoll, &mut buffer, Some(&poll)) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let now = self.now();
        if count > 0 {
            self.news.stir();
        }
        let (mut has_made, mut has_vanished) = (false, false);
        for event in &buffer[..count] {
            let (kind, number) = (event.data.u64() & KIND, (event.data.u64() & !KIND) as usize);
            if kind == 0 {
                self.plane.mark_rx_ready(number).into_iter().for_each(Device::wake);
                continue;
            }
            match (kind, self.plane.peers_mut()) {
                (BELL, _) => self.plane.gate_mut().silence(),
                (UPLINK, Some((overlay, _))) => overlay.links_mut()[number].mark_rx_ready(),
                (PAUSES, Some((overlay, _))) => overlay.links_mut()[number].mark_paused(),
                (PATHS, Some((overlay, _))) => overlay.check_paths(now),
                (PORTS, _) => has_made = true,
                (WATCH, _) => has_vanished = true,
                (INTERFACES, _) => self.interfaces.iter_mut().for_each(Interfaces::silence),
                _ => {}
            }
        }
        if has_made {
            self.take_made();
        }
        if has_vanished {
            self.take_vanished();
        }
        Ok(())
    }

    /// From now on no sender is listened to; what is held goes on to its receivers.
    pub fn stop_receiving(&mut self) {
        for port in &self.attached {
            self.plane.mute(port.id);
        }
        self.plane.uplink().into_iter().for_each(|uplink| self.plane.mute(uplink));
    }

    /// Ends the switch: every port is detached. What virtual machines and far hosts have sent and
    /// is still held is left to the next switch; the rest had its time, and is refused.
    pub fn end(&mut self, ending: Ending) {
        let now = self.now();
        self.attached.iter().for_each(|port| self.plane.device_mut(port.id).leave());
        if let Some((overlay, taps)) = self.plane.peers_mut() {
            overlay.leave(now, taps);
        }
        let attached = std::mem::take(&mut self.attached).into_iter();
        let devices = attached.map(|port| self.plane.detach(now, port.id));
        let made = self.porter.finish().into_iter().map(|made| *made.device);
        let devices = devices.collect::<Vec<_>>().into_iter().chain(made).collect();
        for error in
            porter::all(devices, |device| device.end(ending)).into_iter().filter_map(Result::err)
        {
            tracing::warn!(%error, "an interface may remain");
        }
        if ending == Ending::Undo {
            for records in self.new_records.drain(..) {
                // It may not have been made.
                let _ = std::fs::remove_file(records);
            }
        }
    }

    /// Whether nothing is held but what far hosts keep, and send again to the next switch.
    pub fn drained(&self) -> bool {
        self.plane.switch().total().held == self.plane.peers().map_or(0, Overlay::repaired)
    }
}

/// The Ethernet address of the machine that is declared behind a port.
fn declared(directory: &Directory, spec: &PortSpec) -> Option<Mac> {
    directory.network(directory.vni(spec.network.as_ref()?)?)?.behind(spec.label?)
}

/// The classes that a port's frames may choose, if its network declares them.
fn classes(directory: &Directory, spec: &PortSpec) -> Option<ClassSet> {
    directory.network(directory.vni(spec.network.as_ref()?)?)?.classes()
}

/// The status of an uplink that waits for its addresses.
fn waiting(uplink: &Uplink) -> UplinkStatus {
    UplinkStatus {
        vtep: uplink.vtep.clone(),
        interfaces: Vec::new(),
        encapsulation: uplink.encapsulation,
        protection: None,
        unknown_peers: 0,
        refused: BTreeMap::new(),
        send_errors: 0,
        last_send_error: None,
        pause_frames: Vec::new(),
        shaping: Vec::new(),
        sharing: None,
        downlinks: Vec::new(),
        responder: ResponderStatus::default(),
        ingress: Ledgers::default(),
        egress: Ledgers::default(),
        peers: Vec::new(),
        notes: vec![format!(
            "other hosts are not reached: this host does not have its address {} yet",
            uplink.vtep
        )],
    }
}

/// A network's number is about to mean another.
fn forget_network(plane: &mut HostPlane, network: Network) {
    if let Some((overlay, _)) = plane.peers_mut() {
        overlay.forget_network(network);
    }
    plane.forget_network(network);
}

/// The uplink as a port of the switch. What far hosts have sent is bounded by the memory that it
/// lies in.
fn uplink_config() -> PortConfig {
    let ingress = Limits { frames: u32::MAX, bytes: Bytes(u64::MAX) };
    PortConfig { ingress, ..PortConfig::default() }
}
