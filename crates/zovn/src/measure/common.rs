//! What the experiments' flags have in common: the switches, and where figures go.

use std::io::Write;
use std::path::PathBuf;

use measure::readable::{self, Readable};
use measure::{Bench, MeasureError, Measurement, SwitchKind};
use serde::Serialize;

use crate::ending::{self, Outcome, PageFile};
use crate::progress;

#[derive(clap::Args)]
pub struct Common {
    /// The switches to compare: bridge, ovs, zovn-lossy, zovn; between virtual machines ovs-dpdk,
    /// testpmd, zovn-lossy, zovn. All but ovs and testpmd if left out; between ports in memory,
    /// both zovns.
    #[arg(long = "switch", value_name = "SWITCH", value_delimiter = ',')]
    pub switches: Vec<SwitchKind>,
    #[command(flatten)]
    pub output: Output,
}

#[derive(clap::Args)]
pub struct Output {
    /// Print one JSON object instead of a table (docs/measurements.md shows its fields).
    #[arg(long)]
    pub json: bool,
    /// Write a self-contained HTML page with charts here, too.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// The switches that are compared if nobody says which: between containers, ports in memory and
/// virtual machines.
pub const CONTAINERS: [SwitchKind; 3] =
    [SwitchKind::Bridge, SwitchKind::ZovnLossy, SwitchKind::Zovn];
pub const MEMORY: [SwitchKind; 2] = [SwitchKind::ZovnLossy, SwitchKind::Zovn];
pub const MACHINES: [SwitchKind; 3] =
    [SwitchKind::OvsDpdk, SwitchKind::ZovnLossy, SwitchKind::Zovn];

impl Common {
    pub fn switches(&self, otherwise: &[SwitchKind]) -> Vec<SwitchKind> {
        if self.switches.is_empty() { otherwise.to_vec() } else { self.switches.clone() }
    }
}

impl Output {
    /// Makes an experiment, prints what was found, and says how it ended.
    pub fn make<C, R>(
        self,
        make: impl FnOnce(&Bench<'_>) -> Result<Measurement<C, R>, MeasureError>,
    ) -> Outcome
    where
        Measurement<C, R>: Readable + Serialize,
    {
        let page = self.report.map(PageFile::open).transpose()?;
        let made = match progress::show(make)? {
            Ok(made) => made,
            Err(error) => return ending::unmade(error),
        };
        if self.json {
            ending::print_json(&made)?;
        } else {
            write!(std::io::stdout(), "{}", readable::text(&made))?;
        }
        if let Some(page) = page {
            let lead =
                "Every figure below was measured on the machine described at the end of this page.";
            page.write(&made.title(), lead, &[&made])?;
        }
        Ok(ending::verdict(&[&made]))
    }
}
