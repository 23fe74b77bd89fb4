//! A planner that holds what it predicts against what an agent sees, by a Prometheus that reads
//! both.

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tls::sign::Authority;

use super::prometheus::{Running, ask, free, query, start_agent, start_prometheus};
use super::*;

/// Starts a planner, to which this host with the agent's two ports is two machines that both ask
/// for much a hundredth of the time. It is asked by TLS alone.
fn start_planner(world: &World, agent: SocketAddr, authority: &Authority) -> (Running, SocketAddr) {
    let address = free();
    let file = world.directory.path().join("plan.yaml");
    let plan = format!(
        "goal: {{epsilon: 0.001}}\n\
         types:\n  r: {{cores: 8, memory: 32gib, switch: [{{carries: 1gbit}}]}}\n\
         hosts:\n  here: {{type: r}}\n\
         models:\n  web: {{on: 600mbit, on_for: 1s, off_for: 9s}}\n\
         vms:\n  web: {{count: 4, model: web, cores: 1, memory: 1gib}}\n\
         serve:\n  models: [web]\n  agents: {{here: \"{agent}\"}}\n  every: 1s\n  \
         ports: {{\"c*\": web}}\n"
    );
    fs::write(&file, plan).unwrap();
    let own = authority.sign("127.0.0.1");
    let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
    command.args(["plan", "serve", "--listen", &address.to_string(), "-c"]).arg(file);
    command.arg("--tls-certificate").arg(own.certificate).arg("--tls-key").arg(own.key);
    command.arg("--clients-ca").arg(authority.path("ca"));
    (Running(command.spawn().unwrap()), address)
}

/// Has the first container send far more than the second may receive, until that is enough.
fn press(world: &World, over: &AtomicBool) {
    let (from, to) = (world.udp(0), world.udp(1));
    let target = to.local_addr().unwrap();
    from.set_nonblocking(true).unwrap();
    to.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let _ = to.recv(&mut [0; 1000]);
            }
        });
        while !over.load(Ordering::Relaxed) {
            let _ = from.send_to(&[0; 1000], target);
            thread::sleep(Duration::from_micros(200));
        }
    });
}

/// The names of the series to which models are fitted, once each has enough samples.
fn fitted(prometheus: SocketAddr, begun: u64) -> Vec<String> {
    let mut names = Vec::new();
    until(|| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        command.args(["plan", "fit", "--json", "--step", "1s", "--from", &begun.to_string()]);
        command.args(["--query", "zovn_port_bytes_total", "--by", "instance,port"]);
        command.arg("--prometheus").arg(format!("http://{prometheus}"));
        let output = command.output().unwrap();
        let told: Option<Value> = serde_json::from_slice(&output.stdout).ok();
        let fits = told.iter().filter_map(|it| it["traces"].as_array()).flatten();
        names = fits.map(|it| it["name"].as_str().unwrap().to_owned()).collect();
        names.len() == 2
    });
    names
}

#[test]
fn a_planner_sees_by_an_agent_what_runs_and_that_it_understates() {
    if !needs::program("prometheus", "prometheus") {
        return;
    }
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mut world = World::new(2);
    let agent = start_agent(&mut world);
    world.greet(0, 1);
    // A quota, so that the sender is paused: without one, what is for a slow receiver has a lane. A
    // frame takes 8 s, so it is paused for the whole test.
    world.client().change(&name(1), &rate("1kbit")).unwrap();
    world.client().change(&name(1), &egress_frames(4)).unwrap();
    let quota = PortChange { quota: Some(8), ..PortChange::default() };
    world.client().change(&name(0), &quota).unwrap();
    let authority = Authority::new();
    let (_planner, planner) = start_planner(&world, agent, &authority);
    let scraper = authority.sign("prometheus.example");
    let [ca, certificate, key] =
        [authority.path("ca"), scraper.certificate, scraper.key].map(|it| it.display().to_string());
    let more = format!(
        "  - job_name: zovn-plan\n    scheme: https\n    \
         tls_config: {{ ca_file: {ca}, cert_file: {certificate}, key_file: {key} }}\n    \
         static_configs: [{{ targets: ['{planner}'] }}]\n"
    );
    let (_prometheus, prometheus) = start_prometheus(world.directory.path(), agent, &more);

    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _over = needs::Over(&over);
        scope.spawn(|| press(&world, &over));
        // The plan's files place nothing: both machines are those of the agent's ports.
        let mut both = Vec::new();
        until(|| {
            both = query(prometheus, r#"zovn_plan_overflow_probability{host="here"} > 0.009"#);
            !both.is_empty()
        });
        let predicted: f64 = both[0]["value"][1].as_str().unwrap().parse().unwrap();
        assert!(predicted < 0.011, "{predicted}");
        let paused = r#"zovn_plan_observed_paused_ratio{host="here"} > 0.5"#;
        until(|| !query(prometheus, paused).is_empty());
        let heard = r#"zovn_plan_agent_silence_seconds{host="here"} < 60"#;
        until(|| !query(prometheus, heard).is_empty());

        // The rule holds of them, but for the days that it waits.
        let groups = ask(prometheus, "/api/v1/rules");
        let mut groups = groups["groups"].as_array().unwrap().iter();
        let group = groups.find(|it| it["name"] == "zovn-plan").unwrap();
        let rule = &group["rules"][0];
        assert_eq!(rule["name"], "ZovnPlanUnderstates");
        let expression = rule["query"].as_str().unwrap().replace("[1d]", "[5s]");
        assert!(expression.contains("[5s]"), "{expression}");
        until(|| query(prometheus, &expression).iter().any(|it| it["metric"]["host"] == "here"));

        assert_eq!(fitted(prometheus, begun), ["c0", "c1"]);
    });
}
