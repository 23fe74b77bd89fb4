//! Writes frames to a TAP device.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd};

use kernel::tun::Device;
use port::{FrameView, MAX_SPANS, Span, Taken};
use rustix::io::Errno;

/// Delivers a frame to the container. It is at its socket when this returns. Notes whether the
/// interface is down.
#[inline]
pub fn write(device: &Device, frame: &FrameView<'_>, down: &mut bool) -> Result<Taken, Errno> {
    let header = frame.offload().emit();
    let written = match frame.rest {
        [] => rustix::io::writev(device, &[IoSlice::new(&header), IoSlice::new(frame.bytes)])
            .map(drop),
        rest => match write_spans(device, [&header, frame.bytes], rest) {
            // Its sender's memory was truncated while it waited, so the frame no longer exists.
            Err(Errno::FAULT) => return Ok(Taken::Unfit),
            written => written,
        },
    };
    // The kernel returns EIO if the interface is down. It may be set up again.
    *down = written == Err(Errno::IO);
    match written {
        Ok(()) => Ok(Taken::Yes),
        Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::IO) => Ok(Taken::Busy),
        Err(Errno::INVAL) => Ok(Taken::Unfit),
        Err(error) => Err(error),
    }
}

/// Writes a frame whose end lies in a guest's memory, without copying that.
fn write_spans(device: &Device, first: [&[u8]; 2], rest: &[Span]) -> Result<(), Errno> {
    let piece =
        |start: *const u8, len| libc::iovec { iov_base: start.cast_mut().cast(), iov_len: len };
    let first = first.iter().map(|bytes| piece(bytes.as_ptr(), bytes.len()));
    let rest = rest.iter().map(|span| piece(span.start().as_ptr(), span.len()));
    let mut pieces = [piece(std::ptr::null(), 0); MAX_SPANS + 2];
    let count =
        pieces.iter_mut().zip(first.chain(rest)).map(|(place, piece)| *place = piece).count();
    // SAFETY: the kernel reads `count` pieces, all of which are mapped. Their contents do not
    // matter.
    #[expect(unsafe_code, reason = "a guest's bytes have no slice")]
    let written =
        unsafe { libc::writev(device.as_fd().as_raw_fd(), pieces.as_ptr(), count as i32) };
    if written < 0 {
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
    } else {
        Ok(())
    }
}
