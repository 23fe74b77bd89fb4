//! A frame in a router: what is for the router itself, and where all else goes.

use alloc::string::ToString;
use core::net::IpAddr;

use logical::topology::{Hop, Link, RouterPortIndex, Topology};
use packet::answer::{self, Error};
use packet::{Fields, Ip, Tuple, rewrite};
use units::Mac;
use wire::ip::{Fragment, Version, protocol};
use wire::neighbor;

use crate::decision::Reason;
use crate::nat::{Inside, Place, patience};
use crate::relay;
use crate::route::{self, Way};
use crate::state::{Change, What};
use crate::switch::{question, told};
use crate::walk::{Stop, Underway, Walk};

/// Through how many routers a packet may go.
const MOST_ROUTERS: usize = 16;

impl Walk<'_> {
    /// Into a router.
    pub fn enter(&mut self, port: RouterPortIndex, mut under: Underway) -> Result<(), Stop> {
        let topology = self.topology;
        let (own, router) = (&topology[port], &topology[topology[port].router]);
        let stop = |reason| Self::stop(reason, &router.id);
        if !own.enabled || !router.enabled {
            return Err(stop(Reason::Disabled));
        }
        if under.routers == MOST_ROUTERS {
            return Err(stop(Reason::Loop));
        }
        let to = under.fields.destination;
        if to != own.mac && !self.has_external(port, to) {
            return Err(stop(Reason::NotForRouter));
        }
        if let Some(asked) = question(&under) {
            return self.answer_unicast(port, asked, &under);
        }
        if self.was_heard {
            return Err(Self::stop(Reason::Answered, &own.id));
        }
        let Some(ip) = under.fields.ip else { return Err(stop(Reason::NotForRouter)) };
        sane(topology, port, &ip, &under.frame).map_err(stop)?;

        let whose = (router.id.clone(), None);
        let place = Place { topology, state: self.state, now: self.now, whose: &whose };
        if ip.is_error()
            && let Some(quoted) = ip.icmp.and_then(|icmp| icmp.quoted)
        {
            let (source, destination) = (ip.tuple.source.0, ip.tuple.destination.0);
            let changed = place
                .error(quoted, source)
                .or_else(|| place.floating_error(router, quoted, source, destination));
            if let Some((quoted, source, destination)) = changed {
                rewrite::set_quoted(&mut under.frame, &ip, quoted, source, destination);
                under.fields = Fields::of(&under.frame).ok_or_else(|| stop(Reason::Malformed))?;
                self.step(&router.id, "translation", None, "an error about a translated packet");
                let ends = under.fields.ip.map(|ip| ip.tuple);
                let Some(ends) = ends else { return Err(stop(Reason::Malformed)) };
                return self.route(port, under, ends, ends, None);
            }
        }
        let before = under.subject.tuple.unwrap_or(ip.tuple);
        let mut inside = place.enter(router, &ip, before, &under.subject).map_err(|reason| {
            if reason == Reason::NoBackend {
                self.answer_if_rejecting(before);
            }
            Self::stop(reason, &router.id)
        })?;
        // Later fragments take the way of the first: their flow is known by now, or needs none.
        let is_later = ip.layout.fragment == Fragment::Later;
        inside.is_tracked &= !is_later;
        if let Some(by) = &inside.by {
            let what = alloc::format!("to {}", inside.tuple.destination.0);
            self.step(&router.id, "destination translation", Some(by.clone()), &what);
        }
        let to = inside.tuple.destination.0;
        let is_link = to == IpAddr::V6(neighbor::link_local(own.mac));
        let is_own = is_link || router.ports.iter().any(|it| topology[*it].has(to));
        if is_own {
            if let Some(back) = relay::reply(topology, router, &under.fields, &under.frame) {
                return self.relay_back(back, &under);
            }
            self.step(&router.id, "own packets", None, "for the router itself");
            let from = (own.mac, before.destination.0);
            self.answer(answer::to_self(&self.sent, from));
            return Err(stop(Reason::ToRouter));
        }
        self.route(port, under, before, inside.tuple, Some(inside))
    }

    /// A question to a router alone for one of its addresses (RFC 4861 §7.3.3).
    fn answer_unicast(
        &mut self,
        port: RouterPortIndex,
        asked: IpAddr,
        under: &Underway,
    ) -> Result<(), Stop> {
        let topology = self.topology;
        let own = &topology[port];
        let is_own = own.has(asked) || asked == IpAddr::V6(neighbor::link_local(own.mac));
        let mac = is_own.then_some(own.mac).or_else(|| route::external_mac(topology, port, asked));
        let mac = mac.ok_or_else(|| Self::stop(Reason::NotForRouter, &own.id))?;
        self.answer(told(&under.frame, mac, true));
        Err(Self::stop(Reason::Answered, &own.id))
    }

    /// Through a router: how far it may still go, where, how long it may be, and to whom.
    pub fn route(
        &mut self,
        port: RouterPortIndex,
        mut under: Underway,
        before: Tuple,
        now: Tuple,
        inside: Option<Inside>,
    ) -> Result<(), Stop> {
        let topology = self.topology;
        let (own, router) = (&topology[port], &topology[topology[port].router]);
        let stop = |reason| Self::stop(reason, &router.id);
        let Some(ip) = under.fields.ip else { return Err(stop(Reason::Malformed)) };
        let sender = before.source.0;
        let from = route::own_address(topology, port, sender).map(|it| (own.mac, it));
        if ip.ttl <= 1 {
            self.tell(Error::TimeToLive, from);
            return Err(stop(Reason::TimeToLive));
        }
        let (way, by) =
            route::find(topology, router, now, &under.subject, self.way_back(port, now));
        let hop = match way {
            Way::To(hop) => hop,
            Way::Discard { reject } => {
                self.step(&router.id, "routes", by, "discarded");
                if reject {
                    self.tell(Error::NoHost, from);
                }
                return Err(stop(Reason::Discarded));
            }
            Way::Drop => {
                self.step(&router.id, "route policies", by, "dropped");
                return Err(stop(Reason::Policy));
            }
            Way::None => {
                self.tell(Error::NoRoute, from);
                return Err(stop(Reason::NoRoute));
            }
        };
        let out = &topology[hop.out];
        let what = alloc::format!("by {} to {}", out.id, hop.address);
        self.step(&router.id, "routes", by, &what);
        if let Some(mtu) = out.mtu.filter(|mtu| ip.length() > usize::from(*mtu)) {
            self.tell(Error::TooLong(mtu), from);
            return Err(stop(Reason::TooLong));
        }
        self.note_way(port, [before, now], under.fields.source);
        let is_whole = inside.is_some();
        let (mac, behind) = self.next(port, hop, &under, is_whole).map_err(|reason| {
            if reason == Reason::Unresolved {
                self.tell(Error::NoHost, from);
            }
            stop(reason)
        })?;
        let mut own_mac = out.mac;
        if let Some(inside) = inside {
            let whose = (router.id.clone(), None);
            let place = Place { topology, state: self.state, now: self.now, whose: &whose };
            let ways = [port, hop.out];
            let (behind, by, changes) =
                place.leave(router, ways, before, &inside, &ip, &under.subject).map_err(stop)?;
            let is_later = ip.layout.fragment == Fragment::Later;
            self.decision.changes.extend(changes.into_iter().filter(|_| !is_later));
            if behind.source != before.source {
                let what = alloc::format!("from {}", behind.source.0);
                self.step(&router.id, "source translation", by, &what);
                // Whoever sees it from here on cannot tell whose it was.
                under.subject.origin = None;
                own_mac =
                    route::external_mac(topology, hop.out, behind.source.0).unwrap_or(own_mac);
            }
            if behind != before {
                rewrite::set_tuple(&mut under.frame, &ip, behind);
            }
        }
        let Some(ip) = Fields::of(&under.frame).and_then(|fields| fields.ip) else {
            return Err(stop(Reason::Malformed));
        };
        rewrite::take_hops(&mut under.frame, &ip.layout, 1);
        rewrite::set_macs(&mut under.frame, mac, own_mac);
        under.fields = Fields::of(&under.frame).ok_or_else(|| stop(Reason::Malformed))?;
        under.subject.tuple = under.fields.ip.map(|ip| match ip.layout.fragment {
            Fragment::Later => under.subject.tuple.unwrap_or(ip.tuple),
            _ => ip.tuple,
        });
        // The next router's policies see the frame as it gets there.
        under.subject.source_mac = under.fields.source;
        under.subject.destination_mac = under.fields.destination;
        under.routers += 1;
        match out.link {
            Link::Peer(peer) => self.enter(peer, under),
            Link::Switch(at) if topology[at].enabled && topology[topology[at].switch].enabled => {
                let Some(to) = behind else {
                    return self.forward(topology[at].switch, Some(at), under);
                };
                let switch = &topology[topology[at].switch].id;
                self.step(switch, "destination", None, &topology[to].id.to_string());
                self.leave(to, under)
            }
            Link::Switch(_) | Link::Nowhere => Err(stop(Reason::Disabled)),
        }
    }

    /// Where the flow that this one answers came into the router.
    fn way_back(&self, port: RouterPortIndex, tuple: Tuple) -> Option<Hop> {
        let router = &self.topology[self.topology[port].router];
        let (out, address) = self.state.path(&router.id, tuple.reversed(), self.now)?;
        let mut ports = router.ports.iter().copied();
        let out = ports.find(|it| self.topology[*it].id == *out)?;
        Some(Hop { address: *address, out })
    }

    /// A flow whose answers have several ways is remembered by the one that it came: by its ends as
    /// they were, and as they are once its destination is translated.
    fn note_way(&mut self, port: RouterPortIndex, ends: [Tuple; 2], mac: Mac) {
        let router = &self.topology[self.topology[port].router];
        for tuple in ends {
            if let Some(hop) = route::came_from(self.topology, router, tuple, (port, mac)) {
                let path = (self.topology[hop.out].id.clone(), hop.address);
                let until = self.now + patience(tuple);
                let noted = What::Path(router.id.clone(), tuple, path, until);
                self.decision.changes.push(Change(noted));
            }
        }
    }

    /// The sender is told of an error, by a router of that address.
    fn tell(&mut self, error: Error, from: Option<(Mac, IpAddr)>) {
        // The sender's own frame names the router that it knows.
        let first = Fields::of(&self.sent).map(|fields| fields.destination);
        let told = from
            .zip(first)
            .and_then(|((_, address), mac)| answer::error(&self.sent, error, (mac, address)));
        self.answer(told);
    }
}

/// What no router forwards (RFC 1812 §5.3.7, RFC 4291 §2.5).
fn sane(topology: &Topology, port: RouterPortIndex, ip: &Ip, frame: &[u8]) -> Result<(), Reason> {
    let (source, destination) = (ip.tuple.source.0, ip.tuple.destination.0);
    let router = &topology[topology[port].router];
    let is_own = router.ports.iter().any(|it| topology[*it].has(source));
    let is_nobody = source.is_unspecified() || source.is_loopback() || source.is_multicast();
    if is_nobody || is_own || matches!(source, IpAddr::V4(it) if it.is_broadcast()) {
        return Err(Reason::Martian);
    }
    if ip.layout.version == Version::V4 {
        let header = &frame[ip.layout.network..ip.layout.transport];
        if wire::checksum::Sum::of(header).checksum() != 0 {
            return Err(Reason::Malformed);
        }
    }
    let stays = match destination {
        IpAddr::V4(to) => {
            to.is_loopback() || to.is_multicast() || to.octets()[0] == 0 || to.octets()[0] >= 240
        }
        IpAddr::V6(to) => {
            let is_own = to == neighbor::link_local(topology[port].mac);
            to.is_loopback() || to.is_multicast() || (to.is_unicast_link_local() && !is_own)
        }
    };
    let is_link = matches!(source, IpAddr::V6(it) if it.is_unicast_link_local());
    let is_to_link = matches!(destination, IpAddr::V6(it) if it.is_unicast_link_local());
    let is_to_self = topology[port].has(destination) || is_to_link;
    if stays || (is_link && !is_to_self) || ip.tuple.protocol == protocol::IGMP {
        return Err(Reason::NotForRouter);
    }
    Ok(())
}
