//! Bytes that may be messages, as either side of a vhost-user connection reads them.

use vhost::message::{Code, Header, Message, Reply};

/// Reads `bytes` as a message and as each reply: what was read can be written, and says the same.
pub fn attack(bytes: &[u8]) {
    let Some((&fds, bytes)) = bytes.split_first() else { return };
    let Some((header, payload)) = split(bytes) else { return };
    if let Ok(message) = Message::parse(&header, payload, fds.into()) {
        let emitted = message.emit();
        let (header, payload) = split(emitted.as_ref()).expect("a message has a header");
        assert_eq!(Message::parse(&header, payload, fds.into()), Ok(message));
    }
    for code in Code::ALL {
        if let Ok(reply) = Reply::parse(*code, &header, payload, fds.into()) {
            let emitted = reply.emit();
            let (header, payload) = split(emitted.as_ref()).expect("a reply has a header");
            assert_eq!(Reply::parse(*code, &header, payload, fds.into()), Ok(reply));
        }
    }
}

/// A header that is right, and what follows it.
fn split(bytes: &[u8]) -> Option<(Header, &[u8])> {
    let (header, payload) = bytes.split_first_chunk()?;
    Some((Header::parse(header).ok()?, payload))
}
