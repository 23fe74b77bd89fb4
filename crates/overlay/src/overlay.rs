//! The tunnels of a host, and where they lead.
//!
//! Each other host that has members of a network of this host is a [trunk](Trunk); all share the
//! host's [uplinks](Link). A [delta](Overlay::follow) of the [topology](crate::Topology) tells
//! which hosts there are.
//!
//! ```text
//!   trunk to host 2 ─┬─ path ── uplink 192.0.2.1 ════ underlay ════ 192.0.2.2
//!                    └─ path ── uplink 198.51.100.1 ═ underlay ═ 198.51.100.2
//! ```

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use datapath::{Declared, Network, Peer, Remote};
use kernel::clock;
use lossless::{Classes, Flow, PortId, Reason, Switch};
use model::{
    DownlinkStatus, Ledgers, NetworkName, PeerState, PeerStatus, ProtectionStatus, ResponderStatus,
    TunnelMode, Uplink, UplinkStatus, VtepList,
};
use plane::taps::{Direction, Taps};
use plane::{Event, Leaving};
use port::Slot;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use seal::{Channel, Ends, Keys, Mode, Pace};
use shares::Terms;
use tunnel::grants::{Grant, Granted, Sharing};
use tunnel::outer::{Encapsulation, Received, Refusal};
use tunnel::{Answer, SessionConfig};
use underlay::{self, Transport};
use units::{ClassMap, Instant, Span};
use wire::ip::{Version, protocol};
use wire::{geneve, udp, vxlan};

use crate::downlinks::Downlinks;
use crate::error::OpenError;
use crate::link::Link;
use crate::monitor::Monitor;
use crate::outer::Outer;
use crate::shared::{Carried, Known, Networks, Shared};
use crate::slots::{FRAMES, Owner, Slots};
use crate::status;
use crate::table::Table;
use crate::trunk::{self, Outlook, Trunk, TrunkConfig};

/// The most frames in flight of a session, each in its sender's slot.
const MOST_KEPT: usize = 64 << 10;

/// The most streams of one host.
const MOST_STREAMS: usize = 8 << 10;

/// How long the switch waits at its end for the kernel to send the last control messages.
const FAREWELL: Span = Span::from_millis(100);

/// What an operator is told where no key is declared.
pub const UNPROTECTED: &str = "tunnels are neither authenticated nor encrypted: whoever is in the underlay can read and forge what they carry; declare `key` in [uplink]";

/// What an operator is told where credit is granted by the link, and not needed for all classes.
pub const UNCREDITED: &str = "what other hosts send here in classes without `credit` waits for no grant: what networks are promised of what arrives does not hold beside it; set `credit = true` in [uplink]";

/// What protects a host's tunnels from others in the underlay.
#[derive(Clone, Debug)]
pub struct Protection {
    /// What is done with packets.
    pub mode: Mode,
    /// The keys that hosts have in common.
    pub keys: Arc<Keys>,
}

/// A far host in short.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Outline {
    /// Its first tunnel address.
    pub host: IpAddr,
    /// Whether frames are sent to it.
    pub state: PeerState,
    /// Whether packets can be sealed, or need not be.
    pub has_keys: bool,
    /// How often it began a new incarnation.
    pub resets: u64,
    /// How often this end began one because a stream of the host contradicted itself.
    pub contradictions: u64,
}

/// A host's tunnels.
pub struct Overlay {
    uplink: Uplink,
    encapsulation: Encapsulation,
    protection: Option<Protection>,
    random: fn() -> u64,
    /// The host's uplinks, in the order of their addresses.
    links: Vec<Link>,
    /// Which classes are lossless.
    classes: Classes,
    pub(crate) shared: Shared,
    pub(crate) table: Table,
    /// The number of each far host, by every address of it.
    pub(crate) senders: HashMap<IpAddr, Peer>,
    /// The longest packet that fits into the tunnel to each far host that there is a route to, in
    /// bytes.
    inner_mtus: HashMap<Peer, u16>,
    /// Packets from addresses of no peer.
    unknown_peers: u64,
    /// Packets that were refused, by reason.
    refused: BTreeMap<Refusal, u64>,
}

impl Overlay {
    /// Opens a host's uplinks; no tunnel leads anywhere yet. A far host that takes nothing for the
    /// stall time of the switch is stalled, as any receiver. `random` draws numbers that nobody
    /// guesses. `monitor` makes what watches the paths of the uplink with this address, from one of
    /// these (RFC 5880 §6.3 wants numbers that no other session of the host has).
    ///
    /// # Errors
    ///
    /// [`OpenError`]
    pub fn new(
        uplink: &Uplink,
        protection: Option<Protection>,
        random: fn() -> u64,
        settings: &lossless::Settings,
        monitor: impl Fn(IpAddr, u64) -> Box<dyn Monitor>,
    ) -> Result<Self, OpenError> {
        let (encapsulation, transport) = match uplink.encapsulation {
            model::Encapsulation::Geneve => (Encapsulation::Geneve, Transport::Udp(geneve::PORT)),
            model::Encapsulation::Vxlan => (Encapsulation::Vxlan, Transport::Udp(vxlan::PORT)),
            model::Encapsulation::Nvgre => (Encapsulation::Nvgre, Transport::Ip(protocol::GRE)),
            model::Encapsulation::Stt => (Encapsulation::Stt, Transport::Stt { mtu: uplink.mtu }),
        };
        let link = |vtep| Link::open(uplink, vtep, transport, monitor(vtep, random()));
        Ok(Self {
            links: uplink.vtep.iter().map(link).collect::<Result<_, _>>()?,
            uplink: uplink.clone(),
            encapsulation,
            protection,
            random,
            classes: settings.classes,
            shared: Shared {
                slots: Slots::new(FRAMES),
                networks: Networks::default(),
                known: None,
                downlinks: Downlinks::new(
                    uplink.rate.filter(|_| uplink.grants),
                    uplink.latency,
                    uplink.vtep.iter().count(),
                    around_datagrams(uplink, encapsulation),
                ),
                scratch: Vec::new(),
                cut: Vec::new(),
                events: VecDeque::new(),
                patience: settings.stall_after,
                pace: Pace::default(),
            },
            table: Table::default(),
            senders: HashMap::new(),
            inner_mtus: HashMap::new(),
            unknown_peers: 0,
            refused: BTreeMap::new(),
        })
    }

    /// Makes tunnels to new hosts, ends those to hosts that are `gone`, and carries other networks.
    /// What is held for hosts that are gone is refused. What the plane has polled of theirs goes
    /// on; the rest is dropped.
    pub fn follow(
        &mut self,
        now: Instant,
        gone: &[Peer],
        hosts: &[(Peer, VtepList)],
        networks: &[(Network, Option<Arc<Declared>>)],
    ) {
        let moved = hosts.iter().map(|(peer, _)| *peer);
        let moved = moved.filter(|peer| self.table.get(*peer).is_some());
        let stale: HashSet<_> = moved.chain(gone.iter().copied()).collect();
        if !stale.is_empty() {
            self.senders.retain(|_, peer| !stale.contains(peer));
        }
        for peer in gone {
            let trunk = self.table.remove(*peer).expect("who is gone was there");
            self.shared.downlinks.forget(trunk.owner());
            self.inner_mtus.remove(peer);
            let events = &mut self.shared.events;
            events.push_back(Event::Abandoned(peer.flows(), lossless::Refusal::DETACHED));
            events.push_back(Event::Forgotten(*peer));
        }
        for (network, declared) in networks {
            self.shared.networks.set(*network, declared.as_deref().map(Carried::new));
        }
        let are_closed = networks.iter().any(|(_, declared)| declared.is_none());
        if !gone.is_empty() || are_closed {
            let Self { table, shared: Shared { slots, networks, .. }, .. } = self;
            let is_here =
                |owner: Owner| table.get(owner.peer).is_some_and(|trunk| trunk.owner() == owner);
            slots.retire(is_here, |network| networks.vni(network).is_some());
        }
        for (peer, addresses) in hosts {
            self.senders.extend(addresses.iter().map(|address| (address, *peer)));
            self.connect(now, *peer, addresses);
        }
        if !gone.is_empty() || !hosts.is_empty() {
            self.watch();
            self.settle(now, hosts.iter().map(|(peer, _)| *peer));
        }
    }

    /// Has the monitors watch the paths that there are.
    fn watch(&mut self) {
        let mut watched = vec![Vec::new(); self.links.len()];
        for trunk in self.table.iter() {
            let far = trunk.paths().map(|(far, _)| far);
            watched.iter_mut().zip(far).for_each(|(watched, far)| watched.push(far));
        }
        for (link, watched) in self.links.iter_mut().zip(watched) {
            link.monitor_mut().watch(&watched);
        }
    }

    /// The longest packet that fits into every tunnel, in bytes. A far host without a route counts
    /// for nothing: no packet reaches it.
    pub fn inner_mtu(&self) -> u16 {
        self.inner_mtus.values().copied().min().unwrap_or(u16::MAX)
    }

    /// How many more bytes a frame takes on an uplink's link than in the switch: what tunnels put
    /// around it, and the link's check sequence, preamble and gap.
    pub fn around(&self) -> u32 {
        let tunnel = match self.encapsulation {
            Encapsulation::Geneve if self.uplink.wants_session() => trunk::DATA_LEN,
            Encapsulation::Geneve | Encapsulation::Vxlan => geneve::Header::LEN,
            Encapsulation::Nvgre => 8,
            Encapsulation::Stt => wire::stt::Header::LEN,
        };
        let sealed = if self.protection.is_some() { seal::OVERHEAD } else { 0 };
        around_datagrams(&self.uplink, self.encapsulation) + (tunnel + sealed) as u32
    }

    /// Whether far hosts join frames that go in parts.
    pub fn joins_parts(&self) -> bool {
        self.uplink.wants_session()
    }

    /// Has a trunk lead to the host with these addresses: the existing one, or a new one.
    fn connect(&mut self, now: Instant, peer: Peer, addresses: &VtepList) {
        let host = addresses.first();
        let paths = self.links.iter().zip(addresses.iter());
        let paths: Vec<_> = paths
            .map(|(link, far)| trunk::Path { underlay: link.underlay().clone(), far })
            .collect();
        let room = self.room(&paths);
        self.inner_mtus.extend(room.map(|(_, inner)| (peer, inner)));
        if let Some(trunk) = self.table.touch(peer) {
            trunk.set_paths(now, paths, room.map(|(most, _)| most));
            let (owner, most) = (trunk.owner(), trunk.most());
            self.shared.downlinks.forget(owner);
            self.shared.downlinks.reach(most);
            return;
        }
        // RFC 791 §3.1 and RFC 8200 §5: what everybody carries.
        let least = if host.is_ipv4() { 576 } else { 1280 };
        let (most, _) = room.unwrap_or_else(|| self.room_of(host, least));
        self.shared.downlinks.reach(most);
        let config = TrunkConfig {
            host,
            far: host,
            pair: trunk::pair([self.uplink.vtep.first(), host]),
            encapsulation: self.encapsulation,
            session: self.session(most),
            seed: (self.random)(),
            most,
            dscp: self.uplink.dscp.map(ClassMap),
            obeys_pauses: self.uplink.pfc.is_some(),
        };
        let owner = self.table.next_owner(peer);
        let channel = self.protection.clone().map(|Protection { mode, keys }| {
            let ends = Ends::new(self.uplink.vtep.first(), host).expect("hosts share no address");
            Channel::new(now, seal::Config { mode, keys, ends })
        });
        self.table.insert(Trunk::new(now, owner, config, channel, paths));
    }

    /// Keeps so many of the [bytes](crate::MEMORY) for arrived frames for this network; 0 for none.
    pub fn keep_memory(&mut self, network: Network, bytes: u64) {
        self.shared.slots.keep(network, bytes);
    }

    /// How many bytes of that memory a network's frames take up.
    pub fn memory_of(&self, network: Network) -> u64 {
        self.shared.slots.held_by(network)
    }

    /// Uses these pre-shared keys from now on, if tunnels are protected.
    pub fn set_keys(&mut self, now: Instant, keys: &Arc<Keys>) {
        let Some(protection) = &mut self.protection else { return };
        protection.keys = keys.clone();
        self.links.iter_mut().for_each(|link| link.monitor_mut().set_keys(keys));
        for peer in self.table.peers() {
            let trunk = self.table.touch(peer).expect("it was listed");
            trunk.set_keys(now, keys.clone());
        }
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
        let sealed = if self.protection.is_some() { seal::OVERHEAD } else { 0 };
        let transport =
            if self.encapsulation == Encapsulation::Nvgre { 0 } else { udp::Header::LEN };
        let (version, ip) = if far.is_ipv4() { (Version::V4, 20) } else { (Version::V6, 40) };
        let most = usize::from(mtu).saturating_sub(ip + transport).min(underlay::LONGEST);
        let inner = self.encapsulation.inner_mtu(version, options + sealed, mtu);
        (most.saturating_sub(sealed), inner.unwrap_or(0))
    }

    /// The configuration of a session whose datagrams have payloads of at most so many bytes.
    /// `None` if neither retransmission nor credit is wanted.
    fn session(&self, most: usize) -> Option<SessionConfig> {
        let Uplink { window, unsolicited, in_flight, retransmit, credit, .. } = self.uplink;
        let session = SessionConfig {
            credit,
            is_granted: self.shared.downlinks.are_shared(),
            unsolicited: self.shared.downlinks.unsolicited(unsolicited.0 as u32, most),
            stream_window: window.0 as u32,
            max_in_flight: in_flight.0 as u32,
            max_frames: MOST_KEPT,
            max_streams: MOST_STREAMS,
            datagram: most as u32,
            reliable: retransmit,
        };
        self.uplink.wants_session().then_some(session)
    }

    /// The host's uplinks, in the order of their addresses.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The host's uplinks, in the order of their addresses.
    pub fn links_mut(&mut self) -> &mut [Link] {
        &mut self.links
    }

    /// When an uplink's rate lets the next frame go, if none does now.
    pub(crate) fn links_busy_until(&self) -> Option<Instant> {
        let mut earliest: Option<Instant> = None;
        for link in &self.links {
            let at = link.busy_until()?;
            earliest = Some(earliest.map_or(at, |earliest| earliest.min(at)));
        }
        earliest
    }

    /// Obeys the links' pauses, and pauses their far ends while memory for arriving frames runs
    /// low.
    pub fn handle_pauses(&mut self, now: Instant) {
        if !self.obeys_pauses() {
            return;
        }
        let is_short = self.shared.slots.is_short();
        let Self { links, classes, .. } = self;
        let changed = links.iter_mut().map(|link| link.pause(now, is_short, classes));
        if changed.fold(false, |any, changed| any | changed) {
            self.pause_trunks();
        }
    }

    fn obeys_pauses(&self) -> bool {
        self.links.iter().any(Link::obeys_pauses)
    }

    /// Pauses the trunks' classes that the links of their paths pause.
    fn pause_trunks(&mut self) {
        let Self { links, table, .. } = self;
        for peer in table.peers() {
            let trunk = table.get_mut(peer).expect("it was listed");
            if trunk.pause(trunk.paused_by(|place| links[place].paused())) {
                table.touch(peer);
            }
        }
    }

    /// When pauses are to be checked again, although none arrives.
    pub fn pauses_deadline(&self, now: Instant) -> Option<Instant> {
        self.links.iter().filter_map(|link| link.deadline(now)).min()
    }

    /// Receives datagrams and passes them to their trunks. Returns whether there were any.
    pub fn receive(&mut self, now: Instant, mut taps: Option<&mut Taps>) -> bool {
        let Self { encapsulation, links, senders, table, shared, unknown_peers, refused, .. } =
            self;
        let (mut came, mut news) = (false, Vec::new());
        for (place, link) in links.iter_mut().enumerate() {
            link.receive(now, |vteps, datagram| {
                came = true;
                let underlay::Received { from, ports, traffic_class, payload } = datagram;
                if let Some(taps) = taps.as_deref_mut() {
                    let vteps = vteps.reversed();
                    Outer { direction: Direction::In, vteps, ports, traffic_class, payload }
                        .show(now, taps);
                }
                shared.downlinks.arrived(now, place, payload.len(), traffic_class);
                let peer = senders.get(&from).copied();
                let Some((peer, trunk)) = peer.and_then(|peer| Some((peer, table.touch(peer)?)))
                else {
                    *unknown_peers += 1;
                    return;
                };
                let Some(payload) = trunk.open(now, payload) else { return };
                let payload = &*payload;
                let outcome = match *encapsulation {
                    Encapsulation::Stt => {
                        trunk.handle_segment(now, shared, vteps, traffic_class, payload)
                    }
                    other => Received::of_datagram(other, vteps, traffic_class, payload)
                        .map(|received| trunk.handle(now, shared, &received, payload)),
                };
                match outcome {
                    Ok(is_news) => news.extend(is_news.then_some(peer)),
                    Err(refusal) => *refused.entry(refusal).or_default() += 1,
                }
                table.note_arrivals(peer);
            });
        }
        if !news.is_empty() {
            self.settle(now, news);
        }
        if came {
            self.grant(now);
        }
        came
    }

    /// Grants credit for the uplinks' links, as far as it is due: the far hosts' trunks report it
    /// in this turn.
    pub(crate) fn grant(&mut self, now: Instant) {
        let Self { table, shared, .. } = self;
        while let Some(Grant { stream: (owner, stream), limit }) = shared.downlinks.next(now) {
            if let Some(trunk) = table.touch(owner.peer).filter(|trunk| trunk.owner() == owner) {
                trunk.grant(stream, limit);
            }
        }
    }

    /// This host has such a generation of its logical networks, in which these labels mean ports
    /// here, or ports that have left. What comes for another label by a newer generation waits with
    /// its sender until this is called again. Before it is called, and by generation 0, nothing
    /// does.
    pub fn know(&mut self, generation: u64, labels: impl IntoIterator<Item = u32>) {
        self.shared.known = Some(Known { generation, labels: labels.into_iter().collect() });
        for peer in self.table.peers() {
            if self.table.get_mut(peer).is_some_and(Trunk::look_again) {
                self.table.touch(peer);
            }
        }
    }

    /// As the plane's release, of a frame of a logical network that has arrived and is not taken,
    /// for this reason: its sender has it again, with this answer.
    pub fn give_back(&mut self, slot: Slot, reason: Reason, answer: Answer) {
        let Self { table, shared: Shared { slots, .. }, .. } = self;
        let owner = slots.get(slot).owner;
        match table.touch(owner.peer).filter(|trunk| trunk.owner() == owner) {
            Some(trunk) => trunk.give_back(slots, slot, reason, answer),
            None => drop(slots.release(slot)),
        }
    }

    /// Gives a network terms where networks share what arrives here.
    pub fn set_terms(&mut self, now: Instant, network: Network, terms: Terms) {
        self.shared.downlinks.set_terms(now, network, terms);
    }

    /// A network's number is about to mean another: its memory and what it was granted are not that
    /// one's.
    pub fn forget_network(&mut self, network: Network) {
        self.keep_memory(network, 0);
        self.shared.downlinks.forget_network(network);
    }

    /// What a network's senders on other hosts were granted, if that is shared.
    pub fn granted(&self, network: Network) -> Option<Granted> {
        self.shared.downlinks.granted(network)
    }

    /// Passes pending datagrams to the kernel. Returns whether it had room for all.
    pub fn flush(&mut self, now: Instant, mut taps: Option<&mut Taps>) -> bool {
        let Self { links, table, shared, .. } = self;
        let all =
            links.iter_mut().fold(true, |all, link| link.flush(now, taps.as_deref_mut()) & all);
        // Whoever waited for room has it in the next turn.
        table.each_touched(|trunk| trunk.unblock_waiting(shared));
        all
    }

    /// Whether there is an event that the plane has not polled.
    pub fn has_events(&self) -> bool {
        !self.shared.events.is_empty()
    }

    /// Before the switch ends: tells far hosts how far streams were consumed. Waits for room in the
    /// kernel if necessary, for at most 100 ms.
    pub fn leave(&mut self, now: Instant, mut taps: Option<&mut Taps>) {
        let (began, until) = (clock::now(), now + FAREWELL);
        loop {
            let now = now + clock::now().since(began);
            let peers = self.table.peers().into_iter();
            let said = peers.fold(true, |all, peer| {
                self.table.touch(peer).is_none_or(|trunk| trunk.leave(now)) & all
            });
            let sent = self.flush(now, taps.as_deref_mut());
            if said && sent {
                return;
            }
            if now >= until || !sent && !self.wait(until.since(now)) {
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
    /// none within this time.
    fn wait(&self, time: Span) -> bool {
        let underlays: Vec<_> = self.links.iter().map(|link| link.underlay().borrow()).collect();
        let waiting = underlays.iter().flat_map(|underlay| underlay.waiting());
        let mut waiting: Vec<_> =
            waiting.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::OUT)).collect();
        match poll(&mut waiting, Some(&clock::timespec(time))) {
            Ok(count) => count > 0,
            Err(error) => error == Errno::INTR,
        }
    }

    /// Has frames use the paths that work, as the uplinks' monitors find them now.
    pub fn check_paths(&mut self, now: Instant) {
        let Self { links, senders, table, .. } = self;
        let mut changed = Vec::new();
        for (place, link) in links.iter().enumerate() {
            link.monitor().each(&mut |far, works| {
                let Some(&peer) = senders.get(&far) else { return };
                if table.get_mut(peer).is_some_and(|trunk| trunk.found(place, works)) {
                    changed.push(peer);
                }
            });
        }
        self.settle(now, changed);
    }

    /// Has trunks use their best paths, after the state of some has changed.
    fn settle(&mut self, now: Instant, peers: impl IntoIterator<Item = Peer>) {
        for peer in peers {
            let trunk = self.table.touch(peer).expect("it is known");
            if trunk.settle(now) {
                // What arrives by another link shares that.
                self.shared.downlinks.forget(trunk.owner());
            }
        }
        if self.obeys_pauses() {
            self.pause_trunks();
        }
    }

    /// The trunk to the far host with this number.
    pub fn trunk(&self, peer: Peer) -> Option<&Trunk> {
        self.table.get(peer)
    }

    /// What would become of a frame of this flow, without offload. `None` if its host is not known,
    /// or tunnels do not carry its network.
    pub fn outlook(&self, now: Instant, flow: Flow, leaving: &Leaving<'_>) -> Option<Outlook> {
        let (remote, _) = Remote::of_flow(flow);
        self.table.get(remote.peer)?.outlook(now, &self.shared, flow, leaving)
    }

    /// How many frames, as counted on a wire, the switch holds that far hosts keep until they are
    /// acknowledged. They are not lost when this switch ends.
    pub fn repaired(&self) -> u64 {
        self.table.iter().map(Trunk::repaired).sum()
    }

    /// How many numbers of far hosts there are, some of which are free.
    pub fn places(&self) -> usize {
        self.table.places()
    }

    /// What is worth telling of the far host with this number. `None` if the number is free.
    pub fn outline(&self, now: Instant, place: usize) -> Option<Outline> {
        let trunk = self.table.get(Peer::new(place as u32)?)?;
        let session = trunk.session_status(now);
        let state = status::state(trunk, session.as_ref(), now, self.shared.patience);
        let (resets, contradictions) =
            session.map_or((0, 0), |session| (session.resets, session.contradictions));
        let has_keys = trunk.is_channel_open();
        Some(Outline { host: trunk.host(), state, has_keys, resets, contradictions })
    }

    /// The state of the far hosts with these numbers. The uplink is that port of the switch;
    /// `declared` has what is declared of each network, by name.
    pub fn peers_status<'n>(
        &self,
        now: Instant,
        places: Range<usize>,
        (switch, port): (&Switch<Slot>, PortId),
        declared: impl Iterator<Item = (&'n NetworkName, &'n Declared)>,
    ) -> Vec<PeerStatus> {
        let mut networks: HashMap<Peer, Vec<NetworkName>> = HashMap::new();
        for (name, declared) in declared {
            // They are in order.
            let peers = declared.peers();
            let [first, end] = [places.start, places.end]
                .map(|place| peers.partition_point(|peer| peer.index() < place));
            for peer in &peers[first..end] {
                networks.entry(*peer).or_default().push(name.clone());
            }
        }
        let trunks = places.filter_map(|place| self.table.get(Peer::new(place as u32)?));
        let peer = |trunk: &Trunk| {
            let networks = networks.remove(&trunk.owner().peer).unwrap_or_default();
            status::peer(trunk, &self.links, (switch, port), networks, now, self.shared.patience)
        };
        trunks.map(peer).collect()
    }

    /// How what arrives is shared.
    fn downlinks(&self, now: Instant) -> Vec<DownlinkStatus> {
        let sharing = self.links.iter().zip(self.shared.downlinks.sharing(now));
        let status = |(link, it): (&Link, Sharing)| DownlinkStatus {
            vtep: link.vtep(),
            is_contended: it.is_contended,
            contentions: it.contentions,
            outstanding_bytes: it.outstanding,
            active_streams: it.active,
            resting_streams: it.resting,
            round_trip: it.round_trip,
        };
        sharing.map(status).collect()
    }

    /// The state of the tunnels, without the interfaces and the far hosts. `responder` is what the
    /// plane's responder has counted.
    pub fn status(
        &self,
        now: Instant,
        ledgers: [Ledgers; 2],
        responder: ResponderStatus,
    ) -> UplinkStatus {
        let [ingress, egress] = ledgers;
        let counters: Vec<_> = self.links.iter().map(Link::counters).collect();
        let refused = self.refused.iter().map(|(refusal, count)| (refusal.name().into(), *count));
        let protection = self.protection.as_ref().map(|Protection { mode, keys }| {
            let mode = match mode {
                Mode::Integrity => TunnelMode::Integrity,
                Mode::Encrypt => TunnelMode::Encrypt,
            };
            let keys = keys.iter().map(|key| key.fingerprint().to_string()).collect();
            ProtectionStatus { mode, keys }
        });
        let mut notes: Vec<_> = self.links.iter().flat_map(|link| link.monitor().notes()).collect();
        notes.extend(protection.is_none().then(|| UNPROTECTED.into()));
        notes.extend(self.uplink.is_uncredited().then(|| UNCREDITED.into()));
        UplinkStatus {
            vtep: self.uplink.vtep.clone(),
            interfaces: Vec::new(),
            encapsulation: self.uplink.encapsulation,
            protection,
            unknown_peers: self.unknown_peers,
            refused: refused.collect(),
            send_errors: counters.iter().map(|counters| counters.unsent).sum(),
            last_send_error: counters.into_iter().rev().find_map(|counters| counters.last_error),
            pause_frames: self.links.iter().filter_map(Link::pauses_status).collect(),
            shaping: self.links.iter().filter_map(Link::shaping).collect(),
            sharing: None,
            downlinks: self.downlinks(now),
            responder,
            ingress,
            egress,
            peers: Vec::new(),
            notes,
        }
    }
}

/// How many bytes of a link a datagram takes besides its payload.
fn around_datagrams(uplink: &Uplink, encapsulation: Encapsulation) -> u32 {
    let transport = match encapsulation {
        Encapsulation::Geneve | Encapsulation::Vxlan => udp::Header::LEN,
        Encapsulation::Nvgre => 0,
        Encapsulation::Stt => 20,
    };
    let ip = if uplink.vtep.first().is_ipv4() { 20 } else { 40 };
    (underlay::AROUND + 14 + ip + transport) as u32
}
