//! Which devices have a host's own addresses, and when that may have changed.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::NLM_F_DUMP;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};

use super::{Link, Netlink, NetlinkError, failed};

/// RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR and RTNLGRP_IPV6_IFADDR (linux/rtnetlink.h).
const GROUPS: [u32; 3] = [1, 5, 9];

/// Hears of changes of devices and addresses in a namespace.
#[derive(Debug)]
pub struct Changes(Netlink);

impl Changes {
    /// Hears of all changes from now on, in the calling thread's namespace.
    ///
    /// # Errors
    ///
    /// [`NetlinkError`] if the kernel has no socket for us.
    pub fn open() -> Result<Self, NetlinkError> {
        let netlink = Netlink::open()?;
        for group in GROUPS {
            let failed = failed("hear of", "links and addresses");
            netlink.socket.add_membership(group).map_err(failed)?;
        }
        Ok(Self(netlink))
    }

    /// Forgets the changes so far: it is readable again with the next one.
    ///
    /// # Errors
    ///
    /// What `recv` says; there is no cause that we know of.
    pub fn clear(&mut self) -> io::Result<()> {
        let Netlink { socket, answer, .. } = &mut self.0;
        loop {
            answer.clear();
            match socket.recv(answer, libc::MSG_DONTWAIT) {
                // More changes than the socket has room for are changes all the same.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
    }
}

/// Readable when something has changed.
impl AsFd for Changes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.socket.as_fd()
    }
}

impl Netlink {
    /// The device that has each of these addresses, and may use it; `None` if none has.
    ///
    /// # Errors
    ///
    /// [`NetlinkError`] if the kernel will not list addresses.
    pub fn holders(&mut self, addresses: &[IpAddr]) -> Result<Vec<Option<Link>>, NetlinkError> {
        let mut numbers = BTreeMap::new();
        let everything = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        self.list("list", "addresses", NLM_F_DUMP, everything, |answer| {
            let Some((address, link)) = usable(answer) else { return };
            if addresses.contains(&address) {
                numbers.insert(address, link);
            }
        })?;
        // A device that went in between has no addresses any more.
        let link = |address| self.link_at(*numbers.get(address)?).ok();
        Ok(addresses.iter().map(link).collect())
    }

    /// The addresses that a device has, and may use.
    ///
    /// # Errors
    ///
    /// [`NetlinkError`] if the kernel will not list addresses.
    pub fn addresses_of(&mut self, link: u32) -> Result<Vec<IpAddr>, NetlinkError> {
        let mut addresses = Vec::new();
        let everything = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        self.list("list", "addresses", NLM_F_DUMP, everything, |answer| {
            addresses.extend(usable(answer).filter(|it| it.1 == link).map(|it| it.0));
        })?;
        Ok(addresses)
    }
}

/// An address that may be used, and the number of the device that has it.
fn usable(answer: RouteNetlinkMessage) -> Option<(IpAddr, u32)> {
    let RouteNetlinkMessage::NewAddress(message) = answer else { return None };
    // RFC 4862 §5.4: before duplicate address detection, and where somebody else has it.
    let unusable = AddressHeaderFlags::Tentative | AddressHeaderFlags::Dadfailed;
    let is_optimistic = message.header.flags.contains(AddressHeaderFlags::Optimistic);
    if message.header.flags.intersects(unusable) && !is_optimistic {
        return None;
    }
    let (mut local, mut other) = (None, None);
    for attribute in message.attributes {
        match attribute {
            AddressAttribute::Local(address) => local = Some(address),
            // Of a point-to-point link that has a local one, too, it is the far end's.
            AddressAttribute::Address(address) => other = Some(address),
            _ => {}
        }
    }
    Some((local.or(other)?, message.header.index))
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use units::Prefix;

    use super::*;
    use crate::joined::{self, INTERFACE};
    use crate::netlink::LinkChange;

    /// Waits for a change, longer than the kernel's own pauses between two of a device's carrier.
    fn await_change(changes: &mut Changes) {
        let wait = Timespec { tv_sec: 10, tv_nsec: 0 };
        assert!(poll(&mut [PollFd::new(&*changes, PollFlags::IN)], Some(&wait)).unwrap() > 0);
        changes.clear().unwrap();
    }

    #[test]
    fn who_has_an_address_is_found_and_each_change_is_heard() {
        if !needs::root() {
            return;
        }
        let hosts = joined::two().unwrap();
        let mut netlink = Netlink::open_in(&hosts[0]).unwrap();
        let mut changes = hosts[0].run(Changes::open).unwrap().unwrap();
        let own: [IpAddr; 2] = ["192.0.2.1", "fd00::1"].map(|text| text.parse().unwrap());
        assert!(netlink.holders(&own).unwrap().iter().all(Option::is_none));
        for (address, length) in own.into_iter().zip([24, 64]) {
            joined::give_address(&hosts[0], INTERFACE, Prefix { address, length }).unwrap();
        }
        let is_well = |link: &Option<Link>| link.as_ref().is_some_and(|it| it.up && it.carrier);
        while !netlink.holders(&own).unwrap().iter().all(is_well) {
            await_change(&mut changes);
        }
        let down = LinkChange { up: Some(false), ..Default::default() };
        Netlink::open_in(&hosts[1]).unwrap().change_link(INTERFACE, down).unwrap();
        while netlink.holders(&own).unwrap().iter().all(is_well) {
            await_change(&mut changes);
        }
        let [Some(link), _] = &netlink.holders(&own).unwrap()[..] else { panic!("it stays") };
        assert!(link.up && !link.carrier, "{link:?}");
        changes.clear().unwrap();
        netlink.change_link(INTERFACE, LinkChange { mtu: Some(1400), ..down }).unwrap();
        await_change(&mut changes);
        let [Some(link), None] = &netlink.holders(&own).unwrap()[..] else {
            panic!("of an interface that is down, addresses of IPv6 are taken")
        };
        assert_eq!((link.up, link.mtu, &*link.name), (false, 1400, INTERFACE));
    }
}
