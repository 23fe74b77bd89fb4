//! What a physical switch has counted.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use ::fabric::{Counters, DropReason, Fabrics, Place, Tally};
use serde::{Deserialize, Serialize};
use units::Class;

use crate::LabError;

/// How long a physical switch may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Everything that was counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FabricReport {
    /// Whether all that hosts have sent is accounted for.
    pub balanced: bool,
    /// By port's name and class: hosts', and each trunk's two as `leaf1-spine1` and `spine1-leaf1`,
    /// at the first; only classes of which there is something to tell.
    pub ports: BTreeMap<String, BTreeMap<u8, ClassReport>>,
}

/// One class of one port. At a link between two switches, the other switch stands for the host.
///
/// A frame that goes to several hosts counts once in all of `received`, `passed`, `dropped` and
/// `held`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassReport {
    /// Sent by the port's host.
    pub received: Tally,
    /// Of these, taken by some host.
    pub passed: Tally,
    /// Of these, dropped, by reason.
    pub dropped: BTreeMap<String, Tally>,
    /// Of these, underway or waiting.
    pub held: Tally,
    /// Sent to the port's host.
    pub sent: Tally,
    /// Frames of these that were marked.
    pub marked: u64,
    /// How often the host was asked to pause, repetitions included.
    pub pauses_sent: u64,
    /// How often the host asked for a pause, and got it.
    pub pauses_obeyed: u64,
}

impl FabricReport {
    pub(super) fn of<F: Copy>(fabrics: &Fabrics<F>, ports: &[(String, Place)]) -> Self {
        let classes = |place| {
            let counters = Class::all().map(move |class| (class, fabrics.counters(place, class)));
            let told = counters.filter(|(_, counters)| **counters != Counters::default());
            told.map(|(class, counters)| (class.pcp(), ClassReport::of(counters))).collect()
        };
        let ports = ports.iter().map(|(name, place)| (name.clone(), classes(*place)));
        Self { balanced: fabrics.balances(), ports: ports.collect() }
    }

    /// What the physical switch that listens at `socket` has counted until now.
    ///
    /// # Errors
    ///
    /// [`LabError::Kernel`] if nobody listens there or what is told is no report.
    pub fn ask(socket: &Path) -> Result<Self, LabError> {
        let ask = || {
            let mut stream = UnixStream::connect(socket)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let mut line = String::new();
            stream.read_to_string(&mut line)?;
            Ok(serde_json::from_str(&line)?)
        };
        ask().map_err(LabError::kernel(format!("ask the physical switch at {}", socket.display())))
    }

    /// How many frames it has dropped, for whatever reason.
    pub fn dropped(&self) -> u64 {
        let classes = self.ports.values().flat_map(BTreeMap::values);
        classes.flat_map(|class| class.dropped.values()).map(|tally| tally.frames).sum()
    }

    /// All classes of a port together, or nothing if there is no such port.
    pub fn port(&self, name: &str) -> ClassReport {
        let mut all = ClassReport::default();
        for class in self.ports.get(name).into_iter().flat_map(BTreeMap::values) {
            all.received += class.received;
            all.passed += class.passed;
            all.held += class.held;
            all.sent += class.sent;
            for (reason, tally) in &class.dropped {
                *all.dropped.entry(reason.clone()).or_default() += *tally;
            }
            all.marked += class.marked;
            all.pauses_sent += class.pauses_sent;
            all.pauses_obeyed += class.pauses_obeyed;
        }
        all
    }
}

impl ClassReport {
    fn of(counters: &Counters) -> Self {
        let dropped =
            DropReason::all().map(|reason| (reason.name().to_owned(), counters.dropped(reason)));
        Self {
            received: counters.received,
            passed: counters.passed,
            dropped: dropped.filter(|(_, tally)| tally.frames > 0).collect(),
            held: counters.held,
            sent: counters.sent,
            marked: counters.marked,
            pauses_sent: counters.pauses_sent,
            pauses_obeyed: counters.pauses_obeyed,
        }
    }

    /// Frames that were dropped for this reason.
    pub fn dropped(&self, reason: &str) -> u64 {
        self.dropped.get(reason).map_or(0, |tally| tally.frames)
    }
}
