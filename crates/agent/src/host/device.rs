//! What a host's ports are: containers' interfaces and virtual machines' cards.

use std::os::fd::{AsFd, BorrowedFd};

use port::{FrameView, Left, Port, PortError, Slot, Taken};
use rustix::event::epoll::EventFlags;
use tap::TapPort;
use vhost::port::{Link, VhostPort};

/// A port's device.
#[expect(clippy::large_enum_variant, reason = "each lies in a box of its own, with its line")]
pub(super) enum Device {
    /// A container's interface.
    Tap(TapPort),
    /// A virtual machine's card.
    Vhost(VhostPort),
}

use Device::{Tap, Vhost};

impl Device {
    /// Which events to wait for.
    pub(super) fn events(&self) -> EventFlags {
        match self {
            Tap(_) => EventFlags::IN | EventFlags::ET,
            Vhost(_) => EventFlags::IN,
        }
    }

    /// Does what its events ask for.
    pub(super) fn wake(&mut self) {
        match self {
            Tap(_) => {}
            Vhost(port) => port.wake(),
        }
    }

    /// Whether nobody is there to take frames or send them.
    pub(super) fn is_down(&self) -> bool {
        match self {
            Tap(_) => false,
            Vhost(port) => port.link() != Link::Up,
        }
    }

    /// What its operator ought to know, in sentences; nothing if all is well.
    pub(super) fn notes(&self) -> Vec<String> {
        match self {
            Tap(_) => Vec::new(),
            Vhost(port) => port.notes(),
        }
    }

    /// Before the switch ends: what can be left to the next switch is.
    pub(super) fn leave(&mut self) {
        match self {
            Tap(_) => {}
            Vhost(port) => port.leave(),
        }
    }

    /// Ends it with the switch: removes what the next switch would make anew.
    pub(super) fn end(self) -> Result<(), PortError> {
        match self {
            Tap(port) => port.detach(),
            Vhost(_) => Ok(()),
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
        }
    }

    #[inline(always)]
    fn frame(&self, slot: Slot) -> FrameView<'_> {
        match self {
            Tap(port) => port.frame(slot),
            Vhost(port) => port.frame(slot),
        }
    }

    #[inline(always)]
    fn release(&mut self, slot: Slot) {
        match self {
            Tap(port) => port.release(slot),
            Vhost(port) => port.release(slot),
        }
    }

    fn keep(&mut self, most: usize) {
        match self {
            Tap(port) => port.keep(most),
            Vhost(port) => port.keep(most),
        }
    }

    #[inline(always)]
    fn transmit(&mut self, frame: &FrameView<'_>) -> Result<Taken, PortError> {
        match self {
            Tap(port) => port.transmit(frame),
            Vhost(port) => port.transmit(frame),
        }
    }

    #[inline]
    fn deliver(&mut self) -> Result<(), PortError> {
        match self {
            Tap(port) => port.deliver(),
            Vhost(port) => port.deliver(),
        }
    }

    #[inline]
    fn flush(&mut self) -> Result<bool, PortError> {
        match self {
            Tap(port) => port.flush(),
            Vhost(port) => port.flush(),
        }
    }

    fn arm_ingress(&mut self) -> Result<bool, PortError> {
        match self {
            Tap(port) => port.arm_ingress(),
            Vhost(port) => port.arm_ingress(),
        }
    }

    fn arm_egress(&mut self) -> Result<Option<bool>, PortError> {
        match self {
            Tap(port) => port.arm_egress(),
            Vhost(port) => port.arm_egress(),
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Tap(port) => port.as_fd(),
            Vhost(port) => port.as_fd(),
        }
    }
}
