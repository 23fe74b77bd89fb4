//! The responder: answers ARP, neighbour solicitations and packets that are too long, in place of
//! machines that may be on other hosts; and refuses frames that speak for others.
//!
//! Each port has a token bucket (RFC 4443 §2.4 (f)): a port that asks too much, or does not take
//! its replies, gets none, and delays nobody else's. Whoever needs a reply asks again.

use std::collections::VecDeque;
use std::sync::Arc;

use datapath::{Answer, Behind, Directory, LONGEST_ANSWER, Sender, VirtualNetwork};
use lossless::{PortId, Refusal};
use model::ResponderStatus;
use plane::{Intercepted, Responder};
use port::FrameView;
use units::{Gcra, Instant, Span};
use wire::Offload;

/// The token bucket's depth: the most replies to one port at once. As many may wait for it.
const BURST: u32 = 256;

/// The token bucket's rate: a thousand replies a second to one port.
const EACH: Span = Span::from_millis(1);

/// Room for a frame that does not lie in one piece.
const LARGE: usize = 66 << 10;

/// Replies from a directory.
#[derive(Debug, Default)]
pub struct HostResponder {
    directory: Arc<Directory>,
    /// The longest packet that fits into tunnels, in bytes.
    mtu: u16,
    /// The ports whose questions are answered, by port number.
    askers: Vec<Option<Asker>>,
    /// Ports with pending replies, in the order in which they asked.
    waiting: VecDeque<PortId>,
    now: Instant,
    status: ResponderStatus,
    scratch: Vec<u8>,
}

/// A port whose questions are answered.
#[derive(Debug)]
struct Asker {
    /// The network that they are about.
    vni: u32,
    bucket: Gcra,
    /// Replies to it.
    waiting: VecDeque<Box<[u8]>>,
    /// Whom alone it may speak for; anybody if absent.
    behind: Option<Behind>,
    /// The last sender of each kind that was compared, and speaks for nobody else.
    passed: [Option<Sender>; 3],
}

/// A port whose questions are answered.
#[derive(Debug)]
pub struct Member {
    pub port: PortId,
    /// The network that they are about.
    pub vni: u32,
    /// Whom alone it may speak for; anybody if absent.
    pub behind: Option<Behind>,
}

impl Asker {
    /// Whether a frame may speak for somebody else: if it has to be looked at as a whole, or its
    /// sender is not the one that was compared last.
    #[inline]
    fn may_be_spoofed(&self, frame: &[u8]) -> bool {
        self.behind.is_some()
            && Sender::of(frame).is_none_or(|sender| self.passed[kind(&sender)] != Some(sender))
    }

    /// Whether a frame speaks for somebody else.
    fn is_spoofed(&mut self, network: &VirtualNetwork, frame: &[u8]) -> bool {
        let Some(behind) = &self.behind else { return false };
        if datapath::is_spoofed(network, behind, frame) {
            return true;
        }
        if let Some(sender) = Sender::of(frame) {
            self.passed[kind(&sender)] = Some(sender);
        }
        false
    }
}

/// The place of a sender among those of other kinds.
#[inline]
const fn kind(sender: &Sender) -> usize {
    match sender {
        Sender::V4(..) => 0,
        Sender::V6(..) => 1,
        Sender::Other(_) => 2,
    }
}

impl HostResponder {
    /// Sets the directory, the longest packet that tunnels carry, in bytes, and the networks of the
    /// ports whose questions are answered. Drops pending replies.
    pub fn follow(&mut self, directory: Arc<Directory>, mtu: u16, ports: Vec<Member>) {
        (self.directory, self.mtu) = (directory, mtu);
        self.waiting.clear();
        let mut before = std::mem::take(&mut self.askers);
        for Member { port, vni, behind } in ports {
            if self.askers.len() <= port.index() {
                self.askers.resize_with(port.index() + 1, || None);
            }
            let before = before.get_mut(port.index()).and_then(Option::take);
            let bucket = before.map_or_else(|| Gcra::of_units(EACH, BURST), |asker| asker.bucket);
            let (waiting, passed) = (VecDeque::new(), Default::default());
            self.askers[port.index()] = Some(Asker { vni, bucket, waiting, behind, passed });
        }
    }

    /// Sets the time.
    pub fn tick(&mut self, now: Instant) {
        self.now = now;
    }

    /// What would become of a frame of a port that needs no offload. Changes nothing.
    pub fn outlook<'b>(
        &self,
        port: PortId,
        frame: &[u8],
        buffer: &'b mut [u8; LONGEST_ANSWER],
    ) -> Answer<'b> {
        let asker = self.askers.get(port.index()).and_then(Option::as_ref);
        match asker.and_then(|asker| self.directory.network(asker.vni)) {
            Some(network) => datapath::answer(network, self.mtu, frame, &Offload::NONE, buffer),
            None => Answer::Pass,
        }
    }

    /// Forgets a port that is detached, and its pending replies.
    pub fn forget(&mut self, port: PortId) {
        self.waiting.retain(|asker| *asker != port);
        if let Some(asker) = self.askers.get_mut(port.index()) {
            *asker = None;
        }
    }

    /// How many questions were answered, and how many were not.
    pub fn status(&self) -> ResponderStatus {
        self.status
    }
}

impl Responder for HostResponder {
    #[inline]
    fn may_answer(&self, port: PortId, frame: &FrameView<'_>) -> bool {
        let Some(asker) = self.askers.get(port.index()).and_then(Option::as_ref) else {
            return false;
        };
        datapath::is_question(self.mtu, frame.bytes, frame.len(), &frame.offload())
            || asker.may_be_spoofed(frame.bytes)
    }

    #[cold]
    fn intercept(&mut self, port: PortId, frame: &FrameView<'_>) -> Intercepted {
        let Self { directory, mtu, askers, waiting, now, status, scratch } = self;
        let Some(asker) = askers.get_mut(port.index()).and_then(Option::as_mut) else {
            return Intercepted::Passes;
        };
        let Some(network) = directory.network(asker.vni) else { return Intercepted::Passes };
        if !frame.rest.is_empty() {
            scratch.resize(LARGE, 0);
        }
        let bytes = frame.first(scratch);
        match datapath::answer(network, *mtu, bytes, &frame.offload(), &mut [0; LONGEST_ANSWER]) {
            // Of what is answered nobody else hears.
            Answer::Pass if asker.is_spoofed(network, bytes) => {
                return Intercepted::Refused(Refusal::SPOOFED);
            }
            Answer::Pass => return Intercepted::Passes,
            Answer::Silence => {}
            Answer::Reply(reply)
                if asker.waiting.len() < BURST as usize && asker.bucket.try_take(*now) =>
            {
                if asker.waiting.is_empty() {
                    waiting.push_back(port);
                }
                asker.waiting.push_back((*reply).into());
            }
            Answer::Reply(_) => status.rate_limited += 1,
        }
        Intercepted::Taken
    }

    fn poll_transmit(&mut self, mut transmit: impl FnMut(PortId, FrameView<'_>) -> bool) {
        let Self { askers, waiting, status, .. } = self;
        waiting.retain(|port| {
            let Some(asker) = askers[port.index()].as_mut() else { return false };
            while let Some(reply) = asker.waiting.front() {
                if !transmit(*port, FrameView::plain(reply)) {
                    return true;
                }
                status.replies += 1;
                asker.waiting.pop_front();
            }
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use lossless::{PortConfig, Settings, Switch};
    use std::net::IpAddr;

    use model::{NetworkName, NetworkSpec, VtepList};
    use units::Mac;
    use wire::ethernet::{self, ethertype};
    use zerocopy::IntoBytes;

    use super::*;

    /// Replies to two ports, in a network with a machine here, 10.0.0.1, and one elsewhere,
    /// 10.0.0.2.
    fn answers() -> (HostResponder, [PortId; 2]) {
        let vtep = |host: u8| VtepList::from(IpAddr::from([192, 0, 2, host]));
        let member = |label: u8| model::Member {
            mac: Mac::local(label.into()),
            addresses: vec![[10, 0, 0, label].into()],
            vtep: vtep(label),
            label: label.into(),
        };
        let name = NetworkName("blue".into());
        let network = NetworkSpec::new(name, 7, vec![member(1), member(2)]);
        let directory = Directory::new(&[network], &vtep(1)).unwrap();
        let mut switch = Switch::<u32>::new(Settings::default());
        let ports = [(); 2].map(|()| switch.attach(Instant::ZERO, PortConfig::default()).unwrap());
        let mut answers = HostResponder::default();
        let member = |port| Member { port, vni: 7, behind: Some(Behind::new([Mac::local(1)])) };
        answers.follow(directory.into(), 1450, ports.map(member).into());
        (answers, ports)
    }

    /// Who has 10.0.0.2 (RFC 826)? asks 10.0.0.1.
    fn question() -> Vec<u8> {
        let us = Mac::local(1).0;
        let ethernet = [&[0xff; 6][..], &us, &[8, 6]].concat();
        let arp =
            [&[0, 1, 8, 0, 6, 4, 0, 1][..], &us, &[10, 0, 0, 1], &[0; 6], &[10, 0, 0, 2]].concat();
        [ethernet, arp].concat()
    }

    fn ask(answers: &mut HostResponder, port: PortId, times: usize) {
        let question = question();
        for _ in 0..times {
            assert!(answers.may_answer(port, &FrameView::plain(&question)));
            assert_eq!(
                answers.intercept(port, &FrameView::plain(&question)),
                Intercepted::Taken,
                "nobody else is to have it"
            );
        }
    }

    /// How many answers a port takes.
    fn taken(answers: &mut HostResponder, by: PortId) -> usize {
        let mut taken = 0;
        answers.poll_transmit(|port, _| {
            taken += usize::from(port == by);
            port == by
        });
        taken
    }

    #[test]
    fn a_port_is_answered_a_burst_and_then_a_thousand_times_a_second() {
        let (mut answers, [eager, other]) = answers();
        answers.tick(Instant::ZERO + Span::from_secs(9));
        ask(&mut answers, eager, BURST as usize + 5);
        assert_eq!(taken(&mut answers, eager), BURST as usize);
        assert_eq!(answers.status(), ResponderStatus { replies: BURST.into(), rate_limited: 5 });
        ask(&mut answers, other, 1);
        assert_eq!(taken(&mut answers, other), 1, "each port has a bucket of its own");
        answers.tick(Instant::ZERO + Span::from_secs(9) + Span::from_millis(20));
        ask(&mut answers, eager, 30);
        assert_eq!(taken(&mut answers, eager), 20);
    }

    #[test]
    fn a_port_that_takes_no_replies_does_not_delay_others() {
        let (mut answers, [deaf, other]) = answers();
        ask(&mut answers, deaf, 2);
        ask(&mut answers, other, 2);
        assert_eq!(taken(&mut answers, other), 2);
        answers.forget(deaf);
        assert_eq!((taken(&mut answers, deaf), answers.status().replies), (0, 2));
    }

    /// An IPv4 packet from an address, to the second machine alone.
    fn packet(source: [u8; 4]) -> Vec<u8> {
        let ip = wire::ipv4::Header::new(source.into(), [10, 0, 0, 2].into(), 17, 8).unwrap();
        let ethernet = ethernet::Header::new(Mac::local(2), Mac::local(1), ethertype::IPV4);
        [ethernet.as_bytes(), ip.as_bytes(), &[0; 8]].concat()
    }

    #[test]
    fn who_speaks_for_another_is_refused_even_to_one() {
        let (mut answers, [port, _]) = answers();
        let mut fate = |frame: &[u8]| match answers.may_answer(port, &FrameView::plain(frame)) {
            true => answers.intercept(port, &FrameView::plain(frame)),
            false => Intercepted::Passes,
        };
        let refused = Intercepted::Refused(Refusal::SPOOFED);
        for _ in 0..2 {
            assert_eq!(fate(&packet([10, 0, 0, 1])), Intercepted::Passes);
            assert_eq!(fate(&packet([10, 0, 0, 2])), refused, "from another's address");
            assert_eq!(fate(&packet([10, 0, 0, 9])), Intercepted::Passes, "it is nobody's");
        }
        // An answer that another's address is here.
        let mut answer = question();
        answer[..6].copy_from_slice(&Mac::local(7).0);
        (answer[21], answer[31]) = (2, 2);
        assert_eq!(fate(&answer), refused);
        (answer[21], answer[31]) = (2, 1);
        assert_eq!(fate(&answer), Intercepted::Passes, "its own");
    }

    #[test]
    fn a_sender_that_was_compared_is_not_compared_again() {
        let (mut answers, [port, _]) = answers();
        let own = packet([10, 0, 0, 1]);
        assert!(answers.may_answer(port, &FrameView::plain(&own)), "not seen yet");
        answers.intercept(port, &FrameView::plain(&own));
        assert!(!answers.may_answer(port, &FrameView::plain(&own)));
        let mut tagged = own.clone();
        tagged.splice(12..12, [0x81, 0, 0, 0]);
        assert!(answers.may_answer(port, &FrameView::plain(&tagged)));
        // Another's Ethernet address, with the IP address of before, and in a frame that is no IP.
        let mut forged = own;
        forged[6..12].copy_from_slice(&Mac::local(2).0);
        let other = ethernet::Header::new(Mac::local(1), Mac::local(2), ethertype::EXPERIMENTAL);
        for forged in [&forged[..], other.as_bytes()] {
            for _ in 0..2 {
                assert!(answers.may_answer(port, &FrameView::plain(forged)));
                let fate = answers.intercept(port, &FrameView::plain(forged));
                assert_eq!(fate, Intercepted::Refused(Refusal::SPOOFED));
            }
        }
    }

    #[test]
    fn a_malformed_packet_switches_nothing_off() {
        let (mut answers, [port, _]) = answers();
        let forged = packet([10, 0, 0, 2]);
        let mut malformed = forged.clone();
        malformed[16] = 9;
        for frame in [malformed, forged] {
            assert!(answers.may_answer(port, &FrameView::plain(&frame)));
            let fate = answers.intercept(port, &FrameView::plain(&frame));
            assert_eq!(fate, Intercepted::Refused(Refusal::SPOOFED));
        }
    }
}
