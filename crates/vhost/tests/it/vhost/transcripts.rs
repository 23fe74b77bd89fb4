//! What real front-ends send, in their order and with their numbers, and what is to come of each
//! request.
//!
//! Recorded with `examples/vhost_transcript.rs`. What a front-end says several times over is here
//! once.

use units::Mac;
use vhost::message::{Addresses, Message, Region, Request};
use vhost::session::{Need, Session};
use vhost::vring::{Base, Turn};

use super::recorder::{Recorder, ask, demand, session, table, tell};

/// A transcript: what was sent, and what is to come of it.
type Line = (Message, &'static str);

fn play(session: &mut Session<Recorder>, transcript: &[Line]) {
    for (number, (message, expected)) in transcript.iter().enumerate() {
        let told = tell(session, *message);
        let told = told.unwrap_or_else(|refusal| panic!("line {number}, {message:?}: {refusal}"));
        assert_eq!(told, *expected, "line {number}: {message:?}");
    }
}

fn enable(index: u8, enable: bool) -> Message {
    ask(Request::SetVringEnable { index, enable })
}

fn num(index: u8) -> Message {
    ask(Request::SetVringNum { index, size: 256 })
}

fn base(index: u8, base: u32) -> Message {
    ask(Request::SetVringBase { index, base })
}

fn get_base(index: u8) -> Message {
    ask(Request::GetVringBase { index })
}

fn addr(index: u8, descriptors: u64, used: u64, available: u64, log: Option<u64>) -> Message {
    ask(Request::SetVringAddr { index, addresses: Addresses { descriptors, used, available, log } })
}

fn kick(index: u8) -> Message {
    ask(Request::SetVringKick { index, has_fd: true })
}

fn call(index: u8) -> Message {
    ask(Request::SetVringCall { index, has_fd: true })
}

fn err(index: u8) -> Message {
    ask(Request::SetVringErr { index, has_fd: true })
}

/// The 96 MiB of a guest of QEMU's.
fn guest(user: u64) -> Region {
    Region { guest: 0, size: 0x600_0000, user, offset: 0 }
}

/// QEMU 7.2 looks what there is: so many pairs of rings.
fn qemu_probes(pairs: &'static str) -> Vec<Line> {
    vec![
        (ask(Request::GetFeatures), "= 0x57463bb8b"),
        (ask(Request::GetProtocolFeatures), "= 0x1b01f"),
        (ask(Request::SetProtocolFeatures(0x1b01f)), ""),
        (ask(Request::GetQueueNum), pairs),
        (ask(Request::GetMaxMemSlots), "= 0x20"),
        (ask(Request::SetOwner), ""),
        (ask(Request::GetFeatures), "= 0x57463bb8b"),
        (call(0), ""),
        (err(0), ""),
        (call(1), ""),
        (err(1), ""),
    ]
}

/// It connects, before the guest has a driver: one pair of rings.
fn qemu_connects() -> Vec<Line> {
    [qemu_probes("= 0x1"), vec![(enable(0, true), ""), (enable(1, true), "")]].concat()
}

/// Its guest's driver starts, with split rings.
fn qemu_starts() -> Vec<Line> {
    vec![
        (ask(Request::SetFeatures(0x1_7020_bb83)), "features"),
        (ask(Request::GetStatus), "= 0x0"),
        (ask(Request::SetStatus(8)), ""),
        (demand(Request::AddMemReg(guest(0x7fea_69ff_f000))), "= 0x0"),
        (num(0), ""),
        (base(0, 0), ""),
        (addr(0, 0x7fea_6f66_3000, 0x7fea_6f66_4240, 0x7fea_6f66_4000, None), ""),
        (kick(0), "start 0 at 0x0"),
        (call(0), "update 0 at 0x0"),
        (num(1), ""),
        (base(1, 0), ""),
        (addr(1, 0x7fea_6f65_d000, 0x7fea_6f65_e240, 0x7fea_6f65_e000, None), ""),
        (kick(1), "start 1 at 0x0"),
        (call(1), "update 1 at 0x0"),
        (ask(Request::GetStatus), "= 0x8"),
        (ask(Request::SetStatus(15)), ""),
    ]
}

/// The guest is moved away: everything is logged, then stopped.
fn qemu_migrates() -> Vec<Line> {
    vec![
        (ask(Request::SetLogBase { size: 0xc00, offset: 0 }), "= 0x0"),
        (
            demand(Request::SetFeatures(0x1_7420_bb83)),
            "update 0 at 0x0; update 1 at 0x0; features; = 0x0",
        ),
        (ask(Request::GetStatus), "= 0xf"),
        (
            addr(0, 0x7fea_6f66_3000, 0x7fea_6f66_4240, 0x7fea_6f66_4000, Some(0x566_5240)),
            "update 0 at 0x0, logged",
        ),
        (
            addr(1, 0x7fea_6f65_d000, 0x7fea_6f65_e240, 0x7fea_6f65_e000, Some(0x565_f240)),
            "update 1 at 0x0, logged",
        ),
        (ask(Request::SetStatus(0)), "stop 0; stop 1"),
        (get_base(0), "= 0x2a"),
        (get_base(1), "= 0x0"),
    ]
}

#[test]
fn a_guest_of_qemu_7_2_starts_and_is_moved_away() {
    let mut session = session(1);
    play(&mut session, &qemu_connects());
    play(&mut session, &qemu_starts());
    assert_eq!((session.waits_for(0), session.waits_for(1)), (None, None));
    session.parts().0.bases.insert(0, Base::Split(42));
    play(&mut session, &qemu_migrates());
}

#[test]
fn a_guest_that_qemu_7_2_moved_here_is_announced() {
    let mut session = session(1);
    play(&mut session, &qemu_connects());
    let rarp = ask(Request::SendRarp(Mac([0x52, 0x54, 0, 0, 0, 1])));
    play(
        &mut session,
        &[(rarp, "announce 52:54:00:00:00:01"), (rarp, "announce 52:54:00:00:00:01")],
    );
    play(&mut session, &qemu_starts());
}

#[test]
fn a_guest_that_stopped_starts_again_where_it_stopped() {
    let mut session = session(1);
    play(&mut session, &qemu_connects());
    play(&mut session, &qemu_starts());
    session.parts().0.bases.insert(1, Base::Split(0xffff));
    play(
        &mut session,
        &[
            (get_base(0), "stop 0; = 0x0"),
            (get_base(1), "stop 1; = 0xffff"),
            (get_base(1), "= 0xffff"),
            (base(1, 0xffff), ""),
            (kick(1), "start 1 at 0xffff"),
            (kick(0), "start 0 at 0x0"),
        ],
    );
}

/// QEMU 7.2 with two pairs of packed rings and `host_mtu=9000`: each pair is a device of its own
/// that shares the connection, so memory and features come twice.
#[test]
fn a_guest_of_qemu_7_2_with_two_pairs_of_packed_rings_starts() {
    let memory = guest(0x7f3e_adff_f000);
    let features = ask(Request::SetFeatures(0x5_7060_bb8b));
    let at = |index| base(index, 0x8000_8000);
    let mut session = session(2);
    play(&mut session, &qemu_probes("= 0x2"));
    play(
        &mut session,
        &[
            (ask(Request::GetFeatures), "= 0x57463bb8b"),
            (ask(Request::GetProtocolFeatures), "= 0x1b01f"),
            (ask(Request::SetProtocolFeatures(0x1b01f)), ""),
            (ask(Request::GetMaxMemSlots), "= 0x20"),
            (ask(Request::GetFeatures), "= 0x57463bb8b"),
            (call(2), ""),
            (err(2), ""),
            (call(3), ""),
            (err(3), ""),
            (enable(0, true), ""),
            (enable(1, true), ""),
            (enable(2, false), ""),
            (enable(3, false), ""),
            (demand(Request::NetSetMtu(9000)), "mtu 9000; = 0x0"),
            (enable(0, true), ""),
            (enable(1, true), ""),
            (features, "features"),
            (ask(Request::GetStatus), "= 0x0"),
            (ask(Request::SetStatus(8)), ""),
            (demand(Request::AddMemReg(memory)), "= 0x0"),
            (num(0), ""),
            (at(0), ""),
            (addr(0, 0x7f3e_b360_d000, 0x7f3e_b360_b000, 0x7f3e_b360_c000, None), ""),
            (kick(0), "start 0 at 0x80008000"),
            (call(0), "update 0 at 0x80008000"),
            (num(1), ""),
            (at(1), ""),
            (addr(1, 0x7f3e_b360_a000, 0x7f3e_b360_8000, 0x7f3e_b360_9000, None), ""),
            (kick(1), "start 1 at 0x80008000"),
            (call(1), "update 1 at 0x80008000"),
            (features, "features"),
            (ask(Request::GetStatus), "= 0x8"),
            (demand(Request::AddMemReg(memory)), "= 0x0"),
            (num(2), ""),
            (at(2), ""),
            (addr(2, 0x7f3e_b360_7000, 0x7f3e_b360_5000, 0x7f3e_b360_6000, None), ""),
            (kick(2), "start 2 at 0x80008000, disabled"),
            (call(2), "update 2 at 0x80008000, disabled"),
            (num(3), ""),
            (at(3), ""),
            (addr(3, 0x7f3e_b360_4000, 0x7f3e_b360_2000, 0x7f3e_b360_3000, None), ""),
            (kick(3), "start 3 at 0x80008000, disabled"),
            (call(3), "update 3 at 0x80008000, disabled"),
            (ask(Request::GetStatus), "= 0x8"),
            (ask(Request::SetStatus(15)), ""),
            (enable(0, true), ""),
            (enable(1, true), ""),
            (enable(2, true), "update 2 at 0x80008000"),
            (enable(3, true), "update 3 at 0x80008000"),
            (get_base(0), "stop 0; = 0x80008000"),
            (get_base(1), "stop 1; = 0x80008000"),
            (ask(Request::SetStatus(0)), "stop 2; stop 3"),
            (get_base(2), "= 0x80008000"),
            (get_base(3), "= 0x80008000"),
            // Its memory goes as often as it came.
            (demand(Request::RemMemReg(memory)), "= 0x0"),
            (demand(Request::RemMemReg(memory)), "= 0x0"),
        ],
    );
}

/// DPDK 22.11's virtio-user with two pairs of packed rings; its memory lies in the guest where it
/// lies in itself.
#[test]
fn virtio_user_of_dpdk_22_11_starts_and_stops() {
    let memory = Region { guest: 0x1_0033_8000, size: 0x1000_0000, user: 0x1_0033_8000, offset: 0 };
    let mut session = session(2);
    play(
        &mut session,
        &[
            (ask(Request::SetOwner), ""),
            (ask(Request::GetFeatures), "= 0x57463bb8b"),
            (ask(Request::GetProtocolFeatures), "= 0x1b01f"),
            (ask(Request::SetProtocolFeatures(0x10009)), ""),
            (call(0), ""),
            (call(2), ""),
            (call(1), ""),
            (call(3), ""),
            (ask(Request::SetFeatures(0x5_5040_8000)), "features"),
            (demand(Request::SetStatus(11)), "= 0x0"),
            (ask(Request::GetStatus), "= 0xb"),
            (ask(Request::GetStatus), "= 0xb"),
            (ask(table(&[memory])), ""),
            (num(0), ""),
            (base(0, 0x8000), ""),
            (addr(0, 0x1_102d_c000, 0x1_102d_e000, 0x1_102d_d000, None), ""),
            (kick(0), "start 0 at 0x80008000, disabled"),
            (num(2), ""),
            (base(2, 0x8000), ""),
            (addr(2, 0x1_102c_9000, 0x1_102c_b000, 0x1_102c_a000, None), ""),
            (kick(2), "start 2 at 0x80008000, disabled"),
            (num(1), ""),
            (base(1, 0x8000), ""),
            (addr(1, 0x1_102d_7000, 0x1_102d_9000, 0x1_102d_8000, None), ""),
            (kick(1), "start 1 at 0x80008000, disabled"),
            (num(3), ""),
            (base(3, 0x8000), ""),
            (addr(3, 0x1_102c_4000, 0x1_102c_6000, 0x1_102c_5000, None), ""),
            (kick(3), "start 3 at 0x80008000, disabled"),
            (enable(0, true), "update 0 at 0x80008000"),
            (enable(1, true), "update 1 at 0x80008000"),
            (demand(Request::SetStatus(15)), "= 0x0"),
            (enable(2, true), "update 2 at 0x80008000"),
            (enable(3, true), "update 3 at 0x80008000"),
        ],
    );
    let (available, used) = (Turn { index: 7, wrap: false }, Turn { index: 5, wrap: true });
    session.parts().0.bases.insert(2, Base::Packed { available, used });
    play(
        &mut session,
        &[
            (enable(0, false), "update 0 at 0x80008000, disabled"),
            (get_base(0), "stop 0; = 0x80008000"),
            (get_base(1), "stop 1; = 0x80008000"),
            (get_base(2), "stop 2; = 0x80050007"),
            (get_base(3), "stop 3; = 0x80008000"),
        ],
    );
}

/// A front-end from before protocol features: what starts is enabled, and is polled if there is no
/// descriptor.
#[test]
fn a_ring_of_an_old_front_end_starts_enabled() {
    let mut session = session(1);
    play(
        &mut session,
        &[
            (ask(Request::SetOwner), ""),
            (ask(Request::SetFeatures(1 << 32)), "features"),
            (num(0), ""),
            (addr(0, 0x1000, 0x3000, 0x2000, None), ""),
            (ask(Request::SetVringKick { index: 0, has_fd: false }), ""),
        ],
    );
    assert_eq!(session.waits_for(0), Some(Need::Memory));
    play(&mut session, &[(ask(table(&[guest(0)])), "start 0 at 0x0")]);
}

#[test]
fn no_ring_runs_while_its_memory_is_replaced() {
    let mut session = session(1);
    play(&mut session, &qemu_connects());
    play(&mut session, &qemu_starts());
    session.parts().0.bases.insert(0, Base::Split(3));
    let all = "stop 0; stop 1; start 0 at 0x3; start 1 at 0x0";
    let (memory, more) =
        (guest(0x7fea_69ff_f000), Region { guest: 1 << 32, size: 4096, user: 0, offset: 0 });
    play(
        &mut session,
        &[
            (ask(Request::AddMemReg(more)), all),
            (ask(table(&[memory, more])), "stop 0; stop 1; start 0 at 0x3; start 1 at 0x0"),
            (demand(Request::RemMemReg(memory)), "stop 0; stop 1; = 0x0"),
            (demand(Request::AddMemReg(memory)), "start 0 at 0x3; start 1 at 0x0; = 0x0"),
            (demand(table(&[])), "stop 0; stop 1; = 0x0"),
        ],
    );
    assert_eq!(session.waits_for(0), Some(Need::Memory));
}

#[test]
fn a_ring_whose_writes_are_to_be_logged_waits_for_the_log() {
    let mut session = session(1);
    play(&mut session, &qemu_connects());
    play(&mut session, &[(ask(Request::SetFeatures(0x1_7420_bb83)), "features")]);
    let start: Vec<_> = qemu_starts().into_iter().skip(3).take(3).collect();
    play(&mut session, &start);
    play(
        &mut session,
        &[
            (addr(0, 0x7fea_6f66_3000, 0x7fea_6f66_4240, 0x7fea_6f66_4000, Some(0x5ff_ffff)), ""),
            (kick(0), ""),
            (ask(Request::SetLogBase { size: 0xbff, offset: 0 }), "= 0x0"),
        ],
    );
    assert_eq!(session.waits_for(0), Some(Need::Log), "the memory has 0x6000 pages");
    play(&mut session, &[(ask(Request::SetLogBase { size: 0xc00, offset: 4096 }), "= 0x0")]);
    assert_eq!(session.waits_for(0), Some(Need::Log), "the used ring is logged beyond the memory");
    play(
        &mut session,
        &[(ask(Request::SetLogBase { size: 0xc01, offset: 0 }), "start 0 at 0x0, logged; = 0x0")],
    );
}

#[test]
fn a_device_that_is_reset_forgets_its_rings_and_keeps_its_memory() {
    let mut session = session(1);
    play(&mut session, &qemu_connects());
    play(&mut session, &qemu_starts());
    play(
        &mut session,
        &[
            (ask(Request::ResetOwner), "update 0 at 0x0, disabled; update 1 at 0x0, disabled"),
            (enable(0, true), "update 0 at 0x0"),
            (demand(Request::ResetDevice), "stop 0; stop 1; = 0x0"),
        ],
    );
    assert_eq!(session.waits_for(0), Some(Need::Features));
    assert_eq!(session.shared().memory.regions().count(), 1);
    play(&mut session, &[(ask(Request::SetFeatures(0x1_7020_bb83)), "features")]);
    assert_eq!(session.waits_for(0), Some(Need::Size));
}
