//! A store that was put back from a backup is another one for agents.

use std::fs;
use std::path::Path;
use std::sync::mpsc::Receiver;

use replica::{Follower, Known};
use serde_json::Value;

use crate::agents::{Controller, Host, PLACES, SHOP, agent, copies, until_told};

const FILE: &str = "store.redb";

/// What an agent has of its one domain.
fn known(follower: &Follower) -> Option<Known> {
    follower.known().next().unwrap().1
}

/// An agent with these copies.
fn one(controller: &Controller, copies: Follower) -> (Host, Receiver<Follower>) {
    agent(controller, "h1", &["shop/web-1"], copies)
}

#[test]
fn agents_take_what_was_put_back_once_it_is_another_store() {
    let (folder, backup) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let copy = |from: &Path, to: &Path| fs::copy(from.join(FILE), to.join(FILE)).unwrap();
    let text = SHOP.trim_end().to_owned() + PLACES;
    let controller = Controller::on(folder.path());
    controller.served.apply("", &text).is(200);
    controller.settle();
    let (host, had) = one(&controller, copies());
    until_told(&host, 1);
    let backed_up = controller.settle();
    controller.end(folder.path());
    copy(folder.path(), backup.path());
    let had = had.recv().unwrap();
    let whole = known(&had);

    // A policy is written after the backup, and executed.
    let controller = Controller::on(folder.path());
    let (host, had) = one(&controller, had);
    controller.served.apply("", &text.replace("ports: [5432]", "ports: [5433]")).is(200);
    controller.settle();
    until_told(&host, 1);
    controller.settle();
    assert_eq!(host.0.lock().unwrap().told, [1]);
    controller.end(folder.path());
    let had = had.recv().unwrap();
    assert_ne!(known(&had), whole);

    // The copy says that it is the same store, and lacks what the agent has.
    copy(backup.path(), folder.path());
    let controller = Controller::on(folder.path());
    let (host, had) = one(&controller, had);
    let had = had.recv().unwrap();
    let ended = host.0.lock().unwrap().ended.clone();
    assert!(ended.contains("zovn controller restored"), "{ended}");
    assert!(host.0.lock().unwrap().told.is_empty());
    controller::restored(folder.path()).unwrap_err();
    controller.end(folder.path());

    let restored = controller::restored(folder.path()).unwrap();
    assert_eq!(restored.revision, backed_up.0);
    assert_ne!(restored.store, restored.before);
    let controller = Controller::on(folder.path());
    let (host, had) = one(&controller, had);
    until_told(&host, 1);
    assert_eq!(controller.settle(), backed_up);
    assert_eq!(host.0.lock().unwrap().told, [1], "the policy is as it was");
    controller.end(folder.path());
    assert_eq!(known(&had.recv().unwrap()), whole);
    let recorded = fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
    let line: Value = serde_json::from_str(recorded.trim_end()).unwrap();
    assert_eq!((&line["action"], &line["revision"]), (&"restored".into(), &backed_up.0.into()));
}
