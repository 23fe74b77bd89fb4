//! What a host's ports are: containers' interfaces, virtual machines' cards and the host's own
//! interfaces.

use std::os::fd::{AsFd, BorrowedFd};

use nic::NicPort;
use port::memory::MemoryPort;
use port::{FrameView, Left, Like, Port, PortError, Slot, Taken};
use rustix::event::epoll::EventFlags;
use tap::TapPort;
use vhost::port::{Link, VhostPort};

use super::ending::Ending;

/// A port's device.
#[expect(clippy::large_enum_variant, reason = "each lies in a box of its own, with its line")]
pub(super) enum Device {
    /// A container's interface.
    Tap(TapPort),
    /// A virtual machine's card.
    Vhost(VhostPort),
    /// An interface of the host.
    Nic(NicPort),
    /// Itself: frames for routers of logical networks here go around by it.
    Turn(MemoryPort),
    /// Nothing: the port's container, or its interface, is not there. What is for it waits, as for
    /// any receiver that takes nothing.
    Away,
}

use Device::{Away, Nic, Tap, Turn, Vhost};

impl Device {
    /// Which events to wait for.
    pub(super) fn events(&self) -> EventFlags {
        match self {
            Tap(_) | Nic(_) => EventFlags::IN | EventFlags::ET,
            Vhost(_) => EventFlags::IN,
            Turn(_) | Away => EventFlags::empty(),
        }
    }

    /// What its events come by, if there is anybody to make some.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Tap(port) => Some(port.as_fd()),
            Nic(port) => Some(port.as_fd()),
            Vhost(port) => Some(port.as_fd()),
            Turn(_) | Away => None,
        }
    }

    /// Does what its events ask for.
    pub(super) fn wake(&mut self) {
        match self {
            Tap(_) | Nic(_) | Turn(_) | Away => {}
            Vhost(port) => port.wake(),
        }
    }

    /// Whether nobody is there to take frames or send them.
    pub(super) fn is_down(&self) -> bool {
        match self {
            Tap(_) | Turn(_) => false,
            Nic(port) => port.is_absent(),
            Away => true,
            Vhost(port) => port.link() != Link::Up,
        }
    }

    /// What its operator ought to know, in sentences; nothing if all is well.
    pub(super) fn notes(&self) -> Vec<String> {
        match self {
            Nic(_) | Turn(_) | Away => Vec::new(),
            Tap(port) => {
                let note = |why| {
                    format!(
                        "what it sends to a slow receiver holds up all else that it sends: {why}"
                    )
                };
                port.without_lanes().map(note).into_iter().collect()
            }
            Vhost(port) => port.notes(),
        }
    }

    /// How often its guest was quarantined.
    pub(super) fn quarantines(&self) -> u64 {
        match self {
            Tap(_) | Nic(_) | Turn(_) | Away => 0,
            Vhost(port) => port.quarantines(),
        }
    }

    /// Before the switch ends: what can be left to the next switch is.
    pub(super) fn leave(&mut self) {
        match self {
            Tap(_) | Nic(_) | Turn(_) | Away => {}
            Vhost(port) => port.leave(),
        }
    }

    /// Ends it with the switch. What a virtual machine needs is left in any case.
    pub(super) fn end(self, ending: Ending) -> Result<(), PortError> {
        match self {
            Tap(port) => match ending {
                Ending::Remove => port.detach(),
                Ending::Undo if !port.is_adopted() => port.detach(),
                // The interface outlives us.
                Ending::Undo | Ending::Leave => Ok(()),
            },
            Vhost(_) | Nic(_) | Turn(_) | Away => Ok(()),
        }
    }

    /// Ends it for good.
    pub(super) fn detach(self) -> Result<(), PortError> {
        match self {
            Tap(port) => port.detach(),
            Vhost(port) => {
                port.detach();
                Ok(())
            }
            Nic(_) | Turn(_) | Away => Ok(()),
        }
    }
}

impl Port for Device {
    #[inline(always)]
    fn receive(
        &mut self,
        most: usize,
        arrived: impl FnMut(Slot, &FrameView<'_>),
    ) -> Result<Left, PortError> {
        match self {
            Tap(port) => port.receive(most, arrived),
            Vhost(port) => port.receive(most, arrived),
            Nic(port) => port.receive(most, arrived),
            Turn(port) => port.receive(most, arrived),
            Away => Ok(Left::Nothing),
        }
    }

    #[inline(always)]
    fn frame(&self, slot: Slot) -> FrameView<'_> {
        match self {
            Tap(port) => port.frame(slot),
            Vhost(port) => port.frame(slot),
            Nic(port) => port.frame(slot),
            Turn(port) => port.frame(slot),
            Away => unreachable!("of what is away nothing is held: {slot}"),
        }
    }

    fn rewrite(&mut self, slot: Slot, at: usize, bytes: &[u8]) -> bool {
        match self {
            Tap(port) => port.rewrite(slot, at, bytes),
            Vhost(port) => port.rewrite(slot, at, bytes),
            Nic(port) => port.rewrite(slot, at, bytes),
            Turn(port) => port.rewrite(slot, at, bytes),
            Away => unreachable!("of what is away nothing is held: {slot}"),
        }
    }

    #[inline(always)]
    fn release(&mut self, slot: Slot) {
        match self {
            Tap(port) => port.release(slot),
            Vhost(port) => port.release(slot),
            Nic(port) => port.release(slot),
            Turn(port) => port.release(slot),
            Away => unreachable!("of what is away nothing is held: {slot}"),
        }
    }

    #[inline]
    fn frames_a_look(&self) -> u32 {
        match self {
            Tap(port) => port.frames_a_look(),
            Vhost(port) => port.frames_a_look(),
            Nic(port) => port.frames_a_look(),
            Turn(port) => port.frames_a_look(),
            Away => 1,
        }
    }

    #[inline]
    fn burst_shift(&self) -> u32 {
        match self {
            Tap(port) => port.burst_shift(),
            Vhost(port) => port.burst_shift(),
            Nic(port) => port.burst_shift(),
            Turn(port) => port.burst_shift(),
            Away => u32::BITS - 1,
        }
    }

    #[inline]
    fn is_crowded(&self) -> bool {
        match self {
            Tap(port) => port.is_crowded(),
            Vhost(port) => port.is_crowded(),
            Nic(port) => port.is_crowded(),
            Turn(port) => port.is_crowded(),
            Away => false,
        }
    }

    fn may_divert(&self) -> bool {
        match self {
            Tap(port) => port.may_divert(),
            Vhost(port) => port.may_divert(),
            Nic(port) => port.may_divert(),
            Turn(port) => port.may_divert(),
            Away => false,
        }
    }

    fn lent(&self) -> Option<u32> {
        match self {
            Tap(port) => port.lent(),
            Vhost(port) => port.lent(),
            Nic(port) => port.lent(),
            Turn(port) => port.lent(),
            Away => None,
        }
    }

    fn divert(&mut self, slot: Slot, like: Like) -> bool {
        match self {
            Tap(port) => port.divert(slot, like),
            Vhost(port) => port.divert(slot, like),
            Nic(port) => port.divert(slot, like),
            Turn(port) => port.divert(slot, like),
            Away => false,
        }
    }

    fn show_headers(&mut self) {
        match self {
            Tap(port) => port.show_headers(),
            Vhost(port) => port.show_headers(),
            Nic(port) => port.show_headers(),
            Turn(port) => port.show_headers(),
            Away => {}
        }
    }

    fn keep(&mut self, most: usize) {
        match self {
            Tap(port) => port.keep(most),
            Vhost(port) => port.keep(most),
            Nic(port) => port.keep(most),
            Turn(port) => port.keep(most),
            Away => {}
        }
    }

    #[inline(always)]
    fn transmit(&mut self, frame: &FrameView<'_>) -> Result<Taken, PortError> {
        match self {
            Tap(port) => port.transmit(frame),
            Vhost(port) => port.transmit(frame),
            Nic(port) => port.transmit(frame),
            Turn(port) => port.transmit(frame),
            Away => Ok(Taken::Busy),
        }
    }

    #[inline]
    fn is_absent(&self) -> bool {
        match self {
            Tap(port) => port.is_absent(),
            Vhost(port) => port.is_absent(),
            Nic(port) => port.is_absent(),
            Turn(port) => port.is_absent(),
            Away => true,
        }
    }

    #[inline]
    fn deliver(&mut self) -> Result<(), PortError> {
        match self {
            Tap(port) => port.deliver(),
            Vhost(port) => port.deliver(),
            Nic(port) => port.deliver(),
            Turn(port) => port.deliver(),
            Away => Ok(()),
        }
    }

    #[inline]
    fn flush(&mut self) -> Result<bool, PortError> {
        match self {
            Tap(port) => port.flush(),
            Vhost(port) => port.flush(),
            Nic(port) => port.flush(),
            Turn(port) => port.flush(),
            Away => Ok(true),
        }
    }

    fn arm_ingress(&mut self) -> Result<bool, PortError> {
        match self {
            Tap(port) => port.arm_ingress(),
            Vhost(port) => port.arm_ingress(),
            Nic(port) => port.arm_ingress(),
            Turn(port) => port.arm_ingress(),
            Away => Ok(false),
        }
    }

    fn arm_egress(&mut self) -> Result<Option<bool>, PortError> {
        match self {
            Tap(port) => port.arm_egress(),
            Vhost(port) => port.arm_egress(),
            Nic(port) => port.arm_egress(),
            Turn(port) => port.arm_egress(),
            Away => Ok(Some(false)),
        }
    }
}
