//! The tunnels of a host, and where they lead.
//!
//! Each other host that has members of a network of this host is a [peer](Trunk) of the plane; all
//! peers share the host's [uplinks](Link). A [directory](Overlay::follow) tells where members are.
//!
//! ```text
//!   trunk to host 2 ─┬─ path ── uplink 192.0.2.1 ════ underlay ════ 192.0.2.2
//!                    └─ path ── uplink 198.51.100.1 ═ underlay ═ 198.51.100.2
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::rc::Rc;

use datapath::{Directory, Network, Place, VirtualNetwork};
use kernel::clock;
use lossless::{Limits, PortConfig, PortId, TooManyPorts};
use model::{NetworkName, ResponderStatus, Uplink, UplinkStatus, VtepList};
use plane::taps::{Direction, Taps};
use plane::{Gate, Peer, Plane, Responder};
use port::Port;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tunnel::outer::{Encapsulation, Received, Refusal};
use tunnel::{Incarnation, SessionConfig};
use underlay::{self, Transport};
use units::{Bytes, ClassMap, Instant, Span};
use wire::ip::{Version, protocol};
use wire::{geneve, udp, vxlan};

use crate::error::OpenError;
use crate::link::Link;
use crate::monitor::Monitor;
use crate::outer::Outer;
use crate::status;
use crate::trunk::{self, Networks, Trunk, TrunkConfig};

/// The most frames in flight of a session, each in its sender's slot.
const MOST_KEPT: usize = 64 << 10;

/// The most streams of one host.
const MOST_STREAMS: usize = 8 << 10;

/// How much of one far host's frames the switch holds, in each class.
const HELD: Limits = Limits { frames: 16 << 10, bytes: Bytes(u32::MAX as u64) };

/// How long the switch waits at its end for the kernel to send the last control messages.
const FAREWELL: Span = Span::from_millis(100);

/// A host's tunnels.
pub struct Overlay {
    uplink: Uplink,
    encapsulation: Encapsulation,
    incarnation: Incarnation,
    /// The last incarnation of ours that each far host has seen.
    incarnations: BTreeMap<IpAddr, Incarnation>,
    /// The host's uplinks, in the order of their addresses.
    links: Vec<Link>,
    networks: Rc<Networks>,
    /// The peers' ports, by the first address of each far host.
    peers: BTreeMap<IpAddr, PortId>,
    /// The peers' ports, by every address of each far host.
    senders: BTreeMap<IpAddr, PortId>,
    /// The longest packet that fits into every tunnel, in bytes.
    inner_mtu: u16,
    /// Packets from addresses of no peer.
    unknown_peers: u64,
    /// Packets that were refused, by reason.
    refused: BTreeMap<Refusal, u64>,
}

impl Overlay {
    /// Opens a host's uplinks; no tunnel leads anywhere yet. `monitor` makes what watches the paths
    /// of the uplink with this address; its second argument is a seed that differs between uplinks
    /// and incarnations (RFC 5880 §6.3 wants numbers that no other session of the host has).
    ///
    /// # Errors
    ///
    /// [`OpenError`]
    pub fn new(
        uplink: &Uplink,
        incarnation: Incarnation,
        monitor: impl Fn(IpAddr, u64) -> Box<dyn Monitor>,
    ) -> Result<Self, OpenError> {
        let (encapsulation, transport) = match uplink.encapsulation {
            model::Encapsulation::Geneve => (Encapsulation::Geneve, Transport::Udp(geneve::PORT)),
            model::Encapsulation::Vxlan => (Encapsulation::Vxlan, Transport::Udp(vxlan::PORT)),
            model::Encapsulation::Nvgre => (Encapsulation::Nvgre, Transport::Ip(protocol::GRE)),
            model::Encapsulation::Stt => (Encapsulation::Stt, Transport::Stt { mtu: uplink.mtu }),
        };
        let link = |(place, vtep)| {
            Link::open(uplink, vtep, transport, monitor(vtep, seed(incarnation, place)))
        };
        Ok(Self {
            links: uplink.vtep.iter().enumerate().map(link).collect::<Result<_, _>>()?,
            uplink: uplink.clone(),
            encapsulation,
            incarnation,
            incarnations: BTreeMap::new(),
            networks: Rc::default(),
            peers: BTreeMap::new(),
            senders: BTreeMap::new(),
            inner_mtu: u16::MAX,
            unknown_peers: 0,
            refused: BTreeMap::new(),
        })
    }

    /// Makes tunnels to the hosts at which a directory has members of networks that are here too,
    /// and ends the others. Frames that are held for hosts without a tunnel are refused. `number`
    /// gives a network's number in the switch; `None` leaves the network out.
    ///
    /// # Errors
    ///
    /// [`TooManyPorts`] if there are more hosts than the switch has ports; then some are missing.
    pub fn follow<P: Port, R: Responder, G: Gate>(
        &mut self,
        now: Instant,
        plane: &mut Plane<P, Trunk, R, G>,
        mut number: impl FnMut(&NetworkName) -> Option<Network>,
        directory: &Directory,
    ) -> Result<(), TooManyPorts> {
        let mut here: Vec<_> =
            directory.networks().filter(|(.., network)| network.is_here()).collect();
        let mut networks = Networks::default();
        here.retain(|(vni, name, _)| {
            let Some(network) = number(name) else { return false };
            networks.by_vni.insert(*vni, network);
            networks.vnis.insert(network, *vni);
            true
        });
        self.networks = Rc::new(networks);
        let far: BTreeSet<_> = here.iter().flat_map(|(.., network)| network.peers()).collect();
        let gone: Vec<_> = self.peers.keys().copied().filter(|vtep| !far.contains(vtep)).collect();
        for vtep in gone {
            let id = self.peers.remove(&vtep).expect("it was found just now");
            self.incarnations.insert(vtep, plane.detach_peer(now, id).incarnation());
        }
        let mut outcome = Ok(());
        self.senders.clear();
        let mut watched = vec![Vec::new(); self.links.len()];
        for host in far {
            let addresses =
                directory.addresses_of(host).expect("a peer of a network is one of the directory");
            match self.connect(now, plane, addresses) {
                Ok(id) => self.senders.extend(addresses.iter().map(|address| (address, id))),
                Err(error) => {
                    outcome = Err(error);
                    continue;
                }
            }
            watched.iter_mut().zip(addresses.iter()).for_each(|(watched, far)| watched.push(far));
        }
        self.set_members(plane, &here);
        for (link, watched) in self.links.iter_mut().zip(watched) {
            link.monitor_mut().watch(&watched);
        }
        self.settle(now, plane);
        outcome
    }

    /// The longest packet that fits into every tunnel, in bytes.
    pub fn inner_mtu(&self) -> u16 {
        self.inner_mtu
    }

    /// Has a trunk lead to the host with these addresses: the existing one, or a new one.
    fn connect<P: Port, R: Responder, G: Gate>(
        &mut self,
        now: Instant,
        plane: &mut Plane<P, Trunk, R, G>,
        addresses: &VtepList,
    ) -> Result<PortId, TooManyPorts> {
        let host = addresses.first();
        let paths = self.links.iter().zip(addresses.iter());
        let paths: Vec<_> = paths
            .map(|(link, far)| trunk::Path { underlay: link.underlay().clone(), far })
            .collect();
        let room = self.room(&paths);
        if let Some(&id) = self.peers.get(&host) {
            let trunk = plane.peer_mut(id);
            let is_new = !trunk.paths().map(|(far, _)| far).eq(paths.iter().map(|path| path.far));
            if is_new {
                trunk.set_paths(now, paths, room.map(|(most, _)| most));
                self.inner_mtu =
                    room.map_or(self.inner_mtu, |(_, inner)| self.inner_mtu.min(inner));
            }
            return Ok(id);
        }
        // RFC 791 §3.1 and RFC 8200 §5: what everybody carries.
        let least = if host.is_ipv4() { 576 } else { 1280 };
        let (most, inner) = room.unwrap_or_else(|| self.room_of(host, least));
        self.inner_mtu = self.inner_mtu.min(inner);
        // A trunk that is made again remembers nothing of its far host, which sees a new
        // incarnation.
        let incarnation = match self.incarnations.get(&host) {
            None => self.incarnation,
            Some(last) => {
                Some(incarnation()).filter(|now| now.is_after(*last)).unwrap_or(last.next())
            }
        };
        self.incarnations.insert(host, incarnation);
        let config = TrunkConfig {
            host,
            far: host,
            pair: trunk::pair([self.uplink.vtep.first(), host]),
            encapsulation: self.encapsulation,
            session: self.session(most),
            incarnation,
            most,
            dscp: self.uplink.dscp.map(ClassMap),
            obeys_pauses: self.uplink.pfc.is_some(),
        };
        let config_of_port = PortConfig { ingress: HELD, ..PortConfig::default() };
        let id = plane.attach_peer(now, Trunk::new(now, config, paths), config_of_port)?;
        self.peers.insert(host, id);
        Ok(id)
    }

    /// The longest payload of a datagram that all these paths carry, and the longest packet in it,
    /// in bytes. Paths without a route are left out; `None` if all are.
    fn room(&self, paths: &[trunk::Path]) -> Option<(usize, u16)> {
        let rooms = paths.iter().filter_map(|path| {
            let mtu = self.uplink.mtu.or_else(|| path.underlay.borrow().mtu_to(path.far))?;
            Some(self.room_of(path.far, mtu))
        });
        rooms.reduce(|one, other| (one.0.min(other.0), one.1.min(other.1)))
    }

    /// The same of a path to this address that carries packets of `mtu` bytes.
    fn room_of(&self, far: IpAddr, mtu: u16) -> (usize, u16) {
        if self.encapsulation == Encapsulation::Stt {
            // STT segments a frame into as many packets as it takes.
            return (underlay::stt::LONGEST, trunk::STT_MTU);
        }
        let options = if self.uplink.wants_session() { trunk::OPTIONS_LEN } else { 0 };
        let transport =
            if self.encapsulation == Encapsulation::Nvgre { 0 } else { udp::Header::LEN };
        let (version, ip) = if far.is_ipv4() { (Version::V4, 20) } else { (Version::V6, 40) };
        let most = usize::from(mtu).saturating_sub(ip + transport).min(underlay::LONGEST);
        (most, self.encapsulation.inner_mtu(version, options, mtu).unwrap_or(0))
    }

    /// The configuration of a session whose datagrams have payloads of at most so many bytes.
    /// `None` if neither retransmission nor credit is wanted.
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

    /// Tells every trunk the networks, and the labels of the members at its far host.
    fn set_members<P: Port, R: Responder, G: Gate>(
        &self,
        plane: &mut Plane<P, Trunk, R, G>,
        here: &[(u32, &NetworkName, &VirtualNetwork)],
    ) {
        let mut labels: BTreeMap<IpAddr, HashMap<_, _>> = BTreeMap::new();
        for id in self.peers.values() {
            let before: Vec<_> = plane.peer_mut(*id).networks().collect();
            // Leaving a network unpins the addresses that were there.
            before.into_iter().for_each(|network| plane.datapath_mut().leave(*id, network));
        }
        for (vni, _, members) in here {
            let network = self.networks.by_vni[vni];
            for (mac, place) in members.places() {
                let Place::There { vtep, label } = place else { continue };
                let Some(&id) = self.peers.get(&vtep) else { continue };
                plane.datapath_mut().join(id, network);
                plane.datapath_mut().pin(network, mac, 0, id);
                labels.entry(vtep).or_default().insert((network, mac), label);
            }
        }
        for (vtep, id) in &self.peers {
            let labels = labels.remove(vtep).unwrap_or_default();
            plane.peer_mut(*id).set_members(self.networks.clone(), labels);
        }
    }

    /// The host's uplinks, in the order of their addresses.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The host's uplinks, in the order of their addresses.
    pub fn links_mut(&mut self) -> &mut [Link] {
        &mut self.links
    }

    /// Obeys the links' pauses, and pauses their far ends while memory for arriving frames runs
    /// low.
    pub fn handle_pauses<P: Port, R: Responder, G: Gate>(
        &mut self,
        now: Instant,
        plane: &mut Plane<P, Trunk, R, G>,
    ) {
        if !self.links.iter().any(Link::obeys_pauses) {
            return;
        }
        let is_short = self.peers.values().any(|id| plane.peer(*id).is_memory_low());
        let classes = &plane.switch().settings().classes;
        let changed = self.links.iter_mut().map(|link| link.pause(now, is_short, classes));
        if changed.fold(false, |any, changed| any | changed) {
            self.pause_peers(plane);
        }
    }

    /// Pauses the peers' classes that the links of their paths pause.
    fn pause_peers<P: Port, R: Responder, G: Gate>(&self, plane: &mut Plane<P, Trunk, R, G>) {
        if !self.links.iter().any(Link::obeys_pauses) {
            return;
        }
        for id in self.peers.values() {
            let paused = plane.peer(*id).paused_by(|place| self.links[place].paused());
            plane.pause_peer(*id, paused);
        }
    }

    /// When pauses are to be checked again, although none arrives.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        self.links.iter().filter_map(|link| link.deadline(now)).min()
    }

    /// Receives datagrams and passes them to their peers. Returns whether there were any.
    pub fn receive<P: Port, R: Responder, G: Gate>(
        &mut self,
        now: Instant,
        plane: &mut Plane<P, Trunk, R, G>,
    ) -> bool {
        let Self { encapsulation, links, senders, unknown_peers, refused, .. } = self;
        let (mut came, mut is_news) = (false, false);
        for link in links {
            link.receive(|vteps, datagram| {
                came = true;
                let underlay::Received { from, ports, traffic_class, payload } = datagram;
                if let Some(taps) = plane.taps_mut() {
                    let vteps = vteps.reversed();
                    Outer { way: Direction::In, vteps, ports, traffic_class, payload }
                        .show(now, taps);
                }
                let Some(id) = senders.get(&from) else {
                    *unknown_peers += 1;
                    return;
                };
                let trunk = plane.peer_mut(*id);
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

    /// Passes pending datagrams to the kernel. Returns whether it had room for all.
    pub fn flush(&mut self, now: Instant, mut taps: Option<&mut Taps>) -> bool {
        self.links.iter_mut().fold(true, |all, link| link.flush(now, taps.as_deref_mut()) & all)
    }

    /// Before the switch ends: tells far hosts how far streams were consumed. Waits for room in the
    /// kernel if necessary, for at most 100 ms.
    pub fn leave<P: Port, R: Responder, G: Gate>(&mut self, plane: &mut Plane<P, Trunk, R, G>) {
        let until = clock::now() + FAREWELL;
        loop {
            let now = clock::now();
            let said =
                self.peers.values().fold(true, |all, id| plane.peer_mut(*id).leave(now) & all);
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

    /// Waits until the kernel may have room for something that is to be sent. `false` if it has
    /// none by then.
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

    /// Has frames use the paths that work, as the uplinks' monitors find them now.
    pub fn check_paths<P: Port, R: Responder, G: Gate>(
        &mut self,
        now: Instant,
        plane: &mut Plane<P, Trunk, R, G>,
    ) {
        for (place, link) in self.links.iter().enumerate() {
            link.monitor().each(&mut |far, works| {
                if let Some(id) = self.senders.get(&far) {
                    plane.peer_mut(*id).found(place, works);
                }
            });
        }
        self.settle(now, plane);
    }

    /// Has every peer use its best path, after the state of some has changed.
    fn settle<P: Port, R: Responder, G: Gate>(
        &self,
        now: Instant,
        plane: &mut Plane<P, Trunk, R, G>,
    ) {
        self.peers.values().for_each(|id| plane.peer_mut(*id).settle(now));
        self.pause_peers(plane);
    }

    /// The first address of each far host, and the port that leads there.
    pub fn peers(&self) -> impl Iterator<Item = (IpAddr, PortId)> {
        self.peers.iter().map(|(vtep, id)| (*vtep, *id))
    }

    /// The state of the tunnels. `names` has the networks' names by their numbers in the switch;
    /// `responder` is what the plane's responder has counted.
    pub fn status<P: Port, R: Responder, G: Gate>(
        &self,
        plane: &Plane<P, Trunk, R, G>,
        names: &HashMap<Network, &NetworkName>,
        responder: ResponderStatus,
        now: Instant,
    ) -> UplinkStatus {
        let counters: Vec<_> = self.links.iter().map(Link::counters).collect();
        let refused = self.refused.iter().map(|(refusal, count)| (refusal.name().into(), *count));
        let peer =
            |(far, id): (&IpAddr, &PortId)| status::peer(plane, &self.links, *id, *far, names, now);
        UplinkStatus {
            vtep: self.uplink.vtep.clone(),
            encapsulation: self.uplink.encapsulation,
            unknown_peers: self.unknown_peers,
            refused: refused.collect(),
            send_errors: counters.iter().map(|counters| counters.unsent).sum(),
            last_send_error: counters.into_iter().rev().find_map(|counters| counters.last_error),
            pause_frames: self.links.iter().filter_map(Link::pauses_status).collect(),
            responder,
            peers: self.peers.iter().map(peer).collect(),
            notes: self.links.iter().flat_map(|link| link.monitor().notes()).collect(),
        }
    }
}

/// A seed that differs between incarnations and uplinks.
fn seed(incarnation: Incarnation, place: usize) -> u64 {
    u64::from(incarnation.0.get()) << 8 | place as u64
}

/// An incarnation of this host's end of sessions that is after all earlier ones: the wall clock in
/// units of 2^26 ns, about 67 ms, within which no agent ends and starts again. Numbers repeat after
/// nine years.
pub fn incarnation() -> Incarnation {
    let units = clock::wall_ns() >> 26;
    Incarnation(NonZeroU32::new(units as u32).unwrap_or(NonZeroU32::MIN))
}
