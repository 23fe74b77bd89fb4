//! When a namespace's kernel takes packets for an address as its own.
//!
//! An address of IPv4 is in use when the kernel says that it has been added. To one of IPv6 it adds
//! the route to itself on a worker thread, duplicate address detection or not (`addrconf_dad_work`
//! in Linux's net/ipv6/addrconf.c). Until that thread has had its turn and the lock of all
//! namespaces, packets for the address count as somebody else's, and are dropped
//! (`Ip6InAddrErrors`).

use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use netlink_packet_core::{NetlinkBuffer, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use units::Prefix;

use super::address::family_of;
use super::{Netlink, NetlinkError, OpenError, failed};
use crate::netns::Namespace;

/// RTNLGRP_IPV6_ROUTE (linux/rtnetlink.h).
const ROUTES_OF_IPV6: u32 = 11;

/// How long to wait where nothing else is to be said: the kernel needs no more than its turn.
/// Whoever is root in a namespace may take addresses away, and nobody waits for those any longer.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until a namespace's kernel takes packets for all these addresses as its own. They have
/// been added to an interface there.
///
/// # Errors
///
/// [`OpenError`] if it does not until the deadline.
pub fn await_addresses(
    namespace: &Namespace,
    interface: &str,
    addresses: impl IntoIterator<Item = Prefix>,
    deadline: Instant,
) -> Result<(), OpenError> {
    let mut addresses =
        addresses.into_iter().map(|prefix| prefix.address).filter(IpAddr::is_ipv6).peekable();
    if addresses.peek().is_none() {
        return Ok(());
    }
    // A client of its own: what else it hears of routes troubles nobody.
    let mut netlink = Netlink::open_in(namespace)?;
    let link = netlink.index(interface)?;
    netlink.socket.add_membership(ROUTES_OF_IPV6).map_err(failed("hear of", "routes"))?;
    for address in addresses {
        netlink.await_own(link, address, deadline)?;
    }
    Ok(())
}

impl Netlink {
    /// Asks for the route to an address, and goes on to hear of new ones: one or the other says
    /// that it is our own.
    fn await_own(
        &mut self,
        link: u32,
        address: IpAddr,
        deadline: Instant,
    ) -> Result<(), NetlinkError> {
        let object = address.to_string();
        let failed = failed("use address", &object);
        let mut question = RouteMessage::default();
        question.header.address_family = family_of(address);
        question.header.destination_prefix_length = 128;
        question.attributes =
            vec![RouteAttribute::Destination(address.into()), RouteAttribute::Oif(link)];
        let question = RouteNetlinkMessage::GetRoute(question);
        self.send(0, question.clone()).map_err(&failed)?;
        loop {
            self.wait_until(deadline).map_err(&failed)?;
            self.answer.clear();
            match self.socket.recv(&mut self.answer, 0) {
                Ok(_) if says_own(&self.answer, address) => return Ok(()),
                Ok(_) => {}
                // There was more news than the socket has room for.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    self.send(0, question.clone()).map_err(&failed)?;
                }
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Waits until there is something to read.
    fn wait_until(&self, deadline: Instant) -> io::Result<()> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // What does not fit is longer than anybody waits.
            let left = Timespec::try_from(left).ok();
            match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], left.as_ref()) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Whether one of these messages is of a route by which packets for an address stay here.
fn says_own(mut messages: &[u8], own: IpAddr) -> bool {
    while let Ok(message) = NetlinkBuffer::new_checked(messages) {
        let length = message.length() as usize;
        let parsed = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&messages[..length]);
        if let Ok(NetlinkMessage {
            payload: NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(route)),
            ..
        }) = parsed
            && route.header.kind == RouteType::Local
            && route.attributes.contains(&RouteAttribute::Destination(RouteAddress::from(own)))
        {
            return true;
        }
        // Messages are aligned to four bytes (NLMSG_ALIGNTO).
        messages = messages.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::joined::{self, LOOPBACK};

    fn at(number: u16) -> Prefix {
        format!("fd09::{number:x}/64").parse().unwrap()
    }

    #[test]
    fn an_address_that_was_waited_for_is_the_namespaces_own() {
        if !needs::root() {
            return;
        }
        let [host, _far] = joined::two().unwrap();
        let mut netlink = Netlink::open_in(&host).unwrap();
        let link = netlink.index(joined::INTERFACE).unwrap();
        for number in 1..=200 {
            let own = at(number);
            netlink.add_address(link, own).unwrap();
            await_addresses(&host, joined::INTERFACE, [own], Instant::now() + PATIENCE).unwrap();
            assert_eq!(
                netlink.next_hop(own.address, own.address).unwrap(),
                None,
                "it does not leave"
            );
        }
        // They are still there for who waits once more, and for all at once.
        await_addresses(&host, joined::INTERFACE, (1..=200).map(at), Instant::now() + PATIENCE)
            .unwrap();
    }

    #[test]
    fn nobody_waits_for_ever_for_what_is_not_there() {
        if !needs::root() {
            return;
        }
        let host = joined::alone().unwrap();
        let refused =
            await_addresses(&host, LOOPBACK, [at(1)], Instant::now()).unwrap_err().to_string();
        assert!(
            refused.contains("use address fd09::1") && refused.contains("timed out"),
            "{refused}"
        );
    }
}
