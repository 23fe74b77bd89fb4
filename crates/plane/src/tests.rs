//! A plane over devices that are numbers.

use std::cell::Cell;
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::rc::Rc;

use datapath::{Fate, Network, StormLimits, Vlans};
use lossless::{Flow, Limits, PortConfig, PortId, Reason, Settings, Shaping};
use port::{FrameView, Left, Port, PortError, Slot, Taken};
use units::{Instant, Mac, Rate, Span};
use wire::ethernet::{self, Peek};
use zerocopy::IntoBytes;

mod bound;
mod cable;
mod sharing;
mod translated;

use crate::plane::BURST;
use crate::{Clearance, Gate, NoPeers, NoResponder, Plane};

/// A sender of 64 frames that goes on only once it was seen empty and then flushed, as a container
/// port does.
#[derive(Default)]
struct Granting {
    frames: u32,
    seen_empty: bool,
    grants: u32,
    taken: u32,
    busy: bool,
    /// Nobody is there.
    is_down: bool,
    /// The frame that it took last.
    last: Vec<u8>,
    /// The frame that it sends, if not [`FRAME`].
    sends: Option<Vec<u8>>,
    /// It makes an event of room, and of a frame once it is armed.
    tells: bool,
    /// The memory that its frames lie in was taken away.
    is_gone: bool,
    /// Released, and not given back before the next flush.
    released: u32,
    /// How many frames it took and does not see yet.
    unseen: u32,
    /// How many frames all receivers took and do not see yet.
    unseen_of_all: Rc<Cell<u32>>,
}

/// From and to nobody who is known.
const FRAME: [u8; 60] = {
    let mut frame = [2; 60];
    frame[11] = 4;
    frame
};

impl Port for Granting {
    fn receive(
        &mut self,
        most: usize,
        mut arrived: impl FnMut(Slot, &FrameView<'_>),
    ) -> Result<Left, PortError> {
        for _ in 0..most {
            if self.frames == 0 {
                self.seen_empty = true;
                return Ok(if self.tells { Left::Armed } else { Left::Nothing });
            }
            self.frames -= 1;
            arrived(Slot(self.frames), &self.frame(Slot(self.frames)));
        }
        Ok(Left::More)
    }

    fn frame(&self, _: Slot) -> FrameView<'_> {
        let sends = self.sends.as_deref().unwrap_or(&FRAME);
        FrameView::plain(if self.is_gone { &[] } else { sends })
    }

    fn release(&mut self, _: Slot) {
        self.released += 1;
    }

    fn transmit(&mut self, frame: &FrameView<'_>) -> Result<Taken, PortError> {
        if self.busy {
            return Ok(Taken::Busy);
        }
        self.last = frame.bytes.to_vec();
        self.taken += 1;
        self.unseen += 1;
        self.unseen_of_all.update(|unseen| unseen + 1);
        Ok(Taken::Yes)
    }

    fn is_absent(&self) -> bool {
        self.is_down
    }

    fn deliver(&mut self) -> Result<(), PortError> {
        let seen = std::mem::take(&mut self.unseen);
        self.unseen_of_all.update(|unseen| unseen - seen);
        Ok(())
    }

    fn arm_ingress(&mut self) -> Result<bool, PortError> {
        Ok(self.frames > 0)
    }

    fn arm_egress(&mut self) -> Result<Option<bool>, PortError> {
        Ok(self.tells.then_some(false))
    }

    fn flush(&mut self) -> Result<bool, PortError> {
        self.grants += u32::from(std::mem::take(&mut self.seen_empty));
        let given_back = std::mem::take(&mut self.released);
        assert!(
            given_back == 0 || self.unseen_of_all.get() == 0,
            "whoever is killed now loses frames"
        );
        Ok(true)
    }
}

#[test]
fn nothing_of_a_port_that_is_gone_is_left_for_the_next_of_its_number() {
    let now = Instant::ZERO;
    let mut plane = Plane::new(Settings::default(), datapath::Settings::default());
    let telling = || Granting { tells: true, ..Granting::default() };
    let attach = |plane: &mut Plane<Granting>| {
        plane
            .attach(now, telling(), PortConfig::default(), datapath::PortConfig::default())
            .unwrap()
    };
    for checks in 0..2 {
        let id = attach(&mut plane);
        plane.turn(now);
        (0..checks).for_each(|_| assert!(!plane.check_armed()));
        assert!(plane.is_armed());
        plane.detach(now, id);
        assert!(!plane.is_armed(), "after {checks} checks");
    }
}

#[test]
fn a_device_that_ends_with_a_full_burst_is_flushed_once_it_was_seen_empty() {
    let now = Instant::ZERO;
    let mut plane = Plane::new(Settings::default(), datapath::Settings::default());
    let sender = Granting { frames: BURST, ..Granting::default() };
    let sender =
        plane.attach(now, sender, PortConfig::default(), datapath::PortConfig::default()).unwrap();
    let receiver = plane
        .attach(now, Granting::default(), PortConfig::default(), datapath::PortConfig::default())
        .unwrap();
    assert!(plane.turn(now), "a burst moves");
    assert_eq!(plane.device_mut(receiver).taken, BURST);
    let before = plane.device_mut(sender).grants;
    assert!(!plane.turn(now), "nothing is left");
    assert_eq!(plane.device_mut(sender).grants, before + 1);
    assert!(!plane.is_armed(), "what makes events by itself is not doubted");
}

#[test]
fn a_sender_has_a_frame_back_when_its_receiver_can_see_it() {
    let now = Instant::ZERO;
    let unseen_of_all = Rc::<Cell<u32>>::default();
    let mut plane = Plane::new(Settings::default(), datapath::Settings::default());
    // Flooded, and each of them both sends and receives.
    let ports = [(); 3].map(|()| {
        let device = Granting {
            frames: 2 * BURST,
            unseen_of_all: unseen_of_all.clone(),
            ..Granting::default()
        };
        plane.attach(now, device, PortConfig::default(), datapath::PortConfig::default()).unwrap()
    });
    while plane.turn(now) {}
    assert_eq!(ports.map(|port| plane.device_mut(port).taken), [4 * BURST; 3]);
}

#[test]
fn a_sender_with_a_rate_sends_at_it_and_loses_nothing() {
    let mut plane = Plane::new(Settings::default(), datapath::Settings::default());
    let mut attach = |frames| {
        let device = Granting { frames, ..Granting::default() };
        let (port, forwarding) = (PortConfig::default(), datapath::PortConfig::default());
        plane.attach(Instant::ZERO, device, port, forwarding).unwrap()
    };
    let (sender, receiver) = (attach(100), attach(0));
    // A frame of 60 bytes takes a millisecond, and two may leave back to back.
    let pace = |bits| Shaping { rate: Rate::from_bits_per_sec(bits).unwrap(), burst: 120 };
    plane.set_pace(sender, Some(pace(480_000)));
    let taken_by = |plane: &mut Plane<Granting>, ms| {
        let now = Instant::ZERO + Span::from_millis(ms);
        while plane.turn(now) {}
        assert_eq!(plane.switch().total().held, 0);
        plane.device_mut(receiver).taken
    };
    let first = taken_by(&mut plane, 0);
    assert!((2..=3).contains(&first), "{first}");
    assert!(plane.pace_deadline().is_some_and(|due| due <= Instant::ZERO + Span::from_millis(1)));
    assert_eq!(taken_by(&mut plane, 0), first, "it is not its turn yet");
    assert_eq!((1..=20).map(|ms| taken_by(&mut plane, ms)).last(), Some(first + 20));
    // Twice as fast from when the bucket would have been full: what was taken is not forgiven.
    plane.set_pace(sender, Some(pace(960_000)));
    let faster = (21..=30).map(|ms| taken_by(&mut plane, ms)).last().unwrap() - first - 20;
    assert!((17..=20).contains(&faster), "{faster}");
    plane.set_pace(sender, None);
    assert_eq!(taken_by(&mut plane, 30), 100);
    assert_eq!(plane.pace_deadline(), None);
}

#[test]
fn a_frame_that_no_event_was_made_of_is_found_once_more() {
    let now = Instant::ZERO;
    let mut plane = Plane::new(Settings::default(), datapath::Settings::default());
    let [receiver, sender] = [false, true].map(|tells| {
        let device = Granting { tells, ..Granting::default() };
        plane.attach(now, device, PortConfig::default(), datapath::PortConfig::default()).unwrap()
    });
    assert!(!plane.turn(now) && !plane.arm() && plane.is_armed());
    // It is there now, and the sender believes that nobody waits for it.
    plane.device_mut(sender).frames = 1;
    assert!(!plane.turn(now), "nobody looks");
    assert!(!plane.check_armed(), "it may be too early");
    assert!(plane.check_armed() && plane.turn(now));
    assert_eq!(plane.device_mut(receiver).taken, 1);
    while plane.turn(now) {}
    assert!(!plane.arm() && !plane.check_armed() && plane.is_armed());
    assert!(!plane.check_armed() && !plane.is_armed(), "then all is said");
}

#[test]
fn a_frame_whose_memory_was_taken_away_is_refused_by_name() {
    let now = Instant::ZERO;
    let mut plane = Plane::new(Settings::default(), datapath::Settings::default());
    let sender = plane
        .attach(
            now,
            Granting { frames: 3, ..Granting::default() },
            PortConfig::default(),
            datapath::PortConfig::default(),
        )
        .unwrap();
    let slow = Granting { busy: true, ..Granting::default() };
    let receiver =
        plane.attach(now, slow, PortConfig::default(), datapath::PortConfig::default()).unwrap();
    plane.turn(now);
    assert_eq!(plane.switch().total().held, 3);
    plane.device_mut(sender).is_gone = true;
    plane.device_mut(receiver).busy = false;
    assert!(plane.turn(now), "its sender may go on");
    let total = plane.switch().total();
    assert_eq!((total.held, total.refusals().collect()), (0, vec![(Reason::Withdrawn, 3)]));
    assert_eq!((plane.device_mut(receiver).taken, plane.switch().audit()), (0, Ok(())));
}

#[test]
fn only_a_busy_device_that_tells_of_no_room_is_tried_again_soon() {
    let now = Instant::ZERO;
    for tells in [false, true] {
        let mut plane = Plane::new(Settings::default(), datapath::Settings::default());
        let sender = Granting { frames: 3, ..Granting::default() };
        plane.attach(now, sender, PortConfig::default(), datapath::PortConfig::default()).unwrap();
        let receiver = Granting { busy: true, tells, ..Granting::default() };
        plane
            .attach(now, receiver, PortConfig::default(), datapath::PortConfig::default())
            .unwrap();
        plane.turn(now);
        assert!(plane.is_any_tx_blocked() && !plane.arm());
        assert_eq!(plane.is_any_tx_blocked(), !tells);
    }
}

#[test]
fn who_cannot_take_frames_gets_no_copy_and_holds_nobody() {
    let now = Instant::ZERO;
    let mut plane = Plane::new(Settings::default(), datapath::Settings::default());
    let devices = [
        Granting { frames: 3000, ..Granting::default() },
        Granting::default(),
        // One is down, which is found out by the first frame; and one has no room, ever.
        Granting { busy: true, is_down: true, ..Granting::default() },
        Granting { busy: true, ..Granting::default() },
    ];
    let [sender, eager, down, slow] = devices.map(|device| {
        plane.attach(now, device, PortConfig::default(), datapath::PortConfig::default()).unwrap()
    });
    while plane.turn(now) {}
    assert_eq!(plane.device_mut(eager).taken, 3000, "nobody holds the sender up");
    let meant = |port| plane.switch().egress_account(port, Default::default()).accepted;
    assert_eq!(meant(down), u64::from(BURST), "as many as came before it was looked at");
    let refused = plane.switch().egress_account(slow, Default::default());
    assert!(refused.refused[Reason::SlowReceiver as usize] > 2000, "{refused:?}");
    assert!(plane.switch().peek_room(sender) > 512);
    assert_eq!(plane.switch().audit(), Ok(()));
    // It is up again, as a frame that waited finds out, and gets the next.
    (plane.device_mut(down).busy, plane.device_mut(down).is_down) = (false, false);
    while plane.turn(now) {}
    assert_eq!(plane.device_mut(down).taken, BURST);
    plane.device_mut(sender).frames = 1;
    plane.mark_all_rx_ready();
    while plane.turn(now) {}
    assert_eq!(plane.device_mut(down).taken, BURST + 1);
}

#[test]
fn a_frame_has_the_tag_that_its_receivers_port_is_to_see() {
    let now = Instant::ZERO;
    let mut plane = Plane::new(Settings::default(), datapath::Settings::default());
    let vlans = [Vlans::access(7), Vlans::access(7), Vlans::All, Vlans::access(8)];
    let [sender, same, all, other] = vlans.map(|vlans| {
        let forwarding = datapath::PortConfig { vlans, ..Default::default() };
        plane.attach(now, Granting::default(), PortConfig::default(), forwarding).unwrap()
    });
    plane.device_mut(sender).frames = 1;
    while plane.turn(now) {}
    let tagged = [&FRAME[..12], &[0x81, 0, 0, 7], &FRAME[12..]].concat();
    assert_eq!(plane.device_mut(same).last, FRAME);
    assert_eq!(plane.device_mut(all).last, tagged);
    assert!(plane.device_mut(other).last.is_empty());
}

/// Otherwise who has sent too much could not even end what it is sent itself.
#[test]
fn who_sends_too_much_to_groups_is_heard_when_it_says_which_it_joins() {
    let now = Instant::ZERO;
    let mut plane = Plane::new(Settings::default(), datapath::Settings::default());
    let storm = StormLimits { multicast: NonZeroU32::new(1), ..StormLimits::default() };
    let limited = datapath::PortConfig { storm, ..Default::default() };
    let [talker, other] = [limited, datapath::PortConfig::default()].map(|forwarding| {
        plane.attach(now, Granting::default(), PortConfig::default(), forwarding).unwrap()
    });
    let report = joins(Ipv4Addr::new(239, 1, 2, 3));
    let to_group = ethernet::peek(&report).unwrap();
    let is_member = |plane: &Plane<Granting>| {
        let from_other = Peek::new(to_group.destination(), Mac([2; 6]), None);
        let explained = plane.datapath.explain(now, other, &from_other, Network::default());
        match explained.fate {
            Fate::Flooded(audience) => !audience.bystanders.contains(talker),
            fate => panic!("{fate:?}"),
        }
    };
    let talk = |plane: &mut Plane<Granting>, frame: Vec<u8>, frames| {
        let device = plane.device_mut(talker);
        (device.sends, device.frames) = (Some(frame), frames);
        plane.mark_all_rx_ready();
        while plane.turn(now) {}
    };
    let mut unasked = FRAME.to_vec();
    unasked[..6].copy_from_slice(&[1, 0, 0x5e, 9, 9, 9]);
    talk(&mut plane, unasked, 2);
    assert!(!is_member(&plane));
    talk(&mut plane, report.clone(), 1);
    assert!(is_member(&plane));
    assert_eq!(plane.device(other).taken, 1, "the report is refused as well");
}

/// The report by which a machine joins a group (RFC 2236 §2).
fn joins(group: Ipv4Addr) -> Vec<u8> {
    let mut message = [0x16, 0, 0, 0, 0, 0, 0, 0];
    message[4..].copy_from_slice(&group.octets());
    let sum = wire::checksum::Sum::of(&message).checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let from = Ipv4Addr::new(10, 0, 0, 1);
    let mut ip = wire::ipv4::Header::new(from, group, wire::ip::protocol::IGMP, 8).unwrap();
    ip.ttl = 1;
    let to = wire::membership::group_mac_v4(group);
    let header = ethernet::Header::new(to, Mac([4; 6]), ethernet::ethertype::IPV4);
    [header.as_bytes(), ip.as_bytes(), &message].concat()
}

/// A sender of frames to one receiver, which are all there is.
#[derive(Default)]
struct Numbered {
    frames: Vec<Vec<u8>>,
    sent: usize,
    taken: usize,
    /// By how many bytes a frame takes more of a burst, if that is bounded.
    shift: Option<u32>,
}

impl Port for Numbered {
    fn receive(
        &mut self,
        most: usize,
        mut arrived: impl FnMut(Slot, &FrameView<'_>),
    ) -> Result<Left, PortError> {
        for _ in 0..most {
            let Some(frame) = self.frames.get(self.sent) else { return Ok(Left::Nothing) };
            arrived(Slot(self.sent as u32), &FrameView::plain(frame));
            self.sent += 1;
        }
        Ok(Left::More)
    }

    fn frame(&self, Slot(slot): Slot) -> FrameView<'_> {
        FrameView::plain(&self.frames[slot as usize])
    }

    fn release(&mut self, _: Slot) {}

    fn burst_shift(&self) -> u32 {
        self.shift.unwrap_or(31)
    }

    fn transmit(&mut self, _: &FrameView<'_>) -> Result<Taken, PortError> {
        self.taken += 1;
        Ok(Taken::Yes)
    }

    fn flush(&mut self) -> Result<bool, PortError> {
        Ok(true)
    }
}

/// Each frame is of the flow that its payload says. One flow may go.
struct OneMayGo {
    flow: u64,
    asked: u32,
}

impl Gate for OneMayGo {
    fn ask(&mut self, _: PortId, frame: &FrameView<'_>) -> Clearance {
        self.asked += 1;
        let number = u64::from(u16::from_be_bytes([frame.bytes[14], frame.bytes[15]]));
        match number == self.flow {
            true => Clearance::Go(Flow(number)),
            false => Clearance::Hold(Flow(number), None),
        }
    }

    fn passed(&mut self) {}

    fn intercept(&mut self, _: PortId, _: &FrameView<'_>) -> bool {
        false
    }

    fn poll_transmit(&mut self, _: impl FnMut(PortId, FrameView<'_>) -> bool) {}

    fn each_late(&mut self, _: impl FnMut(PortId)) {}
}

#[test]
fn a_visit_asks_about_few_of_many_flows_and_all_are_asked_about_before_anybody_sleeps() {
    const FLOWS: u16 = 300;
    let (now, gate) = (Instant::ZERO, OneMayGo { flow: u64::MAX, asked: 0 });
    let mut plane: Plane<Numbered, NoPeers, _, _> =
        Plane::with_stages(Settings::default(), datapath::Settings::default(), NoResponder, gate);
    let frames = (0..FLOWS).map(|flow| {
        let mut frame = FRAME.to_vec();
        frame[14..16].copy_from_slice(&flow.to_be_bytes());
        frame
    });
    let sender = Numbered { frames: frames.collect(), ..Numbered::default() };
    let [_, receiver] = [sender, Numbered::default()].map(|device| {
        let config = PortConfig { ingress: Limits::frames(2048), ..PortConfig::default() };
        let id = plane.attach(now, device, config, datapath::PortConfig::default()).unwrap();
        plane.mark_all_rx_ready();
        id
    });
    while plane.turn(now) {}
    assert_eq!(plane.switch().flows(receiver).len(), usize::from(FLOWS), "all are set aside");
    // Wherever the next round begins, the one that may go goes before the plane has nothing to do.
    for flow in [299, 0, 150, 17, 16, 15] {
        (plane.gate_mut().flow, plane.gate_mut().asked) = (flow, 0);
        let mut turns = 0;
        while plane.turn(now) {
            turns += 1;
            let asked = std::mem::take(&mut plane.gate_mut().asked);
            assert!(asked <= 16 + 1, "{asked} in one turn");
        }
        assert!(turns >= u32::from(FLOWS) / 16, "{turns} turns");
        assert!(!plane.switch().flows(receiver).any(|it| it == Flow(flow)), "{flow}");
    }
    assert_eq!(plane.device(receiver).taken, 6);
}

#[test]
fn a_visit_ends_when_it_has_moved_as_many_bytes_as_others_wait_for() {
    let now = Instant::ZERO;
    let mut plane = Plane::new(Settings::default(), datapath::Settings::default());
    let mut large = FRAME.to_vec();
    large.resize(5000, 0);
    let sender = Numbered { frames: vec![large; 60], ..Numbered::default() };
    let receiver = Numbered { shift: Some(9), ..Numbered::default() };
    let [_, receiver] = [sender, receiver].map(|device| {
        plane.attach(now, device, PortConfig::default(), datapath::PortConfig::default()).unwrap()
    });
    plane.datapath_mut().pin(receiver, Mac([2; 6]), 0);
    plane.mark_all_rx_ready();
    for expected in [13, 26, 39, 52, 60] {
        assert!(plane.turn(now));
        assert_eq!(plane.device(receiver).taken, expected);
    }
    assert!(!plane.turn(now));
}
