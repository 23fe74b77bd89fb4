//! What can be seen of logical networks: traces.

use serde_json::Value;

use super::*;

/// A host whose agent has the example applied, and these machines attached.
fn world(text: &str, machines: &[usize]) -> World {
    let mut world = World::new();
    world.start(&[]);
    said(world.apply(text, &[]));
    machines.iter().for_each(|at| drop(world.client().attach(&world.port(&MACHINES[*at]))));
    until(|| machines.iter().all(|at| world.status(*at).state == PortState::Up));
    world
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[test]
fn a_trace_tells_by_which_rule_of_which_generation_a_packet_would_go() {
    let mut world = world(&shop(), &[WEB, DB]);
    let file = world.directory.path().join("shop.yaml");
    let file = file.to_str().unwrap();
    // By either name of the port, and as a file of the same objects has it.
    for port in ["web-1", "shop/web-1"] {
        let shown =
            world.run(&["trace", "--port", port, "--to", "10.0.2.1", "--tcp", "5432", "--json"]);
        assert_eq!(shown.status.code(), Some(0), "{shown:?}");
        let mut own = json(&shown);
        assert_eq!(own["outcome"], "delivered");
        assert_eq!(own["generation"], 1);
        own.as_object_mut().unwrap().remove("generation");
        let mut net = Command::new(env!("CARGO_BIN_EXE_zovn"));
        net.args(["net", "trace", file, "--from", "web-1", "--to", "10.0.2.1", "--tcp", "5432"]);
        assert_eq!(own, json(&net.arg("--json").output().unwrap()));
    }
    let told = said(world.run(&["trace", "--port", "web-1", "--to", "shop/db-1", "--tcp", "5432"]));
    assert!(told.contains("Policy/shop/db-in/from-web"), "{told}");
    assert!(told.ends_with("\ndelivered to LogicalPort/shop/db-1 (generation 1)\n"), "{told}");
    let refused = world.run(&["trace", "--port", "web-1", "--to", "10.0.2.1", "--tcp", "22"]);
    assert_eq!(refused.status.code(), Some(3));
    let told = String::from_utf8(refused.stdout).unwrap();
    assert!(told.contains("rejected at LogicalPort/shop/db-1, by Policy/shop/db-in/"), "{told}");

    // A connection that is there is decided as it is.
    world.talk(WEB, DB, 5432, 1);
    assert_eq!(
        world.status(DB).logical_state.unwrap().refused.get("rejected"),
        None,
        "a trace counts"
    );
    // Another generation decides at once.
    let without = shop().replace("ports: [5432]", "ports: [5433]");
    said(world.apply(&without, &[]));
    let refused =
        world.run(&["trace", "--port", "web-1", "--to", "10.0.2.1", "--tcp", "5432", "--json"]);
    assert_eq!(
        (json(&refused)["outcome"].as_str(), json(&refused)["generation"].as_u64()),
        (Some("refused"), Some(2))
    );

    let absent = world.run(&["trace", "--port", "shop/web-2", "--to", "10.0.2.1"]);
    assert_eq!(absent.status.code(), Some(1));
    let told = String::from_utf8(absent.stderr).unwrap();
    assert!(told.contains("logical port shop/web-2 is not on this host"), "{told}");
    let wrong = world.run(&["trace", "--port", "web-1", "--to", "10.0.2.1", "--vlan", "7"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    world.end(Signal::INT);
}

#[test]
fn rules_hits_and_refusals_are_shown_and_written_down_by_rules_that_log() {
    let text = shop();
    let rejects = text.lines().find(|line| line.contains("action: reject")).expect("a rule does");
    let indent = rejects.find("action").unwrap_or(0);
    let logged = format!("action: reject\n{:indent$}log: {{severity: notice}}", "");
    let mut world = world(&text.replace("action: reject", &logged), &[WEB, DB]);
    world.talk(WEB, DB, 5432, 1000);
    let _listener = world.listen(DB, 22);
    assert_eq!(world.connect(WEB, DB, 22).err(), Some(ErrorKind::ConnectionRefused));

    let rules = json(&world.run(&["get", "rules", "--port", "shop/db-1", "--json"]));
    let of = |action: &str| {
        let rule = rules.as_array().unwrap().iter().find(|it| it["action"] == action).unwrap();
        ["admitted", "refused"].map(|count| rule[count]["frames"].as_u64().unwrap())
    };
    assert!(of("allow")[0] > 4, "{rules}");
    assert!(of("reject")[1] > 0, "{rules}");
    let shown = said(world.run(&["get", "rules"]));
    assert!(shown.contains("Policy/shop/db-in/from-web"), "{shown}");
    let shown = said(world.run(&["get", "refusals"]));
    let line = shown.lines().find(|line| line.contains("10.0.2.1:22")).unwrap();
    for word in ["db-1", "rejected", "LogicalPort/shop/db-1", "Policy/shop/db-in/", " 1"] {
        assert!(line.contains(word), "{word}: {shown}");
    }
    let connections = json(&world.run(&["get", "connections", "--port", "shop/db-1", "--json"]));
    let one = &connections.as_array().unwrap()[0];
    let of = |field: &str| one[field].as_str().unwrap();
    assert_eq!([of("source"), of("destination")], ["10.0.1.1", "10.0.2.1"]);
    assert_eq!([of("protocol"), of("direction")], ["tcp", "toPort"]);
    assert_eq!(of("origin"), "LogicalPort/shop/web-1");
    assert_eq!([of("zone"), of("by")], ["LogicalPort/shop/db-1", "Policy/shop/db-in/from-web"]);
    let shown = said(world.run(&["get", "connections"]));
    for word in ["shop/db-1", "10.0.2.1:5432", "Policy/shop/db-in/from-web"] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    let absent = world.run(&["get", "connections", "--port", "shop/web-2"]);
    let told = String::from_utf8(absent.stderr).unwrap();
    assert!(told.contains("logical port shop/web-2 is not on this host"), "{told}");
    // Page by page there are the same.
    let (client, port) = (world.client(), PortName("db-1".into()));
    world.talk(WEB, DB, 5432, 1);
    let page = client.connections(&port, 1, None).unwrap();
    let next = client.connections(&port, 1, page.next.as_deref()).unwrap();
    assert_eq!([page.connections.len(), next.connections.len()], [1, 1]);
    assert_ne!(page.connections[0].id, next.connections[0].id);
    assert_eq!(client.connections(&port, 10, None).unwrap().next, None);
    let metrics = world.client().metrics().unwrap();
    let sample = "zovn_logical_rule_frames_total{tenant=\"shop\",verdict=\"refused\"} ";
    assert!(metrics.contains(sample), "{metrics}");

    let file = world.directory.path().join("c.pcapng");
    let file = file.to_str().unwrap();
    let absent = world.run(&["capture", "--port", "shop/web-2", "--duration", "1s", "-w", file]);
    let told = String::from_utf8(absent.stderr).unwrap();
    assert!(told.contains("logical port shop/web-2 is no port of this host"), "{told}");

    let log = world.end(Signal::INT);
    let line = log.lines().find(|line| line.contains("a rule has decided")).unwrap();
    for word in ["shop", "Policy/shop/db-in", "rejected", "10.0.2.1:22"] {
        assert!(line.contains(word), "{word}: {log}");
    }
}
