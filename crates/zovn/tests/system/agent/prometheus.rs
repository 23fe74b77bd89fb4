//! What Prometheus makes of an agent's metrics, of the alert rules and of the dashboard.

use std::net::{SocketAddr, TcpListener, TcpStream};

use serde_json::Value;

use super::*;

const PACKAGING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");

/// A program that ends with its guard.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An address at which nobody listens.
pub fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// The answer to a request, if somebody gives one: its head and its body.
fn get(address: SocketAddr, path: &str, headers: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    // HTTP/1.0 knows no chunks.
    let request = format!("GET {path} HTTP/1.0\r\nhost: a\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.to_owned(), body.to_owned()))
}

/// What Prometheus answers, once it does.
pub fn ask(prometheus: SocketAddr, path: &str) -> Value {
    let mut answer = None;
    until(|| {
        answer = get(prometheus, path, "").and_then(|(_, body)| serde_json::from_str(&body).ok());
        answer.is_some()
    });
    let answer: Value = answer.unwrap();
    assert_eq!(answer["status"], "success", "{path}: {answer}");
    answer["data"].clone()
}

/// The samples that an expression has now.
pub fn query(prometheus: SocketAddr, expression: &str) -> Vec<Value> {
    let escaped: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let data = ask(prometheus, &format!("/api/v1/query?query={escaped}"));
    data["result"].as_array().unwrap().clone()
}

/// Has the agent of a world offer its metrics over TCP, and says where.
pub fn start_agent(world: &mut World) -> SocketAddr {
    let address = free();
    let command = declare_metrics(world, address);
    world.start_as(command);
    address
}

/// An agent with metrics at this address.
fn declare_metrics(world: &World, address: SocketAddr) -> Command {
    let command = world.command(2);
    let mut declared = world.declaration(2);
    declared.agent.metrics = Some(address);
    let file = world.directory.path().join("host.toml");
    fs::write(file, toml::to_string(&declared).unwrap()).unwrap();
    command
}

/// Starts a Prometheus that scrapes an agent, and whatever `more` of its configuration says.
pub fn start_prometheus(directory: &Path, agent: SocketAddr, more: &str) -> (Running, SocketAddr) {
    let address = free();
    let file = directory.join("prometheus.yml");
    let configuration = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
         rule_files: [{PACKAGING}/zovn-alerts.yml]\n\
         scrape_configs:\n  - job_name: zovn\n    static_configs: [{{ targets: ['{agent}'] }}]\n\
         {more}"
    );
    fs::write(&file, configuration).unwrap();
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", file.display()));
    command.arg(format!("--storage.tsdb.path={}", directory.join("data").display()));
    command.arg(format!("--web.listen-address={address}")).arg("--log.level=error");
    (Running(command.stderr(Stdio::inherit()).spawn().unwrap()), address)
}

#[test]
fn prometheus_scrapes_an_agent_and_knows_every_rule_and_panel() {
    if !needs::program("prometheus", "prometheus") {
        return;
    }
    let mut world = World::new(2);
    let agent = start_agent(&mut world);
    world.greet(0, 1);
    let (_prometheus, prometheus) = start_prometheus(world.directory.path(), agent, "");
    until(|| {
        let targets = ask(prometheus, "/api/v1/targets");
        targets["activeTargets"][0]["health"] == "up"
    });
    // A rate takes two scrapes.
    until(|| !query(prometheus, "rate(zovn_worker_busy_seconds_total[5s])").is_empty());

    let file: PathBuf = [PACKAGING, "zovn-dashboard.json"].iter().collect();
    let dashboard: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let shows_something = |target: &&Value| {
        let expression = target["expr"].as_str().unwrap();
        let asked = expression
            .replace("$__rate_interval", "5s")
            .replace("$instance", ".*")
            .replace("$port", ".*")
            .replace("$planned", ".*");
        !query(prometheus, &asked).is_empty()
    };
    // Other hosts, refusals and plans are not to be seen here.
    until(|| {
        let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
        targets.filter(shows_something).count() >= 12
    });

    until(|| {
        let groups = ask(prometheus, "/api/v1/rules");
        let rules = groups["groups"][0]["rules"].as_array().unwrap();
        assert!(rules.iter().all(|rule| rule["health"] != "err"), "{groups}");
        rules.len() > 15 && rules.iter().all(|rule| rule["health"] == "ok")
    });
    let is_one = |sample: &Value| sample["value"][1] == "1";
    until(|| query(prometheus, "zovn_ledger_balanced").first().is_some_and(is_one));
}

#[test]
fn metrics_over_tcp_are_metrics_alone() {
    let mut world = World::new(2);
    let address = start_agent(&mut world);
    world.greet(0, 1);
    let (head, page) = get(address, "/metrics", "").unwrap();
    assert!(head.contains("application/openmetrics-text") && page.ends_with("# EOF\n"), "{head}");
    let (head, page) = get(address, "/metrics", "accept: text/plain\r\n").unwrap();
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    assert!(page.contains("# TYPE zovn_accepted_frames_total counter\n"), "{page}");
    for path in ["/", "/v1/status", "/v1/ports", "/v1/networks"] {
        let (head, _) = get(address, path, "").unwrap();
        assert!(head.starts_with("HTTP/1.0 404"), "{path}: {head}");
    }
}

#[test]
fn an_address_for_metrics_that_is_taken_is_told_and_waited_for() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let mut world = World::new(2);
    let log = world.directory.path().join("log");
    let mut command = declare_metrics(&world, address);
    command.stderr(fs::File::create(&log).unwrap());
    world.start_as(command);
    let told = || fs::read_to_string(&log).unwrap();
    until(|| told().contains("another program listens there; choose another port"));
    // Frames flow all the same.
    world.greet(0, 1);
    drop(taken);
    until(|| get(address, "/metrics", "").is_some());
    assert_eq!(told().matches("cannot serve `metrics`").count(), 1, "{}", told());
}

#[test]
fn who_asks_for_metrics_again_at_once_has_the_page_of_before() {
    let mut world = World::new(2);
    let address = start_agent(&mut world);
    let page = || get(address, "/metrics", "").unwrap().1;
    let begun = std::time::Instant::now();
    let pages: Vec<String> = (0..200).map(|_| page()).collect();
    let fresh = pages.windows(2).filter(|two| two[0] != two[1]).count();
    // Each is of another moment, which it tells: one each 250 ms at most.
    assert!(fresh as u128 <= begun.elapsed().as_millis() / 250 + 1, "{fresh}");
    until(|| page() != pages[199]);
}
