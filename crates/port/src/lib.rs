//! Where frames enter and leave a switch.
//!
//! A port owns its memory. A frame that its device hands over lies in one of the port's slots and
//! stays there until its last receiver has taken it: the sender's own memory is the queue. The
//! switch between the ports moves slot numbers only, and a frame is copied once, from the sender's
//! slot to the receiver's device.
//!
//! ```text
//!    sender ─▶ device ─receive─▶ slot ─frame─▶ transmit ─▶ device ─▶ receiver
//!                                 ▲                │
//!                                 └────release─────┘
//! ```
//!
//! A port that is not asked to [`receive`](Port::receive) lifts nothing, so its sender fills up and
//! waits. That is all the flow control there is, and it is why nothing is lost.
//!
//! [`Port`] is what a switch asks, [`FrameView`] how it looks at a frame, [`Span`] a guest's memory
//! in it, and [`write()`] hands it to a descriptor. [`cut`] writes a large frame as a wire would
//! carry it; a [`Pool`] has slots for one owner; [`memory`] has ports whose other end is a program,
//! for benchmarks and tests. Devices are other crates' subject; whose a frame is and where it goes,
//! the switch's.

mod arena;
pub mod cut;
pub mod memory;
mod pool;
mod port;
mod span;
pub mod stream;
mod view;
mod write;

pub use pool::Pool;
pub use port::{BURST, Left, Like, Port, PortError, Slot, Taken};
pub use span::Span;
pub use view::{FrameView, MAX_SPANS};
pub use write::write;
