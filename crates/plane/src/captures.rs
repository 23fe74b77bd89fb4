//! What captures see of a plane: frames that passed, and those that were refused.

use lossless::{PortId, Refused, Released, Switch};
use port::{FrameView, Port, Slot};
use units::{Instant, Ticks};

use crate::line::release;
use crate::peers::Peers;
use crate::plane::Plane;
use crate::stages::{Gate, Responder};
use crate::taps::Taps;

impl<P: Port, F: Peers, R: Responder, G: Gate, T: Ticks> Plane<P, F, R, G, T> {
    /// Where captures begin: from now on frames are copied.
    pub fn taps_or_new(&mut self) -> &mut Taps {
        let Self { switch, taps, .. } = self;
        taps.get_or_insert_with(|| {
            switch.list_refused(true);
            Box::default()
        })
    }

    /// The captures, if there are any.
    pub fn taps_mut(&mut self) -> Option<&mut Taps> {
        self.taps.as_deref_mut()
    }

    /// Passes what was captured since the last call on to the readers.
    pub fn flush_taps(&mut self) {
        if let Some(taps) = &mut self.taps
            && !taps.flush()
        {
            self.taps = None;
            self.switch.list_refused(false);
        }
    }

    /// Releases frames, after the captures have seen which of them were refused.
    pub(crate) fn release_all(
        &mut self,
        now: Instant,
        gone: impl IntoIterator<Item = Released<Slot>>,
    ) {
        let Self { switch, lines, needs_flush, taps, .. } = self;
        if let Some(taps) = taps {
            show_refused(now, switch, taps, |port, slot| {
                lines[port.index()]
                    .as_deref()
                    .expect("it is attached as long as it has frames")
                    .end
                    .frame(slot)
            });
        }
        for released in gone {
            release(lines, needs_flush, released);
        }
    }
}

/// Shows the captures what the switch has refused, while it still lies in its slot.
pub fn show_refused<'f>(
    now: Instant,
    switch: &mut Switch<Slot>,
    taps: &mut Taps,
    frame_of: impl Fn(PortId, Slot) -> FrameView<'f>,
) {
    for Refused { frame, ingress, egress, reason } in switch.take_refused() {
        taps.refuse(now, ingress, egress, reason, &frame_of(ingress, frame));
    }
}
