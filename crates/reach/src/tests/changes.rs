//! What is told as a change is one, and what is one is told.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use logical::topology::{Attachment, PortIndex};
use units::{Mac, Rng};
use worlds::World;

use super::random::packet;
use super::{OPTIONS, ask};
use crate::area::Area;
use crate::changes::Change;
use crate::frame::{Content, Packet};
use crate::matrix::{Whose, matrix, name};

/// Whether a packet of these ends gets from one port to another, by whatever Ethernet addresses.
fn arrives(world: &World, from: PortIndex, to: PortIndex, packet: &Packet) -> bool {
    let topology = &world.topology;
    let own = &topology[from];
    let macs = topology[own.switch].ports.iter().map(|it| topology[*it].mac);
    let strange = [
        Mac::BROADCAST,
        Mac([1, 0, 0x5e, 0, 0, 1]),
        Mac([6, 0, 0, 0, 0, 1]),
        Mac([2, 0, 0, 0, 0, 0xfe]),
        Mac([2, 0, 0, 0, 1, 1]),
        Mac([2, 0, 0, 0, 1, 2]),
    ];
    let senders = [
        own.mac,
        Mac([2, 0, 0, 0, 1, 1]),
        Mac([2, 0, 0, 0, 0, 0xfe]),
        Mac([2, 0, 0, 0, 9, 9]),
        Mac([6, 0, 0, 0, 0, 9]),
    ];
    let all: BTreeSet<Mac> = macs.chain(strange).collect();
    all.into_iter().any(|to_mac| {
        senders.into_iter().any(|from_mac| {
            let frame = Packet { from_mac, to_mac, ..*packet }.frame();
            ask(topology, from, &frame).delivered.iter().any(|it| it.port == to)
        })
    })
}

#[test]
fn what_is_told_as_changed_has_changed_and_the_reverse() {
    let mut changed = 0;
    for seed in 0..150 {
        // Packets whose hash decides may arrive, and are told as if they did.
        let old = World::with(seed, OPTIONS);
        let mut rng = Rng::new(seed ^ 3);
        let new = old.edited(&mut rng).edited(&mut rng).edited(&mut rng);
        if [&old, &new].iter().any(|it| it.text.contains("ecmp")) {
            continue;
        }
        let [base, now] = [&old, &new].map(|it| matrix(&it.topology).unwrap());
        let changes = now.changes(&base);
        assert!(base.changes(&base).is_empty(), "{}", old.text);
        for _ in 0..60 {
            let sent = packet(&old.topology, &mut rng);
            let Content::Ip { from: source, to: destination, .. } = sent.packet.content else {
                continue;
            };
            let asks = sent.packet.asks();
            let from = &old.topology[sent.port];
            let find = |id| {
                let mut all = new.topology.ports();
                all.find(|(_, it)| it.id == id && !matches!(it.attachment, Attachment::Router(_)))
            };
            let Some((new_from, _)) = find(from.id.clone()) else { continue };
            if base.field.atoms.find(asks).is_none() || !from.addresses.contains(&source) {
                continue;
            }
            for (port, to) in old.topology.ports().filter(|it| it.0 != sent.port) {
                let Some((new_port, new_to)) = find(to.id.clone()) else { continue };
                if !to.addresses.contains(&destination)
                    || !new_to.addresses.contains(&destination)
                    || !new.topology[new_from].addresses.contains(&source)
                {
                    continue;
                }
                let before = arrives(&old, sent.port, port, &sent.packet);
                let after = arrives(&new, new_from, new_port, &sent.packet);
                let point = Area(asks.map(|it| (it, it)));
                let is_of = |it: &&Change| {
                    it.from.contains(&name(&from.id))
                        && it.to.contains(&name(&to.id))
                        && [&it.source, &it.destination].iter().all(|it| **it == Whose::Own)
                        && it.services.areas().iter().any(|it| it.and(&point).is_some())
                };
                let told: Vec<_> = changes.iter().filter(is_of).collect();
                changed += usize::from(before != after);
                if before == after {
                    // Of two own addresses one may have changed: it is told of own addresses.
                    let ports = [from, to, &new.topology[new_from], new_to];
                    let is_alone = ports.iter().all(|it| it.addresses.len() == 1);
                    assert!(
                        told.is_empty() || !is_alone,
                        "{}\n{}\n{sent:?} to {:?}\n{told:?}",
                        old.text,
                        new.text,
                        to.id
                    );
                } else {
                    assert!(
                        told.iter().any(|it| it.now == after),
                        "{}\n{}\n{sent:?} to {:?}: now {after}\n{changes:?}",
                        old.text,
                        new.text,
                        to.id
                    );
                }
            }
        }
    }
    assert!(changed > 20, "{changed}");
}
