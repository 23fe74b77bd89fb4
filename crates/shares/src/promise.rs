//! What guarantees amount to, and how late their frames may be.

use units::{Rate, Span};

use crate::settings::Settings;
use crate::terms::Terms;

/// Why a link cannot keep all of some guarantees.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Excess {
    /// They add up to so many bits a second, which is more than the link carries.
    Rate(u64),
    /// If all bursts came at once, the last frame would be so late, which is more than may be made
    /// good.
    Lateness(Span),
}

impl Settings {
    /// The longest time by which a guaranteed frame may miss its deadline on a link of this rate,
    /// where all holders have these terms and no frame is longer than `frame` bytes: (Σ bursts + a
    /// turn + a frame) / rate + two slots of the calendar. A burst of less than a frame counts as
    /// one.
    ///
    /// A frame's deadline is when the guarantee's rate has paid for it, or when its holder began to
    /// wait if that is later. So a holder that keeps to its guarantee has each of its frames sent
    /// no later than this after it came; and one that always has something to send is sent, in any
    /// interval of `t` seconds, at least min · (t − this) less two frames, as long as its maximum
    /// lets it.
    ///
    /// This is the demand bound of EDF (Baruah, Rosier and Howell, 1990): what has to be sent in
    /// some time by deadlines within it is no more than what all guarantees add up to in that time,
    /// and all bursts. A turn that cannot be interrupted may be in the way. A bound by frames
    /// counts as that many frames of full length.
    pub fn lateness<'a>(
        &self,
        link: Rate,
        frame: u32,
        terms: impl IntoIterator<Item = &'a Terms>,
    ) -> Result<Span, Excess> {
        let scale = self.scale();
        let horizon = scale.length(scale.slots / 2 - 1);
        let (mut rates, mut bursts) = (0u64, 0u64);
        for Terms { min, .. } in terms {
            let bits = min.bits.map(|it| (it.rate.bits_per_sec(), u64::from(it.burst)));
            let frames = min.frames.map(|it| {
                let bytes = u64::from(frame);
                let rate = u64::from(it.per_second.get()).saturating_mul(8 * bytes);
                (rate, u64::from(it.burst) * bytes)
            });
            // Where both bound it, each does.
            let bound = match (bits, frames) {
                (Some(bits), Some(frames)) => Some((bits.0.min(frames.0), bits.1.min(frames.1))),
                (bits, frames) => bits.or(frames),
            };
            let Some((rate, burst)) = bound else { continue };
            rates = rates.saturating_add(rate);
            // A deadline that lies beyond the calendar is seen too early by up to a frame's time.
            let slow =
                Rate::from_bits_per_sec(rate).map_or(Span::ZERO, |it| it.time_for(frame.into()));
            let beyond = if slow > horizon { frame } else { 0 };
            let burst = burst.max(u64::from(frame)) + u64::from(beyond);
            bursts = bursts.saturating_add(burst);
        }
        if rates > link.bits_per_sec() {
            return Err(Excess::Rate(rates));
        }
        let turn = self.batch.bytes.max(frame);
        let bytes = bursts.saturating_add(u64::from(turn) + u64::from(frame));
        let late = link.time_for(bytes) + scale.length(2);
        if late > scale.length(scale.slots / 2) { Err(Excess::Lateness(late)) } else { Ok(late) }
    }
}
