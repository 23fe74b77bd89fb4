//! What `zovn trace` says of a frame, and what then becomes of it.

use model::{TraceHop, TraceOutcome, TraceReport};

use super::*;

impl World {
    pub(super) fn trace(&self, words: &[&str]) -> (Option<i32>, TraceReport) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        command.args(["trace", "--json"]).args(words).arg("--socket").arg(self.socket());
        let output = command.output().unwrap();
        let report = serde_json::from_slice(&output.stdout);
        (output.status.code(), report.unwrap_or_else(|_| panic!("{output:?}")))
    }
}

#[test]
fn a_frame_fares_as_its_trace_says() {
    let mut world = World::new(3);
    let client = world.start(3);
    let (code, report) = world.trace(&["--port", "c0", "--to", "10.9.0.2"]);
    assert_eq!((code, report.outcome), (Some(0), TraceOutcome::Delivered), "{report:?}");
    assert_eq!(report.verdict, "delivered to `c1`");
    world.greet(0, 1);

    let (code, report) = world.trace(&["--port", "c0"]);
    assert_eq!(code, Some(0));
    assert_eq!(report.verdict, "flooded: delivered to `c1`; delivered to `c2`");

    // Its rate holds what is for it.
    client.change(&name(1), &rate("100bit")).unwrap();
    let accepted = client.status().unwrap().ledger.accepted;
    let (from, to) = (world.udp(0), world.udp(1));
    for _ in 0..10 {
        from.send_to(&[0; 1000], to.local_addr().unwrap()).unwrap();
    }
    until(|| client.status().unwrap().ledger.accepted >= accepted + 10);
    let (code, report) = world.trace(&["--port", "c0", "--to", "10.9.0.2"]);
    assert_eq!((code, report.outcome), (Some(0), TraceOutcome::Held), "{report:?}");
    assert!(
        report.verdict.starts_with("held for `c1`: its rate lets the next frame go in "),
        "{report:?}"
    );
    let traced = |report: &TraceReport| {
        report.hops.iter().find_map(|hop| match hop {
            TraceHop::Egress(egress) => {
                Some(u64::from(egress.queued_frames + egress.waiting_frames))
            }
            _ => None,
        })
    };
    // A kernel may tell of its new address between one look and the other.
    until(|| {
        let (_, report) = world.trace(&["--port", "c0", "--to", "10.9.0.2"]);
        traced(&report) == Some(client.status().unwrap().ledger.held)
    });
    let before = client.status().unwrap();
    from.send_to(&[0; 1000], to.local_addr().unwrap()).unwrap();
    until(|| client.status().unwrap().ledger.accepted > before.ledger.accepted);
    assert!(balanced(&client.status().unwrap()));

    // No bridge passes such a frame on (802.1Q table 8-1), nor one to where it came from.
    for to in ["01:80:c2:00:00:0e", &world.port(0).mac().unwrap().to_string()] {
        let (code, report) = world.trace(&["--port", "c0", "--to", to]);
        assert_eq!((code, report.outcome), (Some(3), TraceOutcome::Refused), "{report:?}");
    }
    let after = client.status().unwrap();
    assert_eq!(after.ledger.refused_total(), 0, "a trace changes nothing");
}

#[test]
fn what_cannot_be_traced_is_said() {
    let mut world = World::new(1);
    let client = world.start(1);
    let spec = |to: &str, size| model::TraceSpec {
        port: name(0),
        to: Some(to.into()),
        class: None,
        size,
        vlan: None,
        may_fragment: false,
        udp: None,
    };
    for (spec, part) in [
        (spec("10.9.0.77", 60), "no port that `c0` can reach was declared with 10.9.0.77"),
        (spec("web", 60), "`web` is no address"),
        (spec("10.9.0.1", 13), "60 to 65549"),
    ] {
        let (status, problem) = refusal(client.trace(&spec));
        assert!(status == 422 && problem.contains(part), "{problem}");
    }
    let long = client.trace(&spec("10.9.0.1", 9000)).unwrap().verdict;
    let but =
        "; but with its `mtu` of 1500, the machine behind `c0` sends no frame of more than 1514";
    assert!(long.contains(but), "{long}");
    let to_all = model::TraceSpec { to: None, udp: Some(7), ..spec("10.9.0.1", 60) };
    assert!(refusal(client.trace(&to_all)).1.starts_with("only a datagram has a UDP port"));
    let unknown = model::TraceSpec { port: name(7), ..spec("10.9.0.1", 60) };
    assert_eq!(refusal(client.trace(&unknown)).0, 404);
}
