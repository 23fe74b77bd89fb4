//! The interfaces that have this host's tunnel addresses, looked at when the kernel tells of a
//! change. That is done on a thread of its own: the kernel answers under a lock that others may
//! hold for long, and no frame is to wait for that.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use kernel::clock::timespec;
use kernel::ethtool;
use kernel::netlink::{Changes, Link, Netlink, NetlinkError};
use model::{InterfaceState, InterfaceStatus, Uplink};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use units::{Rate, Span};

use crate::bell::Bell;

/// How long the kernel is left in peace between two looks: containers that come and go are changes,
/// too.
const PAUSE: Span = Span::from_millis(500);

/// Has the interfaces looked at. The thread ends with it.
#[derive(Debug)]
pub(super) struct Interfaces {
    shared: Arc<Shared>,
    /// The longest packets of the interfaces when they were first there, in bytes: tunnels were
    /// made for those.
    first_mtus: Vec<Option<u32>>,
    /// The longest packet of tunnels, if it is declared.
    declared_mtu: Option<u32>,
    /// The rate of the links, if it is declared.
    declared_rate: Option<Rate>,
}

#[derive(Debug)]
struct Shared {
    /// What the last look found, an entry for each address.
    seen: Mutex<Vec<InterfaceStatus>>,
    /// Rings when that has changed.
    changed: Bell,
    /// Rings when the thread is to end.
    end: Bell,
}

impl Interfaces {
    /// Looks at the interfaces that have an uplink's addresses, and starts the thread.
    pub(super) fn start(uplink: &Uplink) -> io::Result<Self> {
        let addresses: Vec<_> = uplink.vtep.iter().collect();
        let changes = Changes::open().map_err(io::Error::other)?;
        let mut netlink = Netlink::open().map_err(io::Error::other)?;
        let seen = look(&mut netlink, &addresses).map_err(io::Error::other)?;
        let first_mtus = seen.iter().map(|seen| seen.mtu).collect();
        let (changed, end) = (Bell::new()?, Bell::new()?);
        let shared = Arc::new(Shared { seen: Mutex::new(seen), changed, end });
        let its = shared.clone();
        thread::Builder::new()
            .name("zovn-uplinks".into())
            .spawn(move || its.watch(netlink, changes, &addresses))?;
        Ok(Self {
            shared,
            first_mtus,
            declared_mtu: uplink.mtu.map(u32::from),
            declared_rate: uplink.rate,
        })
    }

    /// What the last look found, an entry for each address.
    pub(super) fn seen(&self) -> Vec<InterfaceStatus> {
        self.shared.seen().clone()
    }

    /// Forgets that something has changed.
    pub(super) fn silence(&mut self) {
        self.shared.changed.silence();
        for (first, seen) in self.first_mtus.iter_mut().zip(&*self.shared.seen()) {
            *first = first.or(seen.mtu);
        }
    }

    /// What the operator ought to know of them, in sentences.
    pub(super) fn notes(&self) -> Vec<String> {
        let seen = self.seen();
        let faults = seen.iter().filter_map(fault);
        let short = seen.iter().zip(&self.first_mtus).filter_map(|(seen, first)| {
            let carried = self.declared_mtu.or(*first)?;
            shortened(seen, carried)
        });
        faults.chain(short).chain(self.slow()).collect()
    }

    /// That an interface is slower than is declared, and what to do.
    pub(super) fn slow(&self) -> Option<String> {
        let declared = self.declared_rate?;
        self.seen().iter().find_map(|seen| slower(seen, declared))
    }
}

/// Readable when an interface is otherwise than before.
impl AsFd for Interfaces {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.changed.as_fd()
    }
}

impl Drop for Interfaces {
    fn drop(&mut self) {
        self.shared.end.ring();
    }
}

impl Shared {
    /// Looks at the interfaces after each change, until it is to end.
    fn watch(&self, mut netlink: Netlink, mut changes: Changes, addresses: &[IpAddr]) {
        while !is_rung(&self.end, Some(&changes), None) {
            let looked = changes
                .clear()
                .map_err(|error| error.to_string())
                .and_then(|()| look(&mut netlink, addresses).map_err(|error| error.to_string()));
            match looked {
                Ok(now) if *self.seen() != now => {
                    *self.seen() = now;
                    self.changed.ring();
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(error, "cannot look at the uplinks' interfaces"),
            }
            if is_rung(&self.end, None, Some(timespec(PAUSE))) {
                return;
            }
        }
    }

    /// It is whole, whatever happened to who wrote it.
    fn seen(&self) -> MutexGuard<'_, Vec<InterfaceStatus>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for the bell, for a change or so long. Whether the bell rings.
fn is_rung(bell: &Bell, changes: Option<&Changes>, wait: Option<Timespec>) -> bool {
    let sources = [Some(bell.as_fd()), changes.map(AsFd::as_fd)].into_iter().flatten();
    let mut sources: Vec<_> =
        sources.map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN)).collect();
    // Where a signal interrupts it, there is one look more.
    poll(&mut sources, wait.as_ref()).is_ok() && sources[0].revents().contains(PollFlags::IN)
}

/// The interfaces that have these addresses.
fn look(netlink: &mut Netlink, addresses: &[IpAddr]) -> Result<Vec<InterfaceStatus>, NetlinkError> {
    let holders = netlink.holders(addresses)?;
    Ok(addresses.iter().zip(holders).map(|(vtep, link)| status(*vtep, link)).collect())
}

fn status(vtep: IpAddr, link: Option<Link>) -> InterfaceStatus {
    let state = match &link {
        None => InterfaceState::NoAddress,
        Some(link) if !link.up => InterfaceState::Down,
        Some(link) if !link.carrier => InterfaceState::NoCarrier,
        Some(_) => InterfaceState::Up,
    };
    let mtu = link.as_ref().map(|link| link.mtu);
    // A device that went in between has no speed any more.
    let speed = link.as_ref().and_then(|link| ethtool::speed(&link.name).ok().flatten());
    InterfaceStatus { vtep, interface: link.map(|link| link.name), state, mtu, speed }
}

/// What is wrong with an interface, and what to do.
pub(super) fn fault(seen: &InterfaceStatus) -> Option<String> {
    let InterfaceStatus { vtep, interface, state, .. } = seen;
    let name = interface.as_deref().unwrap_or_default();
    match state {
        InterfaceState::Up => None,
        InterfaceState::NoCarrier => Some(format!(
            "{name}, which has {vtep}, has no carrier: look at its cable, and at the port it leads to"
        )),
        InterfaceState::Down => {
            Some(format!("{name}, which has {vtep}, is set down: `ip link set {name} up`"))
        }
        InterfaceState::NoAddress => Some(format!(
            "no interface has {vtep} any more: give it back to the interface that had it"
        )),
    }
}

/// That an interface carries less than `carried` bytes, if it does, and what to do.
pub(super) fn shortened(seen: &InterfaceStatus, carried: u32) -> Option<String> {
    let InterfaceStatus { vtep, interface, mtu, .. } = seen;
    let mtu = mtu.filter(|mtu| *mtu < carried)?;
    let name = interface.as_deref().unwrap_or_default();
    Some(format!(
        "{name}, which has {vtep}, has an mtu of {mtu} and tunnels were made for {carried}: restore it, or set \
         `mtu` in [uplink] and start the agent again"
    ))
}

/// That an interface is slower than its declared rate, if it is, and what to do.
fn slower(seen: &InterfaceStatus, declared: Rate) -> Option<String> {
    let InterfaceStatus { vtep, interface, speed, .. } = seen;
    let speed = speed.filter(|speed| *speed < declared)?;
    let name = interface.as_deref().unwrap_or_default();
    Some(format!(
        "{name}, which has {vtep}, runs at {speed}, and `rate` of [uplink] is {declared}: lower it to what the link carries"
    ))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn what_is_wrong_is_said_with_what_to_do() {
        let seen = |state, mtu| InterfaceStatus {
            vtep: Ipv4Addr::new(192, 0, 2, 1).into(),
            interface: (state != InterfaceState::NoAddress).then(|| "eth7".into()),
            state,
            mtu: (state != InterfaceState::NoAddress).then_some(mtu),
            speed: (state == InterfaceState::Up).then(|| Rate::from_gbit(10)),
        };
        assert_eq!(fault(&seen(InterfaceState::Up, 1500)), None);
        let slow = |state, gbit| slower(&seen(state, 1500), Rate::from_gbit(gbit));
        let text = slow(InterfaceState::Up, 25).unwrap();
        assert!(text.contains("eth7") && text.contains("at 10gbit"), "{text}");
        assert_eq!([slow(InterfaceState::Up, 10), slow(InterfaceState::Down, 25)], [None, None]);
        for (state, words) in [
            (InterfaceState::Down, "ip link set eth7 up"),
            (InterfaceState::NoCarrier, "cable"),
            (InterfaceState::NoAddress, "no interface has 192.0.2.1"),
        ] {
            let said = fault(&seen(state, 1500)).unwrap();
            assert!(said.contains(words), "{said}");
            assert!(said.contains("192.0.2.1"), "{said}");
        }
        assert_eq!(shortened(&seen(InterfaceState::Up, 1500), 1500), None);
        assert!(shortened(&seen(InterfaceState::Up, 1400), 1500).unwrap().contains("1400"));
        assert_eq!(shortened(&seen(InterfaceState::NoAddress, 0), 1500), None);
    }
}
