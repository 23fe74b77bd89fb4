//! Large segments that the sender's network card has cut: the receiver joins the pieces.

use std::mem;

use tunnel::message::Cut;
use tunnel::outer::Received;
use tunnel::{Data, Part, Payload};
use units::Instant;
use wire::Layout;
use wire::ecn::Ecn;
use wire::stt::{self, Joined};

use super::state::Trunk;
use crate::shared::Shared;

/// What is needed to join a frame, if the packet carries only a piece of it.
pub fn piece_of(received: &Received<'_>, data: &Data) -> Option<Cut> {
    let is_frame = data.part == Part::WHOLE && !received.is_control && !received.is_part;
    data.cut.filter(|_| is_frame && received.frame.len() < usize::from(data.len.get()))
}

impl Trunk {
    /// Handles a piece of a frame. With the last piece, the frame is whole.
    pub(super) fn handle_piece(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        received: &Received<'_>,
        data: &Data,
        cut: Cut,
        payload: &[u8],
    ) {
        let Some(session) = &mut self.session else { return };
        if !session.is_between(data.ends) {
            // It takes no position in the stream.
            session.handle_data(now, data, false, Payload::Placeholder, |_| {});
            return;
        }
        let (frame, len) = (&payload[received.frame.clone()], usize::from(data.len.get()));
        let Some(segment) = wire::cut::segment(frame, data.number, cut.sequence, len) else {
            self.refused.malformed += 1;
            return;
        };
        let mut segments = mem::take(&mut self.segments);
        self.refused.unfinished += segments.expire(now) as u64;
        let is_marked = Ecn::of(received.traffic_class) == Ecn::Ce;
        match segments.take(now, (received.vteps, Some(data.ends.from)), &segment, is_marked) {
            Ok(None) => {}
            Ok(Some(Joined { bytes, is_marked })) => {
                let ecn = if is_marked { Ecn::Ce } else { Ecn::of(received.traffic_class) };
                let inner = Layout::of(bytes).and_then(|layout| layout.traffic_class(bytes));
                let marks = |class: &u8| is_marked && Ecn::of(*class) != Ecn::NotEct;
                let all = Received {
                    frame: 0..len,
                    traffic_class: ecn.within(received.traffic_class),
                    remark: inner.filter(marks).map(|class| Ecn::Ce.within(class)),
                    ..received.clone()
                };
                self.handle_all(now, shared, &all, data, bytes, Some(cut));
            }
            Err(stt::Refusal::Full(_)) => self.refused.unfinished += 1,
            Err(stt::Refusal::OtherLength(..)) => self.refused.malformed += 1,
        }
        self.segments = segments;
    }
}
