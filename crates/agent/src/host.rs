//! A host's ports, the switch between them, the tunnels to other hosts, and the names by which
//! people know them.

mod attached;
mod device;
mod error;
mod gate;
mod host_plane;
mod numbers;
mod paths;
mod report;
mod responder;
mod trace;
mod watch;

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datapath::{Directory, MacEntry, Network};
use kernel::{clock, random};
use lossless::{Classes, Limits, MAX_PORTS, PortConfig, PortId, Settings, Shaping, TooManyPorts};
use model::{
    AddressStatus, AgentSettings, AgentStatus, Attachment, CaptureSpec, Polling, PortChange,
    PortName, PortSpec, PortStatus, SocketMode, Uplink,
};
use overlay::{Delta, Overlay};
use plane::taps::Reader;
use rustix::event::epoll;
use seal::Keys;
use tap::{self, Inspector, TapConfig, TapPort};
use underlay::AT_ONCE;
use units::{Bytes, ClassMap, Instant, Rate, Span};
use vhost::handover::Handover;
use vhost::port::{VhostConfig, VhostPort};
use vhost::socket::Access;

use crate::keys;
use crate::store::{self, Store};
use attached::Attached;
use device::Device;
pub(crate) use error::CaptureError;
pub use error::{AttachError, ChangeError, DetachError, StartError, UplinkError};
use gate::HostGate;
use host_plane::HostPlane;
use numbers::Numbers;
use paths::BfdMonitor;
use responder::HostResponder;
pub(crate) use trace::TraceError;
use watch::Watcher;

/// How often the switch looks at its clock for verdicts and ageing.
const TICK: Span = Span::from_millis(1);

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
    watcher: Watcher,
    epoll: OwnedFd,
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
    /// What was left of declared ports that are not attached yet.
    left: BTreeMap<PortName, OwnedFd>,
}

impl Host {
    /// A switch without ports, whose ports leave what can be left in `store`.
    ///
    /// # Errors
    ///
    /// [`StartError`] if the kernel gives no event queue, or no thread.
    pub fn new(settings: &AgentSettings, store: Store) -> Result<Self, StartError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?;
        let gate = HostGate::new(settings.udp_gate);
        if let Some(bell) = gate.bell() {
            epoll::add(&epoll, bell, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)
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
            ..datapath::Settings::default()
        };
        Ok(Self {
            plane: HostPlane::with_stages(switch, datapath, HostResponder::default(), gate),
            numbers: Numbers::default(),
            attached: Vec::new(),
            watcher: Watcher::start()?,
            epoll,
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
            left: BTreeMap::new(),
        })
    }

    /// Takes the host's place in the underlay. Tunnels lead from there once a
    /// [directory](Self::set_directory) says where.
    ///
    /// # Errors
    ///
    /// [`UplinkError`]
    pub fn connect(&mut self, uplink: &Uplink) -> Result<(), UplinkError> {
        let settings = *self.plane.switch().settings();
        let protection = uplink.key.as_ref().map(keys::protection).transpose()?;
        if protection.is_none() {
            tracing::warn!("{}", overlay::UNPROTECTED);
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
        self.plane.attach_uplink(clock::now(), overlay, uplink_config())?;
        Ok(())
    }

    /// Has tunnels use these keys from now on.
    pub fn set_keys(&mut self, keys: &Arc<Keys>) {
        if let Some((overlay, _)) = self.plane.peers_mut() {
            overlay.set_keys(clock::now(), keys);
        }
    }

    /// Finds what the agent before has left of these ports, before any of them is attached. What it
    /// has left of others, or of these when they were declared otherwise, ends.
    pub fn inherit(&mut self, ports: &[PortSpec]) {
        for (name, kept) in self.store.inherited() {
            let port = ports.iter().find(|port| store::name(&port.name) == name);
            match port.and_then(|port| Some((port, self.vhost_config(port)?))) {
                Some((port, config)) if config.is_left(&kept) => {
                    self.left.insert(port.name.clone(), kept);
                }
                // At once: the next port may listen at the same place.
                _ => {
                    Handover::discard(kept);
                    self.store.forget(&name);
                }
            }
        }
    }

    /// What a virtual machine's port is made of.
    fn vhost_config(&self, spec: &PortSpec) -> Option<VhostConfig> {
        let Attachment::VhostUser { socket, mode, queues, mtu, .. } = &spec.attach else {
            return None;
        };
        Some(VhostConfig {
            socket: socket.into(),
            mode: match mode {
                SocketMode::Connect => vhost::port::Mode::Connect,
                SocketMode::Listen => vhost::port::Mode::Listen(Access::Group),
            },
            queue_pairs: *queues,
            mtu: *mtu as u16,
            frames: spec.ingress.frames,
            records: self.folder.join(format!("{}.rings", spec.name)),
            polled: self.polled,
        })
    }

    /// Attaches a port; frames flow as soon as this returns.
    ///
    /// # Errors
    ///
    /// [`AttachError`]; whatever was made is removed again.
    pub fn attach(&mut self, spec: &PortSpec) -> Result<(), AttachError> {
        spec.check()?;
        let Err(place) = self.find(&spec.name) else {
            return Err(AttachError::NameTaken(spec.name.clone()));
        };
        self.attached.iter().try_for_each(|port| spec.check_beside(&port.spec))?;
        // Before there is an interface, which would outlive its port.
        if self.attached.len() + usize::from(self.plane.uplink().is_some()) == MAX_PORTS {
            return Err(TooManyPorts.into());
        }
        let network = match &spec.network {
            Some(name) => {
                let number = self.numbers.acquire(name);
                number.ok_or_else(|| AttachError::TooManyNetworks(name.clone()))?
            }
            None => Network::default(),
        };
        let (device, inspector) = match self.make_device(spec) {
            Ok(made) => made,
            Err(error) => {
                self.release_network(spec);
                return Err(error);
            }
        };
        let events = device.events();
        let forwarding = datapath::PortConfig { class: spec.class, network };
        let id = self.plane.attach(clock::now(), device, port_config(spec), forwarding)?;
        pin(&mut self.plane, id, spec);
        if let Some(taps) = self.plane.taps_mut() {
            taps.name(id, Some(spec.name.clone()));
        }
        let netns = match &spec.attach {
            Attachment::Container { netns, .. } => Some(netns),
            Attachment::VhostUser { .. } => None,
        };
        let mut lacks = Vec::new();
        lacks.extend(netns.and_then(|netns| self.plane.gate_mut().serve(id, netns)));
        let blind = |error| lacks.push(format!("its interface is not looked at: {error}"));
        let inspector = inspector.and_then(|inspector| inspector.map_err(blind).ok());
        let sight = inspector.map(|inspector| self.watcher.watch(inspector));
        let data = epoll::EventData::new_u64(id.index() as u64);
        let added = epoll::add(&self.epoll, self.plane.device_mut(id), data, events);
        self.attached.insert(
            place,
            Attached { id, spec: spec.clone(), slots: spec.ingress.frames, lacks, sight },
        );
        if let Err(error) = added {
            // The device's own error, if any, would only hide this one.
            let _ = self.detach_now(place);
            return Err(AttachError::Events(error.into()));
        }
        self.update_responder();
        Ok(())
    }

    /// Makes a port's device, and what looks at its interface if it has one.
    fn make_device(&mut self, spec: &PortSpec) -> Result<(Device, Inspection), AttachError> {
        Ok(match &spec.attach {
            Attachment::Container { netns, interface, addresses, mtu, offload, .. } => {
                let frames = spec.ingress.frames;
                let config = TapConfig {
                    addresses: addresses.clone(),
                    mtu: *mtu,
                    offload: *offload,
                    longest: self.plane.uplink().is_some().then_some(AT_ONCE),
                    small_slots: frames,
                    large_slots: if spec.attach.has_large_frames() {
                        frames.max(SEGMENTS)
                    } else {
                        SEGMENTS
                    },
                    ..TapConfig::new(
                        netns,
                        interface,
                        spec.mac().expect("a container's port has an address"),
                    )
                };
                let device = TapPort::attach(&config)?;
                let inspector = device.inspector();
                (Device::Tap(device), Some(inspector))
            }
            Attachment::VhostUser { .. } => {
                let config = self.vhost_config(spec).expect("it is a virtual machine's");
                let inherited = self.left.remove(&spec.name).and_then(|left| config.inherit(left));
                let handover = inherited.or_else(|| self.store.handover(&spec.name));
                (Device::Vhost(VhostPort::attach(config, handover)?), None)
            }
        })
    }

    /// A port is no member of its network any more.
    fn release_network(&mut self, spec: &PortSpec) {
        spec.network.iter().for_each(|name| self.numbers.release(name));
    }

    /// Before a port is detached: nothing new is taken from it, and nothing new is meant for it.
    /// What it holds goes on to its receivers.
    ///
    /// # Errors
    ///
    /// [`DetachError::UnknownPort`]
    pub fn close(&mut self, name: &PortName) -> Result<(), DetachError> {
        let place = self.find(name).map_err(|_| DetachError::UnknownPort(name.clone()))?;
        let id = self.attached[place].id;
        self.plane.close(id);
        Ok(())
    }

    /// Whether a port holds nothing, or is gone.
    pub fn is_empty(&self, name: &PortName) -> bool {
        !self.find(name).is_ok_and(|place| self.plane.switch().holds(self.attached[place].id))
    }

    /// Detaches a port and removes its interface at once, and returns what the port was at its end.
    /// What it still holds is refused.
    ///
    /// # Errors
    ///
    /// [`DetachError`]
    pub fn detach(&mut self, name: &PortName) -> Result<PortStatus, DetachError> {
        let place = self.find(name).map_err(|_| DetachError::UnknownPort(name.clone()))?;
        self.detach_now(place)
    }

    /// Changes a port while frames flow.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]; the port stays as it was.
    pub fn change(&mut self, name: &PortName, change: &PortChange) -> Result<(), ChangeError> {
        let place = self.find(name).map_err(|_| ChangeError::UnknownPort(name.clone()))?;
        let spec = self.attached[place].spec.changed(change);
        spec.check()?;
        if spec.ingress.frames > self.attached[place].slots {
            return Err(ChangeError::Memory {
                port: name.clone(),
                slots: self.attached[place].slots,
            });
        }
        let id = self.attached[place].id;
        self.plane.switch_mut().configure(clock::now(), id, port_config(&spec));
        self.plane.datapath_mut().set_class(id, spec.class);
        self.attached[place].spec = spec;
        Ok(())
    }

    /// Has frames go by another directory from now on, which differs from the one before by this.
    /// What was held for hosts that are in none of its networks is refused.
    pub fn set_directory(&mut self, directory: Arc<Directory>, delta: Delta) {
        self.directory = directory;
        let now = clock::now();
        let Self { plane, numbers, .. } = self;
        if plane.uplink().is_none() {
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
        gone.iter().for_each(|name| numbers.release(name));
        plane.handle_peer_events(now);
        self.update_responder();
    }

    /// Has questions of networks' machines answered here.
    fn update_responder(&mut self) {
        let Self { plane, directory, attached, .. } = self;
        let Some(inner_mtu) = plane.peers().map(Overlay::inner_mtu) else { return };
        let network = |port: &Attached| directory.vni(port.spec.network.as_ref()?);
        let ports = attached.iter().filter_map(|port| Some((port.id, network(port)?)));
        let ports = ports.collect();
        plane.responder_mut().follow(directory.clone(), inner_mtu, ports);
    }

    /// The directory that frames go by.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// What is declared of the ports that are attached, by name.
    pub fn specs(&self) -> impl Iterator<Item = &PortSpec> {
        self.attached.iter().map(|port| &port.spec)
    }

    /// The state of the host, whose agent has run for `uptime` and was busy for `busy`.
    pub fn status(&self, uptime: Span, busy: Span, proof: Proof) -> AgentStatus {
        let (now, plane) = (clock::now(), &self.plane);
        let responder = plane.responder().status();
        let declared = self
            .numbers
            .iter()
            .filter_map(|(name, network)| Some((name, &**plane.datapath().declared(network)?)));
        let uplink = |port| {
            let ledgers = [plane.ingress_ledgers(port).0, plane.egress_ledgers(port).0];
            let overlay = plane.peers()?;
            Some(overlay.status(now, plane.switch(), port, ledgers, declared, responder))
        };
        AgentStatus {
            version: env!("CARGO_PKG_VERSION").into(),
            uptime_ns: uptime.as_nanos(),
            busy_ns: busy.as_nanos(),
            // The thread counts them.
            turns: 0,
            empty_turns: 0,
            udp_gate: plane.gate().status(),
            ports: self.attached.iter().map(|port| report::port(plane, port, now)).collect(),
            uplink: plane.uplink().and_then(uplink),
            ledger: plane.total_ledger(),
            balanced: match proof {
                Proof::Now => plane.switch().audit().is_ok(),
                Proof::LastRound => plane.is_balanced(),
            },
        }
    }

    /// One port, if there is one of that name.
    pub fn port(&self, name: &PortName) -> Option<PortStatus> {
        let port = &self.attached[self.find(name).ok()?];
        Some(report::port(&self.plane, port, clock::now()))
    }

    /// The table of addresses: what was learned, pinned, and declared of machines on other hosts.
    pub fn addresses(&self) -> Vec<AddressStatus> {
        let now = clock::now();
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
    pub(crate) fn capture(&mut self, spec: CaptureSpec) -> Result<Reader, CaptureError> {
        if let Some(name) = spec.ports.iter().find(|name| self.find(name).is_err()) {
            return Err(CaptureError::UnknownPort(name.clone()));
        }
        let Self { plane, attached, turned_at, .. } = self;
        let taps = plane.taps_or_new();
        attached.iter().for_each(|port| taps.name(port.id, Some(port.spec.name.clone())));
        let reader = taps.begin(spec).ok_or(CaptureError::TooMany)?;
        if let Some((overlay, taps)) = plane.peers_mut() {
            // From now on packets are told of, also those that would not wait for that.
            overlay.flush(*turned_at, taps);
        }
        Ok(reader)
    }

    /// One visit to every port that may have something. Whether it did something; if not, it is
    /// time to sleep.
    pub fn turn(&mut self, now: Instant) -> bool {
        self.turned_at = now;
        let received = self.receive(now);
        if now >= self.tick_at {
            self.tick_at = now + TICK;
            self.plane.tick(now);
            if let Some(defect) = self.plane.take_defect() {
                tracing::error!(%defect, "the books of frames do not balance: a defect of zovn, please report it");
            }
            self.plane.responder_mut().tick(now);
            self.plane.gate_mut().tick();
        }
        let moved = self.plane.turn(now);
        let overlay = self.plane.peers_mut();
        self.all_sent = overlay.is_none_or(|(overlay, taps)| overlay.flush(now, taps));
        self.plane.flush_taps();
        let is_due = self.look_at.is_some_and(|due| due <= now);
        let found = is_due && self.plane.check_armed();
        if is_due {
            self.look_at = self.plane.is_armed().then(|| now + LOOK_AGAIN);
        }
        let has_events = self.plane.peers().is_some_and(Overlay::has_events);
        if received | moved | found | has_events {
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
        [switch, datapath, self.gate_due, self.retry_at, self.look_at, self.peer_due]
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
                (PATHS, Some((overlay, _))) => overlay.check_paths(clock::now()),
                _ => {}
            }
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
    pub fn end(&mut self) {
        self.attached.iter().for_each(|port| self.plane.device_mut(port.id).leave());
        if let Some((overlay, taps)) = self.plane.peers_mut() {
            overlay.leave(taps);
        }
        for port in std::mem::take(&mut self.attached) {
            if let Err(error) = self.plane.detach(clock::now(), port.id).end() {
                tracing::warn!(port = %port.spec.name, %error, "an interface may remain");
            }
        }
    }

    /// Whether nothing is held but what far hosts keep, and send again to the next switch.
    pub fn drained(&self) -> bool {
        self.plane.switch().total().held == self.plane.peers().map_or(0, Overlay::repaired)
    }

    /// The place of the port of this name, or where it would be.
    fn find(&self, name: &PortName) -> Result<usize, usize> {
        self.attached.binary_search_by(|port| port.spec.name.cmp(name))
    }

    fn detach_now(&mut self, place: usize) -> Result<PortStatus, DetachError> {
        let Attached { id, .. } = self.attached[place];
        let status = report::port(&self.plane, &self.attached[place], clock::now());
        let Attached { spec, .. } = self.attached.remove(place);
        self.plane.responder_mut().forget(id);
        self.plane.gate_mut().unserve(id);
        // Closing the device takes it out of the event queue.
        let device = self.plane.detach(clock::now(), id);
        if let Some(taps) = self.plane.taps_mut() {
            taps.name(id, None);
        }
        if let Device::Vhost(_) = device {
            self.store.forget(&store::name(&spec.name));
        }
        self.release_network(&spec);
        device.detach()?;
        Ok(status)
    }
}

/// What looks at a port's interface, if it has one; or why nobody does.
type Inspection = Option<Result<Inspector, kernel::netlink::OpenError>>;

/// The uplink as a port of the switch. What far hosts have sent is bounded by the memory that it
/// lies in.
fn uplink_config() -> PortConfig {
    let ingress = Limits { frames: u32::MAX, bytes: Bytes(u64::MAX) };
    PortConfig { ingress, ..PortConfig::default() }
}

/// How many large segments of one sender the switch holds, where full frames are small: 4 MiB of
/// them.
const SEGMENTS: u32 = 64;

/// Sets a port's declared addresses for good, its own too: nobody else can take them, and frames to
/// them are never flooded.
fn pin(plane: &mut HostPlane, id: PortId, spec: &PortSpec) {
    for (mac, vlan) in spec.addresses() {
        plane.datapath_mut().pin(id, mac, vlan);
    }
}

fn port_config(spec: &PortSpec) -> PortConfig {
    let shaping = |rate: Rate| Shaping { rate, burst: rate.bucket_bytes(spec.attach.mtu()) };
    PortConfig {
        ingress: spec.ingress,
        egress: spec.egress,
        shaping: spec.rate.map(shaping),
        scheduling: spec.scheduling,
        quota: spec.quota.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX),
    }
}
