//! What the switch answers in the stead of machines that may be on other hosts.
//!
//! Answers are limited (RFC 4443 §2.4 (f)), each port's by itself: who asks more than a token bucket lets through, or takes no
//! answers, is not answered, and stops nobody else. Whoever needs an answer asks again.

use std::collections::VecDeque;
use std::sync::Arc;

use datapath::{Answer, Directory, LONGEST_ANSWER};
use lossless::PortId;
use model::ResponderStatus;
use port::FrameView;
use units::{Instant, Span};
use wire::Offload;

/// The most answers to one port at once, and the most that wait for it.
const BURST: usize = 256;

/// A token bucket's pace: a thousand answers a second to one port.
const EACH: Span = Span::from_millis(1);

/// Room for a frame that does not lie in one piece.
const LARGE: usize = 66 << 10;

/// Answers by a directory.
#[derive(Debug, Default)]
pub(super) struct Answers {
    directory: Arc<Directory>,
    /// The longest packet that fits into tunnels, in bytes.
    mtu: u16,
    /// By port number: those whose questions are answered.
    askers: Vec<Option<Asker>>,
    /// Ports for which something waits, in the order in which they asked.
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
    bucket: Bucket,
    /// To be said to it.
    waiting: VecDeque<Box<[u8]>>,
}

/// A token bucket of [`BURST`] tokens, kept as the time at which it will be full again.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    full_at: Instant,
}

impl Bucket {
    /// Takes a token, if there is one.
    fn take(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.max(now) + EACH;
        let has = full_at.since(now).as_nanos() <= EACH.as_nanos() * BURST as u64;
        if has {
            self.full_at = full_at;
        }
        has
    }
}

impl Answers {
    /// From now on it is this directory, tunnels carry packets of so many bytes, and these ports are members of these networks.
    pub(super) fn follow(&mut self, directory: Arc<Directory>, mtu: u16, ports: Vec<(PortId, u32)>) {
        (self.directory, self.mtu) = (directory, mtu);
        self.waiting.clear();
        let mut before = std::mem::take(&mut self.askers);
        for (port, vni) in ports {
            if self.askers.len() <= port.index() {
                self.askers.resize_with(port.index() + 1, || None);
            }
            let before = before.get_mut(port.index()).and_then(Option::take);
            let bucket = before.map_or(Bucket::default(), |asker| asker.bucket);
            self.askers[port.index()] = Some(Asker { vni, bucket, waiting: VecDeque::new() });
        }
    }

    /// What the time is.
    pub(super) fn tick(&mut self, now: Instant) {
        self.now = now;
    }

    /// Whether a frame of a port may be a question.
    #[inline]
    pub(super) fn may_concern(&self, port: PortId, frame: &FrameView<'_>) -> bool {
        self.askers.get(port.index()).is_some_and(Option::is_some)
            && datapath::is_question(self.mtu, frame.bytes, frame.len(), &frame.offload())
    }

    /// What would become of a frame of a port for which nothing is left to do; nothing is answered.
    pub(super) fn outlook<'b>(
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

    /// Answers a frame of a port, if it is a question. Whether it is: then nobody else is to have it.
    #[cold]
    pub(super) fn hear(&mut self, port: PortId, frame: &FrameView<'_>) -> bool {
        let Self { directory, mtu, askers, waiting, now, status, scratch } = self;
        let Some(asker) = askers.get_mut(port.index()).and_then(Option::as_mut) else { return false };
        let Some(network) = directory.network(asker.vni) else { return false };
        if !frame.rest.is_empty() {
            scratch.resize(LARGE, 0);
        }
        let bytes = frame.first(scratch);
        match datapath::answer(network, *mtu, bytes, &frame.offload(), &mut [0; LONGEST_ANSWER]) {
            Answer::Pass => return false,
            Answer::Silence => {}
            Answer::Reply(reply) if asker.waiting.len() < BURST && asker.bucket.take(*now) => {
                if asker.waiting.is_empty() {
                    waiting.push_back(port);
                }
                asker.waiting.push_back((*reply).into());
            }
            Answer::Reply(_) => status.rate_limited += 1,
        }
        true
    }

    /// Hands over what waits, to each port as long as `transmit` takes it.
    pub(super) fn say(&mut self, mut transmit: impl FnMut(PortId, FrameView<'_>) -> bool) {
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

    /// A port is gone, and its questions with it.
    pub(super) fn forget(&mut self, port: PortId) {
        self.waiting.retain(|asker| *asker != port);
        if let Some(asker) = self.askers.get_mut(port.index()) {
            *asker = None;
        }
    }

    /// What was answered, and what not.
    pub(super) fn status(&self) -> ResponderStatus {
        self.status
    }
}

#[cfg(test)]
mod tests {
    use lossless::{PortConfig, Settings, Switch};
    use std::net::IpAddr;

    use model::{Member, NetworkName, NetworkSpec, VtepList};
    use units::Mac;

    use super::*;

    /// Answers to two ports, in a network with a machine here, 10.0.0.1, and one elsewhere, 10.0.0.2.
    fn answers() -> (Answers, [PortId; 2]) {
        let vtep = |host: u8| VtepList::from(IpAddr::from([192, 0, 2, host]));
        let member = |label: u8| Member {
            mac: Mac::local(label.into()),
            addresses: vec![[10, 0, 0, label].into()],
            vtep: vtep(label),
            label: label.into(),
        };
        let name = NetworkName("blue".into());
        let network = NetworkSpec { name, vni: 7, members: vec![member(1), member(2)] };
        let directory = Directory::new(&[network], &vtep(1)).unwrap();
        let mut switch = Switch::<u32>::new(Settings::default());
        let ports = [(); 2].map(|()| switch.attach(Instant::ZERO, PortConfig::default()).unwrap());
        let mut answers = Answers::default();
        answers.follow(directory.into(), 1450, ports.map(|port| (port, 7)).into());
        (answers, ports)
    }

    /// Who has 10.0.0.2 (RFC 826)? asks 10.0.0.1.
    fn question() -> Vec<u8> {
        let us = Mac::local(1).0;
        let ethernet = [&[0xff; 6][..], &us, &[8, 6]].concat();
        let arp = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &us, &[10, 0, 0, 1], &[0; 6], &[10, 0, 0, 2]].concat();
        [ethernet, arp].concat()
    }

    fn ask(answers: &mut Answers, port: PortId, times: usize) {
        let question = question();
        for _ in 0..times {
            assert!(answers.may_concern(port, &FrameView::plain(&question)));
            assert!(answers.hear(port, &FrameView::plain(&question)), "nobody else is to have it");
        }
    }

    /// How many answers a port takes.
    fn taken(answers: &mut Answers, by: PortId) -> usize {
        let mut taken = 0;
        answers.say(|port, _| {
            taken += usize::from(port == by);
            port == by
        });
        taken
    }

    #[test]
    fn a_port_is_answered_a_burst_and_then_a_thousand_times_a_second() {
        let (mut answers, [eager, other]) = answers();
        answers.tick(Instant::ZERO + Span::from_secs(9));
        ask(&mut answers, eager, BURST + 5);
        assert_eq!(taken(&mut answers, eager), BURST);
        assert_eq!(answers.status(), ResponderStatus { replies: BURST as u64, rate_limited: 5 });
        ask(&mut answers, other, 1);
        assert_eq!(taken(&mut answers, other), 1, "each port has a bucket of its own");
        answers.tick(Instant::ZERO + Span::from_secs(9) + Span::from_millis(20));
        ask(&mut answers, eager, 30);
        assert_eq!(taken(&mut answers, eager), 20);
    }

    #[test]
    fn who_takes_no_answers_stops_nobody_else() {
        let (mut answers, [deaf, other]) = answers();
        ask(&mut answers, deaf, 2);
        ask(&mut answers, other, 2);
        assert_eq!(taken(&mut answers, other), 2);
        answers.forget(deaf);
        assert_eq!((taken(&mut answers, deaf), answers.status().replies), (0, 2));
    }
}
