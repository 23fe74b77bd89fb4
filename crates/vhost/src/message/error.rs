//! Errors of invalid messages, and the checks that find them.

use zerocopy::FromBytes;

use super::code::{Code, name};
use super::payload::MAX_PAYLOAD;

/// Why a message is invalid.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum MessageError {
    /// The flags have another version, or unknown bits.
    #[error(
        "cannot read request {request}: its flags are {flags:#x}, not those of version 1; use another front-end"
    )]
    Flags {
        /// The request's number.
        request: u32,
        /// The flags.
        flags: u32,
    },
    /// The payload is longer than that of any known message.
    #[error(
        "cannot read request {request}: its payload of {size} bytes exceeds {MAX_PAYLOAD}; use another front-end"
    )]
    Oversized {
        /// The request's number.
        request: u32,
        /// The size in its header.
        size: u32,
    },
    /// The request is unknown.
    #[error("cannot serve {}: no network back-end of ours offers it; use another front-end", name(*.0))]
    Unknown(u32),
    /// The reply is to another request.
    #[error(
        "cannot read a reply to {0:?}: the back-end answered request {1}; use another back-end"
    )]
    Astray(Code, u32),
    /// The payload has a wrong length.
    #[error(
        "cannot read {request:?}: its payload has {size} bytes, not {wanted}; use another peer"
    )]
    Payload {
        /// The request.
        request: Code,
        /// The payload's length in bytes.
        size: usize,
        /// How many there should be.
        wanted: usize,
    },
    /// The number of descriptors is wrong.
    #[error(
        "cannot read {request:?}: {given} descriptors came with it, not {wanted}; use another peer"
    )]
    Descriptors {
        /// The request.
        request: Code,
        /// The number of descriptors.
        given: usize,
        /// How many there should be.
        wanted: usize,
    },
    /// A number is out of range.
    #[error("cannot read {request:?}: its {field} is {value}, out of range; use another peer")]
    Field {
        /// The request.
        request: Code,
        /// The field.
        field: &'static str,
        /// The value.
        value: u64,
    },
}

impl Code {
    /// Parses a payload of fixed length.
    pub(super) fn read<T: FromBytes>(self, payload: &[u8]) -> Result<T, MessageError> {
        T::read_from_bytes(payload).map_err(|_| self.misfit(payload, size_of::<T>()))
    }

    pub(super) fn misfit(self, payload: &[u8], wanted: usize) -> MessageError {
        MessageError::Payload { request: self, size: payload.len(), wanted }
    }

    pub(super) fn field<T: TryFrom<u64>>(
        self,
        field: &'static str,
        value: impl Into<u64>,
    ) -> Result<T, MessageError> {
        let value = value.into();
        T::try_from(value).map_err(|_| MessageError::Field { request: self, field, value })
    }

    pub(super) fn expect(self, given: usize, wanted: usize) -> Result<(), MessageError> {
        let right = given == wanted;
        if right { Ok(()) } else { Err(MessageError::Descriptors { request: self, given, wanted }) }
    }
}
