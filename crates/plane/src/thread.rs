//! The thread's time, as its owner books it and tells of it, and as networks share it.

use lossless::PortId;
use port::Port;
use units::{Class, Instant, Span, Ticks};

use crate::booking::{ThreadUse, Work};
use crate::peers::Peers;
use crate::plane::Plane;
use crate::sharing::{HEAD, Sharing, Stage, ThreadTerms, UNIT_NS, VISIT, cost};
use crate::stages::{Gate, Responder};

impl<P: Port, F: Peers, R: Responder, G: Gate, T: Ticks> Plane<P, F, R, G, T> {
    /// Books the time since the last booking: a turn books its own.
    pub fn book(&mut self, work: Work) {
        self.booking.worked(work);
    }

    /// What each network has had of the thread, by number; of those beyond the last, nothing.
    pub fn thread_use(&self) -> Vec<ThreadUse> {
        let ports = self.lines.iter().flatten().filter(|line| self.uplink != Some(line.id));
        self.booking.networks(ports.map(|line| (line.id, line.network, self.delivered(line.id))))
    }

    /// What orders, far hosts' reports and other things have had that are nobody's alone.
    pub fn control_use(&self) -> ThreadUse {
        self.booking.control()
    }

    /// What visits to far hosts took, and how many frames came and left in them.
    pub fn far_use(&self) -> (Span, u64) {
        self.booking.far()
    }

    /// From now on the longest visits are those to come.
    pub fn forget_longest(&mut self) {
        self.booking.forget_longest();
    }

    /// How many frames were delivered of a port's sender, and to its receiver.
    pub fn frames_moved(&self, id: PortId) -> u64 {
        let delivered = |class| self.switch.egress_account(id, class).delivered;
        self.delivered(id) + Class::all().map(delivered).sum::<u64>()
    }

    /// Whether networks take turns by their terms.
    pub fn is_thread_shared(&self) -> bool {
        self.sharing.is_some()
    }

    /// What a port has had.
    pub fn port_use(&self, id: PortId) -> Span {
        self.booking.port(id)
    }

    /// Has networks share the thread on these terms, by number; those beyond the last have the
    /// [default](ThreadTerms::default). `None`: they do not share it, and ports take turns by
    /// number, whosever they are.
    pub fn share_thread(&mut self, terms: Option<Vec<ThreadTerms>>) {
        let Some(terms) = terms else {
            // Rounds of questions go on behind all others.
            let members = self.sharing.take().into_iter().flat_map(|sharing| sharing.members);
            self.round =
                members.map(|member| member.round + 1).chain([self.round]).max().expect("one");
            return;
        };
        let mut sharing = match self.sharing.take() {
            Some(sharing) => sharing,
            None => {
                let mut sharing = Box::new(Sharing::new(self.booking.now(), self.round + 1));
                for line in self.lines.iter().flatten() {
                    sharing.open(line.id, (self.uplink != Some(line.id)).then_some(line.network));
                }
                sharing.members.iter_mut().for_each(|member| member.round = self.round + 1);
                sharing
            }
        };
        sharing.set(self.thread_time(&sharing), terms);
        self.sharing = Some(sharing);
    }

    /// How long guarantees of the thread's time did not hold, because there was less of it.
    pub fn thread_short(&self) -> Span {
        self.sharing.as_ref().map_or(Span::ZERO, |sharing| sharing.shares.lost())
    }

    /// A turn has ended, with what its owner did before and after it, and something came of it or
    /// did not: then what was nobody's is not control's either.
    pub fn settle(&mut self, moved: bool) {
        let time = self.sharing.as_ref().map(|sharing| self.thread_time(sharing));
        let Self { booking, sharing, .. } = self;
        let span = booking.converter();
        booking.settle(moved, |network, ticks| {
            if let (Some(time), Some(sharing)) = (time, sharing.as_mut()) {
                sharing.charge(time, network, span(ticks));
            }
        });
    }

    /// The time that shares go by: the counter's.
    fn thread_time(&self, sharing: &Sharing) -> Instant {
        let ticks = self.booking.booked_at().wrapping_sub(sharing.begun);
        Instant::ZERO + self.booking.span(ticks)
    }

    /// A turn in which networks are visited as their terms say, which ends between two visits.
    pub(crate) fn turn_shared(&mut self, now: Instant, sharing: &mut Sharing) -> bool {
        let visit = self.booking.ticks(VISIT);
        self.tx_blocked = {
            let mut waits = self.switch.pending();
            waits.extend(&self.needs_flush);
            self.tx_blocked.within(&waits)
        };
        let mut moved = self.handle_peer_events(now);
        moved |= self.transmit_own(now);
        self.booking.worked(Work::Control);
        let (begun, time) = (self.booking.booked_at(), self.thread_time(sharing));
        let mut waits = self.switch.pending();
        waits.extend(&self.rx_ready);
        waits.extend(&self.needs_flush);
        for id in waits.without(&sharing.awake).iter() {
            let network = (self.uplink != Some(id)).then(|| self.line(id).network);
            let holder = network.map_or(sharing.far, |network| sharing.holder(network));
            sharing.shares.wake(time, holder, HEAD);
            sharing.awake.extend(&sharing.members[holder.index()].ports);
        }
        while let Some(turn) = sharing.shares.next(self.thread_time(sharing)) {
            let holder = turn.holder();
            let first = self.booking.booked_at();
            let most = self.booking.ticks(Span::from_nanos(u64::from(turn.most().bytes) * UNIT_NS));
            self.booking.bound(Some(most.min(visit)));
            let has_more = loop {
                let (pending, member) = (self.switch.pending(), sharing.member(holder));
                let Some((stage, id)) = member.next([&self.rx_ready, &pending, &self.needs_flush])
                else {
                    break member.end_round();
                };
                self.round = member.round;
                self.is_asking = false;
                let has_moved = self.visit(now, stage, id, &mut sharing.delivered);
                let member = sharing.member(holder);
                member.moved |= has_moved;
                member.asking |= self.is_asking;
                moved |= has_moved | self.is_asking;
                if self.booking.booked_at().wrapping_sub(first) >= most {
                    break true;
                }
            };
            self.booking.bound(None);
            let spent = self.booking.span(self.booking.booked_at().wrapping_sub(first));
            if !has_more {
                sharing.awake = sharing.awake.without(&sharing.members[holder.index()].ports);
            }
            let time = self.thread_time(sharing);
            sharing.shares.took(time, turn, cost(spent), has_more.then_some(HEAD));
            if self.booking.booked_at().wrapping_sub(begun) >= visit {
                break;
            }
        }
        // Somebody who has a turn left may move something in it.
        moved || sharing.shares.ready_at() == Some(Instant::ZERO)
    }

    /// One visit of a round. Returns whether something moved.
    fn visit(&mut self, now: Instant, stage: Stage, id: PortId, delivered: &mut bool) -> bool {
        let is_far = self.uplink == Some(id);
        // What it has no room for is seen anew.
        if stage == Stage::Transmit || stage == Stage::Flush && !self.switch.pending().contains(id)
        {
            self.tx_blocked.remove(id);
        }
        let (moved, work) = match (stage, is_far) {
            (Stage::Receive, false) => (self.receive::<true>(now, id), None),
            (Stage::Transmit, false) => {
                let moved = self.transmit::<true>(now, id);
                *delivered |= moved;
                (moved, None)
            }
            (_, false) => {
                self.flush(id);
                (false, None)
            }
            (Stage::Receive, true) => (self.receive_uplink(now, id), Some(Work::Arrivals)),
            (Stage::Transmit, true) => (self.send_to_peers(now, id), Some(Work::Departures)),
            (_, true) => {
                let delivered = std::mem::take(delivered);
                (self.maintain_peers(now, id, delivered), Some(Work::Departures))
            }
        };
        match work {
            None => self.booking.visited(id),
            Some(work) => self.booking.worked(work),
        }
        moved
    }
}
