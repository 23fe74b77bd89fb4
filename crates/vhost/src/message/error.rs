//! Why bytes are no message, and the checks that find it.

use zerocopy::FromBytes;

use super::code::{Code, name};
use super::payload::MAX_PAYLOAD;

/// Why bytes are no message.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum MessageError {
    /// The flags name another version, or say something that we do not know.
    #[error(
        "cannot read request {request}: its flags are {flags:#x}, not those of version 1; use another front-end"
    )]
    Flags {
        /// The request's number.
        request: u32,
        /// Its flags.
        flags: u32,
    },
    /// The payload would be longer than any we know.
    #[error(
        "cannot read request {request}: its payload of {size} bytes exceeds {MAX_PAYLOAD}; use another front-end"
    )]
    Oversized {
        /// The request's number.
        request: u32,
        /// What its header says.
        size: u32,
    },
    /// A request that we do not serve.
    #[error("cannot serve {}: no network back-end of ours offers it; use another front-end", name(*.0))]
    Unknown(u32),
    /// Another reply than the one that was asked for.
    #[error(
        "cannot read a reply to {0:?}: the back-end answered request {1}; use another back-end"
    )]
    Astray(Code, u32),
    /// A payload of another length.
    #[error(
        "cannot read {request:?}: its payload has {size} bytes, not {wanted}; use another peer"
    )]
    Payload {
        /// The request.
        request: Code,
        /// How many bytes there are.
        size: usize,
        /// How many there should be.
        wanted: usize,
    },
    /// Another number of descriptors.
    #[error(
        "cannot read {request:?}: {given} descriptors came with it, not {wanted}; use another peer"
    )]
    Descriptors {
        /// The request.
        request: Code,
        /// How many there are.
        given: usize,
        /// How many there should be.
        wanted: usize,
    },
    /// A number that is out of its range.
    #[error("cannot read {request:?}: its {field} is {value}, out of range; use another peer")]
    Field {
        /// The request.
        request: Code,
        /// Which of its fields.
        field: &'static str,
        /// What that says.
        value: u64,
    },
}

impl Code {
    /// The bytes of its payload as a wire form that has one length.
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
