//! A publisher without connections, and with times of ours.

use units::Rng;

use super::*;

const NOW: Instant = Instant::ZERO;

fn at(millis: u64) -> Instant {
    NOW + Span::from_millis(millis)
}

/// A machine's port in a domain.
fn place(domain: &str, nodes: Nodes) -> Place {
    Place { domain: domain.into(), nodes, is_everywhere: false }
}

/// Anything that an agent could say, some of it right.
fn said(rng: &mut Rng) -> proto::FromAgent {
    let domain = ["a", "b", "c"][rng.below(3) as usize].to_owned();
    let generation = 1 + rng.below(12);
    let port = ["t/a", "t/b", "t/c", &"x".repeat(200)][rng.below(100) as usize % 4].to_owned();
    let message = match rng.below(7) {
        0 => from_agent::Message::Hello(proto::Hello::default()),
        1 => from_agent::Message::Ports(proto::Ports {
            attached: vec![port],
            ..proto::Ports::default()
        }),
        2 => from_agent::Message::Ports(proto::Ports {
            detached: vec![port],
            complete: true,
            ..proto::Ports::default()
        }),
        3 | 4 => from_agent::Message::Ack(proto::Ack { domain, generation }),
        5 => from_agent::Message::Differs(proto::Differs { domain, generation }),
        _ => {
            let (reason, why) = (rng.below(9) as i32, "x".repeat(rng.below(1100) as usize));
            from_agent::Message::Nack(proto::Nack { domain, generation, reason, why })
        }
    };
    proto::FromAgent { message: (rng.below(50) > 0).then_some(message) }
}

#[test]
fn whatever_an_agent_says_is_served_or_ends_its_session_alone() {
    let mut ended = 0;
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let rows = |row: u8| Map::from_iter([(Arc::from([row]), Arc::from([row]))]);
        let domains = ["a", "b"].map(|name| (Name::from(name), rows(1)));
        let ports = ["a", "b"].map(|name| (format!("t/{name}").into(), place(name, Nodes::Any)));
        let first = Generation(1);
        let publisher = Publisher::new((Store(1), Fence(1)), first, domains, ports);
        let (good, _) = publisher.open(&hello("good")).unwrap();
        let (bad, _) = publisher.open(&hello("bad")).unwrap();
        for revision in 2..4 + rng.below(6) {
            if publisher.receive(NOW, &bad, said(&mut rng)).is_err() {
                publisher.close(&bad);
                assert!(publisher.next(NOW, &bad).is_err());
                ended += 1;
                break;
            }
            while publisher.next(NOW, &bad).unwrap().is_some() {}
            let delta = [(Arc::from([revision as u8]), Some(Arc::from([1])))];
            let domains = BTreeMap::from([("a".into(), delta.into_iter().collect())]);
            let change = Change { domains, ..Change::default() };
            publisher.publish(Generation(revision), change);
        }
        publisher.receive(NOW, &good, has(&["t/a"])).unwrap();
        assert!(publisher.next(NOW, &good).unwrap().is_some(), "the other is served");
    }
    assert!((1..300).contains(&ended), "{ended} of 300 ended");
}

fn hello(node: &str) -> proto::Hello {
    proto::Hello {
        node: node.into(),
        newest_version: 1,
        window_bytes: 1000,
        ..proto::Hello::default()
    }
}

/// An agent has these ports.
fn has(ports: &[&str]) -> proto::FromAgent {
    let attached = ports.iter().map(|it| (*it).to_owned()).collect();
    let ports = proto::Ports { attached, ..proto::Ports::default() };
    proto::FromAgent { message: Some(from_agent::Message::Ports(ports)) }
}

/// These ports have gone.
fn lost(ports: &[&str]) -> proto::FromAgent {
    let detached = ports.iter().map(|it| (*it).to_owned()).collect();
    let ports = proto::Ports { detached, ..proto::Ports::default() };
    proto::FromAgent { message: Some(from_agent::Message::Ports(ports)) }
}

/// All that an agent is to be sent now. It answers.
fn sent(publisher: &Publisher, now: Instant, agent: &Handle) -> Vec<from_controller::Message> {
    let mut all = Vec::new();
    while let Some(next) = publisher.next(now, agent).unwrap() {
        let next = next.message.unwrap();
        if let from_controller::Message::Part(part) = &next {
            let ack = proto::Ack { domain: part.domain.clone(), generation: part.to };
            let ack = proto::FromAgent { message: Some(from_agent::Message::Ack(ack)) };
            publisher.receive(now, agent, ack).unwrap();
        }
        all.push(next);
    }
    all
}

/// A domain with a port that is bound to node `one`, and a port that any node may have.
fn publisher() -> Publisher {
    let rows = Map::from_iter([(Arc::from([1u8]), Arc::from([1u8]))]);
    let bound = ("t/bound".into(), place("a", Nodes::Bound("one".into())));
    let ports = [bound, ("t/any".into(), place("a", Nodes::Any))];
    Publisher::new((Store(1), Fence(1)), Generation(1), [("a".into(), rows)], ports)
}

/// The hosts that are waited for, and whether they are connected.
fn hosts(publisher: &Publisher) -> Vec<(String, bool)> {
    let (_, hosts) = publisher.executing(None);
    hosts.into_iter().map(|it| (it.node.to_string(), it.is_connected)).collect()
}

#[test]
fn a_host_that_comes_back_counts_until_it_has_said_its_ports() {
    let publisher = publisher();
    let open = || ["one", "two"].map(|node| publisher.open(&hello(node)).unwrap().0);
    let both = |is_connected| ["one", "two"].map(|node| (node.to_owned(), is_connected));
    let [one, two] = open();
    assert_eq!(hosts(&publisher), [("one".to_owned(), true)], "its port is bound");
    publisher.receive(NOW, &one, has(&["t/bound"])).unwrap();
    publisher.receive(NOW, &two, has(&["t/any"])).unwrap();
    assert_eq!(hosts(&publisher), both(true));
    // Also if it goes again before it has said them.
    for _ in 0..2 {
        let agents = open();
        assert_eq!(hosts(&publisher), both(true));
        agents.iter().for_each(|it| publisher.close(it));
        assert_eq!(hosts(&publisher), both(false));
    }
    for agent in open() {
        publisher.receive(NOW, &agent, has(&[])).unwrap();
    }
    assert!(hosts(&publisher).is_empty(), "none has a port there any more");
}

#[test]
fn a_node_that_is_gone_is_not_waited_for_once_its_agent_is_gone_too() {
    let publisher = publisher();
    let open = || {
        let (agent, _) = publisher.open(&hello("two")).unwrap();
        publisher.receive(NOW, &agent, has(&["t/any"])).unwrap();
        agent
    };
    let bound = || ("one".to_owned(), false);
    let two = |is_connected| ("two".to_owned(), is_connected);
    let node = || BTreeSet::from([Name::from("two")]);
    let agent = open();
    publisher.publish(Generation(2), Change { gone: node(), ..Change::default() });
    assert_eq!(hosts(&publisher), [bound(), two(true)]);
    publisher.close(&agent);
    assert_eq!(hosts(&publisher), [bound()]);
    let agent = open();
    publisher.publish(Generation(3), Change { come: node(), ..Change::default() });
    publisher.close(&agent);
    assert_eq!(hosts(&publisher), [bound(), two(false)]);
}

/// The node that has port `t/any`, and whether a node follows its domain.
fn holder(publisher: &Publisher) -> (Option<String>, [bool; 2]) {
    let holder = publisher.holding("t/any").unwrap().holders.pop();
    let follows = |node: &str| publisher.lock().followers.of("a").any(|it| **it == *node);
    (holder.map(|it| it.to_string()), ["one", "two"].map(follows))
}

#[test]
fn of_two_nodes_that_say_they_have_a_port_the_first_has_it() {
    let publisher = publisher();
    let [one, two] = ["one", "two"].map(|node| publisher.open(&hello(node)).unwrap().0);
    let has_one = || (Some("one".to_owned()), [true, false]);
    let has_two = || (Some("two".to_owned()), [false, true]);
    publisher.receive(NOW, &one, has(&["t/any"])).unwrap();
    publisher.receive(NOW, &two, has(&["t/any"])).unwrap();
    assert_eq!(holder(&publisher), has_one());
    let holding = publisher.holding("t/any").unwrap();
    assert_eq!((holding.others, holding.is_found), (vec!["two".into()], true));
    let told = sent(&publisher, NOW, &two);
    let unknown = proto::Unknown { ports: vec!["t/any".into()] };
    let unknown = from_controller::Message::Unknown(unknown);
    assert_eq!(told[0], unknown);
    let is_part = |it: &from_controller::Message| matches!(it, from_controller::Message::Part(_));
    assert!(!told.iter().any(is_part), "it is sent nothing of the domain: {told:?}");
    assert!(sent(&publisher, NOW, &one).iter().any(is_part));
    // The first has it no more.
    publisher.receive(NOW, &one, lost(&["t/any"])).unwrap();
    assert_eq!(holder(&publisher), has_two());
    assert!(sent(&publisher, NOW, &two).iter().any(is_part));
    publisher.receive(NOW, &one, has(&["t/any"])).unwrap();
    assert_eq!(holder(&publisher), has_two());
    // It is bound, to the one or to the other, and who has lost it is told so.
    for (revision, node, told, loser) in [(2, "one", has_one(), &two), (3, "two", has_two(), &one)]
    {
        let place = place("a", Nodes::Bound(node.into()));
        let ports = BTreeMap::from([("t/any".into(), Some(place))]);
        publisher.publish(Generation(revision), Change { ports, ..Change::default() });
        assert_eq!(holder(&publisher), told);
        assert_eq!(sent(&publisher, NOW, loser)[0], unknown);
    }
}

#[test]
fn an_agent_that_a_revision_concerns_in_two_ways_is_woken_once() {
    let publisher = publisher();
    let [one, two] = ["one", "two"].map(|node| publisher.open(&hello(node)).unwrap().0);
    for agent in [&one, &two] {
        publisher.receive(NOW, agent, has(&["t/bound"])).unwrap();
        sent(&publisher, NOW, agent);
    }
    let (_, before) = publisher.woken();
    // The port moves: the one has a newer domain, which it is to drop, and the other has it now.
    let moves = |revision, node: &str| {
        let delta = [(Arc::from([revision as u8]), Some(Arc::from([1])))];
        let domains = BTreeMap::from([("a".into(), delta.into_iter().collect())]);
        let to = place("a", Nodes::Bound(node.into()));
        let ports = BTreeMap::from([("t/bound".into(), Some(to))]);
        publisher.publish(Generation(revision), Change { domains, ports, ..Change::default() });
    };
    moves(2, "two");
    assert_eq!(publisher.woken().1 - before, 2);
    for agent in [&one, &two] {
        sent(&publisher, NOW, agent);
    }
    moves(3, "one");
    assert_eq!(publisher.woken().1 - before, 4);
    moves(4, "two");
    assert_eq!(publisher.woken().1 - before, 4, "they have not asked yet");
}

#[test]
fn a_port_that_lists_its_nodes_is_no_others() {
    let publisher = publisher();
    let [one, two] = ["one", "two"].map(|node| publisher.open(&hello(node)).unwrap().0);
    let nodes = Nodes::Among(BTreeSet::from(["two".into()]));
    let ports = BTreeMap::from([("t/any".into(), Some(place("a", nodes)))]);
    publisher.publish(Generation(2), Change { ports, ..Change::default() });
    publisher.receive(NOW, &one, has(&["t/any"])).unwrap();
    assert_eq!(holder(&publisher), (None, [false, false]));
    publisher.receive(NOW, &two, has(&["t/any"])).unwrap();
    assert_eq!(holder(&publisher), (Some("two".to_owned()), [false, true]));
}

#[test]
fn what_is_everywhere_is_at_each_node_that_may_have_it() {
    let publisher = publisher();
    let everywhere = |nodes| Some(Place { is_everywhere: true, ..place("a", nodes) });
    let publish = |revision, nodes| {
        let ports = BTreeMap::from([("t/any".into(), everywhere(nodes))]);
        publisher.publish(Generation(revision), Change { ports, ..Change::default() });
    };
    publish(2, Nodes::Any);
    for node in ["one", "two"] {
        let (agent, _) = publisher.open(&hello(node)).unwrap();
        publisher.receive(NOW, &agent, has(&["t/any"])).unwrap();
    }
    let holders = || publisher.holding("t/any").unwrap().holders;
    assert_eq!((holders(), holder(&publisher).1), (vec!["one".into(), "two".into()], [true; 2]));
    publish(3, Nodes::Among(BTreeSet::from(["two".into()])));
    assert_eq!((holders(), holder(&publisher).1), (vec!["two".into()], [false, true]));
}

#[test]
fn who_was_connected_has_its_port_again_unless_it_is_away_for_long() {
    let publisher = publisher();
    let open = |node| publisher.open(&hello(node)).unwrap().0;
    let (one, two) = (open("one"), open("two"));
    publisher.receive(NOW, &one, has(&["t/any"])).unwrap();
    publisher.receive(NOW, &two, has(&["t/any"])).unwrap();
    // Its agent starts anew.
    publisher.close(&one);
    assert_eq!(holder(&publisher), (None, [true, false]));
    let again = open("one");
    publisher.give_up(&one);
    publisher.receive(NOW, &again, has(&["t/any"])).unwrap();
    assert_eq!(holder(&publisher), (Some("one".to_owned()), [true, false]));
    // It does not come back in time.
    publisher.close(&again);
    publisher.give_up(&again);
    assert_eq!(holder(&publisher), (Some("two".to_owned()), [false, true]));
    let late = open("one");
    publisher.receive(NOW, &late, has(&["t/any"])).unwrap();
    assert_eq!(holder(&publisher), (Some("two".to_owned()), [false, true]));
    // It comes back without the port.
    publisher.close(&two);
    let back = open("two");
    publisher.receive(NOW, &back, has(&[])).unwrap();
    assert_eq!(holder(&publisher), (Some("one".to_owned()), [true, false]));
}

#[test]
fn a_port_that_flaps_has_its_domain_sent_a_few_times_and_not_each_time() {
    let publisher = publisher();
    let (one, _) = publisher.open(&hello("one")).unwrap();
    let (mut parts, mut drops) = (0, 0);
    let mut count = |told: Vec<from_controller::Message>| {
        for message in told {
            match message {
                from_controller::Message::Part(_) => parts += 1,
                from_controller::Message::Drop(_) => drops += 1,
                _ => {}
            }
        }
        (parts, drops)
    };
    for round in 0..20 {
        publisher.receive(at(200 * round), &one, has(&["t/any"])).unwrap();
        assert_eq!(holder(&publisher).1, [true, false], "it never waits for its domain");
        count(sent(&publisher, at(200 * round), &one));
        publisher.receive(at(200 * round + 100), &one, lost(&["t/any"])).unwrap();
        count(sent(&publisher, at(200 * round + 100), &one));
    }
    assert_eq!(count(Vec::new()), (3, 2));
    assert_eq!((publisher.held_claims(), holder(&publisher)), (1, (None, [true, false])));
    // It is calm.
    let due = publisher.tick(at(4_000), &one).unwrap().unwrap();
    assert!(due <= at(4_000 + 120_000), "{due:?}");
    let moved = publisher.subscribe();
    publisher.tick(due, &one).unwrap();
    assert!(moved.has_changed().unwrap(), "it is not waited for any more");
    assert_eq!(count(sent(&publisher, due, &one)), (3, 3));
    assert_eq!((publisher.held_claims(), publisher.tick(due, &one).unwrap()), (0, None));
}

#[test]
fn how_far_the_host_of_a_port_is_stays_known_while_it_is_not_connected() {
    let publisher = publisher();
    let far = |port: &str| {
        let (_, hosts) = publisher.executing_port(port)?;
        let host = |it: Executing| (it.node.to_string(), it.until.0, it.is_connected);
        Some(hosts.into_iter().map(host).collect::<Vec<_>>())
    };
    assert_eq!((far("t/none"), far("t/any")), (None, Some(Vec::new())));
    let [one, two] = ["one", "two"].map(|node| publisher.open(&hello(node)).unwrap().0);
    let host = |node: &str, until, is_connected| Some(vec![(node.into(), until, is_connected)]);
    publisher.receive(NOW, &one, has(&["t/any"])).unwrap();
    publisher.receive(NOW, &two, has(&["t/any"])).unwrap();
    assert_eq!(far("t/any"), host("one", 0, true));
    sent(&publisher, NOW, &one);
    assert_eq!(far("t/any"), host("one", 1, true));
    publisher.close(&one);
    assert_eq!(far("t/any"), host("one", 1, false));
    publisher.give_up(&one);
    assert_eq!(far("t/any"), host("two", 0, true), "another has it");
    // All have what is everywhere.
    let all = Place { is_everywhere: true, ..place("a", Nodes::Any) };
    let ports = BTreeMap::from([("t/all".into(), Some(all))]);
    publisher.publish(Generation(2), Change { ports, ..Change::default() });
    let (one, _) = publisher.open(&hello("one")).unwrap();
    for agent in [&one, &two] {
        publisher.receive(NOW, agent, has(&["t/all"])).unwrap();
        sent(&publisher, NOW, agent);
    }
    let both = ["one", "two"].map(|node| (node.to_owned(), 2, true));
    assert_eq!(far("t/all"), Some(both.to_vec()));
}

/// The ports that are found elsewhere than before, or nowhere. That is kept.
fn found(publisher: &Publisher) -> Vec<(String, Option<String>)> {
    let found = publisher.lock().refound();
    publisher.keep(found.clone());
    found
        .into_iter()
        .map(|(port, node)| (port.to_string(), node.map(|it| it.to_string())))
        .collect()
}

fn at_node(port: &str, node: Option<&str>) -> (String, Option<String>) {
    (port.to_owned(), node.map(ToOwned::to_owned))
}

#[test]
fn a_port_that_nobody_has_bound_is_found_at_the_node_that_has_it() {
    let publisher = publisher();
    let [one, two] = ["one", "two"].map(|node| publisher.open(&hello(node)).unwrap().0);
    publisher.receive(NOW, &one, has(&["t/any", "t/bound", "t/none"])).unwrap();
    publisher.receive(NOW, &two, has(&["t/any"])).unwrap();
    assert_eq!(found(&publisher), [at_node("t/any", Some("one"))]);
    // A host that is not connected goes on with what it has.
    publisher.close(&one);
    assert!(found(&publisher).is_empty());
    publisher.give_up(&one);
    assert_eq!(found(&publisher), [at_node("t/any", Some("two"))]);
    publisher.receive(NOW, &two, lost(&["t/any"])).unwrap();
    assert_eq!(found(&publisher), [at_node("t/any", None)]);
    publisher.receive(NOW, &two, has(&["t/any"])).unwrap();
    assert_eq!(found(&publisher), [at_node("t/any", Some("two"))]);
    // A Binding says where it is.
    let publish = |revision, nodes| {
        let ports = BTreeMap::from([("t/any".into(), Some(place("a", nodes)))]);
        publisher.publish(Generation(revision), Change { ports, ..Change::default() });
    };
    publish(2, Nodes::Bound("two".into()));
    assert_eq!(found(&publisher), [at_node("t/any", None)]);
    publish(3, Nodes::Among(BTreeSet::from(["two".into()])));
    assert_eq!(found(&publisher), [at_node("t/any", Some("two"))]);
    publish(4, Nodes::Among(BTreeSet::from(["one".into()])));
    assert_eq!(found(&publisher), [at_node("t/any", None)]);
}

#[test]
fn a_port_that_flaps_stays_where_it_was_found_until_it_is_calm() {
    let publisher = publisher();
    let (one, _) = publisher.open(&hello("one")).unwrap();
    let mut told = 0;
    for round in 0..20 {
        publisher.receive(at(200 * round), &one, has(&["t/any"])).unwrap();
        told += found(&publisher).len();
        publisher.receive(at(200 * round + 100), &one, lost(&["t/any"])).unwrap();
        told += found(&publisher).len();
    }
    assert_eq!(told, 5, "it came three times, and went two times");
    let due = publisher.tick(at(4_000), &one).unwrap().unwrap();
    publisher.tick(due, &one).unwrap();
    assert_eq!(found(&publisher), [at_node("t/any", None)]);
    // It lingers, and its agent is gone.
    let flap = |agent: &Handle| {
        for it in 0..6 {
            publisher.receive(at(900_000 + it), agent, has(&["t/any"])).unwrap();
            found(&publisher);
            publisher.receive(at(900_000 + it), agent, lost(&["t/any"])).unwrap();
        }
        assert!(found(&publisher).is_empty());
    };
    flap(&one);
    let (again, _) = publisher.open(&hello("one")).unwrap();
    assert_eq!(found(&publisher), [at_node("t/any", None)]);
    flap(&again);
    publisher.close(&again);
    assert_eq!(found(&publisher), [at_node("t/any", None)]);
}

#[test]
fn what_was_found_before_a_controller_began_is_so_until_its_node_says_otherwise() {
    let restored = |is_there: bool| {
        let publisher = publisher();
        let before = ["t/any", "t/bound", "t/none"].map(|port| (port.into(), "two".into()));
        publisher.restore(before, |_| is_there);
        let gone = ["t/bound", "t/none"].map(|port| at_node(port, None));
        assert!(found(&publisher).ends_with(&gone));
        let (one, _) = publisher.open(&hello("one")).unwrap();
        publisher.receive(NOW, &one, has(&["t/any"])).unwrap();
        (publisher, one)
    };
    let (publisher, _one) = restored(true);
    assert!(found(&publisher).is_empty());
    assert_eq!(hosts(&publisher), [("two".to_owned(), false)]);
    assert_eq!(publisher.woken().0, 1);
    assert_eq!(publisher.node("two"), None, "it has never been connected");
    // It is back in time.
    let (two, _) = publisher.open(&hello("two")).unwrap();
    publisher.give_up_restored();
    publisher.receive(NOW, &two, has(&["t/any"])).unwrap();
    assert!(found(&publisher).is_empty());
    assert_eq!(holder(&publisher).0, Some("two".to_owned()));
    // It is not.
    let (publisher, _one) = restored(true);
    publisher.give_up_restored();
    assert_eq!(found(&publisher), [at_node("t/any", Some("one"))]);
    // It is back without the port.
    let (publisher, _one) = restored(true);
    let (two, _) = publisher.open(&hello("two")).unwrap();
    publisher.receive(NOW, &two, has(&[])).unwrap();
    assert_eq!(found(&publisher), [at_node("t/any", Some("one"))]);
    // It is no node any more.
    let (publisher, _one) = restored(false);
    assert_eq!(found(&publisher), [at_node("t/any", Some("one"))]);
}

#[test]
fn what_lingers_at_a_node_is_dropped_as_soon_as_another_has_the_port() {
    let flapping = || {
        let publisher = publisher();
        let (one, _) = publisher.open(&hello("one")).unwrap();
        for it in 0..6 {
            publisher.receive(at(it), &one, has(&["t/any"])).unwrap();
            publisher.receive(at(it), &one, lost(&["t/any"])).unwrap();
        }
        assert_eq!(holder(&publisher), (None, [true, false]));
        (publisher, one)
    };
    let (publisher, _one) = flapping();
    let (two, _) = publisher.open(&hello("two")).unwrap();
    publisher.receive(at(9), &two, has(&["t/any"])).unwrap();
    assert_eq!(holder(&publisher), (Some("two".to_owned()), [false, true]));
    // Or when its agent is gone, or the port.
    let (publisher, one) = flapping();
    publisher.close(&one);
    assert_eq!(holder(&publisher), (None, [false, false]));
    let (publisher, _one) = flapping();
    let ports = BTreeMap::from([("t/any".into(), None)]);
    publisher.publish(Generation(2), Change { ports, ..Change::default() });
    assert!(publisher.lock().followers.of("a").next().is_none());
}

#[test]
fn ports_that_are_not_its_are_told_once_however_often_an_agent_says_them() {
    let publisher = publisher();
    let (two, _) = publisher.open(&hello("two")).unwrap();
    for _ in 0..3 {
        publisher.receive(NOW, &two, has(&["t/none", "t/bound"])).unwrap();
    }
    publisher.receive(NOW, &two, lost(&["t/none"])).unwrap();
    let unknown = proto::Unknown { ports: vec!["t/bound".into()] };
    let told = sent(&publisher, NOW, &two);
    assert_eq!(told[0], from_controller::Message::Unknown(unknown));
}

#[test]
fn an_agent_with_too_many_ports_that_come_and_go_leaves_none() {
    let publisher = publisher();
    let (two, _) = publisher.open(&hello("two")).unwrap();
    publisher.receive(NOW, &two, has(&["t/any"])).unwrap();
    let mut ended = None;
    for round in 0..3 {
        let ports = (0..44_000).map(|it| format!("t/{round}-{it}"));
        let attached: Vec<_> = ports.collect();
        let mut detached = attached.clone();
        if round == 2 {
            detached.push("t/any".into());
        }
        let ports = proto::Ports { attached, detached, complete: false };
        let said = proto::FromAgent { message: Some(from_agent::Message::Ports(ports)) };
        ended = publisher.receive(NOW, &two, said).err();
    }
    assert!(matches!(ended, Some(Ended::TooMany(..))), "{ended:?}");
    publisher.close(&two);
    let gone = BTreeSet::from(["two".into()]);
    publisher.publish(Generation(2), Change { gone, ..Change::default() });
    assert_eq!(publisher.lock().claims.0, BTreeMap::new());
    // The port is another's.
    let (one, _) = publisher.open(&hello("one")).unwrap();
    publisher.receive(NOW, &one, has(&["t/any"])).unwrap();
    assert_eq!(holder(&publisher), (Some("one".to_owned()), [true, false]));
}

#[test]
fn who_does_not_answer_is_not_served_for_ever() {
    let publisher = publisher();
    let (one, _) = publisher.open(&hello("one")).unwrap();
    publisher.receive(NOW, &one, has(&["t/bound"])).unwrap();
    assert_eq!(publisher.tick(at(500_000), &one), Ok(None), "it was asked nothing yet");
    // It answers in time.
    sent(&publisher, at(500_000), &one);
    assert_eq!(publisher.tick(at(900_000), &one), Ok(None));
    let rows = [(Arc::from([2u8]), Some(Arc::from([1u8])))].into_iter().collect();
    let domains = BTreeMap::from([("a".into(), rows)]);
    publisher.publish(Generation(2), Change { domains, ..Change::default() });
    while publisher.next(at(900_000), &one).unwrap().is_some() {}
    assert_eq!(publisher.tick(at(900_000), &one), Ok(Some(at(1_020_000))));
    assert_eq!(publisher.tick(at(1_019_999), &one), Ok(Some(at(1_020_000))));
    let ended = publisher.tick(at(1_020_000), &one).unwrap_err();
    assert!(ended.to_string().contains("has not answered an update for 2min"), "{ended}");
    // What its ports are is waited for no longer: it may have some of before.
    for has_said in [true, false] {
        let (two, _) = publisher.open(&hello("two")).unwrap();
        assert_eq!(publisher.tick(at(2_000_000), &two), Ok(Some(at(2_120_000))));
        if has_said {
            publisher.receive(at(2_100_000), &two, has(&[])).unwrap();
        }
        assert_eq!(publisher.tick(at(2_120_000), &two).is_ok(), has_said);
    }
}

#[test]
fn what_agents_refuse_is_counted_by_reason_and_so_are_those_who_still_do() {
    let publisher = publisher();
    let (one, _) = publisher.open(&hello("one")).unwrap();
    publisher.receive(NOW, &one, has(&["t/bound"])).unwrap();
    let counted = || {
        let counted = publisher.refusals().into_iter().filter(|it| it.1 > 0);
        (counted.collect::<Vec<_>>(), publisher.refusing())
    };
    assert_eq!((publisher.refusals().len(), counted()), (6, (vec![], 0)));
    let refuse = |generation, reason: proto::Reason| {
        let nack = proto::Nack {
            domain: "a".into(),
            generation,
            reason: reason.into(),
            why: String::new(),
        };
        proto::FromAgent { message: Some(from_agent::Message::Nack(nack)) }
    };
    while publisher.next(NOW, &one).unwrap().is_some() {}
    publisher.receive(NOW, &one, refuse(1, proto::Reason::TooLarge)).unwrap();
    assert_eq!(counted(), (vec![("too_large", 1)], 1));
    // What it was not sent ends its session, and is no refusal.
    assert!(publisher.receive(NOW, &one, refuse(7, proto::Reason::Refused)).is_err());
    assert_eq!(counted(), (vec![("too_large", 1)], 1));
    // It takes the next.
    let rows = [(Arc::from([2u8]), Some(Arc::from([1u8])))].into_iter().collect();
    let domains = BTreeMap::from([("a".into(), rows)]);
    publisher.publish(Generation(2), Change { domains, ..Change::default() });
    sent(&publisher, NOW, &one);
    assert_eq!(counted(), (vec![("too_large", 1)], 0));
}

#[test]
fn agents_that_came_at_once_do_not_compare_at_once() {
    let publisher = publisher();
    let agents: Vec<_> =
        (0..120).map(|it| publisher.open(&hello(&format!("h{it}"))).unwrap().0).collect();
    let mut first: Vec<_> = agents.iter().map(|it| publisher.first_compare(it)).collect();
    first.sort_unstable();
    assert!(first.chunks(2).all(|it| it[0] == it[1]) && first.windows(3).all(|it| it[0] < it[2]));
    assert!(first[0] > Span::from_secs(0) && first[119] <= Span::from_secs(60), "{first:?}");
}

#[test]
fn a_domain_that_an_agent_does_not_have_as_it_was_told_is_counted_and_sent_again() {
    let publisher = publisher();
    let (one, _) = publisher.open(&hello("one")).unwrap();
    publisher.receive(NOW, &one, has(&["t/bound"])).unwrap();
    sent(&publisher, NOW, &one);
    publisher.compare(&one).unwrap();
    let asked = sent(&publisher, NOW, &one);
    let [from_controller::Message::Compare(known)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((known.domain.as_str(), known.generation, known.digest.len()), ("a", 1, 16));
    // That it is so is not said.
    assert_eq!((sent(&publisher, NOW, &one), publisher.differing()), (vec![], 0));
    let differs = |domain: &str, generation| {
        let differs = proto::Differs { domain: domain.into(), generation };
        proto::FromAgent { message: Some(from_agent::Message::Differs(differs)) }
    };
    // It has none of these.
    for said in [differs("b", 1), differs(&"x".repeat(1000), 1), differs("a", 2)] {
        publisher.receive(NOW, &one, said).unwrap();
    }
    assert_eq!((sent(&publisher, NOW, &one), publisher.differing()), (vec![], 0));
    publisher.receive(NOW, &one, differs("a", 1)).unwrap();
    let told = sent(&publisher, NOW, &one);
    let [from_controller::Message::Part(part)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((part.from, part.to, publisher.differing()), (0, 1, 1));
    assert_eq!(publisher.behind(), 0, "it has it again");
}
