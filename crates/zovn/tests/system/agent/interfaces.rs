//! Containers and their interfaces, which come, go and change without the agent's doing.

use std::os::unix::fs::MetadataExt;

use super::*;

#[test]
fn an_interface_that_was_set_down_is_noticed() {
    let mut world = World::new(2);
    let client = world.start(2);
    let notes = |place| client.port(&name(place)).unwrap().notes;
    let down = LinkChange { up: Some(false), ..LinkChange::default() };
    Netlink::open_in(&world.containers[0]).unwrap().change_link("eth0", down).unwrap();
    until(|| notes(0).iter().any(|note| note.contains("set down inside the container")));
    let up = LinkChange { up: Some(true), ..LinkChange::default() };
    Netlink::open_in(&world.containers[0]).unwrap().change_link("eth0", up).unwrap();
    until(|| notes(0).is_empty());
    assert!(notes(1).is_empty(), "the other was looked at in between: {:?}", notes(1));
}

#[test]
fn a_container_may_come_later_and_go_and_come_back() {
    let mut world = World::new(1);
    let client = world.start(2);
    let state = || client.port(&name(1)).unwrap();
    let metric = |state: &str, value: u8| {
        let line = format!("zovn_port_state{{port=\"c1\",state=\"{state}\"}} {value}\n");
        assert!(client.metrics().unwrap().contains(&line), "{line}");
    };
    assert_eq!(
        (client.port(&name(0)).unwrap().state, state().state),
        (PortState::Up, PortState::Down)
    );
    assert!(state().notes[0].contains("cannot open network namespace"), "{:?}", state().notes);
    metric("down", 1);
    let device = |container: &Namespace| {
        let number = container.inode().unwrap();
        (fs::metadata("/proc/self/ns/net").unwrap().dev(), number)
    };
    for _ in 0..2 {
        world.containers.truncate(1);
        world.containers.push(Namespace::create(&world.container(1)).unwrap());
        until(|| state().state == PortState::Up);
        metric("up", 1);
        world.greet(0, 1);
        Namespace::delete(&world.container(1)).unwrap();
        let gone = device(&world.containers.pop().unwrap());
        until(|| state().state == PortState::Down);
        assert!(state().notes[0].contains("its container "), "{:?}", state().notes);
        // The agent held the last descriptor of it.
        let agent = world.agent.as_ref().unwrap().id();
        let holds = |file: fs::DirEntry| {
            fs::metadata(file.path()).is_ok_and(|file| (file.dev(), file.ino()) == gone)
        };
        until(|| !fs::read_dir(format!("/proc/{agent}/fd")).unwrap().any(|it| holds(it.unwrap())));
    }
    // A port that waits for its container can go as any other.
    client.detach(&name(1)).unwrap();
    let status = client.status().unwrap();
    assert_eq!(status.ports.len(), 1);
    assert!(balanced(&status), "{status:?}");
}

#[test]
fn an_interface_that_was_renamed_is_found_and_one_that_was_moved_away_is_down() {
    let mut world = World::new(2);
    let client = world.start(1);
    let port = || client.port(&name(0)).unwrap();
    let mut netlink = Netlink::open_in(&world.containers[0]).unwrap();
    let down = LinkChange { up: Some(false), ..LinkChange::default() };
    netlink.change_link("eth0", down).unwrap();
    let renamed = LinkChange { name: Some("wan"), ..LinkChange::default() };
    netlink.change_link("eth0", renamed).unwrap();
    until(|| port().state == PortState::Down);
    netlink.change_link("wan", LinkChange { up: Some(true), ..LinkChange::default() }).unwrap();
    until(|| port().state == PortState::Up);
    assert!(port().notes[0].contains("renamed to `wan`"), "{:?}", port().notes);
    let away = LinkChange { namespace: Some(&world.containers[1]), ..LinkChange::default() };
    netlink.change_link("wan", away).unwrap();
    until(|| port().state == PortState::Down);
    assert!(port().notes[0].contains("was moved out of the container"), "{:?}", port().notes);
}
