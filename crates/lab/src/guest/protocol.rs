//! What the host and a guest's agent say to each other, over one channel that carries bytes in
//! order.
//!
//! ```text
//!    program u32 │ kind u8 │ length u32 │ so many bytes          little-endian
//!
//!    host                            guest
//!     │◀──────────── Ready ────────────│   the agent serves
//!     │── Start: arguments ───────────▶│   ─┐
//!     │── Input ──────────────────────▶│    │ any number of programs at once,
//!     │◀──────────── Output, Error ────│    │ each by its number
//!     │── Kill ───────────────────────▶│    │
//!     │◀──────────── Ended, Refused ───│   ─┘
//! ```

use std::io::{self, Read, Write};

/// The most bytes that one message carries.
const LONGEST: u32 = 1 << 20;

/// What a message is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// The agent serves.
    Ready,
    /// Run a program: its name and its arguments, a NUL between them.
    Start,
    /// For its stdin; nothing ends that.
    Input,
    /// End it and whoever it has started.
    Kill,
    /// From its stdout.
    Output,
    /// From its stderr.
    Error,
    /// It has ended: its wait status (wait(2)), as an `i32`. Nothing of it follows.
    Ended,
    /// It could not be started: why. Nothing of it follows.
    Refused,
}

const KINDS: [Kind; 8] = [
    Kind::Ready,
    Kind::Start,
    Kind::Input,
    Kind::Kill,
    Kind::Output,
    Kind::Error,
    Kind::Ended,
    Kind::Refused,
];

/// One message about one program.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Message {
    pub(super) program: u32,
    pub(super) kind: Kind,
    pub(super) bytes: Vec<u8>,
}

impl Message {
    pub(super) fn new(program: u32, kind: Kind, bytes: impl Into<Vec<u8>>) -> Self {
        Self { program, kind, bytes: bytes.into() }
    }

    /// Sends it, in one piece.
    ///
    /// # Panics
    ///
    /// If it is longer than any may be.
    pub(super) fn write(&self, mut channel: impl Write) -> io::Result<()> {
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        assert!(length <= LONGEST, "a message of {length} bytes; {LONGEST} is the most");
        let mut whole = Vec::with_capacity(9 + self.bytes.len());
        whole.extend(self.program.to_le_bytes());
        whole.push(self.kind as u8);
        whole.extend(length.to_le_bytes());
        whole.extend(&self.bytes);
        channel.write_all(&whole)
    }

    /// Receives one.
    pub(super) fn read(mut channel: impl Read) -> io::Result<Self> {
        let mut header = [0; 9];
        channel.read_exact(&mut header)?;
        let [a, b, c, d, kind, e, f, g, h] = header;
        let (program, length) =
            (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        let kind = KINDS.get(usize::from(kind)).filter(|_| length <= LONGEST);
        let kind = *kind.ok_or(io::ErrorKind::InvalidData)?;
        let mut bytes = vec![0; length as usize];
        channel.read_exact(&mut bytes)?;
        Ok(Self { program, kind, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        for kind in KINDS {
            let message = Message::new(7, kind, *b"\0\xff and more");
            let mut channel = Vec::new();
            message.write(&mut channel).unwrap();
            Message::new(8, kind, []).write(&mut channel).unwrap();
            let mut channel = &channel[..];
            assert_eq!(Message::read(&mut channel).unwrap(), message);
            assert_eq!(Message::read(&mut channel).unwrap(), Message::new(8, kind, []));
            assert!(Message::read(&mut channel).is_err(), "half a message is none");
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let mut long = Vec::new();
        Message::new(1, Kind::Output, []).write(&mut long).unwrap();
        let mut unknown = long.clone();
        unknown[4] = KINDS.len() as u8;
        long[5..].fill(0xff);
        for bytes in [unknown, long] {
            assert_eq!(Message::read(&bytes[..]).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }
}
