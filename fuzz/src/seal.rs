//! What attacks a sealed channel: packets that are damaged, made up, or come at any time.
//!
//! The fuzz target feeds it what libFuzzer finds, `crates/seal/tests/it/fuzz.rs` what property
//! tests do.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use seal::{Channel, Config, Ends, Keys, Mode, OVERHEAD, Pace};
use units::{Instant, Span};

const KEY: &str = "Nq2qzpGUxm5uUBVVXVd1c6yjQYFCoUqrtVtNYyREp3k=";

/// What the hosts send.
const INSIDE: &[u8] = b"a frame";

/// Plays an attacker: the first byte says how far the handshake is, all others which packet is
/// taken, how it is changed and who gets it, four for each.
pub fn attack(bytes: &[u8]) {
    let Some((&how, bytes)) = bytes.split_first() else { return };
    let mode = if how & 1 == 0 { Mode::Integrity } else { Mode::Encrypt };
    let mut now = Instant::from_nanos(1);
    let mut hosts = hosts(now, mode);
    let mut pace = Pace::default();
    let mut recorded = Vec::new();
    hosts[usize::from(how >> 1 & 1)].want(now);
    for _ in 0..how >> 2 & 7 {
        exchange(now, &mut hosts, &mut pace, &mut recorded);
    }
    let were_open = hosts.iter().all(Channel::is_open);
    for host in &mut hosts {
        send(now, host, &mut recorded);
    }
    for change in bytes.chunks(4) {
        let &[which, at, to, whom] = change else { break };
        let mut packet = match recorded.get(usize::from(which)) {
            Some(packet) => packet.clone(),
            None => bytes.to_vec(),
        };
        if let Some(byte) = packet.get_mut(usize::from(at)) {
            *byte ^= to;
        }
        packet.truncate(packet.len().saturating_sub(usize::from(whom >> 4)));
        let host = &mut hosts[usize::from(whom & 1)];
        if let Ok(Some(inside)) = host.open(now, &mut packet) {
            assert_eq!(inside, INSIDE, "it was sealed so");
        }
        if whom & 2 != 0 {
            exchange(now, &mut hosts, &mut pace, &mut recorded);
        }
        now += Span::from_millis(u64::from(whom >> 2 & 3));
    }
    if were_open {
        for (from, to) in [(0, 1), (1, 0)] {
            let mut packet = send(now, &mut hosts[from], &mut recorded).expect("its keys live");
            let inside = hosts[to].open(now, &mut packet).expect("it is genuine");
            assert_eq!(inside.as_deref(), Some(INSIDE));
        }
    }
}

fn hosts(now: Instant, mode: Mode) -> [Channel; 2] {
    let keys = Arc::new(Keys::parse(KEY).expect("it is a key"));
    let [a, b] = [1, 2].map(|last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)));
    [(a, b), (b, a)].map(|(own, peer)| {
        let ends = Ends::new(own, peer).expect("they are two");
        Channel::new(now, Config { mode, keys: keys.clone(), ends })
    })
}

/// Each host says what it has to, and hears what the other said.
fn exchange(now: Instant, hosts: &mut [Channel; 2], pace: &mut Pace, recorded: &mut Vec<Vec<u8>>) {
    let said = hosts.each_mut().map(|host| host.poll_transmit(now, pace));
    for (control, to) in said.into_iter().zip([1, 0]) {
        let Some(control) = control else { continue };
        recorded.push(control.bytes().to_vec());
        let _ = hosts[to].open(now, &mut control.bytes().to_vec());
    }
}

fn send(now: Instant, host: &mut Channel, recorded: &mut Vec<Vec<u8>>) -> Option<Vec<u8>> {
    let mut packet = [&[0; OVERHEAD], INSIDE].concat();
    host.seal(now, &mut packet).ok()?;
    recorded.push(packet.clone());
    Some(packet)
}
