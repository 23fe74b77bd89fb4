//! A frame as a switch looks at it.

use wire::Offload;

use crate::span::Span;

/// In how many spans a frame's end lies at most: as many buffers as a virtual machine may give one
/// frame.
pub const MAX_SPANS: usize = 64;

/// A frame as it lies in its sender's memory: from the first octet of the destination address to
/// the last of the payload, without the check sequence.
#[derive(Clone, Copy, Debug)]
pub struct FrameView<'a> {
    /// What can be looked at: the whole frame, or at least its Ethernet header, and all its headers
    /// if there is a note.
    pub bytes: &'a [u8],
    /// What is behind that, one behind the other: a guest's own, which can only be copied.
    pub rest: &'a [Span],
    /// What its receiver still has to do to it, where its sender said so: see
    /// [`offload`](Self::offload).
    pub note: Option<&'a Offload>,
}

impl<'a> FrameView<'a> {
    /// A frame that needs nothing done to it.
    #[inline]
    pub const fn plain(bytes: &'a [u8]) -> Self {
        Self { bytes, rest: &[], note: None }
    }

    /// A frame of which its sender has said something.
    #[inline]
    pub const fn noted(bytes: &'a [u8], note: &'a Offload) -> Self {
        Self { bytes, rest: &[], note: Some(note) }
    }

    /// Its length in bytes.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a frame has a header")]
    pub fn len(&self) -> usize {
        let rest = match self.rest {
            [] => 0,
            [one] => one.len(),
            many => many.iter().map(|span| span.len()).sum(),
        };
        self.bytes.len() + rest
    }

    /// Copies its first bytes out: as many as it has and `to` has room for.
    #[inline(never)]
    pub fn read(&self, to: &mut [u8]) -> usize {
        let mut done = self.bytes.len().min(to.len());
        to[..done].copy_from_slice(&self.bytes[..done]);
        for span in self.rest {
            done += span.read(&mut to[done..]);
        }
        done
    }

    /// Its first bytes, at most as many as `scratch` has: copied there if they cannot be looked at
    /// where they are.
    #[inline]
    pub fn first<'b>(&self, scratch: &'b mut [u8]) -> &'b [u8]
    where
        'a: 'b,
    {
        if self.rest.is_empty() {
            return self.bytes;
        }
        let len = self.read(scratch);
        &scratch[..len]
    }

    /// What its receiver still has to do to it.
    #[inline]
    pub fn offload(&self) -> Offload {
        self.note.copied().unwrap_or_default()
    }

    /// How many bytes, and how many frames, it stands for on a wire.
    #[inline]
    pub fn on_wire(&self) -> (usize, usize) {
        let len = self.len();
        match self.note {
            None => (len, 1),
            Some(offload) => (wire::wire_bytes(len, *offload), wire::wire_frames(len, *offload)),
        }
    }
}
