//! A controller, and two hosts whose agents follow it: what is declared there holds between them,
//! whether it is there or not.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::logical::{CONTAINERS, DB, OTHER, Shop, WEB};
use super::world::{Machine, Plan};
use crate::common::until;

/// The host that the controller is on: it has no agent.
const AT: usize = 2;

/// Machines of another kind of network, by which the hosts are there.
const PLAIN: [Machine; 3] =
    [Machine::new(0, "blue", 1), Machine::new(1, "blue", 2), Machine::new(AT, "blue", 3)];

/// Where agents find it, and requests are taken.
const AGENTS: &str = "192.168.0.3:6641";
const LISTEN: &str = "127.0.0.1:6640";

/// A shop whose hosts follow a controller.
struct Followed {
    shop: Shop,
    folder: tempfile::TempDir,
    controller: Mutex<Option<Child>>,
}

impl Followed {
    fn new() -> Self {
        let controller: Option<SocketAddr> = AGENTS.parse().ok();
        let plan = Plan { controller, foreign: vec![AT], ..Plan::new(&PLAIN) };
        let shop = Shop::on(plan);
        let (folder, controller) = (tempfile::tempdir().unwrap(), Mutex::new(None));
        let new = Self { shop, folder, controller };
        new.start();
        new
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Starts the controller, and waits until it takes requests.
    fn start(&self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        command.args(["controller", "--agents", AGENTS, "--listen", LISTEN]);
        command.arg("--data").arg(self.folder.path().join("data"));
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

    /// Declares this.
    fn apply(&self, text: &str) {
        let connect = || TcpStream::connect(LISTEN);
        let mut stream = self.shop.world.hosts[AT].run(connect).unwrap().unwrap();
        let head = "POST /v1/apply HTTP/1.1\r\nhost: a\r\nconnection: close\r\n";
        write!(stream, "{head}content-length: {}\r\n\r\n{text}", text.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
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
    let followed = Followed::new();
    followed.apply(&followed.text(5432));
    followed.shop.attach();
    assert!(followed.shop.pings(WEB, CONTAINERS[OTHER].address), "in one switch");
    followed.shop.talk(WEB, DB, 5432, 1 << 20);
    followed.until_only(5432, 5433);
    followed.apply(&followed.text(5433));
    followed.until_only(5433, 5432);
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
        is_over.store(true, Ordering::Relaxed);
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
