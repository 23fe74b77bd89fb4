//! What hosts do where a virtual switch carries so much and no more: frames enter it in turn, when
//! it has time.

use super::{Hosts, Surroundings};
use crate::clock::Event;
use crate::events::EventList;
use crate::processor::Processor;

impl Hosts {
    /// A host's switch has time again.
    pub(crate) fn carry<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        number: u32,
    ) {
        if let Some(processor) = self.processor(number) {
            processor.disarm();
            self.take_in_turn(with, number);
            self.pump(with, number);
        }
    }

    /// Whether a host's switch carries so much and no more.
    pub(super) fn carries_in_turn(&mut self, number: u32) -> bool {
        self.processor(number).is_some()
    }

    fn processor(&mut self, number: u32) -> Option<&mut Processor> {
        self.hosts[number as usize].bridge.as_mut()?.processor.as_mut()
    }

    /// Has a host's switch take frames from whoever has some, one of each in turn, until it has no
    /// time, or no room for any.
    pub(super) fn take_in_turn<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        number: u32,
    ) {
        let places = self.rules.machines + 1;
        let mut refusals = 0;
        while refusals < places {
            let Some(processor) = self.processor(number) else { return };
            if !processor.is_free(with.clock, number) {
                return;
            }
            let place = processor.next_turn(places);
            refusals = if self.take_one(with, number, place) { 0 } else { refusals + 1 };
        }
    }

    /// Takes a frame of the highest class that has one and finds room. Whether there was one.
    fn take_one<L: EventList<Event>>(
        &mut self,
        with: &mut Surroundings<'_, L>,
        number: u32,
        place: usize,
    ) -> bool {
        let lanes = 0..self.rules.lanes.len() as u8;
        let machine = self.hosts[number as usize].machines.start + place as u32;
        let is_machine = place < self.rules.machines;
        lanes.rev().any(|lane| match is_machine {
            true => self.offer_one(with, machine, lane),
            false => self.take_one_arrived(with, number, lane),
        })
    }
}
