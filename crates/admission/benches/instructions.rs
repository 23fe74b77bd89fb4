//! How many instructions the admission of a network costs, among 4,096, and whether that is still
//! as few as it was.
//!
//! `cargo bench -p admission --bench instructions`. What the bench itself does counts.

use std::process::ExitCode;

use admission::{Claim, Host, admit};
use model::NetworkName;
use units::{Bytes, Rate, Span};

const CASES: [callgrind::Case<'_>; 2] = [("admitted", 560.4), ("refused", 560.9)];

const NETWORKS: u64 = 4096;

fn main() -> ExitCode {
    callgrind::main("network", &CASES, 100 * NETWORKS, claims)
}

fn claims(case: &str, claims: u64) -> u64 {
    let rate = Rate::from_gbit(if case == "admitted" { 10 } else { 8 });
    let host =
        Host { rate: Some(rate), latency: Span::from_millis(6), memory: Bytes(NETWORKS << 20) };
    let names: Vec<_> = (0..NETWORKS).map(|number| NetworkName(number.to_string())).collect();
    let claim = |network| Claim {
        network,
        min: Rate::from_bits_per_sec(2_000_000),
        max: None,
        burst: Bytes(1514),
        min_packets: 50,
        frame: Span::from_micros(3),
        memory: Bytes(1 << 20),
    };
    for _ in 0..claims / NETWORKS {
        assert_eq!(admit(&host, names.iter().map(claim)).is_ok(), case == "admitted");
    }
    claims
}
