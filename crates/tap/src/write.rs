//! Writes frames to a TAP device.

use kernel::tun::Device;
use port::{FrameView, Taken};
use rustix::io::Errno;

/// Delivers a frame to the container. It is at its socket when this returns. Notes whether the
/// interface is down.
#[inline]
pub fn write(device: &Device, frame: &FrameView<'_>, down: &mut bool) -> Result<Taken, Errno> {
    let written = port::write(device, &frame.offload().emit(), frame);
    // The kernel returns EIO if the interface is down. It may be set up again.
    *down = written == Err(Errno::IO);
    match written {
        Ok(()) => Ok(Taken::Yes),
        Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::IO) => Ok(Taken::Busy),
        // Its sender's memory was truncated while it waited, or it is no frame of this kind.
        Err(Errno::FAULT | Errno::INVAL) => Ok(Taken::Unfit),
        Err(error) => Err(error),
    }
}
