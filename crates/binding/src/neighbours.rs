//! Neighbours of routers that nobody declares: questions for them, and frames that are held for
//! them, go by the turn.
//!
//! ```text
//! send ─▶ held ─▶ heard, or silent ─▶ the turn ─▶ send ─▶ its receivers, or its sender is told
//! ```
//!
//! A frame that is held has been taken: it lies with the router's neighbours, and no longer in its
//! sender's port, which goes on. When it goes on it is decided anew.

use alloc::vec::Vec;
use core::mem;

use datapath::Origin;
use packet::neighbours::MOST_COPIES;
use pipeline::{About, Change, Due, Neighbour, NeighbourState, Net, Onward, Reason, Room, Sent};
use units::{Class, Instant};
use wire::PartialChecksum;

use crate::networks::{Networks, Ready};
use crate::notes::MachineFrame;
use crate::seed::reseed;
use crate::turn::wrapped;

impl Networks {
    /// When something is to be done about neighbours of routers.
    pub fn neighbours_due(&self) -> Option<Instant> {
        self.state.neighbours_due(self.room())
    }

    /// How many frames that were held may go around now.
    fn room(&self) -> usize {
        self.turn.map_or(0, |turn| self.answers.room(turn))
    }

    /// Asks the neighbours that are to be asked, and has go on what is held no longer.
    pub fn attend(&mut self, now: Instant) {
        let room = Room { frames: self.room(), copies: MOST_COPIES };
        let Self { state, nets, .. } = self;
        let home = |it: &Neighbour| home_of(nets, it);
        let copies = |it: &Neighbour| home(it).map_or(0, |net| net.asked_ports(it));
        let all = state.take_neighbours_due(now, room, copies);
        self.note_moved();
        for due in all {
            match due {
                Due::Ask { neighbour, to, ports } => {
                    let net = home_of(&self.nets, &neighbour);
                    let asked = net.map(|net| net.ask(&neighbour, to, ports)).unwrap_or_default();
                    asked.iter().for_each(|it| self.go_on(it, Class::default()));
                }
                Due::GoOn(held) => self.go_on(&held.onward, held.class),
            }
        }
    }

    /// Has packets decided anew that go to neighbours of which something else is known now.
    pub(crate) fn note_moved(&mut self) {
        for via in self.state.take_moved() {
            self.vias.get(&via).into_iter().for_each(|cell| self.flows.change(*cell));
        }
    }

    /// Leaves out of a port's frame what it tells routers at other hosts of neighbours, as far as
    /// it has told them too much. Whether anything was left out.
    pub(crate) fn limit_announced(&mut self, now: Instant, sent: &mut Sent) -> bool {
        if sent.announced == 0 {
            return false;
        }
        let announced = sent.onward.drain(..mem::take(&mut sent.announced));
        let mut some = Vec::new();
        let mut is_limited = false;
        for onward in announced {
            let origin = onward.origin.as_ref();
            if origin.is_none_or(|port| self.state.may_announce(port, now)) {
                some.push(onward);
            } else {
                self.answers.rate_limited += 1;
                is_limited = true;
            }
        }
        sent.onward.splice(..0, some);
        is_limited
    }

    /// A frame goes around. For those that were held there is room.
    fn go_on(&mut self, onward: &Onward, class: Class) {
        let origin = Origin {
            label: onward.origin.as_ref().map_or(0, |it| self.far.label(it)),
            is_networks: onward.is_networks,
            routers: onward.routers,
            ..Origin::default()
        };
        let frame = wrapped(self.far.label(&onward.to), origin, class, &onward.frame);
        if let Some(turn) = self.turn {
            self.answers.push(turn, frame);
        }
    }

    /// Makes the changes of a frame that has come that concern neighbours: these are made once.
    /// Whether it can be held, if it is to be.
    pub(crate) fn note_neighbours(
        &mut self,
        now: Instant,
        class: Class,
        sent: &MachineFrame<'_>,
        changes: &mut Vec<Change>,
    ) -> bool {
        let mut own: Vec<_> = changes.extract_if(.., |it| it.is_of_neighbours()).collect();
        let mut is_whole = true;
        for change in &mut own {
            if let Change::Neighbour(_, _, About::Needed(_, held)) = change
                && let Some(it) = held
            {
                it.class = class;
                if sent.partial.is_some() && complete(sent, &mut it.onward.frame).is_none() {
                    (*held, is_whole) = (None, false);
                }
            }
        }
        self.commit(&own, now);
        is_whole
    }

    /// The neighbours of routers that nobody declares.
    pub fn neighbours(&self, now: Instant) -> impl Iterator<Item = NeighbourState<'_>> {
        self.state.neighbours(now)
    }
}

/// The network whose router asks for a neighbour, if it does here.
fn home_of<'a>(nets: &'a [Ready], (port, _): &Neighbour) -> Option<&'a Net> {
    nets.iter().map(|it| &*it.net).find(|net| net.resumes(port))
}

/// Whether a frame waits for a neighbour.
pub fn is_held(sent: &Sent) -> bool {
    sent.refused.iter().any(|it| it.reason == Reason::Held)
}

/// Of a frame whose turn has come: what concerns neighbours was changed when it came, and nobody
/// waits for one now.
pub fn settle(mut sent: Sent) -> Sent {
    let before = sent.changes.len();
    sent.changes.retain(|it| !it.is_of_neighbours());
    // What would have been noted of a neighbour is noted by a later frame of the flow: that has to
    // be decided anew.
    if sent.changes.len() < before {
        sent.way = None;
    }
    for refusal in &mut sent.refused {
        if refusal.reason == Reason::Held {
            refusal.reason = Reason::Unresolved;
        }
    }
    sent
}

/// A frame that is held has a complete checksum: who has it then knows of no other.
fn complete(sent: &MachineFrame<'_>, held: &mut [u8]) -> Option<()> {
    let partial = sent.partial?;
    reseed((sent.bytes, sent.bytes.len()), held, Some(partial))?;
    let start = (usize::from(partial.start) + held.len()).checked_sub(sent.bytes.len())?;
    PartialChecksum { start: start as u16, ..partial }.complete(held);
    Some(())
}
