//! A trunk in a plane.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::num::{NonZeroU16, NonZeroU32};
use std::rc::Rc;

use datapath::Network;
use lossless::{PortConfig, PortId, Settings};
use plane::{NoGate, NoResponder, Plane};
use port::memory::MemoryPort;
use tunnel::message::{Ends, Message, VERSION};
use tunnel::outer::{Encapsulation, Received, Vteps};
use tunnel::{Data, Hello, Incarnation, SessionConfig, Stream, Unsolicited};
use underlay::{Transport, Underlay};
use units::{Class, ClassSet, Instant, Span};
use wire::geneve::Draft;

use super::super::{Networks, Path, Trunk, TrunkConfig};
use super::session;

const VNI: u32 = 7;
const NETWORK: Network = Network::new(1).unwrap();
const FAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));
const LEN: u16 = 60;

fn life(number: u32) -> Incarnation {
    Incarnation(NonZeroU32::new(number).unwrap())
}

/// A switch with a trunk to a far host that repairs nothing.
fn plane(now: Instant) -> (Plane<MemoryPort, Trunk>, PortId) {
    let underlay = Underlay::open([127, 13, 9, 1].into(), Transport::Udp(0), 64).unwrap();
    let session = SessionConfig { reliable: ClassSet::NONE, ..session() };
    let config = TrunkConfig {
        host: FAR,
        far: FAR,
        pair: 1,
        encapsulation: Encapsulation::Geneve,
        session: Some(session),
        incarnation: life(1),
        most: 1400,
        dscp: None,
        obeys_pauses: false,
    };
    let path = Path { underlay: Rc::new(RefCell::new(underlay)), far: FAR };
    let mut trunk = Trunk::new(now, config, vec![path]);
    let networks = Networks { by_vni: HashMap::from([(VNI, NETWORK)]), ..Networks::default() };
    trunk.set_members(Rc::new(networks), HashMap::new());
    let mut plane =
        Plane::with_stages(Settings::default(), datapath::Settings::default(), NoResponder, NoGate);
    let id = plane.attach_peer(now, trunk, PortConfig::default()).unwrap();
    plane.datapath_mut().join(id, NETWORK);
    (plane, id)
}

/// What the far host says comes, and a frame behind it, if it is of one.
fn comes(plane: &mut Plane<MemoryPort, Trunk>, id: PortId, now: Instant, message: &Message) {
    let draft = Draft::new(VNI).unwrap();
    let (mut draft, frame) = match message {
        Message::Data(..) => (draft, &[2; LEN as usize][..]),
        _ => (draft.for_control(0), &[][..]),
    };
    assert!(message.write(&mut draft));
    let packet = [draft.parts()[0], draft.parts()[1], frame].concat();
    let vteps = Vteps::new([127, 13, 9, 1].into(), FAR).unwrap();
    let received = Received::of_datagram(Encapsulation::Geneve, vteps, 0, &packet).unwrap();
    plane.peer_mut(id).handle(now, &received, &packet);
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
    while let Some(due) = plane.peer_deadline().filter(|due| *due < until) {
        now = now.max(due);
        plane.handle_peer_timeouts(now);
        plane.turn(now);
    }
    assert_eq!(accepted(&plane), 1);
}
