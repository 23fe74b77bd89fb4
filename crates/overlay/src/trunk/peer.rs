//! What the plane asks of a trunk.

use datapath::Network;
use lossless::{Flow, PortId, Refusal};
use model::CONTROL;
use plane::{Arrival, Leaving, Peer, Sent, Unfit};
use port::{FrameView, Slot};
use tunnel::{Session, Stream};
use units::{Instant, Span};
use wire::geneve::Draft;

use super::config::{FLOOD, flow_of, stream_of, way_to};
use super::out::Out;
use super::receive;
use super::state::Trunk;

impl Peer for Trunk {
    fn poll_arrival(&mut self) -> Option<(Slot, Arrival)> {
        let slot = self.frames.next(&mut self.ready)?;
        let come = self.frames.get(slot);
        Some((slot, Arrival { network: come.network, class: come.class }))
    }

    fn has_arrivals(&self) -> bool {
        !self.ready.is_empty()
    }

    fn frame(&self, slot: Slot) -> FrameView<'_> {
        self.frames.view(slot)
    }

    fn release(&mut self, slot: Slot) {
        let Self { frames, session, has_left, looked_at, .. } = self;
        let mut session = session.as_mut().filter(|_| !*has_left);
        frames.release(slot, |(stream, from, offset)| {
            session.iter_mut().for_each(|session| session.consumed(stream, from, offset));
        });
        if let Some(session) = session {
            *looked_at = session.next_nacking(*looked_at);
            looked_at.iter().for_each(|stream| receive::invite(frames, session, *stream));
        }
    }

    fn flow(&self, leaving: &Leaving<'_>) -> Result<Option<Flow>, Unfit> {
        if self.session.is_none() {
            return Ok(None);
        }
        let destination = wire::ethernet::peek(leaving.view.bytes).ok_or(Unfit)?.destination();
        let label = if destination.is_multicast() {
            FLOOD | self.networks.vnis.get(&leaving.network).ok_or(Unfit)?
        } else {
            *self.labels.get(&(leaving.network, destination)).ok_or(Unfit)?
        };
        Ok(Some(flow_of(Stream { label, class: leaving.class })))
    }

    fn send(&mut self, now: Instant, flow: Option<Flow>, leaving: &Leaving<'_>) -> Sent {
        self.send_frame(now, flow, leaving)
    }

    fn retransmit<'f>(
        &mut self,
        now: Instant,
        network_of: impl Fn(PortId) -> Network,
        frame_of: impl Fn(PortId, Slot) -> FrameView<'f>,
    ) -> bool {
        self.retransmit_lost(now, network_of, frame_of)
    }

    fn resume<'f>(
        &mut self,
        now: Instant,
        network_of: impl Fn(PortId) -> Network,
        frame_of: impl Fn(PortId, Slot) -> FrameView<'f>,
    ) -> bool {
        self.resume_begun(now, network_of, frame_of)
    }

    fn poll_completed(&mut self) -> Option<(Flow, Option<Refusal>)> {
        self.completed.pop_front()
    }

    fn transmit_control(&mut self, now: Instant, delivered: bool) -> bool {
        let Self { config, underlay, session: Some(session), report_waits, .. } = self else {
            return false;
        };
        let mut underlay = underlay.borrow_mut();
        let marking = config.marking(CONTROL, 0);
        *report_waits =
            delivered && !*report_waits && !config.obeys_pauses && session.may_piggyback();
        let poll = if *report_waits { Session::poll_urgent } else { Session::poll_transmit };
        while underlay.has_room(way_to(config.far))
            && let Some(message) = poll(session, now)
        {
            let mut draft = Draft::new(0).expect("the number has 24 bits").for_control(0);
            let is_whole = message.write(&mut draft);
            debug_assert!(is_whole, "a message has room in a packet of its own");
            Out { config, underlay: &mut underlay, vni: 0, marking }.put_draft(&draft, 0, |_| {});
        }
        *report_waits
    }

    fn can_transmit(&self) -> bool {
        self.underlay.borrow().has_room(way_to(self.config.far))
    }

    fn pause(&mut self, classes: u8) {
        self.paused = classes;
    }

    fn is_paused(&self, flow: Flow) -> bool {
        self.paused & 1 << stream_of(flow).class.pcp() != 0
    }

    fn is_memory_low(&self) -> bool {
        self.frames.is_short()
    }

    fn give_up_after(&mut self, now: Instant, patience: Span) -> bool {
        let Some(session) = &mut self.session else { return false };
        let is_silent = session.unanswered_since().is_some_and(|since| since + patience <= now);
        if is_silent && !self.is_given_up {
            session.abandon(None, |_| {});
            self.begun.values_mut().for_each(|begun| begun.from = None);
            self.spoiled.clear();
        }
        self.is_given_up = is_silent;
        is_silent
    }

    fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    fn forget_sender(&mut self, port: PortId) {
        assert!(
            self.completed.is_empty(),
            "{} completed frames were not polled",
            self.completed.len()
        );
        let is_gone = |from: Option<(PortId, Slot)>| from.is_some_and(|(it, _)| it == port);
        self.begun
            .values_mut()
            .filter(|begun| is_gone(begun.from))
            .for_each(|begun| begun.from = None);
        self.spoiled.retain(|(it, _), _| *it != port);
        if let Some(session) = &mut self.session {
            session.withdraw(|piece| is_gone(piece.from));
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.session.as_ref().and_then(Session::deadline)
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.handle_due(now);
    }
}

impl Trunk {
    /// Before the switch ends: tells the far host how far each stream was consumed. The rest it
    /// will send to the next switch, also what was consumed behind a frame that waits for one of
    /// several receivers. Returns whether all is sent; if not, this is to be called again once the
    /// underlay has room.
    pub fn leave(&mut self, now: Instant) -> bool {
        if let Some(session) = &mut self.session {
            session.hurry();
        }
        self.transmit_control(now, false);
        self.has_left = true;
        self.can_transmit()
    }
}
