//! A sweep's folder of which one file is damaged, as reports and sweeps that go on read it.

use std::fs;
use std::sync::LazyLock;

use sim::scenario::Plan;
use sim::store::Kind;
use sim::{CellResult, Instruments, Store};

/// All that is read of a folder, and what it says undamaged.
static FILES: LazyLock<[(&str, Vec<u8>); 4]> = LazyLock::new(|| {
    let plan = Plan::parse(include_str!("../../crates/sim/tests/small.toml")).expect("it is right");
    let mut cell = plan.cell(0);
    cell.scenario.output.samples = Some(units::Span::from_micros(10));
    let instruments = Instruments { samples: true, ..Instruments::default() };
    let (outcome, seen) = sim::run_seen(&cell.scenario, instruments, &mut |_| true);
    let result = CellResult::new(&cell, &outcome);
    let folder = tempfile::tempdir().expect("there is room");
    let store = Store::create(folder.path(), &plan).expect("nothing is there yet");
    store.write(&cell, &outcome, &result, seen.samples.as_ref(), false).expect("there is room");
    ["sweep.json", "cell-000000.json", "cell-000000.parquet", "cell-000000.samples.parquet"]
        .map(|name| (name, fs::read(folder.path().join(name)).expect("it was written")))
});

/// Damages a file as `bytes` say, by cutting, inserting or overwriting, and reads the folder.
pub fn damage(bytes: &[u8]) {
    let Some((&[which, high, low, how], bytes)) = bytes.split_first_chunk() else { return };
    let folder = tempfile::tempdir().expect("there is room");
    for (name, whole) in &*FILES {
        fs::write(folder.path().join(name), whole).expect("there is room");
    }
    let (name, whole) = &FILES[usize::from(which) % FILES.len()];
    let (head, tail) = whole.split_at(usize::from(u16::from_be_bytes([high, low])) % whole.len());
    let tail = match how % 3 {
        0 => &[],
        1 => tail,
        _ => tail.get(bytes.len()..).unwrap_or_default(),
    };
    fs::write(folder.path().join(name), [head, bytes, tail].concat()).expect("there is room");
    if let Ok(store) = Store::open(folder.path()) {
        // Whatever it says, it says it.
        let _ = store.result(0);
        let _ = [Kind::Query, Kind::Flow].map(|kind| store.times(0, kind));
        let _ = store.samples(0, |_| {});
    }
}
