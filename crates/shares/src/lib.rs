//! Whose turn it is, of those who share a link.
//!
//! A [`Shares`] knows its holders, a network or a port each, by their [`Terms`] and by what each
//! has to send first. It says whose [`Turn`] it is and how much may go in it, and is told how much
//! went. It owns no queue, no frame and no clock. What it shares need not be a link: bytes may
//! stand for credit that senders are granted, or for a processor's ticks.
//!
//! ```text
//!   wake ─▶ ┌ its maximum lets it go? ── no ──▶ sleepers ┄ later ┄▶ here again
//!           └ yes ┬──────────────▶ rounds: by weight ─────────────┐ second
//!                 └ guaranteed? ─▶ due: by deadline ──────────────┤ first
//!                        └ not yet ─▶ sleepers                    ▼
//!                                                      next ─▶ turn ─▶ took
//! ```
//!
//! - **Guarantees** go first, by earliest deadline (Liu and Layland, 1973): a frame's deadline is
//!   when the guarantee has paid for it. Nobody is due ahead of its time, so what one sends beyond
//!   its guarantee never delays another's. Whoever rests saves up its burst and no more.
//! - **The rest** is shared in proportion to weights, by deficit round robin (Shreedhar and
//!   Varghese, SIGCOMM 1995). It does not use up guarantees, as in H-FSC (Stoica, Zhang and Ng,
//!   SIGCOMM 1997), nor do guarantees use it up: a holder has its guarantee and a part of the rest.
//! - **Maxima** bound both, by the generic cell rate algorithm (ITU-T I.371): nobody sends, in any
//!   interval, more than its burst and what the rate adds in that time.
//! - **Bits and frames** are bounded alike: a guarantee or a maximum may be of either or of both.
//! - **Every step is O(1)**, whatever the number of holders. All three orders, of deadlines, of
//!   those that wait for time to pass, and of rounds, are calendars in which two find-first-set
//!   instructions find the first (Eiffel, Saeed et al., NSDI 2019). A call at whose time many
//!   holders wake files each of them once.
//!
//! Two levels, networks and a network's ports, are two of these stacked ([`Shares::hold`]).
//!
//! # Promises
//!
//! *L* is the longest frame; a turn is [`Settings::batch`], or one frame if that is more. The tests
//! hold these against a fluid link and in every interval.
//!
//! - **Work conserving**: [`Shares::next`] has a turn unless all who wait are held by their maxima,
//!   each for less than a slot of [`Settings::resolution`] longer than these demand.
//! - **Guarantee**: on a link that carries at least all guarantees together, a frame is sent by
//!   guarantee no later than [`Settings::lateness`] after its deadline, which is the time of all
//!   bursts, a turn and a frame, and two slots. A holder that always has something to send is sent
//!   at least min · (t − lateness) − 2 *L* in any interval of length *t*.
//! - **Weights**: of two holders that always have something to send, and that no maximum holds,
//!   what each is sent by weight in any interval, divided by its weight, differs by no more than
//!   two rounds, of 16 bytes each, and a turn of each divided by its weight.
//! - **Maximum**: in any interval of length *t*, no more than burst + max · t goes, or one frame if
//!   that alone is more.
//! - **A link that stands still** or carries less than all guarantees ends none of this: time that
//!   it lost beyond [`Shares::patience`] counts for nobody, guarantees shrink in proportion, and
//!   [`Shares::lost`] tells how much it was.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod calendar;
mod clock;
mod meter;
mod promise;
mod rounds;
mod settings;
mod shares;
mod terms;

pub use promise::Excess;
pub use settings::Settings;
pub use shares::{Holder, Right, Shares, Turn};
pub use terms::{Bits, Bound, Cost, Frames, Terms};
