//! The simulator's endpoints at both ends of a path, and a clock that jumps.

use std::collections::BTreeMap;

use tcp::{Config, Endpoint, Flags, Segment};
use units::{Instant, Span};

use crate::path::{Drops, Forward, Path};
use crate::trace::Trace;

/// Frames' Ethernet and IPv4 headers.
const BELOW: usize = 14 + 20;

struct World {
    now: Instant,
    client: Endpoint,
    server: Option<Endpoint>,
    forward: Forward,
    delay: Span,
    /// By when they arrive, in the order in which they were sent: whether at the server, and what.
    flying: BTreeMap<(Instant, u64), (bool, Segment)>,
    flown: u64,
}

/// Sends so many bytes, or as many as fit the time.
pub fn transfer(config: &Config, path: Path, drops: Drops, bytes: u64, limit: Span) -> Trace {
    let start = Instant::from_nanos(1_000_000_000);
    let mut world = World {
        now: start,
        client: Endpoint::connect(config, 7),
        server: None,
        forward: Forward::new(path, drops),
        delay: path.delay,
        flying: BTreeMap::new(),
        flown: 0,
    };
    world.client.write(bytes);
    world.flush();
    while world.now < start + limit && world.client.acknowledged() < bytes {
        world.step(config);
    }
    Trace::new(world.forward.log, Span::ZERO)
}

impl World {
    fn step(&mut self, config: &Config) {
        let arrival = self.flying.keys().next().map(|(at, _)| *at);
        let ends = [Some(&self.client), self.server.as_ref()];
        let deadline = ends.into_iter().flatten().filter_map(Endpoint::next_deadline).min();
        let next = [arrival, deadline]
            .into_iter()
            .flatten()
            .min()
            .expect("an open connection waits for something");
        self.now = self.now.max(next);
        if arrival == Some(next) {
            let (_, (at_server, segment)) = self.flying.pop_first().expect("there is an arrival");
            self.arrive(config, at_server, &segment);
        } else {
            self.client.handle_deadline(self.now);
            if let Some(server) = &mut self.server {
                server.handle_deadline(self.now);
            }
        }
        self.flush();
    }

    fn arrive(&mut self, config: &Config, at_server: bool, segment: &Segment) {
        match (at_server, &mut self.server) {
            (false, _) => self.client.handle(self.now, segment, false),
            (true, Some(server)) => server.handle(self.now, segment, false),
            (true, empty) => *empty = Some(Endpoint::accept(config, 9, segment)),
        }
    }

    fn flush(&mut self) {
        let now = self.now;
        while let Some(segment) = self.client.poll_transmit(now) {
            let bytes = BELOW + segment.header_bytes() as usize + usize::from(segment.len);
            let syn = segment.flags.contains(Flags::SYN);
            if let Some(at) = self.forward.pass(now, bytes, segment.seq, segment.len, syn) {
                self.fly(at, true, segment);
            }
        }
        while let Some(segment) = self.server.as_mut().and_then(|server| server.poll_transmit(now))
        {
            self.fly(now + self.delay, false, segment);
        }
    }

    fn fly(&mut self, at: Instant, to_server: bool, segment: Segment) {
        self.flown += 1;
        self.flying.insert((at, self.flown), (to_server, segment));
    }
}
