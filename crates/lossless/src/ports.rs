//! A switch's ports, by number.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use units::Instant;

use crate::config::PortConfig;
use crate::id::MAX_PORTS;
use crate::id::PortId;
use crate::port::Port;
use crate::set::PortSet;

/// The ports that are attached, each at its number. It is looked at for each frame, and fills half
/// a cache line.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Ports {
    places: Vec<Port>,
    /// Places whose port was detached: a port with nothing lies there until the number is given out
    /// again. Kept apart from the ports, so that none of their lines tells whether they are there;
    /// and most switches have no such place.
    vacant: Option<Box<PortSet>>,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Ports>() == 32, "half a cache line");

impl Ports {
    /// How many numbers were given out: all are below.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Attaches a port at the lowest number that is free, if one is.
    pub(crate) fn attach(&mut self, now: Instant, config: PortConfig) -> Option<PortId> {
        let count = self.len();
        if let Some(vacant) = &mut self.vacant {
            let id = vacant.iter().next().expect("a set is kept only while somebody is in it");
            vacant.remove(id);
            if vacant.is_empty() {
                self.vacant = None;
            }
            self.places[id.index()] = Port::new(config, now);
            return Some(id);
        }
        if count == MAX_PORTS {
            return None;
        }
        self.places.push(Port::new(config, now));
        Some(PortId(count as u16))
    }

    /// Takes a port away.
    pub(crate) fn detach(&mut self, id: PortId) -> Port {
        let nothing = Port::new(PortConfig::default(), Instant::ZERO);
        let gone = core::mem::replace(&mut self[id], nothing);
        self.vacant.get_or_insert_default().insert(id);
        gone
    }

    #[inline]
    pub(crate) fn get(&self, id: PortId) -> Option<&Port> {
        let Self { places, vacant } = self;
        places.get(id.index()).filter(|_| is_in(id, vacant))
    }

    /// Two ports, if they are two.
    #[inline]
    pub(crate) fn pair_mut(&mut self, ids: [PortId; 2]) -> Option<[&mut Port; 2]> {
        let Self { places, vacant } = self;
        let pair = places.get_disjoint_mut(ids.map(PortId::index)).ok()?;
        ids.into_iter().all(|id| is_in(id, vacant)).then_some(pair)
    }

    /// The ports with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PortId, &Port)> {
        let Self { places, vacant } = self;
        (0..).map(PortId).zip(places).filter(|(id, _)| is_in(*id, vacant))
    }
}

/// Whether the place of this number has a port.
#[inline]
fn is_in(id: PortId, vacant: &Option<Box<PortSet>>) -> bool {
    vacant.as_ref().is_none_or(|vacant| !vacant.contains(id))
}

impl Index<PortId> for Ports {
    type Output = Port;

    #[inline]
    fn index(&self, id: PortId) -> &Port {
        self.get(id).expect("the port is attached")
    }
}

impl IndexMut<PortId> for Ports {
    #[inline]
    fn index_mut(&mut self, id: PortId) -> &mut Port {
        let Self { places, vacant } = self;
        places.get_mut(id.index()).filter(|_| is_in(id, vacant)).expect("the port is attached")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_number_that_is_free_is_given_out() {
        let mut ports = Ports::default();
        let attach =
            |ports: &mut Ports| ports.attach(Instant::ZERO, PortConfig::default()).map(|id| id.0);
        for number in 0..MAX_PORTS as u16 {
            assert_eq!(attach(&mut ports), Some(number));
        }
        assert_eq!(attach(&mut ports), None);
        for number in [700, 3, 1023] {
            ports.detach(PortId(number));
        }
        assert_eq!(ports.iter().count(), MAX_PORTS - 3);
        assert!(
            [3, 700, 1023, 1024, u16::MAX]
                .into_iter()
                .all(|number| ports.get(PortId(number)).is_none())
        );
        assert_eq!(attach(&mut ports), Some(3));
        assert_eq!([700, 3].map(|number| ports.get(PortId(number)).is_some()), [false, true]);
        assert_eq!([(); 3].map(|()| attach(&mut ports)), [Some(700), Some(1023), None]);
    }

    #[test]
    fn two_are_had_together_if_they_are_two_and_there() {
        let mut ports = Ports::default();
        for _ in 0..3 {
            ports.attach(Instant::ZERO, PortConfig::default());
        }
        ports.detach(PortId(1));
        assert_eq!(ports.iter().map(|(id, _)| id.0).collect::<Vec<_>>(), [0, 2]);
        let mut is_pair = |a, b| ports.pair_mut([PortId(a), PortId(b)]).is_some();
        assert!(is_pair(0, 2) && is_pair(2, 0));
        assert!(
            !is_pair(0, 0)
                && !is_pair(0, 1)
                && !is_pair(1, 2)
                && !is_pair(0, 3)
                && !is_pair(u16::MAX, 0)
        );
    }

    #[test]
    #[should_panic(expected = "the port is attached")]
    fn nobody_uses_a_port_that_is_gone() {
        let mut ports = Ports::default();
        let id = ports.attach(Instant::ZERO, PortConfig::default()).unwrap();
        ports.detach(id);
        ports[id].egress.ready = 1;
    }
}
