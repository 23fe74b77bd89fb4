//! A real QEMU. Its guest is the network card's own boot program (iPXE), which has a driver: no
//! kernel is needed. It asks for an address some times, gives up, and is booted again.

use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use vhost::backend::{Backend, Ended};
use vhost::session::Offer;
use vhost::socket::{Access, ConnectionError, Listener};
use vhost::vring::Kick;

use super::recorder::Recorder;

/// A process that goes with its guard.
struct Qemu(Child);

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The time is a bound for a broken world only: emulated, the guest takes some seconds.
fn until(deadline: Instant, fds: &[BorrowedFd<'_>]) {
    let left = deadline
        .checked_duration_since(Instant::now())
        .expect("QEMU's guest gets that far in time");
    let timeout = left.try_into().unwrap();
    let mut fds: Vec<_> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    poll(&mut fds, Some(&timeout)).unwrap();
}

fn accept(listener: &Listener, deadline: Instant) -> Backend<Recorder> {
    loop {
        if let Some(connection) = listener.accept().unwrap() {
            let mut backend = Backend::new(Offer::net(1), Recorder::default());
            backend.connect(connection);
            return backend;
        }
        until(deadline, &[listener.as_fd()]);
    }
}

/// Serves until both rings run.
fn until_started(backend: &mut Backend<Recorder>, deadline: Instant) {
    backend.serve(|_| {}).unwrap();
    while backend.session_mut().parts().0.running.len() < 2 {
        until(deadline, &[backend.connection().unwrap()]);
        backend.serve(|_| {}).unwrap();
    }
}

/// Serves until the guest has told twice that it sends: the first kick is QEMU's own.
fn until_it_sends(backend: &mut Backend<Recorder>, deadline: Instant) {
    let mut kicks = 0;
    while kicks < 2 {
        until_started(backend, deadline);
        let Kick::Fd(kick) = backend.session_mut().parts().0.running[&1].kick.clone() else {
            panic!("no descriptor")
        };
        until(deadline, &[backend.connection().unwrap(), kick.as_fd()]);
        // It never waits.
        if rustix::io::read(&kick, &mut [0; 8]).is_ok() {
            kicks += 1;
        }
    }
}

#[test]
fn the_guest_of_a_real_qemu_starts_its_rings_and_starts_them_again_with_another_back_end() {
    if !needs::program("qemu-system-x86_64", "qemu-system-x86") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("port");
    let listener = Listener::bind(&path, Access::Owner).unwrap();
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(
        "-M q35 -accel tcg -m 64 -nodefaults -no-user-config -display none -boot n,reboot-timeout=100"
            .split(' '),
    );
    qemu.args(
        "-object memory-backend-memfd,id=m0,size=64M,share=on -numa node,memdev=m0".split(' '),
    );
    // QEMU 7.2 dies under TCG if the card has interrupt vectors.
    qemu.args(["-netdev", "vhost-user,id=n0,chardev=c0"]);
    qemu.args(["-device", "virtio-net-pci,netdev=n0,vectors=0,bootindex=0"]);
    qemu.args(["-chardev", &format!("socket,id=c0,path={},reconnect=1", path.display())]);
    // It complains of a back-end that vanishes, as it should.
    let qemu = Qemu(qemu.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());

    let deadline = Instant::now() + Duration::from_secs(300);
    let mut backend = accept(&listener, deadline);
    until_it_sends(&mut backend, deadline);
    let memory: u64 = backend.session().shared().memory.regions().map(|region| region.size).sum();
    assert_eq!(memory, 64 << 20);

    // As if the switch were started anew.
    drop(backend);
    let mut backend = accept(&listener, deadline);
    until_started(&mut backend, deadline);

    drop(qemu);
    let ended = loop {
        if let Err(ended) = backend.serve(|_| {}) {
            break ended;
        }
        until(deadline, &[backend.connection().unwrap()]);
    };
    // The latter, if there was something left to be answered.
    assert!(
        matches!(ended, Ended::Closed | Ended::Connection(ConnectionError::Broken { .. })),
        "{ended}"
    );
}
