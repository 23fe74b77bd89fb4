//! Several switches, with cables between them.
//!
//! ```text
//!  host ─▶ Fabric ─cross─▶ Fabric ─cross─▶ Fabric ─deliver─▶ host
//!          leaf            spine           leaf
//! ```
//!
//! All of them move on in time together, so that what leaves one switch is at the next when its
//! cable says so.

use alloc::vec::Vec;

use units::{Class, Instant};

use crate::fabric::Crossing;
use crate::{Config, Counters, Delivery, Fabric, InvalidConfig, Released, Sent};

/// A port of one of several switches.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Place {
    /// The switch's number.
    pub switch: usize,
    /// The port's number there.
    pub port: usize,
}

/// A host's frame, wherever it is.
#[derive(Clone, Copy, Debug)]
struct Owned<F> {
    host: usize,
    handle: F,
}

/// What is at a port's other end.
#[derive(Clone, Copy, Debug)]
enum Far {
    Nobody,
    Host(usize),
    Port(Place),
}

/// Switches and the cables between them. It does what a [`Fabric`] does; hosts are numbered instead
/// of ports.
#[derive(Debug)]
pub struct Fabrics<F> {
    switches: Vec<Fabric<Owned<F>>>,
    /// By host.
    places: Vec<Place>,
    /// By switch and port.
    far: Vec<Vec<Far>>,
    /// What is about to cross cables.
    crossing: Vec<(Place, Crossing<Owned<F>>)>,
}

impl<F: Copy> Fabrics<F> {
    /// Switches whose links are idle: `hosts` are at these ports, and `cables` join these
    /// [trunks](crate::PortConfig::trunk).
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`], and of which switch.
    ///
    /// # Panics
    ///
    /// If a port that is named does not exist.
    pub fn new(
        configs: &[Config],
        hosts: Vec<Place>,
        cables: &[[Place; 2]],
    ) -> Result<Self, (usize, InvalidConfig)> {
        let mut far: Vec<_> = configs
            .iter()
            .map(|config| Vec::from_iter(config.ports.iter().map(|_| Far::Nobody)))
            .collect();
        for (host, place) in hosts.iter().enumerate() {
            far[place.switch][place.port] = Far::Host(host);
        }
        for [one, other] in cables {
            far[one.switch][one.port] = Far::Port(*other);
            far[other.switch][other.port] = Far::Port(*one);
        }
        let build = |(number, config)| Fabric::new(config).map_err(|fault| (number, fault));
        let switches = configs.iter().enumerate().map(build).collect::<Result<_, _>>()?;
        Ok(Self { switches, places: hosts, far, crossing: Vec::new() })
    }

    /// When a host has sent what it is sending.
    pub fn host_free_at(&self, host: usize) -> Instant {
        let Place { switch, port } = self.places[host];
        self.switches[switch].host_free_at(port)
    }

    /// Whether a frame that a host sends now is sure to find room: see [`Fabric::has_room`].
    pub fn has_room(&self, host: usize) -> bool {
        let Place { switch, port } = self.places[host];
        self.switches[switch].has_room(port)
    }

    /// A host sends a frame as soon as its end of the link is free, and not before `now`: see
    /// [`Fabric::send`].
    pub fn send(&mut self, now: Instant, host: usize, sent: Sent<'_, F>) {
        let Place { switch, port } = self.places[host];
        let Sent { handle, head, len, frames, bytes } = sent;
        let handle = Owned { host, handle };
        self.switches[switch].send(now, port, Sent { handle, head, len, frames, bytes });
    }

    /// Sees to what has happened by `now`, one after the other.
    pub fn run(&mut self, now: Instant) {
        if !self.cabled() {
            return self.switches.iter_mut().for_each(|switch| switch.run(now));
        }
        while let Some(at) = self.switches.iter().filter_map(Fabric::happens_at).min()
            && at <= now
        {
            self.step(at);
        }
        self.step(now);
    }

    /// Whether there is a cable at all.
    fn cabled(&self) -> bool {
        self.switches.len() > 1
    }

    /// Sees to what happens at one time.
    fn step(&mut self, at: Instant) {
        let Self { switches, far, crossing, .. } = self;
        for (switch, far) in switches.iter_mut().zip(far) {
            switch.run(at);
            switch.cross(at, |port, what| {
                let Far::Port(place) = far[port] else {
                    unreachable!("a trunk has a cable");
                };
                crossing.push((place, what));
            });
        }
        for (Place { switch, port }, what) in crossing.drain(..) {
            switches[switch].enter(at, port, what);
        }
    }

    /// Hands hosts what has reached them by `now`: the host and what it is. `take` says whether the
    /// host took it.
    pub fn deliver(&mut self, now: Instant, mut take: impl FnMut(usize, Delivery<F>) -> bool) {
        for (switch, far) in self.switches.iter_mut().zip(&self.far) {
            switch.deliver(now, |port, delivery| {
                let Far::Host(host) = far[port] else { return false };
                let delivery = match delivery {
                    Delivery::Frame { handle: Owned { host: from, handle }, mark, .. } => {
                        Delivery::Frame { from, handle, mark }
                    }
                    Delivery::Pause(frame) => Delivery::Pause(frame),
                };
                take(host, delivery)
            });
        }
    }

    /// The frames that no switch has any more since this was asked last, by host.
    pub fn released(&mut self) -> impl Iterator<Item = Released<F>> {
        let owned = self.switches.iter_mut().flat_map(Fabric::released);
        owned.map(|Released { handle: Owned { host, handle }, .. }| Released { port: host, handle })
    }

    /// When there is something to [`run`](Self::run) or to [`deliver`](Self::deliver), if nothing
    /// is sent before.
    pub fn deadline(&self) -> Option<Instant> {
        self.switches.iter().filter_map(Fabric::deadline).min()
    }

    /// What was counted at a port in a class.
    pub fn counters(&self, Place { switch, port }: Place, class: Class) -> &Counters {
        self.switches[switch].counters(port, class)
    }

    /// Whether all books balance.
    pub fn balances(&self) -> bool {
        self.switches.iter().all(Fabric::balances)
    }
}
