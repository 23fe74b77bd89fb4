//! Front-ends that contradict themselves, or us.

use std::io::Read;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{OFlags, fcntl_getfl};
use vhost::features::{Features, ProtocolFeatures};
use vhost::memory::MAX_SLOTS;
use vhost::message::{Addresses, Inflight, Region, Request};
use vhost::session::{Offer, Session};

use super::recorder::{Recorder, ask, demand, session, table, tell};

const MEMORY: Region = Region { guest: 0, size: 1 << 20, user: 0x10_0000, offset: 0 };
const ADDRESSES: Addresses =
    Addresses { descriptors: 0x10_0000, used: 0x10_4000, available: 0x10_8000, log: None };

/// A session of which ring 0 runs.
fn running() -> Session<Recorder> {
    let mut session = session(1);
    let all = Offer::net(1);
    for request in [
        Request::SetProtocolFeatures(all.protocol.0),
        Request::SetFeatures(
            all.features.without(Features::of(&[Features::RING_PACKED, Features::LOG_ALL])).0,
        ),
        table(&[MEMORY]),
        Request::SetVringNum { index: 0, size: 256 },
        Request::SetVringAddr { index: 0, addresses: ADDRESSES },
        Request::SetVringKick { index: 0, has_fd: true },
    ] {
        tell(&mut session, ask(request)).unwrap();
    }
    assert_eq!(session.waits_for(0), None);
    session
}

/// What the refusal says of the last of these requests, none of which may leave a ring running.
fn refusal(mut session: Session<Recorder>, requests: &[Request]) -> String {
    let (last, first) = requests.split_last().unwrap();
    for request in first {
        tell(&mut session, ask(*request)).unwrap();
    }
    let refusal = tell(&mut session, demand(*last)).unwrap_err();
    assert!(session.parts().0.running.is_empty(), "{refusal}");
    refusal.to_string()
}

#[test]
fn what_was_not_offered_is_not_agreed_on() {
    let said = refusal(running(), &[Request::SetFeatures(1 << 35)]);
    assert_eq!(
        said,
        "cannot agree on features bit 35: they were not offered; use another front-end"
    );
    let said = refusal(running(), &[Request::SetProtocolFeatures(1 << 9 | 1)]);
    assert_eq!(
        said,
        "cannot agree on protocol features bit 9: they were not offered; use another front-end"
    );
    let offer =
        Offer { features: Features::VERSION_1, protocol: ProtocolFeatures(0), ..Offer::net(1) };
    let mut modest = Session::new(offer, Recorder::default());
    assert!(tell(&mut modest, ask(Request::SetFeatures(1))).is_err());
}

#[test]
fn frames_of_the_legacy_layout_are_not_agreed_on() {
    for features in [Features(0), Features::of(&[Features::MRG_RXBUF, Features::PROTOCOL_FEATURES])]
    {
        let said = refusal(session(1), &[Request::SetFeatures(features.0)]);
        assert!(said.contains(&features.to_string()) && said.contains("legacy layout"), "{said}");
    }
    // Without merged buffers, the header of today is as long as with them.
    assert_eq!(
        tell(&mut session(1), ask(Request::SetFeatures(Features::VERSION_1.0))).unwrap(),
        "features"
    );
}

#[test]
fn what_was_not_negotiated_is_not_served() {
    let inflight = Inflight { size: 8320, offset: 0, queues: 2, queue_size: 256 };
    for request in [
        Request::GetQueueNum,
        Request::ResetDevice,
        Request::SetStatus(0),
        Request::GetStatus,
        Request::AddMemReg(MEMORY),
        Request::RemMemReg(MEMORY),
        Request::GetMaxMemSlots,
        Request::SetLogBase { size: 1, offset: 0 },
        Request::GetInflightFd(inflight),
        Request::SetInflightFd(inflight),
        Request::NetSetMtu(1500),
        Request::SendRarp(units::Mac::local(1)),
    ] {
        let said = refusal(session(1), &[request]);
        assert!(
            said.contains(&format!("{:?}", request.code())) && said.contains("not negotiated"),
            "{said}"
        );
    }
}

#[test]
fn there_are_as_many_rings_as_were_offered() {
    for request in [
        Request::SetVringNum { index: 2, size: 1 },
        Request::SetVringAddr { index: 2, addresses: ADDRESSES },
        Request::SetVringBase { index: 255, base: 0 },
        Request::GetVringBase { index: 2 },
        Request::SetVringKick { index: 2, has_fd: true },
        Request::SetVringCall { index: 2, has_fd: false },
        Request::SetVringErr { index: 2, has_fd: true },
        Request::SetVringEnable { index: 2, enable: true },
    ] {
        assert!(refusal(running(), &[request]).contains("there is no ring 2"));
    }
}

#[test]
fn a_ring_that_runs_stays_as_it_is() {
    let packed = Offer::net(1).features.without(Features::LOG_ALL);
    for request in [
        Request::SetVringNum { index: 0, size: 128 },
        Request::SetVringBase { index: 0, base: 1 },
        Request::SetFeatures(packed.0),
    ] {
        assert!(refusal(running(), &[request]).contains("ring 0 runs"));
    }
}

#[test]
fn a_ring_that_cannot_be_is_not_started() {
    let size = |size| [Request::GetVringBase { index: 0 }, Request::SetVringNum { index: 0, size }];
    let mut requests = size(255).to_vec();
    requests.push(Request::SetVringKick { index: 0, has_fd: true });
    assert!(refusal(running(), &requests).contains("no power of two"));
    requests[1] = Request::SetVringBase { index: 0, base: 0x1_0000 };
    assert!(refusal(running(), &requests).contains("is not in it"));
    let packed = Offer::net(1).features.without(Features::LOG_ALL).0;
    let kick = Request::SetVringKick { index: 0, has_fd: true };
    for base in [0x8000 | 256, (0x8000 | 256) << 16 | 0x8001] {
        let begin = [
            Request::GetVringBase { index: 0 },
            Request::SetFeatures(packed),
            Request::SetVringBase { index: 0, base },
            kick,
        ];
        assert!(refusal(running(), &begin).contains("is not in it"));
    }
    // What is aligned for the front-end is not where we have it.
    let odd = Region { offset: 8, ..MEMORY };
    let said = refusal(running(), &[Request::RemMemReg(MEMORY), Request::AddMemReg(odd)]);
    assert!(said.contains("not aligned"), "{said}");
    for addresses in [
        Addresses { descriptors: ADDRESSES.descriptors + 8, ..ADDRESSES },
        Addresses { used: ADDRESSES.used + 2, ..ADDRESSES },
        Addresses { available: ADDRESSES.available + 1, ..ADDRESSES },
    ] {
        let said = refusal(running(), &[Request::SetVringAddr { index: 0, addresses }]);
        assert!(said.contains("not aligned"), "{said}");
    }
}

#[test]
fn memory_that_contradicts_itself_stops_every_ring() {
    let beside = Region { guest: 1 << 30, user: 1 << 40, ..MEMORY };
    assert!(
        refusal(running(), &[Request::AddMemReg(Region { offset: 4096, ..MEMORY })])
            .contains("overlaps")
    );
    assert!(refusal(running(), &[Request::RemMemReg(beside)]).contains("none like it"));
    assert!(
        refusal(running(), &[Request::AddMemReg(Region { size: 0, ..beside })])
            .contains("empty or wraps")
    );
    assert!(refusal(running(), &[table(&[beside, beside])]).contains("overlaps"));
    let many: Vec<_> = (1..=MAX_SLOTS as u64)
        .map(|n| Region { guest: n << 30, size: 4096, user: n << 40, offset: 0 })
        .map(Request::AddMemReg)
        .collect();
    assert!(refusal(running(), &many).contains("slots are taken"));
    assert!(
        refusal(running(), &[Request::SetLogBase { size: 0, offset: 0 }]).contains("dirty log")
    );
}

#[test]
fn what_is_in_flight_cannot_be_told_before_the_kind_of_rings_is() {
    let inflight = Inflight { size: 8320, offset: 0, queues: 2, queue_size: 256 };
    let protocol = Request::SetProtocolFeatures(ProtocolFeatures::INFLIGHT_SHMFD.0);
    for request in [Request::GetInflightFd(inflight), Request::SetInflightFd(inflight)] {
        assert!(refusal(session(1), &[protocol, request]).contains("no features were set yet"));
    }
    let said = refusal(running(), &[Request::GetInflightFd(Inflight { queues: 3, ..inflight })]);
    assert!(said.contains("more rings"), "{said}");
    assert_eq!(
        tell(&mut running(), ask(Request::GetInflightFd(inflight))).unwrap(),
        "= 8320 bytes in 1 descriptor"
    );
    let stopped_meanwhile = tell(&mut running(), demand(Request::SetInflightFd(inflight))).unwrap();
    assert_eq!(stopped_meanwhile, "stop 0; start 0 at 0x0, disabled; = 0x0");
}

#[test]
fn a_ring_that_its_in_flight_region_does_not_fit_is_not_started() {
    let given = |queue_size| {
        Request::SetInflightFd(Inflight { size: 1 << 20, offset: 0, queues: 1, queue_size })
    };
    assert!(refusal(running(), &[given(128)]).contains("for another ring"));
    assert_eq!(tell(&mut running(), ask(given(512))).unwrap(), "stop 0; start 0 at 0x0, disabled");

    let stop = Request::GetVringBase { index: 0 };
    let packed = Request::SetFeatures(Offer::net(1).features.without(Features::LOG_ALL).0);
    let kick = Request::SetVringKick { index: 0, has_fd: true };
    assert!(refusal(running(), &[given(256), stop, packed, kick]).contains("for another ring"));
}

#[test]
fn an_mtu_that_does_not_fit_is_denied_and_no_more() {
    let mut session = running();
    for mtu in [67, 65_522, u64::MAX] {
        assert_eq!(tell(&mut session, demand(Request::NetSetMtu(mtu))).unwrap(), "= 0x1");
        assert_eq!(tell(&mut session, ask(Request::NetSetMtu(mtu))).unwrap(), "");
    }
    assert_eq!(tell(&mut session, demand(Request::NetSetMtu(65_521))).unwrap(), "mtu 65521; = 0x0");
}

#[test]
fn an_event_descriptor_never_makes_us_wait() {
    for request in [
        Request::SetVringKick { index: 0, has_fd: true },
        Request::SetVringCall { index: 0, has_fd: true },
        Request::SetVringErr { index: 0, has_fd: true },
    ] {
        let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let mut session = running();
        session.handle(ask(request), vec![event.try_clone().unwrap()]).unwrap();
        assert!(fcntl_getfl(&event).unwrap().contains(OFlags::NONBLOCK), "{request:?}");
        let (_reader, pipe) = std::io::pipe().unwrap();
        let refusal = running().handle(ask(request), vec![pipe.into()]).unwrap_err();
        assert!(refusal.to_string().contains("it is no eventfd"), "{refusal}");
    }
}

#[test]
fn a_descriptor_that_is_not_needed_is_closed() {
    for request in [Request::SetBackendReqFd, Request::SetLogFd, Request::RemMemReg(MEMORY)] {
        let (mut reader, writer) = std::io::pipe().unwrap();
        running().handle(ask(request), vec![writer.into()]).unwrap();
        assert_eq!(reader.read(&mut [0]).unwrap(), 0, "nobody can write any more");
    }
}
