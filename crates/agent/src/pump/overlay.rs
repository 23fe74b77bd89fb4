//! The overlay: a host's tunnels, and the virtual networks that they carry.
//!
//! Each other host that has machines of a network that is here too is reached by a [trunk](super::trunk) of its own; all share the
//! host's [uplinks](super::link). What there is and where is told by a directory, whole ([`Overlay::follow`]).
//!
//! ```text
//!   trunk to host 2 ─┬─ way ── uplink 192.0.2.1 ════ underlay ════ 192.0.2.2
//!                    └─ way ── uplink 198.51.100.1 ═ underlay ═ 198.51.100.2
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::rc::Rc;

use datapath::{Directory, Network, Place, VirtualNetwork};
use lossless::{Limits, PortConfig, PortId, TooManyPorts};
use model::{LargeSegments, NetworkName, PathStatus, Uplink, UplinkStatus, VtepList};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tunnel::outer::{Encapsulation, Received, Refusal};
use tunnel::{Incarnation, SessionConfig};
use underlay::{self, Transport};
use units::{ClassMap, Instant, Span};
use wire::ip::{Version, protocol};
use wire::{geneve, udp, vxlan};

use super::UplinkError;
use super::device::Device;
use super::gate::HostGate;
use super::link::Link;
use super::plane::Plane;
use super::report;
use super::taps::{Outer, Taps, Way};
use super::trunk::{self, Networks, Trunk, TrunkConfig};
use crate::clock;

/// The most frames that a session keeps until they are taken: what holds them are their senders' slots.
const MOST_KEPT: usize = 64 << 10;

/// The most streams from one host.
const MOST_STREAMS: usize = 8 << 10;

/// What a trunk's frames may be here, in each class.
const HELD: Limits = Limits { frames: 16 << 10, bytes: u32::MAX as u64 };

/// How long the switch's end waits for the kernel to send what far hosts are to be told.
const FAREWELL: Span = Span::from_millis(100);

/// The numbers that networks have in the switch: each keeps its own as long as there is the switch.
#[derive(Debug, Default)]
pub(super) struct Numbers(BTreeMap<NetworkName, Network>);

impl Numbers {
    /// The number of a network, from now on if it had none; none if there were 65,534 others.
    pub(super) fn of(&mut self, name: &NetworkName) -> Option<Network> {
        if let Some(network) = self.0.get(name) {
            return Some(*network);
        }
        let network = Network::new(u16::try_from(self.0.len() + 1).ok()?)?;
        self.0.insert(name.clone(), network);
        Some(network)
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
    life: Incarnation,
    /// The last life of ours that each far host was told of.
    lives: BTreeMap<IpAddr, Incarnation>,
    /// By the underlay network that each is in.
    links: Vec<Link>,
    networks: Rc<Networks>,
    /// By the first address of each far host.
    trunks: BTreeMap<IpAddr, PortId>,
    /// By every address of far hosts.
    senders: BTreeMap<IpAddr, PortId>,
    /// The longest packet that fits into every tunnel, in bytes.
    inner_mtu: u16,
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
    pub(super) fn new(uplink: &Uplink, life: Incarnation) -> Result<Self, UplinkError> {
        let (encapsulation, transport) = match uplink.encapsulation {
            model::Encapsulation::Geneve => (Encapsulation::Geneve, Transport::Udp(geneve::PORT)),
            model::Encapsulation::Vxlan => (Encapsulation::Vxlan, Transport::Udp(vxlan::PORT)),
            model::Encapsulation::Nvgre => (Encapsulation::Nvgre, Transport::Ip(protocol::GRE)),
            model::Encapsulation::Stt => (Encapsulation::Stt, Transport::Stt { mtu: uplink.mtu }),
        };
        let link = |(place, vtep)| Link::open(uplink, vtep, transport, seed(life, place));
        Ok(Self {
            links: uplink.vtep.iter().enumerate().map(link).collect::<Result<_, _>>()?,
            uplink: uplink.clone(),
            encapsulation,
            life,
            lives: BTreeMap::new(),
            networks: Rc::default(),
            trunks: BTreeMap::new(),
            senders: BTreeMap::new(),
            inner_mtu: u16::MAX,
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
        let mut here: Vec<_> = directory.networks().filter(|(.., network)| network.is_here()).collect();
        let mut networks = Networks::default();
        here.retain(|(vni, name, _)| {
            let Some(network) = numbers.of(name) else {
                tracing::error!(network = %name, "the agent has had too many networks: start it again");
                return false;
            };
            networks.by_vni.insert(*vni, network);
            networks.vnis.insert(network, *vni);
            true
        });
        self.networks = Rc::new(networks);
        let far: BTreeSet<_> = here.iter().flat_map(|(.., network)| network.peers()).collect();
        let gone: Vec<_> = self.trunks.keys().copied().filter(|vtep| !far.contains(vtep)).collect();
        for vtep in gone {
            let id = self.trunks.remove(&vtep).expect("it was found just now");
            self.lives.insert(vtep, plane.trunk_mut(id).life());
            plane.detach(now, id);
        }
        let mut outcome = Ok(());
        self.senders.clear();
        let mut watched = vec![Vec::new(); self.links.len()];
        for host in far {
            let addresses =
                directory.addresses_of(host).expect("a peer of a network is one of the directory");
            match self.lead(now, plane, addresses) {
                Ok(id) => self.senders.extend(addresses.iter().map(|address| (address, id))),
                Err(error) => {
                    outcome = Err(error);
                    continue;
                }
            }
            watched.iter_mut().zip(addresses.iter()).for_each(|(watched, far)| watched.push(far));
        }
        self.point(plane, &here);
        for (link, watched) in self.links.iter_mut().zip(watched) {
            link.ways_mut().follow(watched.into_iter());
        }
        self.settle(now, plane);
        outcome
    }

    /// The longest packet that fits into every tunnel, in bytes.
    pub(super) fn inner_mtu(&self) -> u16 {
        self.inner_mtu
    }

    /// Has a trunk lead to the host with these addresses: the one that there is, or a new one.
    fn lead(
        &mut self,
        now: Instant,
        plane: &mut Plane<Device, HostGate>,
        addresses: &VtepList,
    ) -> Result<PortId, TooManyPorts> {
        let host = addresses.first();
        let ways = self.links.iter().zip(addresses.iter());
        let ways: Vec<_> =
            ways.map(|(link, far)| trunk::Way { underlay: link.underlay().clone(), far }).collect();
        let room = self.room(&ways);
        if let Some(&id) = self.trunks.get(&host) {
            let trunk = plane.trunk_mut(id);
            let is_new = !trunk.ways().map(|(far, _)| far).eq(ways.iter().map(|way| way.far));
            if is_new {
                trunk.lead(now, ways, room.map(|(most, _)| most));
                self.inner_mtu = room.map_or(self.inner_mtu, |(_, inner)| self.inner_mtu.min(inner));
            }
            return Ok(id);
        }
        // RFC 791 §3.1 and RFC 8200 §5: what everybody carries.
        let least = if host.is_ipv4() { 576 } else { 1280 };
        let (most, inner) = room.unwrap_or_else(|| self.room_of(host, least));
        self.inner_mtu = self.inner_mtu.min(inner);
        // A trunk that is made again remembers nothing of its far host: to that, it is another life.
        let life = match self.lives.get(&host) {
            None => self.life,
            Some(last) => Some(clock::life()).filter(|life| life.is_after(*last)).unwrap_or(last.next()),
        };
        self.lives.insert(host, life);
        let config = TrunkConfig {
            host,
            far: host,
            pair: trunk::pair([self.uplink.vtep.first(), host]),
            encapsulation: self.encapsulation,
            session: self.session(most),
            life,
            most,
            dscp: self.uplink.dscp.map(ClassMap),
            obeys_pauses: self.uplink.pfc.is_some(),
        };
        let trunk = Trunk::new(now, config, ways);
        let config = PortConfig { ingress: HELD, ..PortConfig::default() };
        let forwarding = datapath::PortConfig { trunk: true, ..datapath::PortConfig::default() };
        let id = plane.attach(now, Device::Trunk(Box::new(trunk)), config, forwarding)?;
        self.trunks.insert(host, id);
        Ok(id)
    }

    /// How long a datagram's payload may be that all these ways carry, and a packet in it, in bytes. A way that leads nowhere now says
    /// nothing; none if that is so of all.
    fn room(&self, ways: &[trunk::Way]) -> Option<(usize, u16)> {
        let rooms = ways.iter().filter_map(|way| {
            let mtu = self.uplink.mtu.or_else(|| way.underlay.borrow().mtu_to(way.far))?;
            Some(self.room_of(way.far, mtu))
        });
        rooms.reduce(|one, other| (one.0.min(other.0), one.1.min(other.1)))
    }

    /// The same of a way to this address that carries packets of `mtu` bytes.
    fn room_of(&self, far: IpAddr, mtu: u16) -> (usize, u16) {
        if self.encapsulation == Encapsulation::Stt {
            // It goes in as many packets as it takes.
            return (underlay::stt::LONGEST, trunk::STT_MTU);
        }
        let options = if self.uplink.wants_session() { trunk::OPTIONS_LEN } else { 0 };
        let transport = if self.encapsulation == Encapsulation::Nvgre { 0 } else { udp::Header::LEN };
        let (version, ip) = if far.is_ipv4() { (Version::V4, 20) } else { (Version::V6, 40) };
        let most = usize::from(mtu).saturating_sub(ip + transport).min(underlay::LONGEST);
        (most, self.encapsulation.inner_mtu(version, options, mtu).unwrap_or(0))
    }

    /// How a session is whose datagrams have payloads of so many bytes at most; none if nothing is sent again and nothing waits.
    fn session(&self, most: usize) -> Option<SessionConfig> {
        let Uplink { window, unsolicited, in_flight, retransmit, credit, .. } = self.uplink;
        let session = SessionConfig {
            credit,
            unsolicited: unsolicited.0 as u32,
            stream_window: window.0 as u32,
            max_in_flight: in_flight.0 as u32,
            max_frames: MOST_KEPT,
            max_streams: MOST_STREAMS,
            datagram: most as u32,
            reliable: retransmit,
        };
        self.uplink.wants_session().then_some(session)
    }

    /// Has every trunk know of these networks, and of the machines that it leads to.
    fn point(&self, plane: &mut Plane<Device, HostGate>, here: &[(u32, &NetworkName, &VirtualNetwork)]) {
        let mut labels: BTreeMap<IpAddr, HashMap<_, _>> = BTreeMap::new();
        for id in self.trunks.values() {
            let before: Vec<_> = plane.trunk_mut(*id).networks().collect();
            // With its memberships, it forgets which addresses were there.
            before.into_iter().for_each(|network| plane.datapath_mut().leave(*id, network));
        }
        for (vni, _, members) in here {
            let network = self.networks.by_vni[vni];
            for (mac, place) in members.places() {
                let Place::There { vtep, label } = place else { continue };
                let Some(&id) = self.trunks.get(&vtep) else { continue };
                plane.datapath_mut().join(id, network);
                plane.datapath_mut().pin(network, mac, 0, id);
                labels.entry(vtep).or_default().insert((network, mac), label);
            }
        }
        for (vtep, id) in &self.trunks {
            let labels = labels.remove(vtep).unwrap_or_default();
            plane.trunk_mut(*id).know(self.networks.clone(), labels);
        }
    }

    /// The host's uplinks, by the numbers that their events have.
    pub(super) fn links(&self) -> &[Link] {
        &self.links
    }

    /// The host's uplinks.
    pub(super) fn links_mut(&mut self) -> &mut [Link] {
        &mut self.links
    }

    /// Obeys the links' pauses, and asks for some while memory for what comes runs low.
    pub(super) fn pause(&mut self, now: Instant, plane: &mut Plane<Device, HostGate>) {
        if self.links.iter().all(|link| link.pauses().is_none()) {
            return;
        }
        let is_short = self.trunks.values().any(|id| plane.is_short(*id));
        let classes = &plane.switch().settings().classes;
        let changed = self.links.iter_mut().map(|link| link.pause(now, is_short, classes));
        if changed.fold(false, |any, changed| any | changed) {
            self.silence(plane);
        }
    }

    /// Has trunks be silent as the links of their ways are.
    fn silence(&self, plane: &mut Plane<Device, HostGate>) {
        if self.links.iter().all(|link| link.pauses().is_none()) {
            return;
        }
        for id in self.trunks.values() {
            let silent = plane.trunk_mut(*id).silence(|place| self.links[place].silent());
            plane.pause(*id, silent);
        }
    }

    /// When pauses are to be looked at again, although none comes.
    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        self.links.iter().filter_map(|link| link.deadline(now)).min()
    }

    /// Receives what has come, and has trunks look at it. Whether anything has.
    pub(super) fn receive(&mut self, now: Instant, plane: &mut Plane<Device, HostGate>) -> bool {
        let Self { encapsulation, links, senders, strangers, refused, .. } = self;
        let (mut came, mut is_news) = (false, false);
        for link in links {
            link.receive(|vteps, datagram| {
                came = true;
                let underlay::Received { from, ports, traffic_class, payload } = datagram;
                if let Some(taps) = plane.taps_mut() {
                    let vteps = vteps.reversed();
                    taps.outer(now, &Outer { way: Way::In, vteps, ports, traffic_class, payload });
                }
                let Some(id) = senders.get(&from) else {
                    *strangers += 1;
                    return;
                };
                let trunk = plane.trunk_mut(*id);
                let outcome = match *encapsulation {
                    Encapsulation::Stt => trunk.handle_segment(now, vteps, traffic_class, payload),
                    other => Received::of_datagram(other, vteps, traffic_class, payload)
                        .map(|received| trunk.handle(now, &received, payload)),
                };
                match outcome {
                    Ok(news) => is_news |= news,
                    Err(refusal) => *refused.entry(refusal).or_default() += 1,
                }
            });
        }
        if is_news {
            self.settle(now, plane);
        }
        came
    }

    /// Hands over what is to be sent. Whether the kernel had room for all.
    pub(super) fn flush(&mut self, now: Instant, mut taps: Option<&mut Taps>) -> bool {
        self.links.iter_mut().fold(true, |all, link| link.flush(now, taps.as_deref_mut()) & all)
    }

    /// Before the switch ends: far hosts hear how far streams were taken. Where the kernel has no room for that, it is waited for,
    /// [`FAREWELL`] at most.
    pub(super) fn leave(&mut self, plane: &mut Plane<Device, HostGate>) {
        let until = clock::now() + FAREWELL;
        loop {
            let now = clock::now();
            let said = self.trunks.values().fold(true, |all, id| plane.trunk_mut(*id).leave(now) & all);
            let sent = self.flush(now, plane.taps_mut());
            if said && sent {
                return;
            }
            if now >= until || !sent && !self.wait(until) {
                break;
            }
        }
        for link in &self.links {
            let packets = link.underlay().borrow().queued();
            if packets == 0 {
                continue;
            }
            tracing::warn!(
                vtep = %link.vtep(),
                packets,
                "the kernel had no room for all that is for other hosts: of what is sent again some may come twice, the rest is lost"
            );
        }
    }

    /// Waits until the kernel may have room for something that is to be sent. `false` if it has none by then.
    fn wait(&self, until: Instant) -> bool {
        let underlays: Vec<_> = self.links.iter().map(|link| link.underlay().borrow()).collect();
        let waiting = underlays.iter().flat_map(|underlay| underlay.waiting());
        let mut waiting: Vec<_> =
            waiting.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::OUT)).collect();
        match poll(&mut waiting, Some(&clock::timespec(until.since(clock::now())))) {
            Ok(count) => count > 0,
            Err(error) => error == Errno::INTR,
        }
    }

    /// Has frames go, or wait, as BFD finds the ways now.
    pub(super) fn look(&mut self, now: Instant, plane: &mut Plane<Device, HostGate>) {
        for (place, link) in self.links.iter().enumerate() {
            link.ways().look(|far, works| {
                if let Some(id) = self.senders.get(&far) {
                    plane.trunk_mut(*id).found(place, works);
                }
            });
        }
        self.settle(now, plane);
    }

    /// Has frames go by the best ways that there are, now that something else is known of some.
    fn settle(&self, now: Instant, plane: &mut Plane<Device, HostGate>) {
        self.trunks.values().for_each(|id| plane.trunk_mut(*id).settle(now));
        self.silence(plane);
    }

    /// The tunnels' far ends, and the ports that lead there.
    pub(super) fn trunks(&self) -> impl Iterator<Item = (IpAddr, PortId)> {
        self.trunks.iter().map(|(vtep, id)| (*vtep, *id))
    }

    /// What there is to know of the tunnels now.
    pub(super) fn status(
        &self,
        plane: &Plane<Device, HostGate>,
        numbers: &Numbers,
        now: Instant,
    ) -> UplinkStatus {
        let counters: Vec<_> = self.links.iter().map(Link::counters).collect();
        let refused = self.refused.iter().map(|(refusal, count)| (refusal.name().into(), *count));
        let names = numbers.names();
        let peer = |(far, id): (&IpAddr, &PortId)| {
            report::peer(plane, *id, *far, &names, self.ways_by(plane, *id, now), now)
        };
        UplinkStatus {
            vtep: self.uplink.vtep.clone(),
            encapsulation: self.uplink.encapsulation,
            unknown_peers: self.strangers,
            refused: refused.collect(),
            send_errors: counters.iter().map(|counters| counters.unsent).sum(),
            last_send_error: counters.into_iter().rev().find_map(|counters| counters.last_error),
            pause_frames: self.links.iter().filter_map(Link::pauses_status).collect(),
            responder: plane.gate().answers().status(),
            peers: self.trunks.iter().map(peer).collect(),
            notes: self.links.iter().flat_map(|link| link.ways().notes()).collect(),
        }
    }

    /// What is found of each way that a trunk has.
    fn ways_by(&self, plane: &Plane<Device, HostGate>, id: PortId, now: Instant) -> Vec<PathStatus> {
        let Device::Trunk(trunk) = plane.device(id) else { unreachable!("the port is a trunk") };
        let status = |(link, (remote, is_used)): (&Link, _)| {
            let bfd = link.ways().status(now, remote);
            let parts = trunk.parts_because(now).filter(|_| is_used);
            let parts = parts.map(|why| LargeSegments::Parts { reason: why.into() });
            let large_segments = parts.or_else(|| link.large_segments(remote));
            PathStatus { local: link.vtep(), remote, is_active: is_used, bfd, large_segments }
        };
        self.links.iter().zip(trunk.ways()).map(status).collect()
    }
}

/// Of what BFD at each address draws its numbers, which nobody else on this host is to have (RFC 5880 §6.3).
fn seed(life: Incarnation, place: usize) -> u64 {
    u64::from(life.0.get()) << 8 | place as u64
}
