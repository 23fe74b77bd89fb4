//! Ports that leave: what is still for them, who waits meanwhile, and who goes on afterwards.

use super::*;

#[test]
fn a_port_that_is_slow_to_go_keeps_nobody_waiting() {
    let mut world = World::new(3);
    let client = world.start(3);
    world.greet(0, 1);
    client.change(&name(1), &rate("100kbit")).unwrap();
    let (from, to) = (world.udp(0), world.udp(1));
    for _ in 0..40 {
        from.send_to(&[0; 1000], to.local_addr().unwrap()).unwrap();
    }
    drop(from);
    until(|| client.status().unwrap().ledger.held > 20);
    thread::scope(|scope| {
        let last = scope.spawn(|| world.client().detach(&name(1)).unwrap());
        let mut answers = 0;
        while !last.is_finished() {
            assert!(balanced(&client.status().unwrap()));
            world.greet(0, 2);
            answers += 1;
        }
        let last = last.join().unwrap();
        assert!(answers > 5 && last.egress.total.held > 0, "{answers}, {last:?}");
    });
}

#[test]
fn a_sender_goes_on_when_the_port_that_held_it_back_is_gone() {
    let mut world = World::new(3);
    let client = world.start(3);
    world.greet(0, 1);
    world.greet(0, 2);
    client.change(&name(1), &rate("1kbit")).unwrap();
    let (slow, other) = (world.udp(1), world.udp(2));
    let from = world.udp(0);
    from.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    while from.send_to(&[0; 1000], slow.local_addr().unwrap()).is_ok() {}
    // Behind all that, in the container's queue. Nobody talks to the switch from here on.
    let sender = world.containers[0].run(|| UdpSocket::bind("10.9.0.1:0")).unwrap().unwrap();
    sender.send_to(b"there", other.local_addr().unwrap()).unwrap();
    let last = client.detach(&name(1)).unwrap();
    assert!(last.egress.total.held > 0, "{last:?}");
    assert_eq!(other.recv(&mut [0; 16]).unwrap(), 5);
}

#[test]
fn a_port_that_others_keep_sending_to_leaves_once_it_has_what_it_was_meant_to_have() {
    let mut world = World::new(2);
    let client = world.start(2);
    world.greet(0, 1);
    client.change(&name(1), &rate("100mbit")).unwrap();
    let (from, to) = (world.udp(0), world.udp(1));
    to.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let target = to.local_addr().unwrap();
    let gone = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = needs::Over(&gone);
        scope.spawn(|| {
            while !gone.load(Ordering::Relaxed) {
                let _ = to.recv(&mut [0; 1000]);
            }
        });
        scope.spawn(|| {
            while !gone.load(Ordering::Relaxed) {
                let _ = from.send_to(&[0; 1000], target);
            }
        });
        until(|| client.status().unwrap().ledger.held > 100);
        let last = client.detach(&name(1)).unwrap();
        drop(over);
        assert_eq!(last.egress.total.held, 0, "{last:?}");
    });
}

#[test]
fn a_port_whose_interface_is_gone_is_detached_all_the_same() {
    let mut world = World::new(2);
    let client = world.start(2);
    Netlink::open_in(&world.containers[1]).unwrap().delete_link("eth0").unwrap();
    assert_eq!(client.detach(&name(1)).unwrap().name, name(1));
    client.attach(&world.port(1)).unwrap();
    world.greet(0, 1);
}

#[test]
fn a_port_that_goes_keeps_nobody_waiting_for_the_kernel() {
    let mut world = World::new(3);
    let client = world.start(2);
    world.greet(0, 1);
    let (from, to) = (world.udp(0), world.udp(1));
    from.connect(to.local_addr().unwrap()).unwrap();
    let gone = AtomicBool::new(false);
    let goes_on = thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 1];
            while let Ok((_, back)) = to.recv_from(&mut buffer)
                && buffer == [1]
            {
                to.send_to(&buffer, back).unwrap();
            }
        });
        let round_trip = || {
            let began = Instant::now();
            from.send(&[1]).unwrap();
            from.recv(&mut [0; 1]).unwrap();
            began.elapsed()
        };
        // The kernel takes 30 ms for each. Others may have the processor meanwhile, but not each
        // time.
        let goes_on = (0..100).any(|_| {
            client.attach(&world.port(2)).unwrap();
            gone.store(false, Ordering::Relaxed);
            let detached = scope.spawn(|| {
                world.client().detach(&name(2)).unwrap();
                gone.store(true, Ordering::Relaxed);
            });
            let answers = std::iter::from_fn(|| (!gone.load(Ordering::Relaxed)).then(round_trip));
            let longest = answers.max();
            detached.join().unwrap();
            longest.is_some_and(|it| it < Duration::from_millis(10))
        });
        from.send(&[0]).unwrap();
        goes_on
    });
    assert!(goes_on, "each time, an answer takes 10 ms or more");
}
