use std::sync::atomic::{AtomicBool, Ordering};

use store::{Batch, Embedded, Home, HomeError, Limits, View, Written};
use units::Rng;
use worlds::{CORNERS, World};

use super::*;

/// A home that can have a write done and yet say that it has failed. It cannot be read then.
#[derive(Debug)]
struct Failing {
    home: Embedded,
    breaks: Arc<AtomicBool>,
    is_broken: Arc<AtomicBool>,
}

fn broken() -> HomeError {
    HomeError("it is broken".into())
}

impl Home for Failing {
    fn limits(&self) -> Limits {
        self.home.limits()
    }

    fn read(&self) -> Result<Box<dyn View + '_>, HomeError> {
        match self.is_broken.load(Ordering::Relaxed) {
            true => Err(broken()),
            false => self.home.read(),
        }
    }

    fn write(&self, batch: &Batch) -> Result<Written, HomeError> {
        let written = self.home.write(batch)?;
        if self.breaks.swap(false, Ordering::Relaxed) {
            self.is_broken.store(true, Ordering::Relaxed);
            return Err(broken());
        }
        Ok(written)
    }
}

#[test]
fn the_keys_that_are_remembered_are_bounded_for_each_writer() {
    let now = SystemTime::now();
    let once =
        |writer: &str, key: String| Once { writer: writer.into(), key, digest: String::new() };
    let write = |writer: &str, key: &str| Write {
        once: Some(once(writer, key.into())),
        ..Write::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(Box::new(Embedded::open(folder.path()).unwrap())).unwrap();
    let applied = Applied { revision: 0, objects: Vec::new() };
    let at = since_1970(now).as_secs();
    let outcome = json(&Outcome { digest: String::new(), at, applied });
    let mut full = Transaction::new();
    for key in 1..MOST_REMEMBERED.count {
        full.put(outcome_key(&once("w", key.to_string())), outcome.clone());
    }
    store.commit(full).unwrap();
    let catalog = Catalog::open(store).unwrap();
    let write = |writer, key, now| catalog.write(write(writer, key), now, || true);
    write("w", "last", now).unwrap();
    assert!(matches!(write("w", "more", now), Err(Refused::Full)));
    write("w", "last", now).unwrap();
    write("v", "more", now).unwrap();
    let later = now + REMEMBERED + Duration::from_secs(2);
    catalog.forget(later).unwrap();
    write("w", "more", later).unwrap();
    assert_eq!(catalog.lock().tally("w").count, 1);
    assert_eq!(catalog.lock().tally("v").count, 0);
}

#[test]
fn who_computes_has_the_objects_of_writes_or_reads_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(Box::new(Embedded::open(folder.path()).unwrap())).unwrap();
    let catalog = Catalog::open(store).unwrap();
    let put = |text: &str| {
        let write = Write { source: logical::read(text), ..Write::default() };
        catalog.write(write, SystemTime::now(), || true).unwrap();
    };
    put("{kind: Tenant, metadata: {name: t}, spec: {}}");
    put("{kind: Tenant, metadata: {name: t, labels: {a: b}}, spec: {}}");
    let behind = store::Cursor::behind(Revision(0));
    let changes = catalog.store().changes(behind, place::ALL, 10).unwrap().changes;
    let [older, newer] = &changes[..] else { panic!("{changes:?}") };
    let edited = |change| catalog.edited(change).unwrap().1.unwrap();
    let own = catalog.object(&tenant(&"t".parse().unwrap())).unwrap();
    assert_eq!(edited(older).metadata().revision, Some(1));
    assert!(Arc::ptr_eq(&edited(newer), &own), "the write's");
    let read = edited(newer);
    assert!(!Arc::ptr_eq(&read, &own) && read == own, "the store's");
    put("{kind: Tenant, metadata: {name: u}, spec: {}}");
    catalog.was_told(Revision(2));
    assert_eq!(catalog.untold().len(), 1);
    catalog.was_told(Revision(3));
    assert!(catalog.untold().is_empty());
}

#[test]
fn who_computes_has_no_object_that_was_not_committed() {
    let folder = tempfile::tempdir().unwrap();
    let [breaks, is_broken] = [0; 2].map(|_| Arc::new(AtomicBool::new(false)));
    let home = Failing {
        home: Embedded::open(folder.path()).unwrap(),
        breaks: Arc::clone(&breaks),
        is_broken: Arc::clone(&is_broken),
    };
    let catalog = Catalog::open(Store::open(Box::new(home)).unwrap()).unwrap();
    let put = |label: &str| {
        let metadata = format!("{{name: t, labels: {{a: {label}}}}}");
        let text = format!("{{kind: Tenant, metadata: {metadata}, spec: {{}}}}");
        let write = Write { source: logical::read(&text), ..Write::default() };
        catalog.write(write, SystemTime::now(), || true)
    };
    breaks.store(true, Ordering::Relaxed);
    let failed = put("one");
    assert!(matches!(failed, Err(Refused::Store(CommitError::Store(_)))), "{failed:?}");
    // It was done nevertheless, which the next write does not know.
    is_broken.store(false, Ordering::Relaxed);
    let refused = put("two");
    assert!(matches!(refused, Err(Refused::Store(CommitError::Conflict(_)))), "{refused:?}");
    let behind = store::Cursor::behind(Revision(0));
    let changes = catalog.store().changes(behind, place::ALL, 10).unwrap().changes;
    let [one] = &changes[..] else { panic!("{changes:?}") };
    let (identity, object) = catalog.edited(one).unwrap();
    let object = object.unwrap();
    assert_eq!(object.metadata().labels["a"], "one");
    assert_eq!(catalog.object(&identity), Some(object));
}

#[test]
fn a_write_that_fails_leaves_the_objects_that_are_there_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(Box::new(Embedded::open(folder.path()).unwrap())).unwrap();
    let catalog = Catalog::open(store).unwrap();
    let put = |name: &str| {
        let text = format!("{{kind: Tenant, metadata: {{name: {name}}}, spec: {{}}}}");
        let write = Write { source: logical::read(&text), ..Write::default() };
        catalog.write(write, SystemTime::now(), || true)
    };
    put("t").unwrap();
    let identity = tenant(&"t".parse().unwrap());
    let own = catalog.object(&identity).unwrap();
    // Somebody else has written: all is read again.
    let text = "{kind: Tenant, metadata: {name: u}, spec: {}}";
    let object = &logical::read(text).objects[0];
    let mut other = Transaction::new();
    other.put(place::key(&object.identity()), json(object));
    catalog.store().commit(other).unwrap();
    let refused = put("v");
    assert!(matches!(refused, Err(Refused::Store(CommitError::Conflict(_)))), "{refused:?}");
    assert_eq!(catalog.objects().1.len(), 2);
    assert!(Arc::ptr_eq(&catalog.object(&identity).unwrap(), &own));
    // What is too large is not written, so nothing is read.
    let mut large = Transaction::new();
    large.put(place::key(&identity), vec![0; 17 << 20]);
    let mut present = catalog.lock();
    present.objects.remove(&identity);
    let refused = catalog.commit(&mut present, large);
    assert!(matches!(refused, Err(CommitError::TooLarge { .. })), "{refused:?}");
    assert_eq!(present.objects.get(&identity), None);
}

#[test]
fn an_object_is_read_as_it_was_kept() {
    let mut rng = Rng::new(1);
    let random = (0..100).map(|seed| World::new(seed).spread(3, &mut rng).text);
    let mut kinds = BTreeSet::new();
    for text in random.chain([CORNERS.to_owned()]) {
        let source = logical::read(&text);
        assert!(source.faults.is_empty(), "{:?}", source.faults);
        for object in source.objects {
            let (_, object) = stamped(object, None, Revision(1), SystemTime::now());
            let kept = json(&object);
            let read = read(object.kind(), &kept);
            let read = read.unwrap_or_else(|error| panic!("{error}: {object:?}"));
            assert_eq!(read, object);
            assert_eq!(json(&read), kept);
            kinds.insert(object.kind());
        }
    }
    assert!(Kind::ALL.iter().all(|it| kinds.contains(it)), "only {kinds:?}");
}

#[test]
fn what_is_remembered_is_bounded_in_bytes() {
    let tally = Tally::default().with(MOST_REMEMBERED.bytes);
    assert!(tally.fits() && !tally.with(1).fits() && tally.with(1).without(1).fits());
}

/// A store, and what writes there.
fn open(folder: &tempfile::TempDir) -> Catalog {
    Catalog::open(Store::open(Box::new(Embedded::open(folder.path()).unwrap())).unwrap()).unwrap()
}

fn put(catalog: &Catalog, text: &str) {
    let write = Write { source: logical::read(text), ..Write::default() };
    catalog.write(write, SystemTime::now(), || true).unwrap();
}

fn delete(catalog: &Catalog, name: &str) {
    let write = Write { deletes: vec![name.parse().unwrap()], ..Write::default() };
    catalog.write(write, SystemTime::now(), || true).unwrap();
}

fn labels(catalog: &Catalog) -> Vec<(String, u32)> {
    let labels = catalog.labels(catalog.store().revision()).unwrap().into_iter();
    labels.map(|(of, label)| (of.to_string(), label)).collect()
}

/// `p34417` and `p99995` of a tenant have one label as hosts work it out, and `p1668` of `shop` and
/// `p10966` of `bank`.
const ALIKE: &str = "
- {kind: Tenant, metadata: {name: bank}, spec: {}}
- {kind: Tenant, metadata: {name: shop}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: bank}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: shop}, spec: {}}
- {kind: LogicalPort, metadata: {name: p10966, tenant: bank}, spec: {switch: s, vif: {}}}
- {kind: LogicalPort, metadata: {name: p1668, tenant: shop}, spec: {switch: s, vif: {}}}
- {kind: LogicalPort, metadata: {name: p34417, tenant: shop}, spec: {switch: s, vif: {}}}
- {kind: LogicalPort, metadata: {name: p99995, tenant: shop}, spec: {switch: s, vif: {}}}
";

#[test]
fn a_label_is_given_once() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = open(&folder);
    put(&catalog, ALIKE);
    let names = [("bank", "p10966"), ("shop", "p1668"), ("shop", "p34417"), ("shop", "p99995")];
    let names = names.map(|(tenant, port)| format!("LogicalPort/{tenant}/{port}"));
    let hashed = names.each_ref().map(|it| logical::label(&it.parse().unwrap()));
    assert!(hashed[0] == hashed[1] && hashed[2] == hashed[3]);
    let before = labels(&catalog)[0].1 - 1;
    let of = |numbers: [u32; 4]| {
        let labels = numbers.map(|it| before + it);
        names.iter().cloned().zip(labels).collect::<Vec<_>>()
    };
    assert_eq!(labels(&catalog), of([1, 2, 3, 4]));
    // What is only changed keeps its own, and what is created again has another.
    put(&catalog, &ALIKE.replace("spec: {switch: s, vif", "spec: {switch: s, enabled: false, vif"));
    delete(&catalog, &names[3]);
    assert_eq!(labels(&catalog), of([1, 2, 3, 4])[..3]);
    drop(catalog);
    let catalog = open(&folder);
    put(&catalog, ALIKE);
    assert_eq!(labels(&catalog), of([1, 2, 3, 5]));
    // A write that is not done gives none.
    let dry = Write { source: logical::read(ALIKE), is_dry: true, ..Write::default() };
    delete(&catalog, &names[2]);
    catalog.write(dry, SystemTime::now(), || true).unwrap();
    put(&catalog, ALIKE);
    assert_eq!(labels(&catalog), of([1, 2, 6, 5]));
}

#[test]
fn objects_of_an_older_version_are_given_labels_once() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = open(&folder);
    put(&catalog, ALIKE);
    let (given, revision) = (labels(&catalog), catalog.store().revision());
    let mut older = Transaction::new();
    older.delete(place::last_label());
    given.iter().for_each(|(of, _)| older.delete(place::label_key(&of.parse().unwrap())));
    catalog.store().commit(older).unwrap();
    assert!(labels(&catalog).is_empty());
    drop(catalog);
    for _ in 0..2 {
        let catalog = open(&folder);
        assert_eq!(labels(&catalog), given);
        assert_eq!(catalog.store().revision(), Revision(revision.0 + 2), "once");
        assert_eq!(catalog.all().0, catalog.store().revision());
    }
    put(&open(&folder), ALIKE);
}
