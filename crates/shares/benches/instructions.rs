//! How many instructions a turn costs, and whether that is still as few as it was.
//!
//! `cargo bench -p shares --bench instructions`. All holders always have something to send, but for
//! one in `sparse`, which wakes for each of its frames. What the bench itself does counts.

use std::process::ExitCode;

use shares::{Bound, Cost, Holder, Right, Settings, Shares, Terms};
use units::{Instant, Rate, Span};

const CASES: [callgrind::Case<'_>; 7] = [
    ("weights 8", 321.5),
    ("weights 4096", 320.0),
    ("guarantees 8", 611.8),
    ("guarantees 4096", 622.8),
    ("maxima 8", 719.2),
    ("maxima 4096", 853.9),
    ("sparse 32", 620.5),
];

const FRAME: Cost = Cost::frame(1514);

fn main() -> ExitCode {
    callgrind::main("turn", &CASES, 200_000, turns)
}

fn turns(case: &str, turns: u64) -> u64 {
    let (kind, holders) = case.split_once(' ').expect("a case is two words");
    let holders: u64 = holders.parse().expect("the second is a number");
    let link = Rate::from_gbit(10);
    let time = link.time_for(FRAME.bytes.into());
    let rate = Rate::from_bits_per_sec(link.bits_per_sec() * 9 / 10 / holders).expect("not zero");
    let terms = match kind {
        "weights" => Terms::default(),
        "maxima" => Terms { max: Bound::bits(rate, 4 * FRAME.bytes), ..Terms::default() },
        _ => Terms { min: Bound::bits(rate, FRAME.bytes), ..Terms::default() },
    };
    // All bursts at once, 5 ms of 4,096 holders, may be late.
    let settings =
        Settings { window: Span::from_millis(16), ..Settings::of_link(link, FRAME.bytes) };
    let mut shares = Shares::new(settings);
    let mut now = Instant::from_nanos(1_000_000_000);
    let all: Vec<Holder> = (0..holders).map(|_| shares.add(terms)).collect();
    let sparse = (kind == "sparse").then_some(all[0]);
    for holder in all.into_iter().filter(|it| Some(*it) != sparse) {
        shares.wake(now, holder, FRAME);
    }
    let gap = rate.time_for(FRAME.bytes.into());
    let mut comes = now;
    let mut guaranteed = 0;
    for _ in 0..turns {
        if let Some(sparse) = sparse
            && comes <= now
        {
            shares.wake(now, sparse, FRAME);
            comes += gap;
        }
        match shares.next(now) {
            Some(turn) => {
                guaranteed += u64::from(turn.right() == Right::Guarantee);
                let next = (Some(turn.holder()) != sparse).then_some(FRAME);
                shares.took(now, turn, FRAME, next);
                now += time;
            }
            None => now = shares.ready_at().expect("somebody waits"),
        }
    }
    assert_eq!(guaranteed > 0, kind != "weights" && kind != "maxima");
    assert_eq!(shares.lost(), Span::ZERO);
    turns
}
