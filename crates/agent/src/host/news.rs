//! What is worth a line in the log: states that change, and refusals of a kind that a port has not
//! seen before.
//!
//! A round goes over all ports and far hosts, a few each tick, and compares what is with what was
//! told last. There is one a second at the most, and none where nothing happened. What changes and
//! changes back within a round is not told; counters have it.

use lossless::{PortId, Reason};
use model::{InterfaceState, InterfaceStatus, PeerState, PortState};
use overlay::Outline;
use units::{Class, Instant, Span};

use super::Host;
use super::host_plane::HostPlane;
use super::interfaces::{self, Interfaces};
use super::report;
use super::told::Told;

/// From the beginning of a round to that of the next.
const ROUND: Span = Span::from_secs(1);

/// How many ports and far hosts are looked at in a tick.
const AT_ONCE: usize = 16;

/// The most lines about refusals in a round: what is left is told in the next.
const MOST_REFUSALS: u32 = 8;

impl Host {
    /// Goes on with the round, or begins one if it is time.
    pub(super) fn tell_news(&mut self, now: Instant) {
        if self.news.next.is_none() {
            if !self.news.is_stirred || now < self.news.due {
                return;
            }
            self.news.next = Some(0);
            (self.news.is_stirred, self.news.refusals) = (false, MOST_REFUSALS);
            self.news.due = now + ROUND;
            self.tell_of_interfaces();
        }
        let ports = self.attached.len();
        let hosts = self.plane.peers().map_or(0, overlay::Overlay::places);
        let first = self.news.next.unwrap_or(0);
        let end = (first + AT_ONCE).min(ports + hosts);
        for place in first..end {
            match place.checked_sub(ports) {
                None => self.tell_of_port(place),
                Some(host) => self.tell_of_host(now, host),
            }
        }
        self.news.next = Some(end).filter(|end| *end < ports + hosts);
    }

    fn tell_of_port(&mut self, place: usize) {
        let Self { attached, plane, news, .. } = self;
        let state = report::state(plane, &attached[place]);
        let notes = || report::why(plane, &attached[place]);
        let (name, id, told) =
            (&attached[place].spec.name, attached[place].id, attached[place].told);
        match (told.state, state) {
            (before, now) if before == now => {}
            (_, PortState::Up) => tracing::info!(port = %name, "the port is up"),
            (_, PortState::Stalled) => tracing::warn!(
                port = %name,
                "the port's receiver takes nothing: what is for it is refused until it does"
            ),
            (_, PortState::Down) => tracing::warn!(port = %name, why = notes(), "the port is down"),
            (_, PortState::Failed) => {
                tracing::error!(port = %name, why = notes(), "the port has failed")
            }
        }
        let quarantines = plane.device(id).quarantines();
        if quarantines > told.quarantines {
            tracing::warn!(port = %name, quarantines, why = notes(), "the port's guest was quarantined");
        }
        let mut reasons = told.reasons;
        for reason in fresh_reasons(plane, id, reasons) {
            if news.refusals == 0 {
                news.is_stirred = true;
                break;
            }
            news.refusals -= 1;
            reasons |= 1 << reason as u32;
            tracing::info!(port = %name, reason = reason.name(), "frames are refused for a reason that is new at this port");
        }
        attached[place].told = Told { state, quarantines, reasons };
    }

    /// Tells of the uplinks' interfaces, once tunnels end there.
    fn tell_of_interfaces(&mut self) {
        let Self { plane, news, interfaces, .. } = self;
        let seen = interfaces.iter().filter(|_| plane.uplink().is_some());
        for now in seen.flat_map(Interfaces::seen) {
            let InterfaceStatus { vtep, interface, state, mtu, .. } = &now;
            let before = news.interfaces.get(vtep);
            let interface = interface.as_deref();
            match interfaces::fault(&now) {
                _ if before.is_some_and(|it| it.state == *state) => {}
                Some(fault) => tracing::warn!(%vtep, "the uplink is down: {fault}"),
                None => tracing::info!(%vtep, interface, mtu, "the uplink is up"),
            }
            let moved = before.is_some_and(|it| {
                it.state == InterfaceState::Up
                    && *state == InterfaceState::Up
                    && it.interface.as_deref() != interface
            });
            if moved {
                tracing::info!(%vtep, interface, "the uplink's address has moved to another interface");
            }
            let last_mtu = before.and_then(|it| it.mtu);
            match last_mtu.and_then(|last| interfaces::shortened(&now, last)) {
                Some(shortened) => tracing::warn!(%vtep, "{shortened}"),
                None if last_mtu < *mtu && last_mtu.is_some() => {
                    tracing::info!(%vtep, interface, mtu, "the uplink carries longer packets than before")
                }
                None => {}
            }
            // What has no interface keeps the mtu that it had.
            let mtu = mtu.or(last_mtu);
            news.interfaces.insert(*vtep, InterfaceStatus { mtu, ..now });
        }
    }

    fn tell_of_host(&mut self, now: Instant, place: usize) {
        let Self { plane, news, .. } = self;
        let Some(found) = plane.peers().and_then(|peers| peers.outline(now, place)) else { return };
        let Outline { host, state, .. } = found;
        let before = news.hosts.insert(host, found).unwrap_or(Outline {
            state: PeerState::Handshake,
            resets: 0,
            contradictions: 0,
            ..found
        });
        let cause = why_reset(&before, &found);
        match state {
            _ if before.state == state => {}
            PeerState::Up => tracing::info!(%host, "the host is reached"),
            PeerState::Handshake => tracing::warn!(
                %host,
                cause = cause.unwrap_or("this end forgets streams that nobody uses"),
                "the host's session is over: a new one is asked for"
            ),
            PeerState::Down => {
                tracing::warn!(%host, "the host is not reached: no path to it works, frames wait")
            }
            PeerState::Stalled => tracing::warn!(
                %host,
                "nothing was heard of the host for the stall time: what is for it is refused until it is"
            ),
        }
        // A session may be over and a new one begun within a round.
        if let Some(cause) = cause
            && state == PeerState::Up
        {
            let Outline { resets, contradictions, .. } = found;
            tracing::warn!(%host, cause, resets, contradictions, "the session with the host was begun anew");
        }
    }
}

/// Why the session with a far host was begun anew between two looks; `None` if it was not, or for
/// a reason that is no news.
fn why_reset(before: &Outline, now: &Outline) -> Option<&'static str> {
    match () {
        () if now.contradictions > before.contradictions => {
            Some("a stream of the host contradicted itself: somebody forges packets")
        }
        () if now.resets > before.resets => Some(
            "the host began a new incarnation: it has restarted, or a stream from here made no sense to it",
        ),
        () if before.has_keys && !now.has_keys => {
            Some("the keys were used up or given up, and no handshake has brought new ones")
        }
        () => None,
    }
}

/// The reasons for which frames of a port or for it were refused, without those that were told.
fn fresh_reasons(plane: &HostPlane, id: PortId, told: u32) -> Vec<Reason> {
    let switch = plane.switch();
    let accounts = Class::all()
        .flat_map(|class| [switch.ingress_account(id, class), switch.egress_account(id, class)]);
    let mut seen = 0;
    for (reason, frames) in accounts.flat_map(|account| account.refusals()) {
        seen |= u32::from(frames > 0) << reason as u32;
    }
    let is_fresh = |reason: &Reason| (seen & !told) & 1 << *reason as u32 != 0;
    Reason::ALL.into_iter().filter(is_fresh).collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn the_cause_of_a_reset_is_what_changed() {
        let before = Outline {
            host: Ipv4Addr::LOCALHOST.into(),
            state: PeerState::Up,
            has_keys: true,
            resets: 3,
            contradictions: 1,
        };
        let says = |now: Outline, part: &str| {
            let cause = why_reset(&before, &now).unwrap();
            assert!(cause.contains(part), "{cause}");
        };
        says(Outline { resets: 4, ..before }, "new incarnation");
        // The host answers a new incarnation of ours by one of its own.
        says(Outline { resets: 4, contradictions: 2, ..before }, "contradicted");
        says(Outline { has_keys: false, ..before }, "keys");
        assert_eq!(why_reset(&before, &before), None);
    }
}
