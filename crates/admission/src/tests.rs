use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::Cell;

use model::{NetworkShare, PortName};
use proptest::prelude::*;

use super::*;

/// A host with an uplink of 10 Gb/s.
const HOST: Host =
    Host { rate: Some(Rate::from_gbit(10)), latency: Span::from_millis(5), memory: Bytes(1 << 30) };

fn name(number: usize) -> NetworkName {
    NetworkName(format!("n{number}"))
}

fn claim(network: &NetworkName) -> Claim<'_> {
    Claim {
        network,
        min: None,
        max: None,
        burst: Bytes(1514),
        min_packets: 0,
        frame: Span::from_micros(3),
        memory: Bytes(0),
    }
}

fn complaint(host: &Host, claims: &[Claim<'_>]) -> String {
    admit(host, claims.iter().copied()).unwrap_err().to_string()
}

#[test]
fn networks_are_promised_most_of_the_uplink_and_no_more() {
    let names = [name(0), name(1)];
    let of = |second: &str| {
        let first = Claim { min: "5gbit".parse().ok(), ..claim(&names[0]) };
        [first, Claim { min: second.parse().ok(), ..claim(&names[1]) }]
    };
    let promise = admit(&HOST, of("4405mbit")).unwrap();
    assert_eq!(promise.bits_per_sec, 9_405_000_000);
    assert_eq!(promise.wait, Rate::from_gbit(10).time_for(2 * 1514));
    assert_eq!(
        complaint(&HOST, &of("4405001kbit")),
        "`min` of all networks is 94.06 % of the uplink's 10gbit, and may be 94.05 % beside control; most have `n0` \
         (5gbit), `n1` (4405001kbit), control (495mbit): lower a network's"
    );
}

#[test]
fn control_is_a_holder_like_any_other() {
    let names: Vec<_> = (0..21).map(name).collect();
    let refused = |each: &str| {
        let claims = names.iter().map(|it| Claim { min: each.parse().ok(), ..claim(it) });
        admit(&HOST, claims).unwrap_err()
    };
    let error = refused("450mbit");
    assert!(error.to_string().contains("control (495mbit), `n0` (450mbit), `n1` (450mbit): "));
    assert_eq!(error.blamed(), Some(&names[0]), "control cannot have less");
    assert!(!refused("500mbit").to_string().contains("control ("), "three have more");
}

#[test]
fn each_sum_that_is_too_large_is_told_with_who_has_most_of_it() {
    let names: Vec<_> = (0..5).map(name).collect();
    let claims: Vec<_> = (1..)
        .zip(&names)
        .map(|(size, network)| Claim {
            min: Rate::from_bits_per_sec(size * 1_000_000_000),
            burst: Bytes(size * 1_000_000),
            min_packets: size as u32 * 100_000,
            memory: Bytes(size << 28),
            ..claim(network)
        })
        .collect();
    let text = complaint(&HOST, &claims);
    let sentences: Vec<_> = text.split("; `").collect();
    let [rates, bursts, packets, memory] = sentences[..] else { panic!("{text}") };
    assert!(
        rates.contains("150.00 %") && rates.contains("`n4` (5gbit), `n3` (4gbit), `n2`"),
        "{rates}"
    );
    assert!(bursts.contains("12ms") && bursts.contains("`latency`"), "{bursts}");
    assert!(packets.contains("450.00 %") && packets.contains("`n4` (500000/s)"), "{packets}");
    assert!(memory.contains("3840mib") && memory.contains("1gib"), "{memory}");
    assert!(!text.contains("n1"), "three are named: {text}");
}

#[test]
fn an_uplink_of_which_nothing_is_known_promises_nothing() {
    let names = [name(0)];
    let host = Host { rate: None, ..HOST };
    assert_eq!(admit(&host, [claim(&names[0])]), Ok(Promise::default()));
    assert_eq!(
        complaint(&host, &[Claim { min: "1mbit".parse().ok(), ..claim(&names[0]) }]),
        "`min` of `n0` is of an uplink whose rate is not known: declare `rate` in [uplink]"
    );
    let max = Claim { max: "1mbit".parse().ok(), ..claim(&names[0]) };
    let unknown =
        "`max` of `n0` is of an uplink whose rate is not known: declare `rate` in [uplink]";
    assert_eq!(complaint(&host, &[max]), unknown);
    assert!(admit(&HOST, [max]).is_ok());
}

#[test]
fn numbers_without_end_are_refused_like_others() {
    let names: Vec<_> = (0..3).map(name).collect();
    let claims = names.iter().map(|network| Claim {
        min: Rate::from_bits_per_sec(u64::MAX),
        burst: Bytes(u64::MAX),
        min_packets: u32::MAX,
        frame: Span::from_nanos(u64::MAX),
        memory: Bytes(u64::MAX),
        ..claim(network)
    });
    assert_eq!(admit(&HOST, claims).unwrap_err().0.len(), 4);
}

#[test]
fn thousands_of_networks_are_looked_at_once_each() {
    let names: Vec<_> = (0..4096).map(name).collect();
    let looks = Cell::new(0);
    let claims = names.iter().map(|network| {
        looks.set(looks.get() + 1);
        Claim { min: "2mbit".parse().ok(), ..claim(network) }
    });
    assert_eq!(admit(&HOST, claims).unwrap().bits_per_sec, 4096 * 2_000_000);
    assert_eq!(looks.get(), 4096);
}

/// What a network is promised, of what some are too much for the host together.
#[derive(Clone, Copy, Debug)]
struct Asked {
    number: usize,
    bits: u64,
    burst: u64,
    packets: u32,
    memory: u64,
}

impl Asked {
    /// A part of it: all for 1, nothing for 0.
    fn part(self, of: u32) -> Self {
        let divide = |amount: u64| amount.checked_div(of.into()).unwrap_or(0);
        Self {
            bits: divide(self.bits),
            burst: divide(self.burst),
            packets: self.packets.checked_div(of).unwrap_or(0),
            memory: divide(self.memory),
            ..self
        }
    }
}

#[test]
fn ports_are_promised_what_their_network_is_and_no_more() {
    let blue = NetworkName("blue".into());
    let names = ["a", "b", "c", "d"].map(|name| PortName(name.into()));
    let mbit = |mbit: u64| Rate::from_bits_per_sec(mbit * 1_000_000);
    let admit = |min, max, ports: [u64; 4]| {
        let share = NetworkShare { min: mbit(min), max: mbit(max), ..NetworkShare::default() };
        let ports = names.iter().zip(ports);
        admit_ports(&blue, &share, ports.filter_map(|(name, it)| Some((name, mbit(it)?))))
    };
    assert_eq!(admit(500, 600, [300, 0, 200, 0]), Ok(500_000_000));
    assert_eq!(admit(0, 0, [300, 0, 900, 0]), Ok(1_200_000_000), "the link is asked");
    let error = admit(500, 600, [100, 0, 300, 101]).unwrap_err();
    assert_eq!(error.blamed(), Some(&names[2]));
    assert_eq!(
        error.to_string(),
        "`min` of all ports of network `blue` is 501mbit, and may be 500mbit, the network's `min`; most have `c` \
         (300mbit), `d` (101mbit), `a` (100mbit): lower one of these, or raise the network's"
    );
    let error = admit(0, 600, [400, 201, 0, 0]).unwrap_err().to_string();
    assert!(error.contains("is 601mbit, and may be 600mbit, the network's `max`; "), "{error}");
}

fn asked() -> impl Strategy<Value = Vec<Asked>> {
    let one = (0..4_000_000_000_u64, 0..3_000_000_u64, 0..150_000_u32, 0..400_u64 << 20);
    prop::collection::vec(one, 0..8).prop_map(|all| {
        let asked = |(number, (bits, burst, packets, memory))| Asked {
            number,
            bits,
            burst,
            packets,
            memory,
        };
        all.into_iter().enumerate().map(asked).collect()
    })
}

fn admit_all(asked: &[Asked]) -> Result<Promise, NotAdmitted> {
    let names: Vec<_> = (0..8).map(name).collect();
    let claim = |it: &Asked| Claim {
        min: Rate::from_bits_per_sec(it.bits),
        burst: Bytes(it.burst),
        min_packets: it.packets,
        memory: Bytes(it.memory),
        ..claim(&names[it.number])
    };
    admit(&HOST, asked.iter().map(claim))
}

proptest! {
    #[test]
    fn the_order_of_networks_does_not_matter(mut all in asked(), turn: prop::sample::Index) {
        let before = admit_all(&all);
        if !all.is_empty() {
            let turn = turn.index(all.len());
            all.rotate_left(turn);
            all[turn..].reverse();
        }
        prop_assert_eq!(admit_all(&all), before);
    }

    #[test]
    fn what_is_admitted_stays_so_when_one_has_less_or_nothing(
        mut all in asked(), which: prop::sample::Index, part in 0..4_u32,
    ) {
        prop_assume!(!all.is_empty());
        let before = admit_all(&all);
        let at = which.index(all.len());
        all[at] = all[at].part(part);
        match (before, admit_all(&all)) {
            (Ok(before), after) => {
                let after = after.unwrap();
                prop_assert!(after.bits_per_sec <= before.bits_per_sec && after.wait <= before.wait);
                prop_assert!(after.thread <= before.thread && after.memory <= before.memory);
            }
            (Err(before), Err(after)) => prop_assert!(after.0.len() <= before.0.len()),
            (Err(_), Ok(_)) => {}
        }
    }
}
