//! A controller that is killed, or stopped, while it is asked to write.

use std::collections::BTreeSet;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use api::{Asked, Remote, RemoteClient};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::kept::Kept;

/// What each write is for.
const PLACE: &str = "\
- {kind: Tenant, metadata: {name: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: t}, spec: {subnets: [10.0.0.0/24]}}
";

/// Objects of one write.
const ENDS: [&str; 2] = ["one", "other"];

/// Declares two ports at once, again and again, until the controller is gone; says which were
/// acknowledged.
fn write(listen: &str, called: &str, acknowledged: &Sender<String>) {
    let server = format!("http://{listen}");
    let client = RemoteClient::new(Remote { server, tls: None, token: None }).unwrap();
    for number in 0.. {
        let name = format!("{called}-{number}");
        let port = |end: &str| {
            format!(
                "- {{kind: LogicalPort, metadata: {{name: {name}-{end}, tenant: t}}, spec: {{switch: s, vif: {{}}}}}}\n"
            )
        };
        let asked = Asked::post("/v1/apply", ENDS.map(port).concat().into_bytes());
        if client.ask::<Value>(asked).is_err() {
            return;
        }
        acknowledged.send(name).unwrap();
    }
}

/// The ports that there are.
fn ports(kept: &Kept) -> BTreeSet<String> {
    let told = kept.zovn(&["get", "objects", "logical-ports", "--tenant", "t", "--yaml"]);
    let names = told.lines().filter_map(|line| line.trim().strip_prefix("name: "));
    names.map(ToOwned::to_owned).collect()
}

#[test]
fn what_was_acknowledged_is_there_after_a_controller_was_killed_and_nothing_by_half() {
    let mut kept = Kept::new();
    let place = kept.file("place.yaml", PLACE);
    kept.zovn(&["apply", "-f", &place]);
    let mut acknowledged = Vec::new();
    for round in 0..3 {
        let (sender, told) = channel();
        thread::scope(|scope| {
            for writer in 0..3 {
                let (listen, sender) = (kept.listen().to_owned(), sender.clone());
                let called = format!("p{round}-{writer}");
                scope.spawn(move || write(&listen, &called, &sender));
            }
            drop(sender);
            acknowledged.extend((0..20).map(|_| told.recv().expect("it writes")));
            kept.kill();
            acknowledged.extend(told.iter());
        });
        kept.start();
        let there = ports(&kept);
        for name in &acknowledged {
            assert!(there.contains(&format!("{name}-one")), "{round}: {name} was acknowledged");
        }
        let whole = |name: &String| {
            let (write, _) = name.rsplit_once('-').unwrap();
            ENDS.iter().all(|end| there.contains(&format!("{write}-{end}")))
        };
        assert!(there.iter().all(whole), "{round}: {there:?}");
    }
}

#[test]
fn a_controller_that_is_stopped_has_no_successor_and_goes_on() {
    let kept = Kept::new();
    let place = kept.file("place.yaml", PLACE);
    let process = Pid::from_child(kept.process());
    kill_process(process, Signal::STOP).unwrap();
    let data = kept.data();
    let addresses = ["--listen", "127.0.0.1:0", "--agents", "127.0.0.1:0"];
    let flags = ["controller", "--open", "--data", data.to_str().unwrap()];
    let second = kept.run(&[&flags[..], &addresses].concat());
    kill_process(process, Signal::CONT).unwrap();
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains("another process has the store"), "{said}");
    kept.zovn(&["apply", "-f", &place]);
}
