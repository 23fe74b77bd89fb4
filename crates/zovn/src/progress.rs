//! How far a measurement is, on stderr: a bar on a terminal, a line for each step elsewhere.

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
    bar.0.finish_and_clear();
    Ok(made)
}

struct Bar(ProgressBar);

impl Bar {
    fn new() -> Self {
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}  {eta} left");
        bar.set_style(
            style.expect("the template is well-formed, as every run with a terminal shows"),
        );
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }
}

impl Progress for Bar {
    fn begin(&self, steps: usize) {
        self.0.inc_length(steps as u64);
        self.0.reset_eta();
    }

    fn step(&self, doing: &str) {
        // The first step has none before it that is now done.
        if !self.0.message().is_empty() {
            self.0.inc(1);
        }
        self.0.set_message(doing.to_owned());
    }
}

struct Lines;

impl Progress for Lines {
    fn begin(&self, _steps: usize) {}

    fn step(&self, doing: &str) {
        eprintln!("{doing}");
    }
}
