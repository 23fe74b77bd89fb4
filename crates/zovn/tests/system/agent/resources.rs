//! What an agent takes of its host: descriptors, memory, the processor.

use std::net::{TcpListener, TcpStream};

use super::*;
use crate::common::cpu_ns;

#[test]
fn a_detached_port_leaves_no_descriptor_behind() {
    let mut world = World::new(2);
    let client = world.start(1);
    let agent = world.agent.as_ref().unwrap().id();
    let open = || fs::read_dir(format!("/proc/{agent}/fd")).unwrap().count();
    let before = open();
    for _ in 0..3 {
        client.attach(&world.port(1)).unwrap();
        assert!(open() > before);
        client.detach(&name(1)).unwrap();
    }
    // The last to let go is the thread that looks at interfaces.
    until(|| open() <= before);
}

#[test]
fn an_agent_whose_ports_have_taken_every_descriptor_still_answers() {
    let mut world = World::new(24);
    let mut limited = Command::new("sh");
    let command = world.command(0);
    limited.args(["-c", "ulimit -n 100 && exec \"$@\"", "sh"]);
    limited.arg(command.get_program()).args(command.get_args()).stderr(Stdio::piped());
    let client = world.start_as(limited);
    let mut attached = 0;
    let (status, problem) = loop {
        match client.attach(&world.port(attached)) {
            Ok(_) => attached += 1,
            refused => break refusal(refused),
        }
    };
    assert!(status == 422 && problem.contains("Too many open files"), "{problem}");
    // Whoever holds connections open does not keep others out.
    let silent: Vec<_> = (0..8).map(|_| UnixStream::connect(world.socket()).unwrap()).collect();
    let before = client.status().unwrap().ports.len();
    assert!(before == attached && attached > 5, "{attached}");
    drop(silent);
    // What is free goes to connections first.
    for place in 0..3 {
        client.detach(&name(place)).unwrap();
    }
    client.attach(&world.port(0)).unwrap();
    world.greet(0, 3);
}

/// How much of the agent is in memory.
fn resident_kib(world: &World) -> u64 {
    let pid = world.agent.as_ref().unwrap().id();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    resident.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

#[test]
fn what_captures_have_taken_is_the_hosts_again_when_they_end() {
    let mut world = World::new(2);
    world.start(2);
    let before = resident_kib(&world);
    // They read nothing, so as much waits for each as may.
    let captures: Vec<_> = (0..4)
        .map(|_| {
            let mut capture = UnixStream::connect(world.socket()).unwrap();
            capture.write_all(b"GET /v1/capture HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
            capture.read_exact(&mut [0; 12]).unwrap();
            capture
        })
        .collect();
    let listener = world.containers[1].run(|| TcpListener::bind("10.9.0.2:9")).unwrap().unwrap();
    let mut sender = world.containers[0].run(|| TcpStream::connect("10.9.0.2:9")).unwrap().unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| (0..64).for_each(|_| sender.write_all(&[0; 1 << 20]).unwrap()));
        receiver.read_exact(&mut vec![0; 64 << 20]).unwrap();
    });
    let during = resident_kib(&world);
    assert!(during > before + (40 << 10), "{before} {during}");
    drop(captures);
    until(|| resident_kib(&world) < before + (10 << 10));
}

#[test]
fn an_idle_agent_with_32_ports_costs_less_than_a_tenth_of_a_core() {
    let mut world = World::new(32);
    let client = world.start(32);
    let pid = world.agent.as_ref().unwrap().id();
    // Containers that have just come up have something to say of themselves, for many seconds and
    // with pauses between: what counts is a span in which the agent had no frame.
    let mut taken = None;
    until(|| {
        let before = client.status().unwrap();
        let (began, used) = (Instant::now(), cpu_ns(pid));
        // Not for anything to happen: this is the time over which the agent's share is taken.
        thread::sleep(Duration::from_secs(2));
        let share = (cpu_ns(pid) - used) as f64 / began.elapsed().as_nanos() as f64;
        let after = client.status().unwrap();
        let seconds = (after.uptime_ns - before.uptime_ns) as f64 / 1e9;
        taken = Some((share, (after.turns - before.turns) as f64 / seconds));
        before.ledger.accepted == after.ledger.accepted
    });
    let (share, turns) = taken.unwrap();
    // It is less than a hundredth where system calls are fast, and ever the same number of turns.
    assert!(share < 0.1, "an idle agent uses {:.2} % of a core", share * 100.0);
    assert!(turns < 35.0, "an idle agent took {turns} turns a second");
}

/// Starts an agent without ports, of whose polling its file says one thing and its flag another.
fn start_polling(world: &mut World, file: &str, flag: &str) -> u32 {
    let mut command = world.command(0);
    command.args(["--poll", flag]);
    fs::write(world.directory.path().join("host.toml"), format!("[agent]\npolling = '{file}'\n"))
        .unwrap();
    world.start_as(command);
    world.agent.as_ref().unwrap().id()
}

#[test]
fn a_flag_has_it_poll_whatever_the_file_says() {
    let mut world = World::new(0);
    let pid = start_polling(&mut world, "adaptive", "always");
    // An agent that sleeps takes minutes for that.
    until(|| cpu_ns(pid) > 1_000_000_000);
}

#[test]
fn a_flag_has_it_sleep_whatever_the_file_says() {
    let mut world = World::new(0);
    let pid = start_polling(&mut world, "always", "adaptive");
    let sleeps = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).unwrap();
        status.starts_with("Name:\tzovn-switch\n") && status.contains("\nState:\tS")
    };
    until(|| fs::read_dir(format!("/proc/{pid}/task")).unwrap().any(|task| sleeps(task.unwrap())));
}

/// What is measured beside nothing else.
mod alone {
    use super::*;

    #[test]
    fn many_idle_ports_take_little_memory_and_are_gone_soon() {
        let mut world = World::new(1);
        let client = world.start(0);
        for number in 0..64 {
            let mut port = world.port(0);
            let Attachment::Container { interface, addresses, .. } = &mut port.attach else {
                unreachable!("it is a container's");
            };
            (*interface, *addresses) = (format!("e{number}"), Vec::new());
            port.name = name(number);
            client.attach(&port).unwrap();
        }
        let kib = resident_kib(&world);
        // The agent without ports has 25 MiB, the UDP gate's tables among them.
        assert!(kib < 96 << 10, "{kib} KiB");
        let began = Instant::now();
        let (code, log) = world.end(Signal::INT);
        assert_eq!(code, Some(0), "{log}");
        // One after the other, they take more than 2 s.
        assert!(began.elapsed() < Duration::from_millis(1500), "{:?}", began.elapsed());
    }
}
