//! What a store promises, in each home.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use store::{
    CommitError, Condition, Conflict, Embedded, Home, Limits, Revision, Store, StoreError,
    Transaction,
};

use crate::disk::Disk;
use crate::memory::{Fault, Memory};
use crate::model::{Model, Writes, key, transaction};

/// So little that most transactions take several batches.
const SMALL: Limits = Limits { writes: 5, bytes: 120 };

const LARGE: Limits = Limits { writes: 1_000, bytes: 1 << 20 };

#[derive(Clone, Debug)]
enum Step {
    Commit(Writes),
    /// One of whose conditions it is not known whether they hold.
    CommitIf(Writes, usize, u64),
    Compact(u64),
    Reopen,
    Renew,
    /// A batch fails, or is written and says that it failed.
    Fail(usize, bool),
}

fn writes() -> impl Strategy<Value = Writes> {
    let keys = prop::sample::select(vec!["a", "a/1", "a/2", "ab", "b", "b/1", "c"]);
    btree_map(keys.prop_map(key), option::of(vec(any::<u8>(), 0..12)), 0..7)
}

fn steps(with_faults: bool) -> impl Strategy<Value = Vec<Step>> {
    let fault = if with_faults { 2 } else { 0 };
    let step = prop_oneof![
        8 => writes().prop_map(Step::Commit),
        3 => (writes(), 0..7_usize, 0..12_u64).prop_map(|(it, key, at)| Step::CommitIf(it, key, at)),
        1 => (0..12_u64).prop_map(Step::Compact),
        1 => Just(Step::Reopen),
        1 => Just(Step::Renew),
        fault => (0..4_usize, any::<bool>()).prop_map(|(after, is_written)| Step::Fail(after, is_written)),
    ];
    vec(step, 0..16)
}

/// Runs steps in a home that `open` opens, again and again; `fail` has it fail.
fn run(steps: Vec<Step>, open: &dyn Fn() -> Box<dyn Home>, fail: &dyn Fn(Fault)) {
    let mut model = Model::new();
    let mut store = Store::open(open()).unwrap();
    let mut uid = store.uid().to_owned();
    for step in steps {
        match step {
            Step::Commit(writes) => {
                let done = store.commit(transaction(&writes));
                settle(&mut model, &mut store, &writes, done, open);
            }
            Step::CommitIf(writes, which, at) => {
                let at = Revision(at);
                let which = key(["a", "a/1", "a/2", "ab", "b", "b/1", "c"][which]);
                let found = model.now().get(&which).map(|it| it.modified);
                let (condition, found, holds) = match at.0 {
                    0 => (Condition::Absent(which), found, found.is_none()),
                    1..=5 => (Condition::Unchanged(at), Some(model.newest()), at == model.newest()),
                    _ => (Condition::Written(which, at), found, found == Some(at)),
                };
                let done = store.commit(transaction(&writes).when(condition.clone()));
                if holds || matches!(done, Err(CommitError::Store(StoreError::Home(_)))) {
                    settle(&mut model, &mut store, &writes, done, open);
                } else {
                    match done {
                        Err(CommitError::Conflict(it)) => {
                            assert_eq!(it, Conflict { condition, found })
                        }
                        other => panic!("{condition:?} does not hold, and {other:?}"),
                    }
                }
            }
            Step::Compact(before) => {
                let before = Revision(before);
                let goal = before.min(model.newest()).max(model.oldest);
                match store.compact(before) {
                    Ok(()) => model.oldest = goal,
                    // It can be asked again, and ends then.
                    Err(StoreError::Home(_)) => {
                        store = reopened(open);
                        store.compact(before).unwrap();
                        model.oldest = goal;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            Step::Reopen => {
                // A file is one process's at a time.
                drop(store);
                store = reopened(open);
            }
            Step::Renew => {
                store = match store.renew() {
                    Ok(renewed) => {
                        assert_ne!(renewed.uid(), uid);
                        renewed
                    }
                    Err(StoreError::Home(_)) => reopened(open),
                    Err(error) => panic!("{error}"),
                };
                uid = store.uid().to_owned();
            }
            Step::Fail(after, is_written) => fail(Fault { after, is_written }),
        }
        assert_eq!(store.uid(), uid);
    }
    model.hold(&store);
}

/// Opens a home; it may fail once.
fn reopened(open: &dyn Fn() -> Box<dyn Home>) -> Store {
    Store::open(open()).or_else(|_| Store::open(open())).unwrap()
}

/// What was acknowledged is there; what failed is there as a whole or not at all.
fn settle(
    model: &mut Model,
    store: &mut Store,
    writes: &Writes,
    done: Result<Revision, CommitError>,
    open: &dyn Fn() -> Box<dyn Home>,
) {
    match done {
        Ok(revision) => assert_eq!(revision, model.commit(writes)),
        Err(CommitError::Store(StoreError::Home(_))) => {
            let before = model.clone();
            // The same store goes on, unless it does not know whether the fence is its own.
            let seen = store.commit(Transaction::new()).or_else(|_| {
                *store = reopened(open);
                store.commit(Transaction::new())
            });
            model.commit(writes);
            if seen.unwrap() == before.newest() {
                *model = before;
            }
            model.hold(store);
        }
        Err(error) => panic!("{error}"),
    }
}

proptest! {
    #[test]
    fn a_store_is_a_map_with_history(steps in steps(false)) {
        for limits in [SMALL, LARGE] {
            let home = Memory::new(limits);
            run(steps.clone(), &|| Box::new(home.clone()), &|_| {});
        }
        let disk = Disk::default();
        run(steps, &|| Box::new(Embedded::on(disk.again()).unwrap()), &|_| {});
    }

    #[test]
    fn a_batch_that_fails_leaves_a_transaction_whole_or_absent(steps in steps(true)) {
        for limits in [SMALL, LARGE] {
            let home = Memory::new(limits);
            run(steps.clone(), &|| Box::new(home.clone()), &|fault| home.fail(fault));
        }
    }
}

#[test]
fn who_opens_a_home_later_is_the_only_one_to_write() {
    let home = Memory::new(LARGE);
    let first = Store::open(Box::new(home.clone())).unwrap();
    let writes = Writes::from([(key("a"), Some(b"1".to_vec()))]);
    first.commit(transaction(&writes)).unwrap();
    let second = Store::open(Box::new(home)).unwrap();
    let refused = first.commit(transaction(&writes));
    assert!(matches!(refused, Err(CommitError::Store(StoreError::Fenced))), "{refused:?}");
    assert_eq!(second.commit(transaction(&writes)).unwrap(), Revision(2));
    assert!(matches!(first.compact(Revision(2)), Err(StoreError::Fenced)));
}

#[test]
fn a_store_that_is_renewed_has_another_uid_and_the_same_content() {
    let home = Memory::new(LARGE);
    let store = Store::open(Box::new(home.clone())).unwrap();
    let mut model = Model::new();
    let writes = Writes::from([(key("a"), Some(b"1".to_vec()))]);
    store.commit(transaction(&writes)).unwrap();
    model.commit(&writes);
    let (uid, fence) = (store.uid().to_owned(), store.fence());
    let store = store.renew().unwrap();
    assert_ne!(store.uid(), uid);
    model.hold(&store);
    let again = Store::open(Box::new(home)).unwrap();
    assert_eq!(again.uid(), store.uid());
    assert!(again.fence() > fence);
    assert!(matches!(store.renew(), Err(StoreError::Fenced)));
}

#[test]
fn compaction_leaves_one_version_of_what_is_there() {
    let home = Memory::new(SMALL);
    let store = Store::open(Box::new(home.clone())).unwrap();
    let empty = home.len();
    for round in 0..50 {
        let gone = (round % 2 == 0).then(|| vec![1]);
        let writes = [(key("a"), Some(vec![round])), (key("b"), gone)];
        store.commit(transaction(&writes.into())).unwrap();
    }
    store.compact(store.revision()).unwrap();
    // The number of the revision, that of the oldest, and `a`; `b` was removed by the last.
    assert_eq!(home.len(), empty + 3);
}

#[test]
fn a_value_that_no_batch_holds_is_refused_before_anything_is_written() {
    let store = Store::open(Box::new(Memory::new(SMALL))).unwrap();
    let writes = [(key("a"), Some(vec![0; 10])), (key("b"), Some(vec![0; 200]))];
    let refused = store.commit(transaction(&writes.into()));
    assert!(matches!(refused, Err(CommitError::TooLarge { .. })), "{refused:?}");
    Model::new().hold(&store);
}

#[test]
fn who_waits_is_told_of_each_commit_and_of_nothing_else() {
    let store = Store::open(Box::new(Memory::new(LARGE))).unwrap();
    let mut told = store.subscribe();
    store.commit(Transaction::new()).unwrap();
    assert!(!told.has_changed().unwrap());
    store.commit(transaction(&[(key("a"), Some(vec![]))].into())).unwrap();
    assert!(told.has_changed().unwrap());
    assert_eq!(*told.borrow_and_update(), Revision(1));
}

#[test]
fn another_format_is_not_touched() {
    let home = Memory::new(LARGE);
    drop(Store::open(Box::new(home.clone())).unwrap());
    let batch = store::Batch {
        expect: Vec::new(),
        writes: vec![(b"mformat".to_vec(), Some(b"2".to_vec()))],
    };
    assert_eq!(home.write(&batch).unwrap(), store::Written::Done);
    let refused = Store::open(Box::new(home));
    assert!(matches!(refused, Err(StoreError::Format(it)) if it == "2"));
}
