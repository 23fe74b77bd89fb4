//! Load balancers leave out servers that do not answer.

use std::collections::BTreeSet;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use model::BackendState;

use super::*;

/// What both web servers serve. Answers come to the database's machine, whatever its switch says.
const BALANCER: &str = "
---
kind: LoadBalancer
metadata: {name: web, tenant: shop}
spec:
  {vip: 10.9.9.9, port: 80, protocol: tcp, backends: [{logicalPort: web-1}, {logicalPort: web-2}],
   attach: [{switch: db}], reject: true,
   healthCheck: {interval: 200ms, timeout: 200ms, failures: 8, successes: 2}}
---
kind: Policy
metadata: {name: db-out, tenant: shop}
spec: {appliesTo: {ports: [db-1]}, rules: [{name: all, direction: fromPort, action: allow}]}
";

/// Whether each backend is up, as the agent says.
fn states(world: &World) -> Vec<bool> {
    let logical = world.client().status().unwrap().logical.unwrap();
    logical.backends.iter().map(|it| it.state == BackendState::Up).collect()
}

/// Who serves new connections of the database's machine, of a few; what those are refused with.
fn serving(world: &World) -> Result<BTreeSet<Ipv4Addr>, ErrorKind> {
    let ask = || {
        let address = SocketAddr::from(([10, 9, 9, 9], 80));
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(30))?;
        let mut served = [0; 4];
        stream.read_exact(&mut served)?;
        io::Result::Ok(Ipv4Addr::from(served))
    };
    let all = (0..16).map(|_| world.containers[DB].run(ask).unwrap());
    all.collect::<io::Result<_>>().map_err(|error| error.kind())
}

/// Tells whoever connects its address, until it is dropped; what it has accepted is counted.
struct Server {
    ends: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<u32>>,
}

impl Server {
    fn new(world: &World, at: usize) -> Self {
        let listener = world.listen(at, 80);
        listener.set_nonblocking(true).unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let (until, address) = (ends.clone(), MACHINES[at].address);
        let serve = move || {
            let mut accepted = 0;
            while !until.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((mut stream, _)) => {
                        accepted += 1;
                        stream.write_all(&address).unwrap();
                    }
                    Err(_) => thread::sleep(Duration::from_millis(1)),
                }
            }
            accepted
        };
        Self { ends, thread: Some(thread::spawn(serve)) }
    }

    /// How many connections it has accepted.
    fn end(mut self) -> u32 {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

#[test]
fn a_server_that_ends_is_left_out_until_it_answers_again() {
    let mut world = World::new();
    world.start(&[]);
    said(world.apply(&[SHOP, BALANCER].concat(), &[]));
    for machine in &MACHINES {
        world.client().attach(&world.port(machine)).unwrap();
    }
    until(|| (0..MACHINES.len()).all(|at| world.status(at).state == PortState::Up));
    let [one, two] = [WEB, OTHER].map(|at| Ipv4Addr::from(MACHINES[at].address));
    let first = Server::new(&world, WEB);
    let second = Server::new(&world, OTHER);
    until(|| states(&world) == [true, true]);
    assert_eq!(serving(&world), Ok([one, two].into()));

    // Its port refuses connections.
    let accepted = second.end();
    until(|| states(&world) == [true, false]);
    assert_eq!(serving(&world), Ok([one].into()));
    let shown = said(world.run(&["get", "backends"]));
    assert!(shown.contains("10.0.1.2:80"), "{shown}");
    assert!(accepted <= 16, "checks are no connections: {accepted}");

    // The machine of the other is taken away, and comes back.
    world.client().detach(&PortName(MACHINES[WEB].name.into())).unwrap();
    first.end();
    until(|| states(&world) == [false, false]);
    assert_eq!(serving(&world), Err(ErrorKind::ConnectionRefused));
    world.client().attach(&world.port(&MACHINES[WEB])).unwrap();
    until(|| world.status(WEB).state == PortState::Up);
    let first = Server::new(&world, WEB);
    until(|| states(&world) == [true, false]);
    assert_eq!(serving(&world), Ok([one].into()));
    assert!(first.end() >= 16);

    let logged = world.end(Signal::TERM);
    assert!(logged.contains("a backend is down"), "{logged}");
    assert!(logged.contains("a backend is up"), "{logged}");
}
