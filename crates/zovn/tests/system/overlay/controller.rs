//! A controller, and two hosts whose agents follow it: what is declared there holds between them,
//! whether it is there or not.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tls::sign::Authority;

use super::logical::{CONTAINERS, DB, OTHER, Shop, WEB};
use super::world::{Machine, Plan};
use crate::common::until;

/// The host that the controller is on.
const AT: usize = 2;

/// Machines of another kind of network, by which the hosts are there.
const PLAIN: [Machine; 3] =
    [Machine::new(0, "blue", 1), Machine::new(1, "blue", 2), Machine::new(AT, "blue", 3)];

/// Where agents find it, and requests are taken.
const AGENTS: &str = "192.168.0.3:6641";
const LISTEN: &str = "127.0.0.1:6640";

/// The name in the controller's certificate.
const NAME: &str = "controller.example";

/// A shop whose hosts follow a controller. All that they say is encrypted; the first host is known
/// by a token, the others by a certificate.
pub struct Followed {
    pub shop: Shop,
    authority: Authority,
    controller: Mutex<Option<Child>>,
}

impl Followed {
    /// On two hosts; that of the controller has no agent.
    fn new() -> Self {
        Self::but_for(vec![AT])
    }

    /// On three hosts.
    pub fn by_three() -> Self {
        Self::but_for(Vec::new())
    }

    /// These hosts have no agent.
    fn but_for(foreign: Vec<usize>) -> Self {
        let authority = Authority::new();
        let data = authority.path("data");
        let token = |name: &str, role: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
            command.args(["controller", "token", "create", name, "--role"]).args(role);
            let made = command.arg("--data").arg(&data).output().unwrap();
            assert!(made.status.success(), "{made:?}");
            String::from_utf8(made.stdout).unwrap()
        };
        std::fs::write(authority.path("token"), token("h0", &["node", "--node", "h0"])).unwrap();
        std::fs::write(authority.path("me"), token("me", &["admin"])).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        command.args(["controller", "certificate", "add", "eye", "--role", "auditor", "--data"]);
        assert!(command.arg(&data).status().unwrap().success());
        for name in [NAME, "h1", "h2", "eye"] {
            authority.sign(name);
        }
        let proof = |flags: &[(&str, &str)]| {
            let trust = ["--controller-name".into(), NAME.into(), "--controller-ca".into()];
            let file = |name| authority.path(name).to_str().unwrap().to_owned();
            let flags = flags.iter().flat_map(|(flag, name)| [(*flag).to_owned(), file(name)]);
            trust.into_iter().chain([file("ca")]).chain(flags).collect()
        };
        let by_token = proof(&[("--token-file", "token")]);
        let by_certificate =
            |certificate, key| proof(&[("--certificate", certificate), ("--key", key)]);
        let proofs = vec![by_token, by_certificate("h1", "h1.key"), by_certificate("h2", "h2.key")];
        let controller = Some((AGENTS.parse().unwrap(), proofs));
        let plan = Plan { controller, foreign, ..Plan::new(&PLAIN).patient() };
        let shop = Shop::on(plan);
        let new = Self { shop, authority, controller: Mutex::new(None) };
        new.start();
        let [ca, me] = ["ca", "me"].map(|it| new.authority.path(it).to_str().unwrap().to_owned());
        let server = format!("https://{LISTEN}");
        let set = ["context", "set", "me", "--server", &server, "--ca", &ca];
        new.zovn(&[&set[..], &["--server-name", NAME, "--token-file", &me]].concat());
        new
    }

    fn log(&self) -> PathBuf {
        self.authority.path("log")
    }

    /// Starts the controller, and waits until it takes requests.
    fn start(&self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        command.args(["controller", "--agents", AGENTS, "--listen", LISTEN]);
        for (flag, file) in [
            ("--data", "data"),
            ("--tls-certificate", NAME),
            ("--tls-key", &format!("{NAME}.key")),
            ("--agents-ca", "ca"),
            ("--clients-ca", "ca"),
        ] {
            command.arg(flag).arg(self.authority.path(file));
        }
        command.stderr(File::create(self.log()).unwrap());
        let mut child = self.shop.world.hosts[AT].run(|| command.spawn()).unwrap().unwrap();
        until(|| {
            let ended = child.try_wait().unwrap();
            assert_eq!(ended, None, "{}", std::fs::read_to_string(self.log()).unwrap());
            self.shop.world.hosts[AT].run(|| TcpStream::connect(LISTEN)).unwrap().is_ok()
        });
        *self.controller.lock().unwrap() = Some(child);
    }

    fn kill(&self) {
        let mut child = self.controller.lock().unwrap().take().unwrap();
        kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        child.wait().unwrap();
    }

    fn signal(&self, signal: Signal) {
        let controller = self.controller.lock().unwrap();
        kill_process(Pid::from_child(controller.as_ref().unwrap()), signal).unwrap();
    }

    /// How a command ends whose context is the operator's.
    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        command.args(args).env("XDG_CONFIG_HOME", self.authority.path("config"));
        self.shop.world.hosts[AT].run(|| command.output()).unwrap().unwrap()
    }

    /// What it says.
    pub fn zovn(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Declares this, as its operator.
    pub fn apply(&self, text: &str) {
        let file = self.authority.path("objects.yaml");
        std::fs::write(&file, text).unwrap();
        self.zovn(&["apply", "-f", file.to_str().unwrap()]);
    }

    /// The example's text, where the web servers may ask this port of the database.
    fn text(&self, port: u16) -> String {
        self.shop.text().replace("ports: [5432]", &format!("ports: [{port}]"))
    }

    /// Waits until the database may be asked at one port, and at no other.
    fn until_only(&self, port: u16, other: u16) {
        let [_one, _two] = [port, other].map(|it| self.shop.listen(DB, it));
        until(|| self.shop.connect(WEB, DB, port).is_ok());
        until(|| self.shop.connect(WEB, DB, other).err() == Some(ErrorKind::ConnectionRefused));
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let controller = self.controller.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut child) = controller.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn what_is_declared_at_a_controller_holds_between_hosts() {
    let mut followed = Followed::new();
    followed.apply(&followed.text(5432));
    assert_eq!(followed.zovn(&["whoami"]), "me, admin\n");
    // Who has a certificate needs no token.
    let [ca, eye, key] = ["ca", "eye", "eye.key"].map(|it| followed.authority.path(it));
    let [ca, eye, key] = [&ca, &eye, &key].map(|it| it.to_str().unwrap());
    let set = ["context", "set", "eye", "--server", &format!("https://{LISTEN}"), "--ca", ca];
    let shown = ["--server-name", NAME, "--certificate", eye, "--key", key];
    followed.zovn(&[&set[..], &shown].concat());
    assert_eq!(followed.zovn(&["whoami", "--context", "eye"]), "eye, auditor\n");
    let port = |name: &str| format!("LogicalPort/shop/{name}");
    let ports = followed.zovn(&["get", "objects", "logical-ports", "--tenant", "shop"]);
    assert!(ports.contains(&port("web-1")) && ports.contains(&port("db-1")), "{ports}");
    let one = followed.zovn(&["get", "objects", &port("web-1")]);
    assert!(one.contains("\"switch\": \"web\""), "{one}");
    // What cannot be is told by file and line.
    let wrong = [
        "[]\n",
        "---\nkind: LogicalPort\nmetadata: {tenant: shop, name: x}\nspec: {switch: none}\n",
    ];
    let files = [0, 1].map(|it| {
        let file = followed.authority.path(&format!("{it}.yaml"));
        std::fs::write(&file, wrong[it]).unwrap();
        file.to_str().unwrap().to_owned()
    });
    let refused = followed.run(&["apply", "-f", &files[0], &files[1]]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("{}:4: LogicalPort/shop/x/spec/switch", files[1])), "{said}");
    followed.shop.attach();
    // Whether hosts execute it is told, and waited for.
    let waited = followed.zovn(&["wait", &port("web-1"), "--timeout", "60s"]);
    assert!(waited.contains("of 2 hosts that have to do with it, 2 execute it"), "{waited}");
    let described = followed.zovn(&["describe", &port("web-1")]);
    let bound = described.lines().find(|it| it.contains("Bound")).unwrap();
    assert!(bound.contains("h0 has it") && described.contains("switch: web"), "{described}");
    assert!(followed.shop.pings(WEB, CONTAINERS[OTHER].address), "in one switch");
    followed.shop.talk(WEB, DB, 5432, 1 << 20);
    followed.until_only(5432, 5433);
    let file = followed.authority.path("objects.yaml");
    std::fs::write(&file, followed.text(5433)).unwrap();
    let file = file.to_str().unwrap();
    let applied = followed.zovn(&["apply", "-f", file, "--wait", "--timeout", "60s", "--json"]);
    let applied: serde_json::Value = serde_json::from_str(&applied).unwrap();
    assert_eq!(applied["realized"]["status"], "True", "{applied}");
    // It is so already.
    let listener = followed.shop.listen(DB, 5433);
    followed.shop.connect(WEB, DB, 5433).unwrap();
    drop(listener);
    followed.until_only(5433, 5432);
    let revision = applied["revision"].to_string();
    followed.zovn(&["wait", &revision, "--for", "realized"]);
    // A host whose agent is gone is named, and what it had stays realized.
    followed.shop.world.end(1, Signal::KILL);
    followed.apply(&followed.text(5432));
    until(|| {
        let late = followed.run(&["wait", "Service/shop/postgres", "--timeout", "1s", "--json"]);
        let told: serde_json::Value = serde_json::from_slice(&late.stdout).unwrap_or_default();
        let message = told["condition"]["message"].as_str().unwrap_or_default();
        (late.status.code(), &told["condition"]["status"]) == (Some(1), &"Unknown".into())
            && message.ends_with("not connected: h1")
    });
    followed.zovn(&["wait", &port("web-1")]);
    followed.shop.world.start(1);
    followed.zovn(&["wait", "Service/shop/postgres", "--timeout", "60s"]);
    followed.shop.world.assert_balanced();
}

#[test]
fn ports_that_nobody_has_bound_reach_each_other_between_hosts() {
    let followed = Followed::new();
    let text = followed.text(5432);
    let unbound = text.lines().filter(|it| !it.contains("kind: Binding")).collect::<Vec<_>>();
    followed.apply(&unbound.join("\n"));
    followed.shop.attach();
    until(|| followed.shop.pings(WEB, CONTAINERS[OTHER].address));
    until(|| followed.shop.pings(WEB, CONTAINERS[DB].address));
    let described = followed.zovn(&["describe", "LogicalPort/shop/db-1"]);
    assert!(described.contains("Discovered") && described.contains("h1 has it"), "{described}");
    while_talking(&followed.shop, |more| {
        more();
        // Where they are is kept.
        followed.kill();
        followed.start();
        more();
    });
    followed.shop.world.assert_balanced();
}

/// Says the same again and again while something is done, and is answered each time.
fn while_talking(shop: &Shop, act: impl FnOnce(&dyn Fn())) {
    let (rounds, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let listener = shop.listen(DB, 5432);
    let stream = shop.connect(WEB, DB, 5432).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (mut other, _) = listener.accept().unwrap();
    thread::scope(|scope| {
        let over = needs::Over(&is_over);
        scope.spawn(move || {
            let mut bytes = [0; 1000];
            while other.read_exact(&mut bytes).is_ok() && other.write_all(&bytes).is_ok() {}
        });
        scope.spawn(|| {
            let mut stream = stream;
            let mut bytes = [7; 1000];
            while !is_over.load(Ordering::Relaxed) {
                stream.write_all(&bytes).unwrap();
                stream.read_exact(&mut bytes).unwrap();
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        act(&|| {
            let before = rounds.load(Ordering::Relaxed);
            until(|| rounds.load(Ordering::Relaxed) > before + 20);
        });
        drop(over);
    });
}

#[test]
fn frames_flow_while_there_is_no_controller_and_it_is_followed_again() {
    let followed = Followed::new();
    followed.apply(&followed.text(5432));
    followed.shop.attach();
    while_talking(&followed.shop, |more| {
        more();
        followed.kill();
        more();
        followed.start();
        more();
        // A change reaches hosts again; the flow goes on.
        let ports = "ports: [5432, 5433]";
        followed.apply(&followed.shop.text().replace("ports: [5432]", ports));
        let _listener = followed.shop.listen(DB, 5433);
        until(|| followed.shop.connect(WEB, DB, 5433).is_ok());
        more();
    });
    followed.shop.world.assert_balanced();
}

#[test]
fn a_controller_that_is_stopped_holds_up_no_frame_and_is_followed_again() {
    let mut followed = Followed::new();
    followed.apply(&followed.text(5432));
    followed.shop.attach();
    while_talking(&followed.shop, |more| {
        more();
        followed.signal(Signal::STOP);
        more();
        followed.signal(Signal::CONT);
        let ports = "ports: [5432, 5433]";
        followed.apply(&followed.shop.text().replace("ports: [5432]", ports));
        let _listener = followed.shop.listen(DB, 5433);
        until(|| followed.shop.connect(WEB, DB, 5433).is_ok());
        more();
    });
    // An agent that starts meanwhile goes on with what it was told, and is told the rest later.
    followed.signal(Signal::STOP);
    followed.shop.world.end(1, Signal::KILL);
    followed.shop.world.start(1);
    followed.shop.talk(WEB, DB, 5432, 1000);
    followed.signal(Signal::CONT);
    followed.apply(&followed.text(5433));
    followed.zovn(&["wait", "Service/shop/postgres", "--timeout", "60s"]);
    followed.until_only(5433, 5432);
    followed.shop.world.assert_balanced();
}

#[test]
fn an_agent_that_starts_without_its_controller_goes_on_with_what_it_was_told() {
    let mut followed = Followed::new();
    followed.apply(&followed.text(5432));
    followed.shop.attach();
    followed.shop.talk(WEB, DB, 5432, 1000);
    followed.kill();
    for host in [0, 1] {
        followed.shop.world.end(host, Signal::KILL);
        followed.shop.world.start(host);
    }
    followed.shop.talk(WEB, DB, 5432, 1000);
    let _listener = followed.shop.listen(DB, 5433);
    until(|| followed.shop.connect(WEB, DB, 5433).err() == Some(ErrorKind::ConnectionRefused));
    followed.shop.world.assert_balanced();
}
