//! The power goes before every single write of redb's.

use store::{Batch, Embedded, Home, HomeError, Limits, Revision, Store, View, Written};

use crate::disk::Disk;
use crate::model::{Model, Writes, key, transaction};

/// An embedded home that takes less at a time, so that transactions take several batches.
#[derive(Debug)]
struct Narrow(Embedded);

impl Home for Narrow {
    fn limits(&self) -> Limits {
        Limits { writes: 7, bytes: 8_000 }
    }

    fn read(&self) -> Result<Box<dyn View + '_>, HomeError> {
        self.0.read()
    }

    fn write(&self, batch: &Batch) -> Result<Written, HomeError> {
        self.0.write(batch)
    }
}

fn open(disk: &Disk) -> Result<Store, String> {
    let home = Embedded::on(disk.again()).map_err(|error| error.to_string())?;
    Store::open(Box::new(Narrow(home))).map_err(|error| error.to_string())
}

/// What the story writes, transaction by transaction; one has several batches, some remove.
fn story() -> Vec<Writes> {
    let value = |from: usize| Some((0..from * 40).map(|it| it as u8).collect::<Vec<_>>());
    let many = (0..20).map(|i| (key(&format!("b/{i}")), value(i + 1)));
    vec![
        Writes::from([(key("a"), value(1))]),
        many.clone().collect(),
        Writes::from([(key("a"), value(90)), (key("b/1"), None)]),
        many.map(|(key, _)| (key, None)).collect(),
        Writes::from([(key("c"), value(2))]),
    ]
}

/// Tells the story; the history before revision 2 is forgotten before its end. Returns how far the
/// model is sure, and whether compaction was begun.
fn tell(disk: &Disk, model: &mut Model) -> (bool, Result<(), String>) {
    let store = match open(disk) {
        Ok(store) => store,
        Err(error) => return (false, Err(error)),
    };
    let mut compacts = false;
    for (place, writes) in story().iter().enumerate() {
        if place == 4 {
            compacts = true;
            if let Err(error) = store.compact(Revision(2)) {
                return (compacts, Err(error.to_string()));
            }
            model.oldest = Revision(2);
        }
        if let Err(error) = store.commit(transaction(writes)) {
            return (compacts, Err(error.to_string()));
        }
        model.commit(writes);
    }
    (compacts, Ok(()))
}

#[test]
fn the_power_may_go_before_any_write() {
    let whole = Disk::made();
    let made = whole.operations();
    let mut model = Model::new();
    tell(&whole, &mut model).1.unwrap();
    let operations = whole.operations();
    assert!(operations - made > 100, "only {operations} operations, {made} to make it");
    let mut in_flight = 0;
    for at in made..operations {
        let disk = Disk::made();
        disk.fail_at(at);
        let mut model = Model::new();
        let (compacts, told) = tell(&disk, &mut model);
        // The last operations close the disk: nobody hears of what fails there.
        assert!(told.is_err() || model.newest() == Revision(5), "operation {at}");
        for seed in 0..4 {
            // Numbers as mixed as this test needs (splitmix64).
            let mut state = seed ^ ((at as u64) << 8);
            let chance = || {
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                mixed ^ (mixed >> 27)
            };
            let found = disk.after_crash(chance);
            let store =
                open(&found).unwrap_or_else(|error| panic!("operation {at}, seed {seed}: {error}"));
            let mut model = model.clone();
            if store.revision() > model.newest() {
                // Not acknowledged, and there: then as a whole.
                in_flight += 1;
                model.commit(&story()[model.states.len() - 1]);
            }
            if compacts {
                model.oldest = store.oldest().unwrap();
                store.compact(model.oldest).unwrap();
            }
            model.hold(&store);
            let next = Writes::from([(key("d"), Some(vec![1]))]);
            assert_eq!(store.commit(transaction(&next)).unwrap(), model.commit(&next));
            model.hold(&store);
        }
    }
    assert!(in_flight > 0, "no crash came between a commit and its acknowledgement");
}
