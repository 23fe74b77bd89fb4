//! What the plane asks of a trunk.

use std::cell::RefCell;
use std::net::Ipv6Addr;
use std::rc::Rc;

use lossless::{Flow, PortId, Reason, Refusal};
use model::CONTROL;
use plane::{Event, Leaving, Senders, Sent};
use port::Slot;
use tunnel::{Answer, Context, ContextFlags, Lane, Session, Stream};
use underlay::{Turn, Underlay};
use units::{Instant, Span};
use wire::geneve::Draft;

use super::channel::Sealer;
use super::config::{host_hash, lane_of, stream_of};
use super::liveness::Liveness;
use super::out::Out;
use super::receive;
use super::state::{Halt, Trunk};
use crate::shared::Shared;
use crate::slots::Slots;

impl Trunk {
    /// The slot of the next frame that has arrived, until [`Self::release`].
    pub fn poll_arrival(&mut self, slots: &mut Slots) -> Option<Slot> {
        let slot = self.assembly.next(slots, &mut self.ready)?;
        self.ledger.accept(slots.view(slot).on_wire().0 as u64);
        Some(slot)
    }

    /// Frees the slot of a frame that was polled: its last receiver has it, or it was refused for
    /// this reason.
    pub fn release(&mut self, slots: &mut Slots, slot: Slot, refused: Option<Reason>) {
        if let Some((reason, context)) = refused.zip(slots.context(slot)) {
            if let (Reason::Moved, Some((stream, ..))) = (reason, slots.get(slot).place) {
                let host = Ipv6Addr::UNSPECIFIED.into();
                let answer = Answer::Moved { host, label: stream.label };
                return self.give_back(slots, slot, reason, answer);
            }
            let opens = context.flags.contains(ContextFlags::OPENS);
            let code = match reason {
                Reason::Rejected => Some(receive::REJECTED),
                Reason::LogicalNetwork if opens => Some(receive::DROPPED),
                _ => None,
            };
            if let Some(code) = code {
                return self.give_back(slots, slot, reason, Answer::Refused(code));
            }
        }
        let Self { assembly, session, has_left, ledger, .. } = self;
        ledger.end(refused);
        let mut session = session.as_mut().filter(|_| !*has_left);
        assembly.release(slots, slot, |(stream, from, offset)| {
            session.iter_mut().for_each(|session| session.consumed(stream, from, offset));
        });
    }

    /// The same of a frame that is not taken: its sender has it again, with this answer.
    pub fn give_back(&mut self, slots: &mut Slots, slot: Slot, reason: Reason, answer: Answer) {
        let Self { assembly, session, has_left, ledger, .. } = self;
        ledger.end(Some(reason));
        let mut session = session.as_mut().filter(|_| !*has_left);
        assembly.release(slots, slot, |(stream, from, offset)| {
            session.iter_mut().for_each(|it| it.give_back(stream, from, offset, answer));
        });
    }

    /// Why a frame with this context that was polled is to be given back, whatever this host knows:
    /// it is behind others of its stream that were, as their port had moved.
    pub fn behind_moved(&mut self, slots: &Slots, slot: Slot, context: Context) -> Option<Answer> {
        let (stream, from, _) = slots.get(slot).place?;
        let is_anew = context.flags.contains(ContextFlags::ANEW);
        self.session.as_mut()?.behind_moved(stream, from, is_anew)
    }

    /// This host knows more of logical networks: what came early is judged again. Whether any did.
    pub fn look_again(&mut self) -> bool {
        let Some(session) = self.session.as_mut().filter(|it| it.is_any_early()) else {
            return false;
        };
        session.look_again();
        true
    }

    /// The link here lets a stream of the far host be sent so far.
    pub fn grant(&mut self, stream: Stream, limit: u64) {
        if let Some(session) = &mut self.session {
            session.grant(stream, limit);
        }
    }

    /// Whether streams of the far host wait for memory.
    pub fn wants_memory(&self) -> bool {
        let session = self.session.as_ref().filter(|_| !self.has_left);
        session.is_some_and(|session| session.next_nacking(None).is_some())
    }

    /// Has the next stream that waits for memory go on, if there is some for it.
    pub fn offer_memory(&mut self, slots: &Slots) {
        let Self { assembly, session: Some(session), looked_at, .. } = self else { return };
        *looked_at = session.next_nacking(*looked_at);
        looked_at.iter().for_each(|stream| receive::invite(assembly, slots, session, *stream));
    }

    /// Sends a frame of this flow, or as much of it as may go now: then it is in flight, and
    /// [`Self::maintain`] sends the rest.
    pub fn send(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        flow: Flow,
        leaving: &Leaving<'_>,
    ) -> Sent {
        let lane = lane_of(leaving.network);
        if self.is_stalled_for(now, shared.patience, lane) {
            return Sent::Refused(Refusal::STALLED);
        }
        match self.send_frame(now, shared, flow, leaving) {
            Ok(sent) => {
                self.stuck_since = None;
                self.held.remove(&flow);
                return sent;
            }
            Err(Halt::Unfit) => return Sent::Refused(Refusal::UNFIT),
            Err(Halt::Credit) => drop(self.held.insert(flow)),
            Err(Halt::Paused) => self.waiting.insert(lane, flow, false),
            Err(Halt::Window) => {
                self.waiting.insert(lane, flow, true);
                self.stuck_since.get_or_insert(now);
            }
            Err(Halt::Link) => {
                self.waiting.insert(lane, flow, false);
                self.waits_for_link = true;
            }
            Err(Halt::Kernel) => {
                self.waiting.insert(lane, flow, false);
                self.is_tx_blocked = true;
            }
        }
        Sent::Blocked
    }

    /// Retransmits what was lost, sends more of large segments that were sent in part, and sends
    /// pending control messages, as far as the window and the kernel allow. A report waits one turn
    /// if frames were `delivered` to a local receiver this turn, because its reply may carry it.
    /// Unblocks flows that may go on, and gives up what is in flight if the far host was silent for
    /// too long. Returns whether a frame was sent.
    pub fn maintain(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        delivered: bool,
        senders: &impl Senders,
    ) -> bool {
        self.rest_waits_for_link = false;
        let mut moved = self.retransmit_lost(now, shared, senders);
        moved |= self.resume_begun(now, shared, senders);
        self.transmit_handshake(now, &mut shared.pace);
        self.transmit_control(now, delivered);
        self.check_silence(now, shared);
        self.unblock_waiting(shared);
        moved
    }

    /// Whether it is to be maintained again in the next turn, although nothing happens before.
    pub fn needs_maintenance(&self) -> bool {
        let goes_on = || match self.has_changed {
            true => !self.waiting.is_empty() && self.works(),
            false => self.waiting.may_go_on(|lane| self.has_window(lane)),
        };
        self.report_waits || self.is_tx_blocked() || goes_on()
    }

    /// Whether it waits for room in the kernel, which makes no event when it has some.
    pub fn is_tx_blocked(&self) -> bool {
        self.is_tx_blocked || !self.can_transmit()
    }

    /// Sends pending control messages, as far as the kernel has room.
    pub fn transmit_control(&mut self, now: Instant, delivered: bool) {
        if !self.is_channel_open() {
            return;
        }
        let Self { config, underlay, session: Some(session), channel, report_waits, .. } = self
        else {
            return;
        };
        let mut underlay = underlay.borrow_mut();
        let marking = config.marking(CONTROL, 0);
        *report_waits =
            delivered && !*report_waits && !config.obeys_pauses && session.may_piggyback();
        let poll = if *report_waits { Session::poll_urgent } else { Session::poll_transmit };
        while underlay.has_room(host_hash(config.far))
            && let Some(message) = poll(session, now)
        {
            let mut draft = Draft::new(0).expect("the number has 24 bits").for_control(0);
            let is_whole = message.write(&mut draft);
            debug_assert!(is_whole, "a message has room in a packet of its own");
            let sealer = Sealer::of(channel, now);
            let mut out = Out { config, underlay: &mut underlay, vni: 0, marking, sealer };
            out.put_draft(&draft, 0, |_| {});
        }
    }

    /// Gives up what is in flight if the far host owes an answer and was silent for too long, and
    /// lets flows go on when it answers again.
    fn check_silence(&mut self, now: Instant, shared: &mut Shared) {
        let Some(session) = &mut self.session else { return };
        let since = session.unanswered_since();
        let is_silent = since.is_some_and(|since| since + shared.patience <= now);
        match (self.is_given_up, is_silent) {
            (false, true) => {
                session.abandon(None, |_| {});
                self.begun.values_mut().for_each(|begun| begun.from = None);
                self.spoiled.clear();
                self.carried.clear();
                self.held.clear();
                self.waiting.clear();
                let flows = self.owner().peer.flows();
                shared.events.push_back(Event::Abandoned(flows, Refusal::STALLED));
            }
            (true, false) => self.has_changed = true,
            _ => {}
        }
        self.is_given_up = is_silent;
    }

    /// Unblocks some of the flows that wait, of each lane that may send: the others follow, unless
    /// one of these has to wait again. Those of paused classes go on waiting.
    pub fn unblock_waiting(&mut self, shared: &mut Shared) {
        let has_room = self.can_transmit();
        if self.is_tx_blocked && has_room {
            (self.is_tx_blocked, self.has_changed) = (false, true);
        }
        if self.waits_for_link && self.is_link_ready() {
            (self.waits_for_link, self.has_changed) = (false, true);
        }
        let has_changed = std::mem::take(&mut self.has_changed);
        if self.waiting.is_empty() {
            self.stuck_since = None;
            return;
        }
        if has_changed {
            self.waiting.note_change();
        }
        if !has_room || !self.works() {
            return;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        let has_window = |lane| self.has_window(lane);
        let gone = waiting.go_on(has_window, |flow| !self.is_paused(flow));
        self.waiting = waiting;
        if !gone.is_empty() {
            self.stuck_since = None;
        }
        shared.events.extend(gone.into_iter().map(Event::Unblocked));
    }

    /// Whether the far host can be sent anything: a path works, it is heard, and there are keys.
    pub(super) fn works(&self) -> bool {
        self.liveness != Liveness::Down && !self.is_given_up && self.is_channel_open()
    }

    /// Whether a lane has window, and no frame that goes before its frames waits.
    pub(super) fn has_window(&self, lane: Lane) -> bool {
        self.session.as_ref().is_none_or(|session| session.is_open(lane))
            && self.waits_for_rest(lane).is_none()
    }

    /// Whether the kernel has room for a datagram to the far host: of the session, or of any flow
    /// where there is none.
    pub fn can_transmit(&self) -> bool {
        match self.session {
            Some(_) => self.underlay.borrow().has_room(host_hash(self.config.far)),
            None => {
                let mut underlays = self.paths.0.iter().map(|(path, _)| path.underlay.borrow());
                underlays.all(|underlay| underlay.has_room_for_all())
            }
        }
    }

    /// Whether the rate of the link lets a frame to the far host go: of the session, or of any flow
    /// where there is none.
    pub(super) fn is_link_ready(&self) -> bool {
        match self.session {
            Some(_) => self.underlay.borrow().is_ready(Turn::New),
            None => {
                let mut underlays = self.paths.0.iter().map(|(path, _)| path.underlay.borrow());
                underlays.all(|underlay| underlay.is_ready(Turn::New))
            }
        }
    }

    /// When links let go on what waits for them.
    fn link_deadline(&self) -> Option<Instant> {
        let ready_at = |underlay: &Rc<RefCell<Underlay>>, turn| underlay.borrow().ready_at(turn);
        let new = self.waits_for_link.then(|| match self.session {
            Some(_) => Some(ready_at(&self.underlay, Turn::New)),
            None => {
                let paths = self.paths.0.iter();
                paths.map(|(path, _)| ready_at(&path.underlay, Turn::New)).max()
            }
        });
        let rest = self.rest_waits_for_link.then(|| ready_at(&self.underlay, Turn::Rest));
        new.flatten().into_iter().chain(rest).min()
    }

    /// Sets the bit mask of classes of which nothing is sent (802.1Qbb). Replaces the previous
    /// mask. Returns whether flows may go on by that.
    pub fn pause(&mut self, classes: u8) -> bool {
        let goes_on = self.paused & !classes != 0;
        self.has_changed |= goes_on;
        self.paused = classes;
        goes_on
    }

    /// Whether the class of a flow is paused.
    pub(super) fn is_paused(&self, flow: Flow) -> bool {
        self.paused & 1 << stream_of(flow).class.pcp() != 0
    }

    /// A port is about to be detached: its frames in flight are not retransmitted. All events must
    /// have been polled before. Returns whether anything may be in flight.
    pub fn forget_sender(&mut self, port: PortId) -> bool {
        let is_gone = |from: Option<(PortId, Slot)>| from.is_some_and(|(it, _)| it == port);
        let begun = self.begun.values_mut().filter(|begun| is_gone(begun.from));
        begun.for_each(|begun| begun.from = None);
        self.spoiled.retain(|(it, _), _| *it != port);
        self.carried.retain(|(_, it, _), _| *it != port);
        let Some(session) = &mut self.session else { return false };
        session.withdraw(|piece| is_gone(piece.from));
        session.outstanding() > 0 || !self.begun.is_empty()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called next, although nothing
    /// arrives.
    pub fn deadline(&self, patience: Span) -> Option<Instant> {
        let unanswered = self.session.as_ref().and_then(Session::unanswered_since);
        let silence = unanswered.filter(|_| !self.is_given_up).map(|since| since + patience);
        let link = self.link_deadline();
        self.protocol_deadline().into_iter().chain(silence).chain(link).min()
    }

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
