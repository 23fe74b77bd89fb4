//! Ethernet addresses that nobody has declared, and the ports that they were seen behind.

use alloc::collections::BTreeMap;

use logical::objects::Identity;
use packet::MOST_LEARNED;
use units::Mac;

/// An address of a switch.
type Address = (Identity, Mac);

/// Addresses, and where each is. One more than a port may have, and the one that was learned of it
/// first is forgotten: so no sender fills memory, nor the room of others.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    places: BTreeMap<Address, (Identity, u64)>,
    /// By port, in the order in which they were learned.
    ports: BTreeMap<Identity, BTreeMap<u64, Address>>,
    /// How often something was learned.
    count: u64,
}

impl Learned {
    /// The port that an address of a switch is behind.
    pub fn get(&self, switch: &Identity, mac: Mac) -> Option<&Identity> {
        self.places.get(&(switch.clone(), mac)).map(|(port, _)| port)
    }

    /// An address was seen behind a port.
    pub fn note(&mut self, switch: Identity, mac: Mac, port: Identity) {
        let address = (switch, mac);
        match self.places.get(&address) {
            Some((before, _)) if *before == port => return,
            Some((before, number)) => {
                if let Some(others) = self.ports.get_mut(before) {
                    others.remove(number);
                }
            }
            None => {}
        }
        self.count += 1;
        self.places.insert(address.clone(), (port.clone(), self.count));
        let own = self.ports.entry(port).or_default();
        own.insert(self.count, address);
        if own.len() > MOST_LEARNED
            && let Some((_, first)) = own.pop_first()
        {
            self.places.remove(&first);
        }
    }

    /// Forgets what was learned of ports that are there no longer.
    pub fn retain(&mut self, mut is_there: impl FnMut(&Identity) -> bool) {
        let Self { places, ports, .. } = self;
        ports.retain(|port, own| {
            let stays = is_there(port) && !own.is_empty();
            if !stays {
                own.values().for_each(|address| drop(places.remove(address)));
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use logical::objects::Kind;

    use super::*;

    fn named(kind: Kind, name: &str) -> Identity {
        Identity { kind, tenant: None, name: name.parse().unwrap() }
    }

    fn mac(number: usize) -> Mac {
        let [.., a, b] = number.to_be_bytes();
        Mac([2, 0, 0, 0, a, b])
    }

    #[test]
    fn a_port_that_shows_many_addresses_loses_its_own_first_ones() {
        let switch = named(Kind::LogicalSwitch, "s");
        let [a, b] = ["a", "b"].map(|it| named(Kind::LogicalPort, it));
        let mut learned = Learned::default();
        let all = 0..=MOST_LEARNED;
        learned.note(switch.clone(), mac(60_000), b.clone());
        for number in all.clone() {
            learned.note(switch.clone(), mac(number), a.clone());
            learned.note(switch.clone(), mac(MOST_LEARNED / 2), a.clone());
        }
        assert_eq!(learned.get(&switch, mac(60_000)), Some(&b));
        let kept = all.filter(|it| learned.get(&switch, mac(*it)) == Some(&a));
        assert_eq!(kept.collect::<Vec<_>>(), (1..=MOST_LEARNED).collect::<Vec<_>>());
        assert_eq!(learned.places.len(), MOST_LEARNED + 1);

        // What has moved is the other's, and makes room.
        learned.note(switch.clone(), mac(5), b.clone());
        learned.note(switch.clone(), mac(50_000), a.clone());
        assert_eq!(learned.get(&switch, mac(5)), Some(&b));
        assert_eq!(learned.get(&switch, mac(1)), Some(&a));

        learned.retain(|port| *port == b);
        assert_eq!((learned.places.len(), learned.ports.len()), (2, 1));
        assert_eq!(learned.get(&switch, mac(1)), None);
    }
}
