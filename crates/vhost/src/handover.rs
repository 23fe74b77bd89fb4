//! Hands a port's session over to the next switch, so that the front-end's connection stays open.
//!
//! ```text
//!   port ─deposit─▶ [ connection, listener, the session's requests, their descriptors ] ─▶ inherit ─▶ the next port
//!                     in the queue of a socket, of which a service manager has a duplicate
//! ```
//!
//! Descriptors that were sent over a Unix socket and not yet received stay open when the sender
//! ends. So the kernel can keep a session in the queue of a socket pair, and the service manager
//! needs to keep only one end of it, which is the same for the port's whole life. The other end is
//! in the queue, too, for the successor. A deposit is complete or absent. It is
//! [withdrawn](Handover::withdraw) before anything is done that would make it wrong. When all
//! copies of the other end are closed, the kept end hangs up, and the service manager drops it.
//!
//! ```text
//!   │ how many follow │ whose it is │ + the other end, the port's own descriptors    each line a packet
//!   │ number of descriptors │ request │ number of descriptors │ request │ … │ + those descriptors
//!   │ …
//! ```

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use super::message::{HEADER_LEN, Header, Message};
use super::retold::Told;

/// The longest packet in bytes. A few packets hold the requests of 128 queue pairs.
const PACKET: usize = 16 << 10;

/// The most descriptors with one packet: SCM_MAX_FD (unix(7)).
const FDS: usize = 253;

/// A kept request, and its descriptors.
pub type Kept = (Message, Vec<OwnedFd>);

/// A socket pair in which a port can leave its session.
#[derive(Debug)]
pub struct Handover {
    /// The end that deposits are sent into.
    put: OwnedFd,
    /// The end that deposits are received from, and that the service manager keeps.
    take: OwnedFd,
    inherited: Option<Inheritance>,
    left: bool,
}

/// A session that a port has left.
#[derive(Debug, Default)]
pub struct Inheritance {
    /// The port's own descriptors.
    pub fds: Vec<OwnedFd>,
    /// The requests of its front-end.
    pub requests: Vec<Kept>,
}

impl Handover {
    /// An empty socket pair.
    ///
    /// # Errors
    ///
    /// The error of `socketpair(2)`.
    pub fn new() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (put, take) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok(Self { put, take, inherited: None, left: false })
    }

    /// Whether the deposit is `owner`'s. It stays in place.
    pub fn is_of(take: impl AsFd, owner: &str) -> bool {
        let mut head = [0; PACKET];
        let seen = rustix::net::recv(take, &mut head, RecvFlags::PEEK | RecvFlags::DONTWAIT);
        seen.is_ok_and(|(len, _)| len > 0 && &head[1..len] == owner.as_bytes())
    }

    /// Takes over a kept socket pair and its deposit, if that is complete and `owner`'s.
    pub fn inherit(take: OwnedFd, owner: &str) -> Option<Self> {
        let mut bytes = [0; PACKET];
        let (head, mut fds) = receive(&take, &mut bytes)?;
        let (&following, its_owner) = head.split_first()?;
        if its_owner != owner.as_bytes() || fds.is_empty() {
            return None;
        }
        let put = fds.remove(0);
        let mut requests = Vec::new();
        for _ in 0..following {
            let (packet, fds) = receive(&take, &mut bytes)?;
            parse(packet, fds, &mut requests)?;
        }
        Some(Self { put, take, inherited: Some(Inheritance { fds, requests }), left: false })
    }

    /// Takes the inherited session.
    pub fn inherited(&mut self) -> Option<Inheritance> {
        self.inherited.take()
    }

    /// Deposits a session for the successor, replacing an earlier deposit.
    ///
    /// # Errors
    ///
    /// The error of `sendmsg(2)`, for example because too many descriptors are in flight. Then
    /// nothing is deposited.
    pub fn deposit(
        &self,
        owner: &str,
        fds: &[BorrowedFd<'_>],
        requests: &[Told<'_>],
    ) -> io::Result<()> {
        self.withdraw();
        let packets = emit(requests);
        let following =
            u8::try_from(packets.len()).map_err(|_| io::ErrorKind::ArgumentListTooLong)?;
        let head = ([&[following], owner.as_bytes()].concat(), [&[self.put.as_fd()], fds].concat());
        let sent = std::iter::once(head)
            .chain(packets)
            .try_for_each(|(bytes, fds)| self.send(&bytes, &fds));
        sent.inspect_err(|_| self.withdraw())
    }

    fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(
                control.push(SendAncillaryMessage::ScmRights(fds)),
                "{} descriptors",
                fds.len()
            );
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        // Packets are sent whole (unix(7)).
        rustix::net::sendmsg(&self.put, &[IoSlice::new(bytes)], &mut control, flags)?;
        Ok(())
    }

    /// Withdraws the deposit, and closes its descriptors.
    pub fn withdraw(&self) {
        Self::discard(&self.take);
    }

    /// Closes the deposit's descriptors now, because the service manager may drop the kept end
    /// late.
    pub fn discard(take: impl AsFd) {
        // Receiving a packet's first byte removes the whole packet.
        while rustix::net::recv(&take, &mut [0; 1], RecvFlags::DONTWAIT)
            .is_ok_and(|(taken, _)| taken > 0)
        {}
    }

    /// Ends without withdrawing: the deposit stays for whoever has a duplicate of the [kept
    /// end](AsFd).
    pub fn leave(mut self) {
        self.left = true;
    }
}

/// Without [`Handover::leave`] nothing can be inherited.
impl Drop for Handover {
    fn drop(&mut self) {
        if !self.left {
            self.withdraw();
        }
    }
}

/// The end that the service manager is to keep.
impl AsFd for Handover {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.take.as_fd()
    }
}

/// Receives the next packet with its descriptors; `None` if there is none, or it is incomplete.
fn receive<'a>(socket: &OwnedFd, bytes: &'a mut [u8]) -> Option<(&'a [u8], Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received =
        rustix::net::recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, flags).ok()?;
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fds = rights.flatten().collect();
    let is_cut = received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    (!is_cut && received.bytes > 0).then(|| (&bytes[..received.bytes], fds))
}

/// Splits requests into packets, each with its descriptors.
fn emit<'a>(requests: &[Told<'a>]) -> Vec<(Vec<u8>, Vec<BorrowedFd<'a>>)> {
    let mut packets: Vec<(Vec<u8>, Vec<BorrowedFd<'a>>)> = Vec::new();
    for (request, fds) in requests {
        let message = Message { request: *request, need_reply: false }.emit();
        let len = 1 + message.as_ref().len();
        let has_room = |(bytes, its): &mut (Vec<u8>, Vec<_>)| {
            bytes.len() + len <= PACKET && its.len() + fds.len() <= FDS
        };
        if !packets.last_mut().is_some_and(has_room) {
            packets.push(Default::default());
        }
        let (bytes, its) = packets.last_mut().expect("there is one with room");
        bytes.push(fds.len() as u8);
        bytes.extend(message.as_ref());
        its.extend(fds);
    }
    packets
}

/// Parses the requests of a packet; `None` if it is invalid.
pub fn parse(mut bytes: &[u8], fds: Vec<OwnedFd>, requests: &mut Vec<Kept>) -> Option<()> {
    let mut fds = fds.into_iter();
    while let Some((&count, rest)) = bytes.split_first() {
        let (header, rest) = rest.split_first_chunk::<HEADER_LEN>()?;
        let header = Header::parse(header).ok()?;
        let (payload, rest) = rest.split_at_checked(header.payload_len())?;
        let its: Vec<_> = fds.by_ref().take(count.into()).collect();
        requests.push((Message::parse(&header, payload, its.len()).ok()?, its));
        bytes = rest;
    }
    fds.next().is_none().then_some(())
}
