//! Telling QEMU what to do with a guest: QMP (QEMU's docs/interop/qmp-spec.txt), JSON lines over a
//! socket.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

/// A conversation with QEMU.
pub(super) struct Qmp {
    stream: BufReader<UnixStream>,
    events: VecDeque<Value>,
}

/// Why a command was not done.
#[derive(Debug)]
pub(super) enum QmpError {
    /// QEMU's reason.
    Refused(String),
    /// It does not answer.
    Io(io::Error),
}

impl Qmp {
    /// Begins the conversation. A read that takes longer than the socket allows ends in an error.
    pub(super) fn open(stream: UnixStream) -> Result<Self, QmpError> {
        let mut qmp = Self { stream: BufReader::new(stream), events: VecDeque::new() };
        qmp.read()?;
        qmp.execute("qmp_capabilities", json!({}))?;
        Ok(qmp)
    }

    /// Has a command done, and returns what it returns.
    pub(super) fn execute(&mut self, command: &str, arguments: Value) -> Result<Value, QmpError> {
        let line = json!({ "execute": command, "arguments": arguments });
        writeln!(self.stream.get_mut(), "{line}")?;
        loop {
            let mut said = self.read()?;
            if said.get("event").is_some() {
                self.events.push_back(said);
            } else if let Some(error) = said.get("error") {
                return Err(QmpError::Refused(
                    error["desc"].as_str().unwrap_or_default().to_owned(),
                ));
            } else {
                return Ok(said["return"].take());
            }
        }
    }

    /// The data of the next event of this name. Events that came before it are dropped.
    pub(super) fn event(&mut self, name: &str) -> Result<Value, QmpError> {
        loop {
            let mut said = match self.events.pop_front() {
                Some(event) => event,
                None => self.read()?,
            };
            if said["event"] == name {
                return Ok(said["data"].take());
            }
        }
    }

    fn read(&mut self) -> Result<Value, QmpError> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(serde_json::from_str(&line).map_err(io::Error::from)?)
    }
}

impl From<io::Error> for QmpError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_from_events() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        for line in [
            json!({ "QMP": {} }),
            json!({ "return": {} }),
            json!({ "event": "STOP", "data": {} }),
            json!({ "event": "DEVICE_DELETED", "data": { "device": "nic0" } }),
            json!({ "return": { "status": "paused" } }),
            json!({ "error": { "class": "GenericError", "desc": "no such device" } }),
        ] {
            writeln!(theirs, "{line}").unwrap();
        }
        let mut qmp = Qmp::open(ours).unwrap();
        assert_eq!(qmp.execute("query-status", json!({})).unwrap()["status"], "paused");
        let QmpError::Refused(said) = qmp.execute("device_del", json!({})).unwrap_err() else {
            panic!()
        };
        assert_eq!(said, "no such device");
        assert_eq!(qmp.event("DEVICE_DELETED").unwrap()["device"], "nic0");
        let asked: Vec<_> = BufReader::new(&theirs).lines().take(3).map(Result::unwrap).collect();
        assert!(asked[2].contains(r#""execute":"device_del""#), "{asked:?}");
        drop(theirs);
        assert!(matches!(qmp.event("RESUME"), Err(QmpError::Io(_))));
    }
}
