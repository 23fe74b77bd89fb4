//! What hosts do where credit is granted: they charge what comes, grant, and ask.

use units::hash;

use super::{Hosts, Surroundings};
use crate::clock::{Event, Maker};
use crate::congestion::{Downlinks, Look, REPORT};
use crate::events::EventList;
use crate::packet::{Load, Packet};

impl Hosts {
    fn downlinks(&mut self) -> &mut Downlinks {
        self.downlinks.as_mut().expect("credit is granted")
    }

    /// A frame of a way, of so many bytes, has come to its host.
    pub(super) fn charge<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        number: u32,
        way: u32,
        bytes: u32,
    ) {
        let now = with.clock.instant();
        let progress = self.ways().receive(way, bytes);
        let (machine, _) = self.ways().sender(way);
        self.downlinks().received(now, number, (way, machine), progress, bytes);
        self.grant(with, number);
    }

    /// The sender of a way asks for credit. It is told how much it has, also if that is no more.
    pub(super) fn hear_ask<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        number: u32,
        way: u32,
        sent: u64,
    ) {
        let now = with.clock.instant();
        let progress = self.ways().hear(way, sent);
        self.downlinks().asked(now, number, way, progress);
        self.report(with, number, way);
        self.grant(with, number);
    }

    /// Credit may be due.
    pub(crate) fn grant_if_due<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        number: u32,
    ) {
        let now = with.clock.now();
        if self.downlinks().is_due(now, number) {
            self.grant(with, number);
        }
    }

    /// Grants what may be granted now, and tells whoever may send it.
    fn grant<L: EventList<Event>>(&mut self, with: &mut Surroundings<'_, L>, number: u32) {
        let now = with.clock.instant();
        while let Some(grant) = self.downlinks().next(now, number) {
            self.ways().grant(grant.stream, grant.limit);
            self.report(with, number, grant.stream);
        }
        if let Some(at) = self.downlinks().arm(now, number) {
            with.clock.at(at, Maker(number), Event::Grant { host: number });
        }
    }

    /// A way may have waited for credit for so long that its host asks.
    pub(crate) fn ask_if_due<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        way: u32,
    ) {
        let now = with.clock.now();
        let (machine, _) = self.ways().sender(way);
        let number = self.host_of(machine);
        let again = match self.ways().look(now, way) {
            Look::Rest => return,
            Look::Again(at) => at,
            Look::Ask { sent, again } => {
                self.ask(with, number, way, sent);
                again
            }
        };
        with.clock.at(again, Maker(number), Event::Ask { way });
    }

    /// A host asks the one that a way leads to for credit.
    fn ask<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        number: u32,
        way: u32,
        sent: u64,
    ) {
        let Self { ways, hosts, .. } = self;
        let ways = ways.as_ref().expect("credit is for ways");
        let (nic, from) = (hosts[number as usize].nic, hosts[number as usize].machines.start);
        let (to, lane) = (hosts[ways.receiver(way) as usize].machines.start, ways.report_lane());
        let load = Load::Ask { from, way, sent };
        let to = self.target(to);
        let packet = Packet::new(REPORT, to, hash::murmur32(way), lane, false, load);
        let handle = with.packets.insert(packet);
        with.fabric.send(with.clock, with.packets, nic, handle);
    }
}
