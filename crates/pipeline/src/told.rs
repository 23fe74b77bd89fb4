//! Frames that other hosts hand to a router here, and what their senders are told.

use alloc::vec::Vec;

use logical::objects::{Direction, Identity};
use packet::answer;
use packet::{Fields, Ip, Tuple, rewrite};
use units::Instant;

use crate::flow::Found;
use crate::flows::Flows;
use crate::net::{Net, Router};
use crate::onward::Onward;
use crate::outcome::{Copy, Reason, Sent, Step, Told};
use crate::places::PortAt;
use crate::send::{Stop, Underway, Walk};
use crate::state::State;

/// What a sender is told of its frame.
fn made(sent: &[u8], told: Told) -> Option<Vec<u8>> {
    match told {
        Told::Rejected => answer::reject(sent),
        Told::Error(error, from) => {
            // The sender's own frame names the router that it knows.
            let mac = Fields::of(sent)?.destination;
            answer::error(sent, error, (mac, from))
        }
        Told::ToRouter(mac, address) => answer::to_self(sent, (mac, address)),
    }
}

impl Net {
    /// What a machine is told of its frame, by what another host says of it.
    pub fn tell(&self, port: PortAt, frame: &[u8], told: Told) -> Option<Copy> {
        let (port, frame) = self.admit(port, frame).ok()?;
        made(&frame, told).map(|frame| self.wrap(port, frame))
    }

    /// What goes back to a machine of another host, whose frame has come to a router here: the
    /// router tells it. `None`: nobody is told.
    pub fn answer(&self, onward: &Onward, told: Told) -> Option<Onward> {
        let to = onward.origin.clone().filter(|_| !onward.is_networks)?;
        let mut frame = made(&onward.frame, told)?;
        let from = Fields::of(&frame)?.source;
        rewrite::set_macs(&mut frame, self.ports[self.port(&to)?.at()].station.mac, from);
        Some(Onward { to, origin: None, is_networks: true, routers: 0, frame })
    }

    /// Decides what becomes of a frame that another host hands to a router that translates here.
    /// What its sender is to be told goes back to that host. Nothing changes by that.
    pub fn resume(&self, state: &State, now: Instant, onward: &Onward) -> Sent {
        self.walk_on((state, now), onward, (0, true))
    }

    /// The same, and it is not told how it came to that, of a frame that may be cut into packets
    /// later, as in [`Net::send_large`].
    pub fn resume_large(
        &self,
        state: &State,
        now: Instant,
        onward: &Onward,
        excess: usize,
    ) -> Sent {
        self.walk_on((state, now), onward, (excess, false))
    }

    fn walk_on(
        &self,
        (state, now): (&State, Instant),
        onward: &Onward,
        (excess, tells): (usize, bool),
    ) -> Sent {
        let (sent, found, done) = (Vec::new(), Found::default(), Sent::default());
        let was_heard = false;
        let mut walk =
            Walk { net: self, state, now, port: None, sent, excess, tells, found, was_heard, done };
        if let Err(stop) = walk.resume(onward) {
            walk.refuse(*stop);
        }
        walk.done
    }
}

impl<'a> Walk<'a> {
    /// The sender is told something, by its own host.
    pub fn tell_sender(&mut self, told: Told) {
        match self.port {
            Some(port) => {
                let frame = made(&self.sent, told);
                self.done.answers.extend(frame.map(|frame| self.net.wrap(port, frame)));
            }
            None => self.done.told.push(told),
        }
    }

    fn resume(&mut self, onward: &Onward) -> Result<(), Stop> {
        let net = self.net;
        let stop = |reason| Net::stop(reason, &onward.to);
        let at = net.router_port(&onward.to).ok_or_else(|| stop(Reason::Unknown))?;
        let router = &net.routers[net.router_ports[at.at()].router.at()];
        let fields = Fields::of(&onward.frame);
        let fields = fields.ok_or_else(|| stop(Reason::Malformed))?;
        if self.hear_from(at, onward) {
            return Err(stop(Reason::Answered));
        }
        let ip = fields.ip.ok_or_else(|| stop(Reason::NotForRouter))?;
        let place = (router.id.clone(), Direction::FromPort);
        let (tuple, change) = self.state.fragments.ends(self.now, &place, &ip);
        self.done.changes.extend(change);
        let tuple = tuple.map_err(|reason| Net::stop(reason, &router.id))?;
        let under = Underway {
            frame: onward.frame.clone(),
            fields,
            tuple: Some(tuple),
            origin: onward.origin.as_ref().and_then(|name| net.port(name)),
            routers: onward.routers,
            is_networks: onward.is_networks,
        };
        self.translate(at, under, ip)
    }

    /// The flows of a place that translates.
    pub fn flows(&self, place: &Identity) -> Flows<'a> {
        let zone = self.state.translating(place);
        Flows { state: self.state, now: self.now, zone }
    }

    /// An error about a translated packet is translated, with what it quotes. Its own ends then;
    /// `None` if it is no such error.
    pub fn translate_error(
        &mut self,
        router: &Router,
        under: &mut Underway,
        ip: &Ip,
    ) -> Result<Option<Tuple>, Stop> {
        let quoted = ip.icmp.and_then(|icmp| icmp.quoted).filter(|_| ip.is_error());
        let Some(quoted) = quoted.filter(|_| router.translates()) else { return Ok(None) };
        let (source, destination) = (ip.tuple.source.0, ip.tuple.destination.0);
        let changed = (self.flows(&router.id).error(quoted, source))
            .or_else(|| Net::floating_error(router, quoted, source, destination));
        let Some((quoted, source, destination)) = changed else { return Ok(None) };
        rewrite::set_quoted(&mut under.frame, ip, quoted, source, destination);
        let malformed = || Net::stop(Reason::Malformed, &router.id);
        under.fields = Fields::of(&under.frame).ok_or_else(malformed)?;
        self.step(|| {
            Step::new(&router.id, "translation", None, "an error about a translated packet")
        });
        Ok(Some(under.fields.ip.ok_or_else(malformed)?.tuple))
    }
}
