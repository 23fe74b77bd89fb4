//! Agents whose service manager keeps what they leave: their machines see no end.

use api::Client;
use model::{AgentSettings, PortName, PortSpec, SocketMode};
use rustix::process::Signal;
use units::Span;
use vhost::socket::{Connection, Received, connect};

use super::cards::{Machine, machines};
use super::host::Host;
use crate::common::until;

const COUNT: u64 = 100_000;

/// So many frames at most are delivered and not recorded as such, when an agent is killed.
const BURST: usize = port::BURST;

/// Frames go on while agents end, one after the other, and no front-end connects anew.
fn frames_go_on(signal: Signal) {
    const ENDS: u64 = 10;
    let mut host = Host::managed();
    let (mut vms, ports) = machines(&host, 2);
    let settings = AgentSettings { drain: Span::from_millis(20), ..AgentSettings::default() };
    host.start(settings.clone(), ports.clone());
    vms.iter_mut().for_each(Machine::plug);
    until(|| host.manager.as_ref().unwrap().has_all());
    let [a, b] = &mut vms[..] else { unreachable!() };
    a.sends_to(b.mac);
    let (mut next, mut came, mut lives) = (0, Vec::new(), Vec::new());
    for end in 1..=ENDS {
        until(|| {
            a.send(&mut next, COUNT);
            b.take(64, &mut came);
            came.len() as u64 >= end * COUNT / (ENDS + 2)
        });
        // In the midst of it.
        a.send(&mut next, COUNT);
        host.end(signal);
        a.send(&mut next, COUNT);
        b.take(usize::MAX, &mut came);
        lives.push(came.len());
        host.start(settings.clone(), ports.clone());
    }
    until(|| {
        a.send(&mut next, COUNT);
        b.take(64, &mut came);
        a.nic.on_their_way() == 0 && next == COUNT && came.last() == Some(&(COUNT - 1))
    });
    assert!(
        [&*a, b].iter().all(|vm| vm.listener.accept().unwrap().is_none()),
        "nobody has connected anew"
    );
    let mut expected = 0;
    for (at, number) in came.iter().enumerate() {
        if *number != expected && signal == Signal::KILL {
            // The next agent begins with what may not have arrived.
            assert!(
                lives.contains(&at) && expected - number <= BURST as u64,
                "{number} after {expected} at {at}"
            );
            expected = *number;
        }
        assert_eq!(*number, expected, "once, in order");
        expected += 1;
    }
    assert_eq!(expected, COUNT);
}

#[test]
fn frames_go_on_while_agents_are_stopped() {
    frames_go_on(Signal::TERM);
}

#[test]
fn frames_go_on_while_agents_are_killed() {
    frames_go_on(Signal::KILL);
}

#[test]
fn what_is_kept_is_for_the_ports_that_there_are() {
    let mut host = Host::managed();
    let names = ["odd:100%", "vm1", "vm2"].map(|name| PortName(name.into()));
    let all = ["odd", "vm1", "vm2"].map(|socket| host.machine(socket, SocketMode::Listen, None));
    let all = Vec::from_iter(
        names.iter().zip(all).map(|(name, port)| PortSpec { name: name.clone(), ..port }),
    );
    let kept = |host: &Host| host.manager.as_ref().unwrap().kept().into_keys().collect::<Vec<_>>();
    let open = |connection: &mut Connection| matches!(connection.receive(), Ok(Received::Nothing));
    let client = host.start(AgentSettings::default(), all.clone());
    until(|| kept(&host) == ["odd%3a100%25", "vm1", "vm2"]);
    let let_in = |client: &Client, name| {
        let notes = || client.port(name).unwrap().notes;
        until(|| notes().iter().any(|note| note.starts_with("a front-end is connected")));
    };
    let [mut vm1, mut vm2] = ["vm1", "vm2"].map(|socket| connect(&host.path(socket)).unwrap());
    names[1..].iter().for_each(|name| let_in(&client, name));
    until(|| host.manager.as_ref().unwrap().has_all());
    host.end(Signal::KILL);
    until(|| kept(&host) == ["odd%3a100%25", "vm1", "vm2"]);

    // Somebody who connects while there is no agent is let in by the next one.
    let mut odd = connect(&host.path("odd")).unwrap();
    let client = host.start(AgentSettings::default(), all.clone());
    names.iter().for_each(|name| let_in(&client, name));
    assert!([&mut odd, &mut vm1, &mut vm2].into_iter().all(open));
    client.detach(&names[2]).unwrap();
    until(|| kept(&host) == ["odd%3a100%25", "vm1"]);
    // Its port is gone for good. A process that another test begins has the connection as well,
    // until it executes its program: here and below.
    until(|| !open(&mut vm2));
    host.end(Signal::TERM);

    host.start(AgentSettings::default(), vec![all[0].clone(), all[2].clone()]);
    until(|| kept(&host) == ["odd%3a100%25", "vm2"]);
    // Nobody has declared its port.
    until(|| !open(&mut vm1));
    host.end(Signal::TERM);
    assert!(open(&mut odd));
    let mut other = all[0].clone();
    other.attach = other.attach.with_mtu(9000);
    let client = host.start(AgentSettings::default(), vec![other]);
    // It had agreed on something else.
    until(|| !open(&mut odd));
    let mut odd = connect(&host.path("odd")).unwrap();
    let_in(&client, &names[0]);
    host.end(Signal::TERM);
    assert!(open(&mut odd));
    host.manager = None;
    // Nobody keeps it any more.
    until(|| !open(&mut odd));
}
