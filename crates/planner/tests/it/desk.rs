//! A plan that is served while a test asks.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{self, SocketAddr, TcpStream};
use std::path::Path;
use std::thread::{self, sleep};
use std::time::Duration;

use connections::Bounds;
use planner::Plan;
use planner::serve::{Encryption, Entrance, router};
use serde_json::Value;
use tls::Own;
use tls::sign::Authority;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// Four hosts: one is full, one has some, one is small, one is empty.
pub const PLAN: &str = "\
goal: {epsilon: 0.001}
types:
  r: {cores: 65, memory: 256gib, switch: [{cores: 1, carries: 1gbit}]}
  s: {cores: 3, memory: 4gib, switch: [{cores: 1, carries: 1gbit}]}
hosts:
  n1: {type: r}
  n2: {type: r}
  n3: {type: s}
  n4: {type: r}
models:
  web: {on: 100mbit, on_for: 1s, off_for: 9s}
  loud: {rate: 900mbit}
  secret: {rate: 0}
vms:
  web: {count: 80, model: web, cores: 1, memory: 4gib}
placement:
  n1: {web: 38}
  n2: {web: 20}
serve: {models: [web, loud], default: web}
";

/// The same plan, in which the first host has an agent that says how full it is.
pub fn read_plan() -> String {
    let serve = format!(
        "default: web, agents: {{n1: \"{}\"}}, ports: {{\"web-*\": web}}}}",
        start_agent(38)
    );
    PLAN.replace("  n1: {web: 38}\n", "").replace("default: web}", &serve)
}

/// An agent's page with so many ports of web servers. It is there until the tests end.
fn start_agent(ports: usize) -> SocketAddr {
    let paused = |port| format!("zovn_sender_paused_seconds_total{{port=\"web-{port}\"}} 0\n");
    let page: String = (0..ports).map(paused).chain([format!("zovn_ports {ports}\n")]).collect();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n", page.len());
    let answer = format!("{head}connection: close\r\n\r\n{page}");
    let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // A request of some hundred bytes comes at once.
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

/// A server. It ends with its guard.
pub struct Server {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    pub fn start(plan: &str) -> Self {
        Self::start_with(plan, None)
    }

    /// One that speaks TLS, and nothing else.
    pub fn encrypted(plan: &str, encryption: Encryption) -> Self {
        Self::start_with(plan, Some(encryption))
    }

    fn start_with(plan: &str, encryption: Option<Encryption>) -> Self {
        let plan = Plan::of_text(Path::new("p.yaml"), plan).unwrap_or_else(|it| panic!("{it:?}"));
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            let (router, observing) = router(plan).unwrap();
            Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                let answer = async {
                    if encryption.is_some() {
                        let entrance = Entrance::open(encryption.as_ref()).unwrap();
                        return entrance.answer(listener, router).await;
                    }
                    let accept = async || Ok(listener.accept().await?.0);
                    let head = Duration::from_secs(60);
                    let bounds = Bounds { connections: 8, reserved: 0, head, life: None };
                    connections::serve(accept, router, bounds).await
                };
                tokio::select! {
                    _ = stopped => {}
                    () = observing => {}
                    never = answer => match never {},
                }
            });
        });
        Self { address: told.recv().unwrap(), stop: Some(stop), thread: Some(thread) }
    }

    /// The status, the head and the body of an answer.
    pub fn ask(&self, method: &str, path: &str, body: &[u8]) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        // Whoever refuses a body need not read it.
        let _ = stream.write_all(body);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
        (head[9..12].parse().unwrap(), head.to_ascii_lowercase(), body.to_owned())
    }

    /// The answer to a question that is understood.
    pub fn post(&self, path: &str, body: &str) -> String {
        let (status, head, answer) = self.ask("POST", path, body.as_bytes());
        assert!(status == 200 && head.contains("content-type: application/json"), "{head}{answer}");
        answer
    }

    /// The same, read.
    pub fn json(&self, path: &str, body: &Value) -> Value {
        serde_json::from_str(&self.post(path, &body.to_string())).unwrap()
    }

    /// What a question is refused with.
    pub fn refused(&self, path: &str, body: &str) -> (u16, String) {
        let (status, head, answer) = self.ask("POST", path, body.as_bytes());
        assert!(head.contains("content-type: application/problem+json"), "{head}\n{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["status"], status);
        (status, answer["detail"].as_str().unwrap().to_owned())
    }

    /// The share of time in which a host is asked for too much, as metrics have it.
    pub fn overflow(&self, host: &str) -> f64 {
        let page = self.metrics();
        let of_host = format!("zovn_plan_overflow_probability{{host=\"{host}\"}} ");
        let mut lines = page.lines();
        lines.find_map(|it| it.strip_prefix(&of_host)?.parse().ok()).unwrap()
    }

    /// Waits until the agent of a host was read, of which the plan's files say nothing.
    pub fn has_read(&self, host: &str) {
        while self.overflow(host) == 0.0 {
            sleep(Duration::from_millis(20));
        }
    }

    pub fn metrics(&self) -> String {
        let (status, head, page) = self.ask("GET", "/metrics", b"");
        assert!(status == 200 && head.contains("application/openmetrics-text"), "{head}");
        page
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

/// The plan at two servers, of which one speaks TLS and wants to know who asks: what a scheduler's
/// own program is started beside.
pub struct Desk {
    plain: Server,
    encrypted: Server,
    authority: Authority,
    scheduler: Own,
}

impl Desk {
    pub fn open() -> Self {
        let authority = Authority::new();
        let own = authority.sign_subject("127.0.0.1");
        let clients = Some(authority.path("ca"));
        let plain = Server::start(&read_plan());
        plain.has_read("n1");
        Self {
            plain,
            encrypted: Server::encrypted(PLAN, Encryption { own, clients }),
            scheduler: authority.sign_subject("scheduler.example"),
            authority,
        }
    }

    /// The two addresses, the authority's certificate, the scheduler's own and its key.
    pub fn arguments(&self) -> [OsString; 5] {
        let Own { certificate, key } = &self.scheduler;
        [
            format!("http://{}", self.plain.address).into(),
            format!("https://{}", self.encrypted.address).into(),
            self.authority.path("ca").into(),
            certificate.into(),
            key.into(),
        ]
    }
}
