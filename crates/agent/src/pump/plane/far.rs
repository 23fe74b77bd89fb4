//! Trunks: what leaves for another host stays its sender's until the far receiver has it.
//!
//! ```text
//!            head             send              far receiver
//!  switch ─────────▶ depart ────────▶ Trunk ══▶ …
//!         ◀──────── arrived ◀─completed─┘
//! ```

use datapath::{Decision, Network, Verdict};
use lossless::{Flow, Offered, PortId, Reason, Refusal, Released, Size};
use port::Port;
use units::{Class, Instant};
use wire::ethernet::Tag;

use super::{BURST, Gate, HAS_ROOM, Line, Plane, release, show_refused};
use crate::pump::trunk::{Leaving, Sent, Trunk};

/// A device that may lead to another host.
pub trait MaybeTrunk: Port {
    /// Its trunk, if it does.
    #[inline]
    fn trunk(&mut self) -> Option<&mut Trunk> {
        None
    }
}

impl MaybeTrunk for port::memory::MemoryPort {}
impl MaybeTrunk for tap::TapPort {}
impl MaybeTrunk for vhost::port::VhostPort {}

impl<P: MaybeTrunk, G: Gate> Plane<P, G> {
    /// Makes a port's trunk a member of a network.
    pub fn join(&mut self, id: PortId, network: Network) {
        self.datapath.join(id, network);
    }

    /// Of these classes, a bit each, nothing is sent by a trunk until this is called again.
    pub fn pause(&mut self, id: PortId, classes: u8) {
        self.switch.pause_classes(id, classes);
        self.trunk_mut(id).pause(classes);
    }

    /// Whether memory for what comes by a trunk runs low.
    pub fn is_short(&mut self, id: PortId) -> bool {
        self.device_mut(id).trunk().is_some_and(|trunk| trunk.is_short())
    }

    /// The trunk at a port, which has something to say or to be asked from now on.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn trunk_mut(&mut self, id: PortId) -> &mut Trunk {
        self.wet.insert(id);
        self.dirty.insert(id);
        self.device_mut(id).trunk().expect("the port is a trunk")
    }

    /// Takes over what has come from another host, as far as the switch has room.
    pub(super) fn lift(&mut self, now: Instant, id: PortId) -> bool {
        let Self { datapath, switch, lines, wet, dirty, refused, taps, .. } = self;
        let line = lines[id.index()].as_mut().expect("the port is attached");
        if line.muted {
            // What is not lifted is not taken: the far host keeps it, and sends it to whoever comes after us.
            wet.remove(id);
            return false;
        }
        let trunk = line.device.trunk().expect("the port is a trunk");
        let most = switch.room(now, id).min(BURST);
        let priorities = datapath.settings().priorities;
        let mut decisions = datapath.visit(now, id);
        let mut visit = switch.arrivals(now, id);
        let mut lifted = 0;
        while lifted < most
            && let Some((slot, come)) = trunk.lift()
        {
            lifted += 1;
            let view = trunk.frame(slot);
            let Some(mut header) = wire::ethernet::peek(view.bytes) else {
                visit.refuse(decisions.default_class(), view.len() as u32, Refusal::MALFORMED);
                refused.push(slot);
                if let Some(taps) = taps {
                    taps.refuse(now, id, None, Reason::Malformed, &view);
                }
                continue;
            };
            // A frame without a tag is of the class that it had where it came from.
            let of = |class| Class::all().find(|priority| priorities[*priority] == class);
            header.tag = header.tag.or(come.class.and_then(of).map(|class| Tag { class, vlan: 0 }));
            let (bytes, frames) = view.on_wire();
            let size = Size { bytes: bytes as u32, frames: frames as u16 };
            let reason = match decisions.decide(&header, come.network) {
                Decision { class, verdict: Verdict::Forward(to) } => match visit.offer(to, class, slot, size)
                {
                    Offered::Held => continue,
                    Offered::Refused(_, reason) => reason,
                    Offered::Full(_) | Offered::Through(_) => unreachable!("{HAS_ROOM}"),
                },
                Decision { class, verdict: Verdict::Refuse(refusal) } => {
                    visit.refuse(class, size.bytes, refusal);
                    refusal.reason()
                }
            };
            refused.push(slot);
            if let Some(taps) = taps {
                taps.refuse(now, id, None, reason, &view);
            }
        }
        drop(visit);
        if let Some(taps) = taps {
            show_refused(now, switch, taps, |_, slot| trunk.frame(slot));
        }
        refused.drain(..).for_each(|slot| trunk.release(slot));
        if !trunk.is_wet() {
            wet.remove(id);
        }
        if lifted > 0 {
            dirty.insert(id);
        }
        lifted > 0
    }

    /// Sends the frames of one flow that was set aside, or those of the queue, to another host.
    pub(super) fn send(
        &mut self,
        now: Instant,
        id: PortId,
        line: &mut Line<P>,
        parked: Option<Flow>,
    ) -> bool {
        let Self { switch, lines, dirty, busy, taps, .. } = self;
        let trunk = line.device.trunk().expect("the port is a trunk");
        if parked.is_some_and(|flow| trunk.is_paused(flow)) {
            return false;
        }
        let mut visit = switch.departures(now, id);
        let mut sent = 0;
        while sent < BURST {
            let head = match parked {
                None => visit.head(),
                Some(flow) => visit.parked_head(flow),
            };
            let Some(head) = head else { break };
            let (port, slot, class) = (head.ingress(), head.frame(), head.class());
            let source = lines[port.index()].as_deref_mut();
            let source = source.expect("a frame leaves by another port than it came, which is attached");
            let view = source.device.frame(slot);
            let leaving = Leaving { port, slot, network: source.network, class, view };
            let flow = trunk.flow(&leaving);
            let outcome = match flow {
                _ if leaving.view.bytes.is_empty() => Err(Refusal::WITHDRAWN),
                Err(_) => Err(Refusal::UNFIT),
                Ok(Some(flow)) if parked.is_none() && head.is_parked(flow) => Ok(Sent::Hold),
                Ok(flow) => match trunk.send(now, flow, &leaving) {
                    Sent::Unfit => Err(Refusal::UNFIT),
                    sent => Ok(sent),
                },
            };
            if let (Err(refusal), Some(taps)) = (&outcome, taps.as_deref_mut()) {
                taps.refuse(now, port, Some(id), refusal.reason(), &leaving.view);
            }
            let flow = flow.ok().flatten();
            let released = match (outcome, flow) {
                (Err(refusal), _) => head.refuse(refusal),
                (Ok(Sent::Hold), Some(flow)) if parked.is_none() => {
                    head.park(flow);
                    None
                }
                (Ok(Sent::Underway), Some(flow)) => {
                    head.depart(flow);
                    None
                }
                (Ok(Sent::Gone), _) => head.delivered(),
                (Ok(Sent::Busy), _) => {
                    busy.insert(id);
                    break;
                }
                (Ok(_), _) => break,
            };
            if let Some(frame) = released {
                release(lines, dirty, Released { port, frame });
            }
            sent += 1;
        }
        if sent > 0 {
            dirty.insert(id);
        }
        sent > 0
    }

    /// Ends what far receivers have taken, sends again what was lost, and says what there is to be said; but for reports, if receivers here
    /// have been `handed` frames in this turn, and may answer by the next one. Whether a frame moved.
    pub(super) fn tend(&mut self, now: Instant, id: PortId, handed: bool) -> bool {
        // For the visit, the trunk's line leaves its place: so every sender's can be borrowed beside it.
        let mut line = self.lines[id.index()].take().expect("the port is attached");
        self.dirty.remove(id);
        let Self { switch, lines, dirty, busy, taps, .. } = self;
        let trunk = line.device.trunk().expect("the port is a trunk");
        let mut moved = false;
        let line_of = |port: PortId| {
            lines[port.index()].as_deref().expect("what is underway from a detached port is forgotten")
        };
        let network_of = |port| line_of(port).network;
        let frame_of = |port, slot| line_of(port).device.frame(slot);
        moved |= trunk.repair(now, network_of, frame_of);
        moved |= trunk.go_on(now, network_of, frame_of);
        while let Some((flow, missed)) = trunk.completed() {
            moved = true;
            let released = match missed {
                None => switch.arrived(now, id, flow),
                Some(refusal) => switch.missed(now, id, flow, refusal),
            };
            if let (Some(_), Some(taps)) = (missed, taps.as_deref_mut()) {
                show_refused(now, switch, taps, |port, slot| {
                    lines[port.index()].as_deref().expect("its sender is attached").device.frame(slot)
                });
            }
            released.into_iter().for_each(|released| release(lines, dirty, released));
        }
        if trunk.speak(now, handed) {
            dirty.insert(id);
        }
        if !trunk.has_room() {
            dirty.insert(id);
            busy.insert(id);
        }
        self.lines[id.index()] = Some(line);
        moved
    }

    /// Gives up what is underway to hosts of which nothing is heard for the stall time, and lets frames go to those that are heard
    /// again.
    pub(super) fn listen(&mut self, now: Instant) {
        let trunks = self.trunks;
        let patience = self.switch.settings().stall_after;
        for id in trunks.iter() {
            let trunk = self.device_mut(id).trunk().expect("the port is a trunk");
            let was_abandoned = trunk.is_abandoned();
            match (was_abandoned, trunk.abandon_after(now, patience)) {
                (false, true) => {
                    let mut gone = Vec::new();
                    self.switch.abandon(now, id, |released| gone.push(released));
                    self.let_go(now, gone);
                }
                (true, false) => self.switch.heard(id),
                _ => {}
            }
        }
    }

    /// A port is about to be detached: what it has underway is not to be sent again.
    pub(super) fn forget(&mut self, gone: PortId) {
        for id in self.trunks.iter() {
            self.dirty.insert(id);
            self.device_mut(id).trunk().expect("the port is a trunk").forget(gone);
        }
    }

    /// When something falls due at a trunk, although nothing comes.
    pub fn trunk_deadline(&mut self) -> Option<Instant> {
        let trunks = self.trunks;
        // One that could say nothing now is tried again soon.
        let due = |trunk: &mut Trunk| trunk.deadline().filter(|_| trunk.has_room());
        trunks.iter().filter_map(|id| self.device_mut(id).trunk().and_then(due)).min()
    }

    /// Has those trunks that something is due for do it: the next turn lifts and sends what may go by that.
    pub fn stir_trunks(&mut self, now: Instant) {
        let trunks = self.trunks;
        for id in trunks.iter() {
            if self.device_mut(id).trunk().and_then(|trunk| trunk.deadline()).is_some_and(|at| at <= now) {
                self.trunk_mut(id).wake(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::HashMap;
    use std::net::IpAddr;
    use std::num::{NonZeroU16, NonZeroU32};
    use std::rc::Rc;

    use lossless::{PortConfig, Settings};
    use tunnel::message::{Ends, Message, VERSION};
    use tunnel::outer::{Encapsulation, Received, Vteps};
    use tunnel::{Data, Hello, Incarnation, SessionConfig, Stream, Unsolicited};
    use underlay::{Transport, Underlay};
    use units::{ClassSet, Span};
    use wire::geneve::Draft;

    use super::*;
    use crate::pump::plane::Open;
    use crate::pump::trunk::tests::session;
    use crate::pump::trunk::{Networks, TrunkConfig, Way};

    impl MaybeTrunk for Trunk {
        fn trunk(&mut self) -> Option<&mut Trunk> {
            Some(self)
        }
    }

    const VNI: u32 = 7;
    const NETWORK: Network = Network::new(1).unwrap();
    const FAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));
    const LEN: u16 = 60;

    fn life(number: u32) -> Incarnation {
        Incarnation(NonZeroU32::new(number).unwrap())
    }

    /// A switch with a trunk to a far host that repairs nothing.
    fn plane(now: Instant) -> (Plane<Trunk, Open>, PortId) {
        let underlay = Underlay::open([127, 13, 9, 1].into(), Transport::Udp(0), 64).unwrap();
        let session = SessionConfig { reliable: ClassSet::NONE, ..session() };
        let config = TrunkConfig {
            host: FAR,
            far: FAR,
            pair: 1,
            encapsulation: Encapsulation::Geneve,
            session: Some(session),
            life: life(1),
            most: 1400,
            dscp: None,
            obeys_pauses: false,
        };
        let way = Way { underlay: Rc::new(RefCell::new(underlay)), far: FAR };
        let mut trunk = Trunk::new(now, config, vec![way]);
        let networks = Networks { by_vni: HashMap::from([(VNI, NETWORK)]), ..Networks::default() };
        trunk.know(Rc::new(networks), HashMap::new());
        let mut plane = Plane::new(Settings::default(), datapath::Settings::default(), Open);
        let is_trunk = datapath::PortConfig { trunk: true, ..Default::default() };
        let id = plane.attach(now, trunk, PortConfig::default(), is_trunk).unwrap();
        plane.join(id, NETWORK);
        (plane, id)
    }

    /// What the far host says comes, and a frame behind it, if it is of one.
    fn comes(plane: &mut Plane<Trunk, Open>, id: PortId, now: Instant, message: &Message) {
        let draft = Draft::new(VNI).unwrap();
        let (mut draft, frame) = match message {
            Message::Data(..) => (draft, &[2; LEN as usize][..]),
            _ => (draft.for_control(0), &[][..]),
        };
        assert!(message.write(&mut draft));
        let packet = [draft.parts()[0], draft.parts()[1], frame].concat();
        let vteps = Vteps::new([127, 13, 9, 1].into(), FAR).unwrap();
        let received = Received::of_datagram(Encapsulation::Geneve, vteps, 0, &packet).unwrap();
        plane.trunk_mut(id).handle(now, &received, &packet);
    }

    #[test]
    fn what_was_waited_for_in_vain_holds_up_nothing_though_nothing_more_comes() {
        if !needs::root() {
            return;
        }
        let mut now = Instant::ZERO + Span::from_millis(1);
        let (mut plane, id) = plane(now);
        let [from, to] = [2, 1].map(life);
        let unsolicited = Unsolicited { bytes: 3000, unlimited: ClassSet::NONE };
        let hello =
            Hello { from, to: Some(to), versions: [VERSION; 2], reliable: ClassSet::NONE, unsolicited };
        comes(&mut plane, id, now, &Message::Hello(hello));
        // The frame before it is lost.
        let stream = Stream { label: 7, class: Class::from_low_bits(0) };
        let len = NonZeroU16::new(LEN).unwrap();
        let data = Data::whole(Ends { from, to }, 1, stream, LEN.into(), len);
        comes(&mut plane, id, now, &Message::Data(data, None));
        plane.turn(now);
        let until = now + Span::from_millis(100);
        let accepted = |plane: &Plane<_, _>| plane.switch().total().accepted;
        while let Some(due) = plane.trunk_deadline().filter(|due| *due < until) {
            now = now.max(due);
            plane.stir_trunks(now);
            plane.turn(now);
        }
        assert_eq!(accepted(&plane), 1);
    }
}
