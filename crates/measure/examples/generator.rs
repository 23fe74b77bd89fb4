//! What the generator and sink do by themselves: a wire in the place of the switch, which copies
//! each frame from one card to the other and nothing else, on core 0; they on another.
//!
//! ```sh
//! cargo run --release -p measure --example generator -- 64
//! ```

use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lab::Hugepages;
use measure::vhost::ends::{Ends, Load, Traffic, card};
use measure::vhost::frames::{Flow, Kind};
use measure::vhost::sink::Carried;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::thread::{CpuSet, sched_setaffinity};
use units::Mac;
use vhost::backend::Backend;
use vhost::device::Device;
use vhost::nic::Nic;
use vhost::session::Offer;
use vhost::socket::Connection;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let size = std::env::args().nth(1).ok_or("say how many bytes a frame has")?.parse()?;
    let go_on = AtomicBool::new(false);
    let directory = std::env::temp_dir().join(format!("zovn-generator-{}", std::process::id()));
    let pages = 2 * (card(Kind::of(size)).bytes() / lab::HUGEPAGE_BYTES + 1);
    let _pages = Hugepages::reserve(&directory, pages, &go_on)?;

    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let pair = || socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let (sender, receiver) = (pair()?, pair()?);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let wire = scope.spawn(|| wire(sender.0, receiver.0, &over));
        let made = generate(vec![sender.1, receiver.1], size);
        over.store(true, Ordering::Relaxed);
        wire.join().expect("the wire does not panic");
        let carried = made?;
        let (mfps, busy) = (carried.rate() / 1e6, carried.busy);
        writeln!(
            std::io::stdout(),
            "{size} B: {mfps:.2} Mfps, {:.2} if it were always busy",
            mfps / busy
        )?;
        Ok(())
    })
}

fn generate(sockets: Vec<OwnedFd>, size: u32) -> Result<Carried, Box<dyn std::error::Error>> {
    let stop = AtomicBool::new(false);
    pin(1);
    let mut cards = Vec::new();
    for socket in sockets {
        let mut nic = Nic::new(&card(Kind::of(size)))?;
        nic.connect(Connection::new(socket))?;
        cards.push(nic);
    }
    let receiver = cards.pop().expect("two sockets make two cards");
    let mut ends = Ends::new(cards, receiver, None);
    let flow = |sender, number| Flow { number, sender, from: Mac::local(1), to: Mac::local(2) };
    ends.prepare(Traffic { size, flows: 1, stalled: None }, flow, &stop)
        .map_err(|broken| format!("{broken:?}"))?;
    let load = Load { duration: Duration::from_secs(1), ..Load::default() };
    Ok(ends.run(&load, &stop).map_err(|broken| format!("{broken:?}"))?)
}

/// Carries frames both ways until it is over.
fn wire(left: OwnedFd, right: OwnedFd, over: &AtomicBool) {
    pin(0);
    let plug = |socket| {
        let mut backend = Backend::new(Offer::net(1), Device::new(1, 1024));
        backend.connect(Connection::new(socket));
        backend
    };
    let mut ports = [plug(left), plug(right)];
    let mut turns = 0_u64;
    while !over.load(Ordering::Relaxed) {
        if turns.is_multiple_of(1024) {
            for port in &mut ports {
                // Front-ends that leave take their connection along.
                let _ = port.serve(|_| {});
            }
        }
        turns += 1;
        let [left, right] = &mut ports;
        let (left, right) = (left.session_mut().parts().0, right.session_mut().parts().0);
        carry(left, right);
        carry(right, left);
    }
}

fn carry(from: &mut Device, to: &mut Device) {
    let mut slots = [None; 64];
    let mut count = 0;
    let taken = from.card_mut().receive(slots.len(), |slot, _| {
        slots[count] = Some(slot);
        count += 1;
    });
    taken.expect("our own rings are right");
    for slot in slots[..count].iter().flatten() {
        // What does not fit is lost: a wire has no memory.
        let _ = to
            .card_mut()
            .transmit(&from.card().frame(*slot), &mut ())
            .expect("our own rings are right");
        from.card_mut().release(*slot);
    }
    // Cards that are looked at without end want no interrupts.
    from.card_mut().publish(&mut (), |_| ());
    to.card_mut().publish(&mut (), |_| ());
}

fn pin(core: usize) {
    let mut one = CpuSet::new();
    one.set(core);
    sched_setaffinity(None, &one).expect("there are two cores");
}
