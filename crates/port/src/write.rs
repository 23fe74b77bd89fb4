//! Frames to a descriptor, one system call each.

#![expect(unsafe_code, reason = "a guest's bytes have no slice")]

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

use crate::span::Span;
use crate::view::{FrameView, MAX_SPANS};

/// Writes a frame behind a header (writev(2)), without copying it: also one whose end lies in a
/// guest's memory.
///
/// # Errors
///
/// What the kernel says. `EFAULT`: its sender's memory was truncated while it waited, so the frame
/// no longer exists.
#[inline]
pub fn write(to: impl AsFd, header: &[u8], frame: &FrameView<'_>) -> Result<(), Errno> {
    match frame.rest {
        [] => rustix::io::writev(to, &[IoSlice::new(header), IoSlice::new(frame.bytes)]).map(drop),
        rest => write_spans(to, [header, frame.bytes], rest),
    }
}

fn write_spans(to: impl AsFd, first: [&[u8]; 2], rest: &[Span]) -> Result<(), Errno> {
    let piece =
        |start: *const u8, len| libc::iovec { iov_base: start.cast_mut().cast(), iov_len: len };
    let first = first.iter().map(|bytes| piece(bytes.as_ptr(), bytes.len()));
    let rest = rest.iter().map(|span| piece(span.start().as_ptr(), span.len()));
    let mut pieces = [piece(std::ptr::null(), 0); MAX_SPANS + 2];
    let count =
        pieces.iter_mut().zip(first.chain(rest)).map(|(place, piece)| *place = piece).count();
    // SAFETY: the kernel reads `count` pieces, all of which are mapped. Their contents do not
    // matter.
    let written = unsafe { libc::writev(to.as_fd().as_raw_fd(), pieces.as_ptr(), count as i32) };
    if written < 0 {
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::ptr::NonNull;

    use super::*;

    #[test]
    #[cfg(not(miri))]
    fn a_frame_goes_whole_wherever_its_parts_lie() {
        let (here, there) = UnixDatagram::pair().unwrap();
        let mut guest = *b" of a guest";
        // SAFETY: it lives until the end, and nobody else uses it meanwhile.
        let span = unsafe { Span::new(NonNull::from(&mut guest).cast(), guest.len()) };
        let rest = [span.split(3).0, span.split(3).1];
        let whole = FrameView::plain(b"frame");
        let mut got = [0; 64];
        for (frame, wanted) in
            [(whole, "head, frame"), (FrameView { rest: &rest, ..whole }, "head, frame of a guest")]
        {
            write(&here, b"head, ", &frame).unwrap();
            let len = there.recv(&mut got).unwrap();
            assert_eq!(&got[..len], wanted.as_bytes());
        }
    }
}
