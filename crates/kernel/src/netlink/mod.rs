//! A small synchronous rtnetlink client (RFC 3549): links, addresses, routes, neighbours, queueing
//! disciplines.
//!
//! ```text
//!    Netlink ──┬─ link      add, change, delete, list with counters
//!              ├─ address   addresses, routes, permanent neighbours
//!              ├─ own       when an address is in use
//!              ├─ holder    which device has an address, and when that changes
//!              ├─ way       who takes a packet next
//!              ├─ bridge    addresses in a bridge's table
//!              └─ qdisc     tbf, pfifo, htb and its classes, and what they have dropped
//! ```
//!
//! One request goes out, its answer comes back, and an error says what was asked, of which object,
//! and in what words the kernel refused. A client belongs to the namespace that it was opened in
//! and may be used from any thread.

mod address;
mod bridge;
mod holder;
mod link;
mod own;
mod qdisc;
mod way;

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CAPPED, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer,
    NetlinkMessage, NetlinkPayload, NlasIterator,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use crate::netns::{Namespace, NamespaceError};

pub use address::Route;
pub use holder::Changes;
pub use link::{Link, LinkChange, LinkCounters, Vxlan};
pub use own::{PATIENCE, await_addresses};
pub use qdisc::set_request;
pub use qdisc::{Handle, Qdisc, QdiscClass, QdiscKind, QdiscStatus, TokenBucket};
pub use units::Prefix;
pub use way::NextHop;

/// The sequence number of requests that are [posted](Netlink::post); no other has it.
pub const POSTED: u32 = 0;

/// A connection to the kernel's routing tables in one namespace.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    sequence: u32,
    answer: Vec<u8>,
}

/// Why the kernel did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {object}: {source}{said}")]
pub struct NetlinkError {
    operation: &'static str,
    object: String,
    /// The kernel's extended acknowledgement, with a separator before it; empty if it said nothing.
    said: String,
    source: io::Error,
}

impl NetlinkError {
    /// Whether the object was already there.
    pub fn is_already_there(&self) -> bool {
        self.source.raw_os_error() == Some(libc::EEXIST)
    }

    /// Whether there is no such object.
    pub fn is_not_found(&self) -> bool {
        matches!(self.source.raw_os_error(), Some(libc::ENODEV | libc::ENOENT))
    }

    /// What the kernel answered.
    pub fn source(&self) -> &io::Error {
        &self.source
    }
}

/// Why a client could not be opened in a namespace.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The namespace could not be entered.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The socket could not be opened.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

impl Netlink {
    /// Connects in the calling thread's namespace.
    ///
    /// # Errors
    ///
    /// [`NetlinkError`] if the kernel has no socket for us.
    pub fn open() -> Result<Self, NetlinkError> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            // Words for errors, and no copy of the request with them.
            socket.set_ext_ack(true)?;
            socket.set_cap_ack(true)?;
            Ok(socket)
        };
        let socket = open().map_err(failed("open", "an rtnetlink socket"))?;
        // The kernel fills a dump's datagrams up to 32 KiB.
        Ok(Self { socket, sequence: POSTED, answer: Vec::with_capacity(64 << 10) })
    }

    /// Connects in a given namespace.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if the namespace cannot be entered, or the kernel has no socket for us.
    pub fn open_in(namespace: &Namespace) -> Result<Self, OpenError> {
        Ok(namespace.run(Self::open)??)
    }

    /// Asks for one thing and waits until it is done.
    fn ask(
        &mut self,
        operation: &'static str,
        object: &str,
        flags: u16,
        request: RouteNetlinkMessage,
    ) -> Result<(), NetlinkError> {
        self.send(flags | NLM_F_ACK, request).map_err(failed(operation, object))?;
        self.collect(operation, object, |_| {})
    }

    /// Asks for a list, or for one object by name, and hands over each message of the answer.
    fn list(
        &mut self,
        operation: &'static str,
        object: &str,
        flags: u16,
        request: RouteNetlinkMessage,
        each: impl FnMut(RouteNetlinkMessage),
    ) -> Result<(), NetlinkError> {
        debug_assert!(flags & (NLM_F_DUMP | NLM_F_ACK) != 0, "an answer must have an end");
        self.send(flags, request).map_err(failed(operation, object))?;
        self.collect(operation, object, each)
    }

    /// Sends a request made by [`encode`] with sequence [`POSTED`] and no acknowledgement: done
    /// when this returns.
    pub fn post(&mut self, request: &[u8]) -> io::Result<()> {
        self.socket.send(request, 0)?;
        // Silence is consent: the kernel answers such a request only to refuse it.
        let mut outcome = Ok(());
        loop {
            self.answer.clear();
            match self.socket.recv(&mut self.answer, libc::MSG_DONTWAIT) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return outcome,
                Err(error) => return Err(error),
                Ok(_) => {}
            }
            // An answer to an earlier request that failed half-way is none of ours.
            if let Ok(message) = NetlinkBuffer::new_checked(&self.answer[..])
                && (message.message_type(), message.sequence_number()) == (NLMSG_ERROR, POSTED)
            {
                outcome = verdict(&message, "post", "a request").map_err(|error| error.source);
            }
        }
    }

    fn send(&mut self, flags: u16, request: RouteNetlinkMessage) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1).max(POSTED + 1);
        let request = encode(flags, self.sequence, request);
        self.socket.send(&request, 0).map(drop)
    }

    /// Reads the answer to the latest request up to its end.
    fn collect(
        &mut self,
        operation: &'static str,
        object: &str,
        mut each: impl FnMut(RouteNetlinkMessage),
    ) -> Result<(), NetlinkError> {
        loop {
            self.answer.clear();
            self.socket.recv(&mut self.answer, 0).map_err(failed(operation, object))?;
            let mut rest = &self.answer[..];
            while let Ok(message) = NetlinkBuffer::new_checked(rest) {
                let length = message.length() as usize;
                // An answer to an earlier request that failed half-way is none of ours.
                if message.sequence_number() == self.sequence {
                    match message.message_type() {
                        NLMSG_DONE => return Ok(()),
                        NLMSG_ERROR => return verdict(&message, operation, object),
                        _ => {
                            let parsed = NetlinkMessage::deserialize(&rest[..length]);
                            if let Ok(NetlinkMessage {
                                payload: NetlinkPayload::InnerMessage(inner),
                                ..
                            }) = parsed
                            {
                                each(inner);
                            }
                        }
                    }
                }
                // Messages are aligned to four bytes (NLMSG_ALIGNTO).
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            }
        }
    }
}

/// A request as it goes over the socket.
pub fn encode(flags: u16, sequence: u32, request: RouteNetlinkMessage) -> Vec<u8> {
    let mut message = NetlinkMessage::from(request);
    message.header.flags = flags | NLM_F_REQUEST;
    message.header.sequence_number = sequence;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// What an NLMSG_ERROR says: an acknowledgement, or an error with the kernel's words for it.
fn verdict(
    message: &NetlinkBuffer<&[u8]>,
    operation: &'static str,
    object: &str,
) -> Result<(), NetlinkError> {
    const MSG: u16 = 1; // NLMSGERR_ATTR_MSG
    const ERRNO: usize = 4;
    const REQUEST_HEADER: usize = 16;
    let payload = message.payload();
    let code = match payload.first_chunk::<ERRNO>() {
        Some(errno) => i32::from_ne_bytes(*errno),
        None => -libc::EPROTO,
    };
    if code == 0 {
        return Ok(());
    }
    let mut said = String::new();
    if message.flags() & NLM_F_CAPPED != 0 && payload.len() > ERRNO + REQUEST_HEADER {
        for attribute in NlasIterator::new(&payload[ERRNO + REQUEST_HEADER..]).flatten() {
            if attribute.kind() == MSG {
                let text = String::from_utf8_lossy(attribute.value());
                said = format!(": {}", text.trim_end_matches('\0'));
            }
        }
    }
    let source = io::Error::from_raw_os_error(-code);
    Err(NetlinkError { operation, object: object.into(), said, source })
}

fn failed(operation: &'static str, object: &str) -> impl Fn(io::Error) -> NetlinkError {
    move |source| NetlinkError { operation, object: object.into(), said: String::new(), source }
}

#[cfg(test)]
mod tests {
    use netlink_packet_route::link::LinkMessage;

    use super::*;

    #[test]
    fn a_refusal_is_told_from_what_an_earlier_request_left_unread() {
        if !needs::root() {
            return;
        }
        let mut netlink = Netlink::open().unwrap();
        netlink.send(NLM_F_DUMP, RouteNetlinkMessage::GetLink(LinkMessage::default())).unwrap();
        let mut nobody = LinkMessage::default();
        nobody.header.index = u32::MAX >> 1;
        let request = encode(0, POSTED, RouteNetlinkMessage::DelLink(nobody));
        assert_eq!(netlink.post(&request).unwrap_err().raw_os_error(), Some(libc::ENODEV));
        netlink.send(NLM_F_DUMP, RouteNetlinkMessage::GetLink(LinkMessage::default())).unwrap();
        let nothing = encode(0, POSTED, RouteNetlinkMessage::SetLink(loopback()));
        netlink.post(&nothing).unwrap();
        assert!(netlink.index("lo").is_ok());
    }

    /// Asks for no change.
    fn loopback() -> LinkMessage {
        let mut message = LinkMessage::default();
        message.header.index = 1;
        message
    }
}
