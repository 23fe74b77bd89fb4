//! Which machines there are beside the victim's, and what they send.

use lab::vhost::Port;
use units::Mac;

use super::super::adversary::{Adversary, EXPEDITED, HIGHEST, Parties, network_name};
use crate::vhost::frames::{Flow, LONGEST_DATAGRAM, SMALLEST};

/// What the victim's network is called.
pub const VICTIM: &str = "victim";

/// A tag (802.1Q §9.6).
const TAG: [u8; 2] = [0x81, 0x00];

/// One case, as far as it decides who does what.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    pub adversary: Adversary,
    /// How many other networks there are, of those that are as many as one likes.
    pub tenants: u32,
}

impl Scene {
    pub fn parties(&self) -> Parties {
        self.adversary.parties(self.tenants)
    }

    /// The network of each port: the victim's two, the others' senders, their receivers.
    pub fn owners(&self) -> Vec<String> {
        let Parties { networks, senders, receivers } = self.parties();
        let each = |count| {
            (0..networks).flat_map(move |network| (0..count).map(move |_| network_name(network)))
        };
        let victim = [VICTIM.to_owned(), VICTIM.to_owned()];
        victim.into_iter().chain(each(senders)).chain(each(receivers)).collect()
    }

    /// What the sender of this number among the others sends.
    pub fn frame(&self, ports: &[Port], number: usize) -> Vec<u8> {
        let Parties { networks, senders, receivers } = self.parties();
        let [networks, senders, receivers] =
            [networks, senders, receivers].map(|count| count as usize);
        let from = ports[2 + number].mac;
        let first = 2 + networks * senders + number / senders * receivers;
        let to = match self.adversary {
            Adversary::Broadcast => Mac::BROADCAST,
            _ => ports[first].mac,
        };
        let flow = Flow { number: 0, sender: 0, from, to };
        match self.adversary {
            Adversary::Packets | Adversary::Broadcast => flow.frame(SMALLEST),
            Adversary::Priority => hasten(flow.frame(LONGEST_DATAGRAM - 4)),
            _ => flow.frame(LONGEST_DATAGRAM),
        }
    }
}

/// The frame with a tag of the highest class, and the code point of expedited forwarding.
fn hasten(mut frame: Vec<u8>) -> Vec<u8> {
    let header = &mut frame[14..34];
    header[1] = EXPEDITED << 2;
    header[10..12].fill(0);
    let sum = wire::checksum::Sum::of(header).checksum();
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let tag = [TAG, [HIGHEST.pcp() << 5, 0]].concat();
    frame.splice(12..12, tag);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(scene: Scene) -> Vec<Port> {
        let port = |number: u32| Port {
            name: format!("p{number}"),
            mac: Mac::local(number + 1),
            socket: "".into(),
            network: None,
        };
        (0..scene.owners().len() as u32).map(port).collect()
    }

    fn ends(frame: &[u8]) -> (Mac, Mac) {
        let header = wire::ethernet::peek(frame).unwrap();
        (header.source(), header.destination())
    }

    #[test]
    fn each_sends_to_a_machine_of_its_own_network() {
        for adversary in Adversary::ALL.into_iter().filter(|it| it.has_rings()) {
            let scene = Scene { adversary, tenants: 3 };
            let (owners, ports) = (scene.owners(), ports(scene));
            let Parties { networks, senders, .. } = scene.parties();
            for number in 0..(networks * senders) as usize {
                let frame = scene.frame(&ports, number);
                let (from, to) = ends(&frame);
                assert_eq!(from, ports[2 + number].mac, "{adversary}");
                if adversary != Adversary::Broadcast {
                    let place = ports.iter().position(|port| port.mac == to).unwrap();
                    assert!(place >= 2 + (networks * senders) as usize, "it receives");
                    assert_eq!(owners[place], owners[2 + number], "{adversary}");
                }
            }
        }
    }

    #[test]
    fn a_hastened_frame_is_whole() {
        let scene = Scene { adversary: Adversary::Priority, tenants: 1 };
        let frame = scene.frame(&ports(scene), 0);
        assert_eq!(frame.len(), LONGEST_DATAGRAM as usize);
        assert_eq!(frame[12..16], [0x81, 0, 0xe0, 0]);
        assert_eq!(frame[19], EXPEDITED << 2);
        assert_eq!(wire::checksum::Sum::of(&frame[18..38]).checksum(), 0);
    }
}
