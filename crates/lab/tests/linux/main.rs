//! The simulator's TCP beside the kernel's, over the same path: who sends what, and when it is
//! there.
//!
//! docs/validation.md tells the method, the figures and the differences. Its tables come from
//!
//! ```sh
//! cargo test -p lab --test linux -- --include-ignored --nocapture
//! ```

mod kernel;
mod model;
mod path;
mod trace;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tcp::{Config, Control, Profile};
use units::{Instant, Rate, Span};

use kernel::{Amount, Kernel};
use path::{Drops, Path};
use trace::{Sent, Trace};

const CONTROLS: [Control; 2] = [Control::Reno, Control::Cubic];

/// A run in which the path itself was later than this tells nothing about TCP.
const LATE: Span = Span::from_millis(1);

/// How often a run is repeated for one that tells something.
const ATTEMPTS: usize = 5;

/// 50 Mb/s, 20 ms there and back, a hundred frames.
fn narrow() -> Path {
    let rate = Rate::from_bits_per_sec(50_000_000).unwrap();
    Path { rate, delay: Span::from_millis(10), queue: 100 }
}

fn config(control: Control) -> Config {
    Config { control, ..Profile::Linux.config() }
}

/// One at a time: each wants the whole machine.
fn machine() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run that the machine did not disturb; none if it disturbs them all.
fn undisturbed(mut run: impl FnMut() -> Trace) -> Option<Trace> {
    let found = (0..ATTEMPTS).map(|_| run()).find(|trace| trace.late <= LATE);
    if found.is_none() {
        needs::too_busy("how Linux's TCP differs from ours");
    }
    found
}

fn assert_close(what: &str, linux: f64, ours: f64, share: f64) {
    let apart = (ours / linux - 1.0).abs();
    assert!(
        apart <= share,
        "{what}: Linux {linux:.3}, ours {ours:.3}, {:.1} % apart",
        100.0 * apart
    );
}

fn ms(span: Span) -> f64 {
    span.as_secs_f64() * 1e3
}

fn order(trace: &Trace) -> Vec<Sent> {
    trace.sent().into_iter().map(|(_, sent)| sent).collect()
}

#[test]
fn what_is_dropped_is_repaired_by_the_same_segments_in_the_same_order() {
    let _machine = machine();
    let bytes = 100_000;
    let mut kernel = Kernel::new("script");
    for control in CONTROLS {
        for drops in scripts() {
            let ended = |trace: Trace| {
                let end = trace.complete(bytes).expect("everything arrives");
                (trace.until(end), end)
            };
            // Linux acknowledges eight more at once: those by which its receive buffer grows, which
            // ours does not.
            let config = Config { quick_acks: 16 + 8, ..config(control) };
            let limit = Span::from_secs(20);
            let (model, model_end) =
                ended(model::transfer(&config, narrow(), drops.clone(), bytes, limit));
            let took = |trace: &Trace, end: Instant| ms(end.since(trace.opened()));
            let model_ms = took(&model, model_end);
            let what = format!("{control}, {drops:?}");
            // When the server reads, and so when an acknowledgement waits, is a matter of chance in
            // Linux: what ours does must be among the things that Linux does.
            let mut differences = Vec::new();
            for _ in 0..ATTEMPTS {
                let run =
                    || kernel.transfer(control, narrow(), drops.clone(), Amount::Bytes(bytes));
                let Some(run) = undisturbed(run) else {
                    differences.clear();
                    break;
                };
                let (linux, linux_end) = ended(run);
                let linux_ms = took(&linux, linux_end);
                eprintln!(
                    "{what}: Linux {linux_ms:.1} ms, ours {model_ms:.1}, {} again",
                    linux.again()
                );
                // The last segment may just miss a window, and then takes a round trip more.
                let bound_ms = f64::max(0.05 * linux_ms, 25.0);
                if order(&linux) == order(&model) && (linux_ms - model_ms).abs() <= bound_ms {
                    differences.clear();
                    break;
                }
                differences.push(linux.told());
            }
            assert!(
                differences.is_empty(),
                "{what}\nours {}\nLinux {}",
                model.told(),
                differences.join("\nLinux ")
            );
        }
    }
}

/// Nothing, the first segment, one in the middle, several in a row early and late, the last, the
/// SYN.
fn scripts() -> [Drops; 7] {
    let data = |data| Drops { data, syn: false };
    let syn = Drops { data: 0..0, syn: true };
    [data(0..0), data(1..2), data(5..6), data(13..17), data(20..26), data(70..71), syn]
}

#[test]
fn transfers_take_as_long() {
    let _machine = machine();
    let mut kernel = Kernel::new("bytes");
    for control in CONTROLS {
        for kib in [20, 100, 1024] {
            let bytes = kib << 10;
            let took = |trace: &Trace| {
                ms(trace.complete(bytes).expect("everything arrives").since(trace.begun()))
            };
            let mut run =
                || kernel.transfer(control, narrow(), Drops::default(), Amount::Bytes(bytes));
            let mut runs: Vec<(f64, usize)> = (0..5)
                .filter_map(|_| undisturbed(&mut run))
                .map(|trace| (took(&trace), trace.again()))
                .collect();
            let limit = Span::from_secs(20);
            let model = model::transfer(&config(control), narrow(), Drops::default(), bytes, limit);
            runs.sort_by(|one, other| one.0.total_cmp(&other.0));
            let Some(&(linux_ms, again)) = runs.get(runs.len() / 2) else { continue };
            let what = format!("{control}, {kib} KiB");
            let (model_ms, model_again) = (took(&model), model.again());
            eprintln!(
                "{what}: Linux {linux_ms:.2} ms, {again} again; ours {model_ms:.2} ms, {model_again} again"
            );
            assert_close(&what, linux_ms, model_ms, 0.05);
            if control == Control::Reno {
                assert_close(
                    &format!("{what}, again"),
                    1.0 + again as f64,
                    1.0 + model_again as f64,
                    0.1,
                );
            }
        }
    }
}

#[test]
fn eight_seconds_carry_as_much() {
    flood("flood", 8);
}

#[test]
#[ignore = "takes two minutes"]
fn thirty_seconds_carry_as_much() {
    flood("long", 30);
}

fn flood(tag: &str, seconds: u64) {
    let _machine = machine();
    let mut kernel = Kernel::new(tag);
    let time = Span::from_secs(seconds);
    for control in CONTROLS {
        let limit = time + Span::from_secs(1);
        let model = model::transfer(&config(control), narrow(), Drops::default(), 1 << 40, limit);
        let amount = Amount::Time(Duration::from_secs(seconds) + Duration::from_millis(500));
        let linux = kernel.transfer(control, narrow(), Drops::default(), amount);
        let figures = |who: &str, trace: Trace| {
            let goodput = trace.goodput(time) / 1e6;
            let end = trace.begun() + time;
            let trace = trace.until(end);
            let (dropped, late) = (trace.dropped(), ms(trace.late));
            eprintln!(
                "{control}, {seconds} s, {who}: {goodput:.2} Mb/s, {dropped} lost, {late:.2} ms late"
            );
            eprintln!("  {}", trace.losses());
            goodput
        };
        let is_quiet = linux.late <= Span::from_millis(5);
        let (linux, model) = (figures("Linux", linux), figures("ours", model));
        if is_quiet {
            assert_close(&format!("{control}, Mb/s"), linux, model, 0.02);
        } else {
            needs::too_busy("how much Linux's TCP carries");
        }
    }
}
