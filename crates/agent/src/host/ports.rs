//! Ports that come, change, lose their containers, and go.
//!
//! ```text
//!             made                     container deleted
//!   coming ─────────▶ attached ◀──────────────────────────▶ away
//!                        │          container is back        │
//!                        └──── detached: device ended ◀──────┘
//! ```
//!
//! Devices are made and ended on another thread ([`super::porter`]).

use std::borrow::Cow;
use std::io;
use std::num::NonZeroU32;

use datapath::Vlans;
use lossless::{MAX_PORTS, PortConfig, PortId, Shaping, TooManyPorts};
use model::{
    Attachment, Claims, Deleted, PortChange, PortName, PortSpec, PortState, PortStatus, SocketMode,
    StormLimits, VlanMembership,
};
use nic::NicConfig;
use overlay::Overlay;
use port::PortError;
use rustix::event::epoll;
use tap::TapConfig;
use underlay::AT_ONCE;
use units::{Class, Instant, Rate, Span};
use vhost::handover::Handover;
use vhost::port::VhostConfig;
use vhost::socket::Access;

use super::attached::Attached;
use super::bound;
use super::device::Device;
use super::error::{AttachError, ChangeError, DetachError};
use super::host_plane::HostPlane;
use super::porter::{self, Inspection, InterfaceRecipe, Made, Recipe, Ticket};
use super::report;
use super::told::Told;
use super::watch::Sight;
use super::{Coming, Host, Reply, classes};
use crate::logical::AllFacts;
use crate::store;

/// How many large segments of one sender the switch holds, where full frames are small: 4 MiB of
/// them.
const SEGMENTS: u32 = 64;

/// How long what a deleted container has sent may take to reach its receivers.
const FAREWELL: Span = Span::from_secs(1);

impl Host {
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

    /// A declaration with what its interface has of its logical port.
    fn completed<'a>(&self, spec: &'a PortSpec) -> Cow<'a, PortSpec> {
        bound::completed(&self.logical.facts, spec)
    }

    /// The largest packet of a port's machine, in bytes.
    fn mtu(&self, spec: &PortSpec) -> u32 {
        let tunnels = self.plane.peers().filter(|_| spec.network.is_some());
        self.completed(spec).attach.mtu(tunnels.map(Overlay::inner_mtu))
    }

    /// What a virtual machine's port is made of.
    fn vhost_config(&self, spec: &PortSpec) -> Option<VhostConfig> {
        let Attachment::VhostUser { socket, mode, queues, .. } = &spec.attach else {
            return None;
        };
        Some(VhostConfig {
            socket: socket.into(),
            mode: match mode {
                SocketMode::Connect => vhost::port::Mode::Connect,
                SocketMode::Listen => vhost::port::Mode::Listen(Access::Group),
            },
            queue_pairs: *queues,
            mtu: self.mtu(spec) as u16,
            frames: spec.ingress.frames,
            records: self.folder.join(format!("{}.rings", spec.name)),
            polled: self.polled,
        })
    }

    /// Attaches ports while no frame flows yet; frames flow as soon as this returns. A port whose
    /// container is not there is down, and attached once it is. Returns those that cannot be
    /// attached, and why; the others are.
    pub fn attach_all(&mut self, specs: &[PortSpec]) -> Vec<(PortName, AttachError)> {
        let (mut admitted, mut failed): (Vec<&PortSpec>, _) = (Vec::new(), Vec::new());
        let mut recipes = Vec::new();
        let others: Vec<_> = self.specs().cloned().collect();
        let mut claims = Claims::default();
        others.iter().for_each(|other| claims.insert(other));
        for spec in specs {
            let records = self.vhost_config(spec).map(|config| config.records);
            self.new_records.extend(records.filter(|records| !records.exists()));
            let beside = claims.check(spec).map_err(AttachError::from);
            match beside.and_then(|()| self.admit(spec, admitted.len())) {
                Ok(recipe) => {
                    claims.insert(spec);
                    admitted.push(spec);
                    recipes.push(recipe);
                }
                Err(error) => failed.push((spec.name.clone(), error)),
            }
        }
        for (spec, made) in admitted.into_iter().zip(porter::all(recipes, Recipe::make)) {
            let ticket = self.porter.ticket();
            let put = match made {
                Ok(made) => self.put(ticket, spec.clone(), made),
                Err(error) if error.is_too_early() => self.put_away(spec.clone(), &error),
                Err(error) => Err(error),
            };
            if let Err(error) = put {
                self.release_network(spec);
                failed.push((spec.name.clone(), error));
            }
        }
        // Their order decides nothing.
        self.share_uplink();
        self.follow_directory();
        failed
    }

    /// Attaches a port, and tells `reply` when frames flow. Its interface is made on another
    /// thread: nobody else's frames wait for that.
    pub fn attach(&mut self, spec: PortSpec, reply: Reply<Result<PortStatus, AttachError>>) {
        let beside = match self.specs().find(|other| other.name == spec.name) {
            Some(other) => Err(AttachError::NameTaken(other.name.clone())),
            None => self.specs().try_for_each(|it| spec.check_beside(it)).map_err(Into::into),
        };
        match beside.and_then(|()| self.admit(&spec, 0)) {
            Ok(recipe) => {
                let ticket = self.porter.make(recipe);
                self.coming.push(Coming { ticket, spec, reply });
            }
            Err(error) => reply(Err(error)),
        }
    }

    /// Whether there is a place for a port, which can stand beside the others, after so many that
    /// were admitted with it: if so, it has a place in its network, and its device is to be made by
    /// this recipe.
    fn admit(&mut self, spec: &PortSpec, before: usize) -> Result<Recipe, AttachError> {
        spec.check()?;
        let ports = self.attached.len() + self.coming.len() + before;
        // Before there is an interface, which would outlive its port.
        if ports + usize::from(self.uplink.is_some()) >= MAX_PORTS {
            return Err(TooManyPorts.into());
        }
        if let Some(name) = bound::owner(spec) {
            self.numbers.acquire(&name).ok_or(AttachError::TooManyNetworks(name))?;
        }
        Ok(self.recipe(spec))
    }

    /// Puts what was made for ports in their places.
    pub(super) fn take_made(&mut self) {
        for (ticket, outcome) in self.porter.made() {
            let Some(place) = self.coming.iter().position(|coming| coming.ticket == ticket) else {
                self.bring_back(ticket, outcome);
                continue;
            };
            let Coming { spec, reply, .. } = self.coming.swap_remove(place);
            let name = spec.name.clone();
            let put = outcome.and_then(|made| self.put(ticket, spec.clone(), made));
            match put {
                Ok(()) => {
                    self.share_uplink();
                    self.follow_directory();
                }
                Err(_) => self.release_network(&spec),
            }
            reply(put.map(|()| self.port(&name).expect("it was just attached")));
        }
    }

    /// Puts a port's device in its place.
    fn put(&mut self, ticket: Ticket, spec: PortSpec, made: Made) -> Result<(), AttachError> {
        let Made { device, inspector } = made;
        let id = self.plug(*device, &spec)?;
        let (lacks, sight) = self.equip(id, ticket, &spec, inspector);
        let (away, slots, mtu) = (None, spec.ingress.frames, self.mtu(&spec));
        let mac = self.completed(&spec).mac();
        if let Some(note) = report::beyond_tunnels(&self.plane, &spec, mtu) {
            tracing::warn!(port = %spec.name, "{note}");
        }
        // A machine's port is down until the machine is there, and that is no news.
        let device = self.plane.device(id);
        let told = Told::new(if device.is_down() { PortState::Down } else { PortState::Up });
        tracing::info!(port = %spec.name, "port attached");
        for note in device.notes() {
            tracing::warn!(port = %spec.name, "{note}");
        }
        self.note(Attached { id, spec, mtu, mac, slots, lacks, sight, ticket, away, told });
        Ok(())
    }

    /// Puts a port in its place whose container, or interface, is not there, and waits for it.
    fn put_away(&mut self, spec: PortSpec, why: &AttachError) -> Result<(), AttachError> {
        let id = self.plug(Device::Away, &spec)?;
        let away = is_away(&spec, why);
        tracing::warn!(port = %spec.name, "the port is down: {away}");
        let away = Some(away);
        let ticket = self.await_interface(&spec);
        let (lacks, sight, slots) = (Vec::new(), None, spec.ingress.frames);
        let (mtu, mac) = (self.mtu(&spec), self.completed(&spec).mac());
        let told = Told::new(PortState::Down);
        self.note(Attached { id, spec, mtu, mac, slots, lacks, sight, ticket, away, told });
        Ok(())
    }

    /// Has a port attached again when its container, or its interface, is there.
    fn await_interface(&mut self, spec: &PortSpec) -> Ticket {
        match self.recipe(spec) {
            Recipe::Interface(recipe) if is_found_again(spec) => self.porter.make_later(recipe),
            _ => self.porter.ticket(),
        }
    }

    /// Makes a port of the switch with this device behind it.
    fn plug(&mut self, device: Device, spec: &PortSpec) -> Result<PortId, AttachError> {
        let network = bound::owner(spec);
        let network =
            network.map(|name| self.numbers.get(&name).expect("the port has acquired it"));
        let forwarding = datapath::PortConfig {
            class: bound::class(&self.logical.facts, spec),
            classes: classes(&self.directory, spec),
            network: network.unwrap_or_default(),
            storm: storm_limits(&spec.storm),
            antispoof: spec.has_antispoof(),
            vlans: vlans(spec.vlan.as_ref()),
        };
        let config = port_config(spec, self.mtu(spec));
        let id = self.plane.attach(self.now(), device, config, forwarding)?;
        if let Err(error) = self.listen(id) {
            let device = self.plane.detach(self.now(), id);
            self.porter.end(Box::new(device), Box::new(drop));
            return Err(AttachError::Events(error));
        }
        match &spec.logical {
            Some(_) => self.bind(id, spec),
            None => pin(&mut self.plane, id, spec),
        }
        self.plane.set_pace(id, pace(spec, self.mtu(spec)));
        if let Some(taps) = self.plane.taps_mut() {
            taps.name(id, Some(spec.name.clone()));
        }
        Ok(id)
    }

    /// Waits for the events of a port's device.
    fn listen(&self, id: PortId) -> io::Result<()> {
        let device = self.plane.device(id);
        let Some(source) = device.source() else { return Ok(()) };
        let data = epoll::EventData::new_u64(id.index() as u64);
        Ok(epoll::add(&self.epoll, source, data, device.events())?)
    }

    /// Waits no more for the events of a device.
    fn ignore(&self, device: &Device) {
        if let Some(source) = device.source() {
            // It is in there: the only failure would be that it is not.
            let _ = epoll::delete(&self.epoll, source);
        }
    }

    /// Has the gate and the watcher look after a port. Returns what it has to do without, and what
    /// the watcher sees.
    fn equip(
        &mut self,
        id: PortId,
        ticket: Ticket,
        spec: &PortSpec,
        inspector: Inspection,
    ) -> (Vec<String>, Option<Sight>) {
        let netns = match &spec.attach {
            Attachment::Container { netns, .. } => Some(netns),
            Attachment::VhostUser { .. } | Attachment::Interface { .. } => None,
        };
        let mut lacks = Vec::new();
        lacks.extend(netns.and_then(|netns| self.plane.gate_mut().serve(id, netns)));
        let blind = |error| lacks.push(format!("its interface is not looked at: {error}"));
        let inspector = inspector.and_then(|inspector| inspector.map_err(blind).ok());
        let sight = inspector.map(|inspector| self.watcher.watch(ticket, inspector));
        (lacks, sight)
    }

    /// From now on this port is known by its name. What it has of the uplink is for the caller to
    /// settle, once for all ports that come together.
    fn note(&mut self, port: Attached) {
        let place = self.find(&port.spec.name).expect_err("its name was free, and kept for it");
        self.attached.insert(place, port);
        self.share_thread();
    }

    /// Takes ports down whose containers or interfaces were deleted.
    pub(super) fn take_vanished(&mut self) {
        // An interface of the host that is up again makes no event of it: a visit notices.
        for Attached { id, .. } in &self.attached {
            if let Device::Nic(_) = self.plane.device(*id) {
                self.plane.mark_rx_ready(id.index());
            }
        }
        for ticket in self.watcher.vanished() {
            let Some(place) = self.attached.iter().position(|port| port.ticket == ticket) else {
                continue;
            };
            let port = &self.attached[place].spec;
            let what = behind(port);
            tracing::warn!(port = %port.name, "the port's {what} was deleted");
            match self.deleted {
                Deleted::Keep => {
                    let why =
                        format!("its {what} was deleted: the port waits for one of that name");
                    self.take_down(place, &why);
                }
                Deleted::Detach => {
                    let (journal, name) = (self.journal.clone(), port.name.clone());
                    // On another thread, as that writes a file.
                    let ended = move |_| journal.forget(&name);
                    self.detach_now(place, Box::new(ended));
                }
            }
        }
    }

    /// A port's container, or its interface, is gone: nothing is kept of it but what it has sent
    /// and is still held, and the port waits for the next.
    fn take_down(&mut self, place: usize, why: &str) {
        let spec = self.attached[place].spec.clone();
        let (mtu, mac) = (self.mtu(&spec), self.completed(&spec).mac());
        let ticket = self.await_interface(&spec);
        let now = self.now();
        let until = now + FAREWELL;
        let port = &mut self.attached[place];
        (port.ticket, port.sight, port.lacks) = (ticket, None, Vec::new());
        // The interface that comes back is made anew, for the tunnels that there are now.
        (port.mtu, port.mac) = (mtu, mac);
        port.away = Some(why.into());
        let id = port.id;
        self.parting.push((id, until));
        self.plane.mute(id);
        self.plane.gate_mut().unserve(id);
        self.plane.switch_mut().configure(now, id, port_config(&spec, mtu));
        self.plane.set_pace(id, pace(&spec, mtu));
    }

    /// Makes interfaces anew that were made before anybody knew what their logical ports say of
    /// them. Nothing has gone to them or come from them until now.
    pub(super) fn renew(&mut self, before: &AllFacts) {
        for place in 0..self.attached.len() {
            let port = &self.attached[place];
            let Some(name) = port.spec.logical.as_ref().filter(|name| before.get(name).is_none())
            else {
                continue;
            };
            let mac = self.completed(&port.spec).mac();
            let is_right = (port.mac, port.mtu) == (mac, self.mtu(&port.spec));
            if is_right || !is_found_again(&port.spec) {
                continue;
            }
            tracing::info!(port = %port.spec.name, logical = %name, "the port's interface is made anew, as its logical port says");
            match port.away {
                Some(_) => {
                    self.porter.forget(port.ticket);
                    let spec = port.spec.clone();
                    let (mtu, ticket) = (self.mtu(&spec), self.await_interface(&spec));
                    let port = &mut self.attached[place];
                    (port.mtu, port.mac, port.ticket) = (mtu, mac, ticket);
                }
                None => {
                    self.take_down(place, "its interface is made anew, as its logical port says")
                }
            }
        }
    }

    /// Lets go of deleted containers' interfaces, and with them of their namespaces, once nothing
    /// that they have sent is held any more, or it had its time.
    pub(super) fn part(&mut self, now: Instant) {
        let Self { parting, plane, .. } = self;
        let holds =
            |id| Class::all().any(|class| plane.switch().ingress_account(id, class).held > 0);
        let gone: Vec<_> =
            parting.extract_if(.., |(id, until)| now >= *until || !holds(*id)).collect();
        for (id, _) in gone {
            self.exchange(id, Device::Away);
        }
    }

    /// Puts another device behind a port, and has the one before ended.
    fn exchange(&mut self, id: PortId, device: Device) {
        let before = self.plane.replace(self.now(), id, device);
        self.ignore(&before);
        let ended = |ended: Result<(), PortError>| {
            if let Err(error) = ended {
                tracing::debug!(%error, "an interface of a deleted container may remain");
            }
        };
        self.porter.end(Box::new(before), Box::new(ended));
    }

    /// A container that was waited for is there, or it still cannot be attached.
    fn bring_back(&mut self, ticket: Ticket, outcome: Result<Made, AttachError>) {
        let place = self.attached.iter().position(|port| port.ticket == ticket);
        match (place, outcome) {
            (Some(place), Ok(Made { device, inspector })) => {
                let Attached { id, ref spec, .. } = self.attached[place];
                let spec = spec.clone();
                self.parting.retain(|(parting, _)| *parting != id);
                self.exchange(id, *device);
                let listening = self.listen(id);
                let (mut lacks, sight) = self.equip(id, ticket, &spec, inspector);
                lacks.extend(listening.err().map(|error| {
                    format!(
                        "its events cannot be waited for: {error}; raise the limit on open files"
                    )
                }));
                let port = &mut self.attached[place];
                (port.lacks, port.sight, port.away) = (lacks, sight, None);
                tracing::info!(port = %spec.name, "the port's {} is there", behind(&spec));
            }
            (Some(place), Err(error)) => {
                let port = &mut self.attached[place];
                port.away = Some(is_away(&port.spec, &error));
            }
            // It was detached in the meantime.
            (None, Ok(made)) => self.porter.end(made.device, Box::new(drop)),
            (None, Err(_)) => {}
        }
    }

    /// What a port's device is to be made of.
    fn recipe(&mut self, spec: &PortSpec) -> Recipe {
        let completed = self.completed(spec);
        let spec = &*completed;
        match &spec.attach {
            Attachment::Container { netns, interface, addresses, routes, offload, .. } => {
                // A logical port may have larger packets than its declaration knows.
                let frames = spec.ingress.frames.min(spec.attach.most_frames());
                Recipe::Interface(InterfaceRecipe::Container(TapConfig {
                    addresses: addresses.clone(),
                    routes: routes.iter().map(|route| (route.to, route.via)).collect(),
                    mtu: self.mtu(spec),
                    offload: *offload,
                    longest: self.uplink.is_some().then_some(AT_ONCE),
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
                }))
            }
            Attachment::Interface { interface, vlan, .. } => {
                let (interface, mtu) = (interface.clone(), self.mtu(spec));
                let (vlan, slots) = (*vlan, spec.ingress.frames);
                let config = NicConfig { interface, vlan, mtu, slots };
                Recipe::Interface(InterfaceRecipe::Host(config))
            }
            Attachment::VhostUser { .. } => {
                let config = self.vhost_config(spec).expect("it is a virtual machine's");
                let inherited = self.left.remove(&spec.name).and_then(|left| config.inherit(left));
                let handover = inherited.or_else(|| self.store.handover(&spec.name));
                Recipe::Machine(Box::new(config), handover)
            }
        }
    }

    /// A port is no member of its network any more.
    fn release_network(&mut self, spec: &PortSpec) {
        let freed = bound::owner(spec).and_then(|name| self.numbers.release(&name));
        freed.into_iter().for_each(|network| super::forget_network(&mut self.plane, network));
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

    /// Detaches a port at once, and tells `reply` what it was at its end when its interface is
    /// removed, which another thread does. What the port still holds is refused.
    pub fn detach(&mut self, name: &PortName, reply: Reply<Result<PortStatus, DetachError>>) {
        match self.find(name) {
            Ok(place) => self.detach_now(place, reply),
            Err(_) => reply(Err(DetachError::UnknownPort(name.clone()))),
        }
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
        let classes = classes(&self.directory, &spec);
        spec.check_class(classes)?;
        if spec.ingress.frames > self.attached[place].slots {
            return Err(ChangeError::Memory {
                port: name.clone(),
                slots: self.attached[place].slots,
            });
        }
        let id = self.attached[place].id;
        let now = self.now();
        let config = port_config(&spec, self.attached[place].mtu);
        self.plane.switch_mut().configure(now, id, config);
        let class = bound::class(&self.logical.facts, &spec);
        self.plane.datapath_mut().set_class(id, class, classes);
        self.plane.datapath_mut().set_storm_limits(id, storm_limits(&spec.storm));
        self.plane.set_pace(id, pace(&spec, self.attached[place].mtu));
        self.attached[place].spec = spec;
        self.share_uplink();
        Ok(())
    }

    /// The state of a port.
    pub(super) fn report(&self, port: &Attached, now: Instant) -> PortStatus {
        let Self { plane, logical, guarantees, .. } = self;
        report::port(plane, port, now, &logical.facts, guarantees, |id| self.name(id))
    }

    /// The place of the port of this name, or where it would be.
    pub(super) fn find(&self, name: &PortName) -> Result<usize, usize> {
        self.attached.binary_search_by(|port| port.spec.name.cmp(name))
    }

    fn detach_now(&mut self, place: usize, reply: Reply<Result<PortStatus, DetachError>>) {
        let status = self.report(&self.attached[place], self.now());
        let Attached { id, spec, ticket, away, .. } = self.attached.remove(place);
        self.plane.responder_mut().forget(id);
        self.plane.gate_mut().unserve(id);
        if away.is_some() {
            self.parting.retain(|(parting, _)| *parting != id);
            self.porter.forget(ticket);
        }
        let device = self.plane.detach(self.now(), id);
        self.ignore(&device);
        if let Some(taps) = self.plane.taps_mut() {
            taps.name(id, None);
        }
        if let Device::Vhost(_) = device {
            self.store.forget(&store::name(&spec.name));
        }
        self.release_network(&spec);
        self.share_thread();
        self.share_uplink();
        tracing::info!(port = %spec.name, "port detached");
        let ended = move |ended: Result<(), PortError>| {
            reply(ended.map(|()| status).map_err(DetachError::from));
        };
        self.porter.end(Box::new(device), Box::new(ended));
    }
}

/// What a port's device is in or is, for people.
fn behind(spec: &PortSpec) -> &'static str {
    match spec.attach {
        Attachment::Interface { .. } => "interface",
        Attachment::Container { .. } | Attachment::VhostUser { .. } => "container",
    }
}

/// Whether a port's container, or its interface, is known by its name when it is there again.
fn is_found_again(spec: &PortSpec) -> bool {
    match &spec.attach {
        // A process's number may be another's by then.
        Attachment::Container { netns, .. } => !netns.starts_with("/proc/"),
        Attachment::Interface { .. } => true,
        Attachment::VhostUser { .. } => false,
    }
}

/// Why a port is down, in a sentence.
fn is_away(spec: &PortSpec, why: &AttachError) -> String {
    format!("its {} is not there, and waited for: {why}", behind(spec))
}

/// Sets a port's declared addresses for good, its own too: nobody else can take them, and frames to
/// them are never flooded.
fn pin(plane: &mut HostPlane, id: PortId, spec: &PortSpec) {
    for (mac, vlan) in spec.addresses() {
        plane.datapath_mut().pin(id, mac, vlan);
    }
}

fn vlans(membership: Option<&VlanMembership>) -> Vlans {
    let Some(VlanMembership { access, trunk, native }) = membership else { return Vlans::All };
    match access {
        Some(vlan) => Vlans::access(*vlan),
        None => Vlans::trunk(trunk.iter().copied(), *native),
    }
}

fn storm_limits(limits: &StormLimits) -> datapath::StormLimits {
    let StormLimits { broadcast, multicast, unknown } = *limits;
    let [broadcast, multicast, unknown] = [broadcast, multicast, unknown].map(NonZeroU32::new);
    datapath::StormLimits { broadcast, multicast, unknown }
}

/// How fast frames are taken from the sender of a port with this largest packet. The bucket is at
/// least as deep as what comes in a millisecond: a turn that late costs the sender nothing.
fn pace(spec: &PortSpec, mtu: u32) -> Option<Shaping> {
    let rate = spec.send_rate?;
    let late = u32::try_from(rate.bytes_in(Span::from_millis(1))).unwrap_or(u32::MAX);
    Some(Shaping { rate, burst: rate.bucket_bytes(mtu).max(late) })
}

/// How a port with this largest packet is served.
fn port_config(spec: &PortSpec, mtu: u32) -> PortConfig {
    let shaping = |rate: Rate| Shaping { rate, burst: rate.bucket_bytes(mtu) };
    let shaping = spec.rate.map(shaping);
    PortConfig {
        ingress: spec.ingress,
        egress: spec.egress,
        permits: shaping.map_or(plane::PERMITS, |shaping| shaping.permits()),
        shaping,
        scheduling: spec.scheduling,
        quota: spec.quota.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX),
    }
}
