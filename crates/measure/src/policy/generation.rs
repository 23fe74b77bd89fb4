//! When an agent decides by what it was told.

use std::time::{Duration, Instant};

use lab::{Client, LabError, SwitchKind};

use crate::site::unmade;
use crate::{Bench, MeasureError};

/// How long an agent may take to have a generation at its ports.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until a generation decides about frames of all ports.
pub fn await_generation(bench: &Bench<'_>, client: &Client) -> Result<(), MeasureError> {
    let begun = Instant::now();
    loop {
        let ports = client.status().map_err(|error| unmade(error.into()))?.ports;
        let is_realized = |port: &model::PortStatus| {
            port.logical_state.as_ref().is_some_and(|state| state.realized.is_some())
        };
        if ports.iter().all(is_realized) {
            return Ok(());
        }
        bench.go_on()?;
        if begun.elapsed() > PATIENCE {
            let said = "its ports are of no generation".to_owned();
            let (program, seconds) = (SwitchKind::Zovn.to_string(), PATIENCE.as_secs());
            return Err(LabError::Late { program, seconds, said }.into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
