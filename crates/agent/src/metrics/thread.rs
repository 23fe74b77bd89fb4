//! The figures of the switch's thread: what is promised of it, and what was no network's.

use std::fmt;

use model::ThreadStatus;
use prometheus_client::registry::Unit;

use super::page::Page;

/// Writes what is promised of the thread, and what was no network's.
pub fn encode(thread: &ThreadStatus, page: &mut Page<'_>) -> fmt::Result {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let shared = i64::from(thread.shared);
    let help = "1: networks take turns by their terms, as one is promised frames.";
    page.gauge("thread_shared", help, None, [(vec![], shared)])?;
    let help = "The part of the thread that is promised to networks.";
    let promised = [(vec![], thread.promised.as_secs_f64())];
    page.gauge("thread_promised_ratio", help, None, promised)?;
    let help = "What a frame is taken to cost the thread.";
    page.gauge("thread_frame", help, Some(Unit::Seconds), [(vec![], thread.frame.as_secs_f64())])?;
    let help = "How long guarantees did not hold, as the thread was given less time.";
    let short = [(vec![], thread.short.as_secs_f64())];
    page.counter("thread_short", help, Some(Unit::Seconds), short)?;
    let control = [(vec![], seconds(thread.control.used_ns))];
    let help = "Time of the thread that was no network's and no port's.";
    page.counter("thread_control", help, Some(Unit::Seconds), control)?;
    let others = [(vec![], seconds(thread.others.used_ns))];
    let help = "Time of the thread that ports of no network have had.";
    page.counter("thread_others", help, Some(Unit::Seconds), others)
}

#[cfg(test)]
mod tests {
    use model::{AgentStatus, ThreadUse};
    use units::Span;

    use super::*;
    use crate::metrics::{Format, peers, render};

    #[test]
    fn every_figure_of_the_thread_is_on_the_page() {
        let used = |used_ns| ThreadUse { used_ns, ..ThreadUse::default() };
        let thread = ThreadStatus {
            shared: true,
            promised: Span::from_millis(150),
            frame: Span::from_micros(3),
            short: Span::from_millis(1500),
            control: used(1_000_000_000),
            others: used(2_000_000_000),
        };
        let page = render(AgentStatus { thread, ..peers::tests::agent() }, Format::OpenMetrics);
        for line in [
            "zovn_thread_shared{} 1",
            "zovn_thread_promised_ratio{} 0.15",
            "zovn_thread_frame_seconds{} 0.000003",
            "zovn_thread_short_seconds_total{} 1.5",
            "zovn_thread_control_seconds_total{} 1.0",
            "zovn_thread_others_seconds_total{} 2.0",
        ] {
            assert!(page.contains(&format!("{line}\n")), "{line} is not in {page}");
        }
    }
}
