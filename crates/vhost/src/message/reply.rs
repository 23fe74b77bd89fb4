//! Replies: what back-ends answer.

use super::code::Code;
use super::error::MessageError;
use super::header::{Bytes, Header, REPLY, VERSION};
use super::payload::{Inflight, RawInflight, State};

/// A reply of a back-end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reply {
    /// The requested number, or an outcome: 0 is success.
    Number(Code, u64),
    /// To [`GetVringBase`](Code::GetVringBase).
    Base {
        /// The ring.
        index: u8,
        /// Its position.
        base: u32,
    },
    /// To [`GetInflightFd`](Code::GetInflightFd); one descriptor goes with it.
    Inflight(Inflight),
}

impl Reply {
    /// Parses the reply to `code`.
    ///
    /// # Errors
    ///
    /// [`MessageError`]: it is not a reply, is another request's, or is invalid.
    pub fn parse(
        code: Code,
        header: &Header,
        payload: &[u8],
        fds: usize,
    ) -> Result<Self, MessageError> {
        let Header { request, flags, size } = *header;
        if flags & REPLY == 0 {
            return Err(MessageError::Flags { request, flags });
        }
        if request != code as u32 {
            return Err(MessageError::Astray(code, request));
        }
        if size != payload.len() {
            return Err(code.misfit(payload, size));
        }
        code.expect(fds, usize::from(code == Code::GetInflightFd))?;
        Ok(match code {
            Code::GetVringBase => {
                let State { index, num } = code.read(payload)?;
                Self::Base { index: code.field("ring", index)?, base: num }
            }
            Code::GetInflightFd => Self::Inflight(code.read::<RawInflight>(payload)?.into()),
            _ => Self::Number(code, code.read(payload)?),
        })
    }

    /// Writes the reply.
    pub fn emit(&self) -> Bytes {
        let bytes = |code| Bytes::new(code, VERSION | REPLY);
        match *self {
            Self::Number(code, number) => bytes(code).with(&number),
            Self::Base { index, base } => {
                bytes(Code::GetVringBase).with(&State { index: index.into(), num: base })
            }
            Self::Inflight(inflight) => {
                bytes(Code::GetInflightFd).with(&RawInflight::from(inflight))
            }
        }
    }
}
