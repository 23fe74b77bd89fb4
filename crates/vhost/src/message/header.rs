//! Message headers, and messages in the form in which they are sent.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::code::Code;
use super::error::MessageError;
use super::payload::MAX_PAYLOAD;

/// The length of a header in bytes.
pub const HEADER_LEN: usize = size_of::<RawHeader>();

pub(super) const VERSION: u32 = 1;
pub(super) const REPLY: u32 = 1 << 2;
pub(super) const NEED_REPLY: u32 = 1 << 3;

/// A parsed header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    pub(super) request: u32,
    pub(super) flags: u32,
    pub(super) size: usize,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(super) struct RawHeader {
    pub request: u32,
    pub flags: u32,
    pub size: u32,
}

impl Header {
    /// Parses a header. Checks version and size.
    ///
    /// # Errors
    ///
    /// [`MessageError::Flags`] or [`MessageError::Oversized`].
    pub fn parse(bytes: &[u8; HEADER_LEN]) -> Result<Self, MessageError> {
        let RawHeader { request, flags, size } = zerocopy::transmute!(*bytes);
        if flags & 3 != VERSION || flags & !(3 | REPLY | NEED_REPLY) != 0 {
            return Err(MessageError::Flags { request, flags });
        }
        match usize::try_from(size) {
            Ok(len) if len <= MAX_PAYLOAD => Ok(Self { request, flags, size: len }),
            _ => Err(MessageError::Oversized { request, size }),
        }
    }

    /// The length of the payload in bytes.
    pub fn payload_len(&self) -> usize {
        self.size
    }
}

/// A message in the form in which it is sent.
#[derive(Clone, Debug)]
pub struct Bytes {
    len: usize,
    bytes: [u8; HEADER_LEN + MAX_PAYLOAD],
}

impl Bytes {
    pub(super) fn new(code: Code, flags: u32) -> Self {
        let header = RawHeader { request: code as u32, flags, size: 0 };
        Self { len: 0, bytes: [0; HEADER_LEN + MAX_PAYLOAD] }.append(header.as_bytes())
    }

    /// Appends to the payload. It always fits: no message exceeds the bound.
    pub(super) fn with(self, part: &(impl IntoBytes + Immutable + ?Sized)) -> Self {
        let mut longer = self.append(part.as_bytes());
        let size = (longer.len - HEADER_LEN) as u32;
        longer.bytes[8..HEADER_LEN].copy_from_slice(size.as_bytes());
        longer
    }

    fn append(mut self, part: &[u8]) -> Self {
        self.bytes[self.len..][..part.len()].copy_from_slice(part);
        self.len += part.len();
        self
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
