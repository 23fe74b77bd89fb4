//! The overlay: a host's tunnels, and the virtual networks that they carry.
//!
//! Each other host that has machines of a network that is here too is reached by a [trunk](super::trunk) of its own; all share the
//! host's sockets. What there is and where is told by a directory, whole ([`Overlay::follow`]).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

use datapath::{Directory, Place};
use lossless::{Limits, Network, PortConfig, PortId, TooManyPorts};
use model::{NetworkName, Uplink, UplinkStatus};
use ports::underlay::{self, Transport, Underlay};
use tunnel::outer::{Encapsulation, Received, Refusal, Vteps};
use tunnel::{Config, Life};
use units::Instant;
use wire::ip::{Version, protocol};
use wire::{geneve, udp, vxlan};

use super::UplinkError;
use super::device::Device;
use super::gate::HostGate;
use super::pauses::Pauses;
use super::plane::Plane;
use super::report;
use super::taps::{Outer, Taps, Way};
use super::trunk::{self, Networks, Trunk, TrunkConfig};
use super::ways::Ways;
use crate::clock;

/// A credit that is as good as none.
const NO_BOUND: u32 = 1 << 30;

/// The most frames that a session keeps until they are taken: what holds them are their senders' slots.
const MOST_KEPT: usize = 64 << 10;

/// The most streams from one host.
const MOST_STREAMS: usize = 8 << 10;

/// What a trunk's frames may be here, in each class.
const HELD: Limits = Limits { frames: 16 << 10, bytes: u32::MAX as u64 };

/// The numbers that networks have in the switch: each keeps its own as long as there is the switch.
#[derive(Debug, Default)]
pub(super) struct Numbers(BTreeMap<NetworkName, Network>);

impl Numbers {
    /// The number of a network, from now on if it had none.
    ///
    /// # Panics
    ///
    /// At the 65,535th network.
    pub(super) fn of(&mut self, name: &NetworkName) -> Network {
        let next = Network::new(self.0.len() as u16 + 1);
        *self.0.entry(name.clone()).or_insert_with(|| next.expect("a host has few networks"))
    }

    /// The names of all.
    fn names(&self) -> HashMap<Network, &NetworkName> {
        self.0.iter().map(|(name, network)| (*network, name)).collect()
    }
}

/// A host's tunnels.
pub(super) struct Overlay {
    uplink: Uplink,
    encapsulation: Encapsulation,
    life: Life,
    /// The last life of ours that each far host was told of.
    lives: BTreeMap<IpAddr, Life>,
    underlay: Rc<RefCell<Underlay>>,
    networks: Rc<Networks>,
    trunks: BTreeMap<IpAddr, PortId>,
    ways: Ways,
    /// The longest packet that fits into every tunnel, in bytes.
    inner_mtu: u16,
    pauses: Option<Pauses>,
    /// The classes that are silent, a bit each.
    is_paused: u8,
    /// When pauses are to be looked at again, although none has come.
    pauses_due: Option<Instant>,
    /// Something may have come.
    is_wet: bool,
    /// Packets from nobody who is known.
    strangers: u64,
    /// Packets that were not taken, by what was wrong with them.
    refused: BTreeMap<Refusal, u64>,
}

impl Overlay {
    /// A host's end of tunnels, of which none leads anywhere yet.
    ///
    /// # Errors
    ///
    /// [`UplinkError`]
    pub(super) fn new(uplink: &Uplink, life: Life) -> Result<Self, UplinkError> {
        let (encapsulation, transport) = match uplink.encapsulation {
            model::Encapsulation::Geneve => (Encapsulation::Geneve, Transport::Udp(geneve::PORT)),
            model::Encapsulation::Vxlan => (Encapsulation::Vxlan, Transport::Udp(vxlan::PORT)),
            model::Encapsulation::Nvgre => (Encapsulation::Nvgre, Transport::Ip(protocol::GRE)),
            model::Encapsulation::Stt => (Encapsulation::Stt, Transport::Stt { mtu: uplink.mtu }),
        };
        let pauses = uplink.pfc.map(|rate| Pauses::open(uplink.vtep, rate)).transpose();
        Ok(Self {
            pauses: pauses.map_err(UplinkError::Pauses)?,
            is_paused: 0,
            pauses_due: None,
            uplink: uplink.clone(),
            encapsulation,
            life,
            lives: BTreeMap::new(),
            underlay: Rc::new(RefCell::new(Underlay::open(uplink.vtep, transport, uplink.ttl)?)),
            networks: Rc::default(),
            trunks: BTreeMap::new(),
            ways: Ways::new(uplink, life),
            inner_mtu: u16::MAX,
            is_wet: true,
            strangers: 0,
            refused: BTreeMap::new(),
        })
    }

    /// Has the tunnels lead where a directory says that machines are. What was held for hosts that are none of theirs any more is
    /// refused.
    ///
    /// # Errors
    ///
    /// [`TooManyPorts`] if there are more hosts than the switch has ports; then some are missing.
    pub(super) fn follow(
        &mut self,
        now: Instant,
        plane: &mut Plane<Device, HostGate>,
        numbers: &mut Numbers,
        directory: &Directory,
    ) -> Result<(), TooManyPorts> {
        let here: Vec<_> = directory.networks().filter(|(.., network)| network.is_here()).collect();
        let mut networks = Networks::default();
        for (vni, name, _) in &here {
            let network = numbers.of(name);
            networks.by_vni.insert(*vni, network);
            networks.vnis.insert(network, *vni);
        }
        self.networks = Rc::new(networks);
        let far: BTreeSet<_> = here.iter().flat_map(|(.., network)| network.peers()).collect();
        let gone: Vec<_> = self.trunks.keys().copied().filter(|vtep| !far.contains(vtep)).collect();
        for vtep in gone {
            let id = self.trunks.remove(&vtep).expect("it was found just now");
            plane.detach(now, id);
        }
        let mut outcome = Ok(());
        for vtep in far {
            if !self.trunks.contains_key(&vtep)
                && let Err(error) = self.attach(now, plane, vtep)
            {
                outcome = Err(error);
            }
        }
        self.point(plane, &here);
        self.ways.follow(self.trunks.keys().copied());
        outcome
    }

    /// The longest packet that fits into every tunnel, in bytes.
    pub(super) fn inner_mtu(&self) -> u16 {
        self.inner_mtu
    }

    fn attach(
        &mut self,
        now: Instant,
        plane: &mut Plane<Device, HostGate>,
        far: IpAddr,
    ) -> Result<(), TooManyPorts> {
        let Uplink { window, unsolicited, in_flight, retransmit, credit, .. } = self.uplink;
        let bound = |bytes: units::Bytes| if credit { bytes.0 as u32 } else { NO_BOUND };
        let mtu = self.uplink.mtu.unwrap_or_else(|| self.underlay.borrow().mtu_to(far));
        let (version, ip) = if far.is_ipv4() { (Version::V4, 20) } else { (Version::V6, 40) };
        let transport = if self.encapsulation == Encapsulation::Nvgre { 0 } else { udp::Header::LEN };
        let options = if retransmit || credit { trunk::OPTIONS_LEN } else { 0 };
        let (most, inner) = match self.encapsulation {
            // It goes in as many packets as it takes.
            Encapsulation::Stt => (underlay::stt::LONGEST, trunk::STT_MTU),
            other => {
                let most = usize::from(mtu).saturating_sub(ip + transport).min(underlay::LONGEST);
                (most, other.inner_mtu(version, options, mtu).unwrap_or(0))
            }
        };
        self.inner_mtu = self.inner_mtu.min(inner);
        let session = Config {
            unsolicited: bound(unsolicited),
            stream_window: bound(window),
            most_in_flight: in_flight.0 as u32,
            most_frames: MOST_KEPT,
            most_streams: MOST_STREAMS,
            datagram: most as u32,
            repairs: retransmit,
        };
        let session = (retransmit || credit).then_some(session);
        // A trunk that is made again remembers nothing of its far host: to that, it is another life.
        let life = match self.lives.get(&far) {
            None => self.life,
            Some(last) => Some(clock::life()).filter(|life| life.is_after(*last)).unwrap_or(last.next()),
        };
        self.lives.insert(far, life);
        let config = TrunkConfig { far, encapsulation: self.encapsulation, session, life, most };
        let trunk = Trunk::new(now, config, self.underlay.clone());
        let config = PortConfig { trunk: true, ingress: HELD, ..PortConfig::default() };
        let id = plane.attach(now, Device::Trunk(Box::new(trunk)), config)?;
        plane.pause(id, self.is_paused);
        self.trunks.insert(far, id);
        Ok(())
    }

    /// Has every trunk know of these networks, and of the machines that it leads to.
    fn point(&self, plane: &mut Plane<Device, HostGate>, here: &[(u32, &NetworkName, &datapath::Network)]) {
        let mut labels: BTreeMap<IpAddr, HashMap<_, _>> = BTreeMap::new();
        for id in self.trunks.values() {
            let before: Vec<_> = plane.trunk_mut(*id).networks().collect();
            // With its memberships, it forgets which addresses were there.
            before.into_iter().for_each(|network| plane.switch_mut().leave(*id, network));
        }
        for (vni, _, members) in here {
            let network = self.networks.by_vni[vni];
            for (mac, place) in members.places() {
                let Place::There { vtep, label } = place else { continue };
                let Some(&id) = self.trunks.get(&vtep) else { continue };
                plane.switch_mut().join(id, network);
                plane.switch_mut().pin(network, mac, 0, id);
                labels.entry(vtep).or_default().insert((network, mac), label);
            }
        }
        for (vtep, id) in &self.trunks {
            let labels = labels.remove(vtep).unwrap_or_default();
            plane.trunk_mut(*id).know(self.networks.clone(), labels);
        }
    }

    /// What becomes readable when the link below is to be silent, if it speaks of such.
    pub(super) fn pauses(&self) -> Option<&Pauses> {
        self.pauses.as_ref()
    }

    /// A pause may have come.
    pub(super) fn stir_pauses(&mut self) {
        self.pauses_due = Some(Instant::ZERO);
    }

    /// Obeys the link's pauses, and asks for one while memory for what comes runs low.
    pub(super) fn pause(&mut self, now: Instant, plane: &mut Plane<Device, HostGate>) {
        let Self { pauses: Some(pauses), trunks, is_paused, pauses_due, .. } = self else { return };
        let is_short = trunks.values().any(|id| plane.is_short(*id));
        pauses.ask(now, is_short, &plane.switch().settings().classes);
        if pauses_due.is_none_or(|at| at > now) {
            return;
        }
        let silent = pauses.obey(now);
        *pauses_due = pauses.deadline(now);
        if silent != std::mem::replace(is_paused, silent) {
            trunks.values().for_each(|id| plane.pause(*id, silent));
        }
    }

    /// When pauses are to be looked at again, although none comes.
    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        self.pauses.as_ref().and_then(|pauses| pauses.deadline(now))
    }

    /// Datagrams may have come.
    pub(super) fn stir(&mut self) {
        self.is_wet = true;
    }

    /// Receives what has come, and has trunks look at it. Whether anything has.
    pub(super) fn receive(&mut self, now: Instant, plane: &mut Plane<Device, HostGate>) -> io::Result<bool> {
        if !self.is_wet {
            return Ok(false);
        }
        let Self { uplink, encapsulation, underlay, trunks, strangers, refused, .. } = self;
        let mut came = false;
        let more = underlay.borrow_mut().receive(|datagram| {
            came = true;
            if let Some(taps) = plane.taps_mut() {
                let underlay::Received { from, ports, traffic_class, payload } = datagram;
                let vteps = Vteps::new(from, uplink.vtep).expect("all hosts' addresses are of one family");
                taps.outer(now, &Outer { way: Way::In, vteps, ports, traffic_class, payload });
            }
            let Some(id) = trunks.get(&datagram.from) else {
                *strangers += 1;
                return;
            };
            let vteps =
                Vteps::new(uplink.vtep, datagram.from).expect("all hosts' addresses are of one family");
            let (trunk, payload, class) = (plane.trunk_mut(*id), datagram.payload, datagram.traffic_class);
            let outcome = match *encapsulation {
                Encapsulation::Stt => trunk.handle_segment(now, vteps, class, payload),
                other => Received::of_datagram(other, vteps, class, payload)
                    .map(|received| trunk.handle(now, &received, payload)),
            };
            if let Err(refusal) = outcome {
                *refused.entry(refusal).or_default() += 1;
            }
        })?;
        self.is_wet = more;
        Ok(came)
    }

    /// Hands over what is to be sent. Whether the kernel had room for all.
    pub(super) fn flush(&mut self, now: Instant, taps: Option<&mut Taps>) -> bool {
        let mut underlay = self.underlay.borrow_mut();
        let Some(taps) = taps else { return underlay.flush() };
        underlay.flush_telling(|underlay::Sent { to, ports, traffic_class, payload }| {
            let vteps = Vteps::new(self.uplink.vtep, to).expect("all hosts' addresses are of one family");
            taps.outer(now, &Outer { way: Way::Out, vteps, ports, traffic_class, payload });
        })
    }

    /// Has frames go, or wait, as the ways are now.
    pub(super) fn look(&mut self, plane: &mut Plane<Device, HostGate>) {
        let Self { ways, trunks, .. } = self;
        ways.look(|far, works| {
            if let Some(id) = trunks.get(&far) {
                plane.trunk_mut(*id).found(works);
            }
        });
    }

    /// The tunnels' far ends, and the ports that lead there.
    pub(super) fn trunks(&self) -> impl Iterator<Item = (IpAddr, PortId)> {
        self.trunks.iter().map(|(vtep, id)| (*vtep, *id))
    }

    /// What becomes readable when datagrams have come.
    pub(super) fn with_events<T>(&self, wait: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
        wait(self.underlay.borrow().as_fd())
    }

    /// What becomes readable when a way has changed, if ways are watched.
    pub(super) fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.ways.bell()
    }

    /// What there is to know of the tunnels now.
    pub(super) fn status(
        &self,
        plane: &Plane<Device, HostGate>,
        numbers: &Numbers,
        now: Instant,
    ) -> UplinkStatus {
        let underlay = self.underlay.borrow();
        let ports::underlay::Counters { unsent, last_error } = underlay.counters().clone();
        let refused = self.refused.iter().map(|(refusal, count)| (refusal.name().into(), *count));
        let names = numbers.names();
        let peer = |(far, id): (&IpAddr, &PortId)| {
            let way = self.ways.status(now, *far);
            report::peer(plane, *id, *far, &names, way, now)
        };
        UplinkStatus {
            vtep: self.uplink.vtep,
            encapsulation: self.uplink.encapsulation,
            strangers: self.strangers,
            refused: refused.collect(),
            unsent,
            last_error,
            pauses: self.pauses.as_ref().map(Pauses::status),
            answers: plane.gate().answers().status(),
            peers: self.trunks.iter().map(peer).collect(),
            notes: self.ways.notes(),
        }
    }
}
