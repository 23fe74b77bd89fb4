//! How far a measurement is, on stderr: a bar on a terminal, a line for each step elsewhere.

use std::cell::Cell;
use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use measure::{Bench, MeasureError, Progress};

use crate::signals;

/// Makes a measurement whose progress is shown and which a signal stops.
pub fn show<T>(
    make: impl FnOnce(&Bench<'_>) -> Result<T, MeasureError>,
) -> io::Result<Result<T, MeasureError>> {
    let stop = signals::stop()?;
    let program = std::env::current_exe()?;
    if !io::stderr().is_terminal() {
        return Ok(make(&Bench { program, stop: &stop, progress: &Lines }));
    }
    let bar = Bar::new();
    let made = make(&Bench { program, stop: &stop, progress: &bar });
    bar.bar.finish_and_clear();
    Ok(made)
}

struct Bar {
    bar: ProgressBar,
    /// How many steps the one counts for that is being done.
    weight: Cell<u64>,
}

impl Bar {
    fn new() -> Self {
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}  {eta} left");
        bar.set_style(
            style.expect("the template is well-formed, as every run with a terminal shows"),
        );
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, weight: Cell::new(1) }
    }
}

impl Progress for Bar {
    fn begin(&self, steps: usize) {
        self.bar.inc_length(steps as u64);
        self.bar.reset_eta();
    }

    fn step(&self, doing: &str) {
        self.long_step(doing, 1);
    }

    fn long_step(&self, doing: &str, steps: usize) {
        let done = self.weight.replace(steps as u64);
        // The first step has none before it that is now done.
        if !self.bar.message().is_empty() {
            self.bar.inc(done);
        }
        self.bar.set_message(doing.to_owned());
    }

    fn tell(&self, what: &str) {
        self.bar.println(what);
    }
}

struct Lines;

impl Progress for Lines {
    fn begin(&self, _steps: usize) {}

    fn step(&self, doing: &str) {
        eprintln!("{doing}");
    }

    fn tell(&self, what: &str) {
        eprintln!("{what}");
    }
}
