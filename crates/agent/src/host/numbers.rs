//! The numbers that networks have in the switch.

use std::collections::{BTreeMap, VecDeque};

use datapath::Network;
use model::NetworkName;

/// The numbers of the networks that somebody uses: a port, or tunnels. A number is given to another
/// network once nobody uses it, the one that was freed first before others.
#[derive(Debug, Default)]
pub struct Numbers {
    used: BTreeMap<NetworkName, Used>,
    free: VecDeque<Network>,
}

#[derive(Clone, Copy, Debug)]
struct Used {
    network: Network,
    users: u32,
}

impl Numbers {
    /// The number of a network, which has one more user from now on. `None` if 65,534 others are in
    /// use.
    pub fn acquire(&mut self, name: &NetworkName) -> Option<Network> {
        if let Some(used) = self.used.get_mut(name) {
            used.users += 1;
            return Some(used.network);
        }
        // Those that were never given first.
        let fresh = u16::try_from(self.used.len() + self.free.len() + 1).ok();
        let network = fresh.and_then(Network::new).or_else(|| self.free.pop_front())?;
        self.used.insert(name.clone(), Used { network, users: 1 });
        Some(network)
    }

    /// A network has one user less. With the last one, its number is free: this one, which is about
    /// to mean another network.
    ///
    /// # Panics
    ///
    /// If it has none.
    pub fn release(&mut self, name: &NetworkName) -> Option<Network> {
        let used = self.used.get_mut(name).expect("who releases a number has acquired it");
        used.users -= 1;
        let freed = (used.users == 0).then_some(used.network)?;
        self.free.push_back(freed);
        self.used.remove(name);
        Some(freed)
    }

    /// The number of a network that somebody uses.
    pub fn get(&self, name: &NetworkName) -> Option<Network> {
        self.used.get(name).map(|used| used.network)
    }

    /// All networks that somebody uses.
    pub fn iter(&self) -> impl Iterator<Item = (&NetworkName, Network)> {
        self.used.iter().map(|(name, used)| (name, used.network))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_given_again_only_once_nobody_uses_it() {
        let mut numbers = Numbers::default();
        let name = |number: u32| NetworkName(number.to_string());
        let first = numbers.acquire(&name(0)).unwrap();
        assert_eq!(numbers.acquire(&name(0)), Some(first));
        assert_eq!(numbers.release(&name(0)), None);
        // All that there are, and one more.
        assert!((1..65_534).all(|number| numbers.acquire(&name(number)).is_some()));
        assert_eq!(numbers.acquire(&name(65_534)), None);
        assert_eq!(numbers.release(&name(0)), Some(first));
        assert_eq!(numbers.get(&name(0)), None);
        assert_eq!(numbers.acquire(&name(65_534)), Some(first));
    }
}
