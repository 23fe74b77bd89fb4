//! Front-ends that send anything, as a back-end of ours meets them, with a card that works on the
//! rings that come of it.

use std::os::fd::OwnedFd;

use port::FrameView;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use vhost::device::Device;
use vhost::handover;
use vhost::memory::MAX_SLOTS;
use vhost::message::{Addresses, Code, Header, MAX_FDS, Message, Region, Request};
use vhost::session::{Offer, Rings, Session, Shared};
use vhost::vring::{Base, Vring};

/// Numbers that are likely to mean something, or to go wrong.
const NUMBERS: [u64; 32] = [
    0,
    1,
    2,
    3,
    255,
    256,
    4095,
    4096,
    8192,
    8320,
    16_512,
    0x8000,
    0x1_0000,
    0x10_0000,
    0x10_1000,
    0x10_4000,
    0x10_8000,
    0x20_0000,
    1 << 26,
    1 << 30,
    1 << 32,
    (1 << 32) + 1,
    (1 << 40) - 4096,
    1 << 40,
    u64::MAX,
    u64::MAX - 4095,
    0x1_4000_0000,
    0x1_4400_0000,
    0x5_4000_0000,
    0x5_7463_bb8b,
    0x1_b01f,
    0x1_b018,
];

/// How many frames the card holds at most.
const FRAMES: u32 = 16;

/// A front-end's next move: which request, and what decides its numbers and descriptors.
type Move = [u8; 12];

/// Plays a front-end that does as `bytes` say, until it is refused. By the first one, it may have
/// agreed on everything, and its rings may run.
pub fn attack(bytes: &[u8]) {
    let Some((agreed, bytes)) = bytes.split_first() else { return };
    let offer = Offer::net(2);
    let mut session =
        Session::new(offer, Wary { running: [false; 4], device: Device::new(2, FRAMES) });
    if let Some(features) =
        [0x1_4000_0000, 0x1_4400_0000, 0x5_4000_0000].get(usize::from(agreed % 4))
    {
        for request in
            [Request::SetProtocolFeatures(offer.protocol.0), Request::SetFeatures(*features)]
        {
            session
                .handle(Message { request, need_reply: false }, Vec::new())
                .expect("it was offered");
        }
    }
    let mut files = Vec::new();
    if agreed % 4 < 2 && agreed & 4 != 0 {
        plug(&mut session, &mut files);
    }
    let (moves, _) = bytes.as_chunks::<12>();
    for next in moves {
        let [kind, flags, ..] = *next;
        let Some(code) = Code::ALL.get(usize::from(kind) % (Code::ALL.len() + 1)) else {
            cut(&mut session, &files, flags);
            continue;
        };
        let fds = usize::from(flags >> 4).min(MAX_FDS);
        let bytes = bytes_of(*code, flags, next);
        let (header, payload) = bytes.split_first_chunk().expect("a header");
        let Ok(message) =
            Header::parse(header).and_then(|header| Message::parse(&header, payload, fds))
        else {
            return;
        };
        let fds = (0..fds).map(|fd| file(next, fd, &mut files)).collect();
        let served = session.handle(message, fds);
        assert!(session.shared().memory.regions().count() <= MAX_SLOTS);
        if served.is_err() {
            assert_eq!(session.parts().0.running, [false; 4], "a refusal stops every ring");
            return;
        }
        if flags & 4 != 0 {
            retell(&session);
        }
        if !work(&mut session) {
            return;
        }
    }
}

/// Who hears a session's requests once more is where it is, or refuses them: files may have been
/// cut since.
fn retell(first: &Session<Wary>) {
    let told = |session: &Session<Wary>| -> Vec<_> {
        session.retell().into_iter().map(|(request, _)| request).collect()
    };
    let mut second =
        Session::new(Offer::net(2), Wary { running: [false; 4], device: Device::new(2, FRAMES) });
    for (request, fds) in first.retell() {
        let bytes = Message { request, need_reply: false }.emit();
        let mut packet = vec![fds.len() as u8];
        packet.extend(bytes.as_ref());
        let fds =
            fds.iter().map(|fd| fd.try_clone_to_owned().expect("there are descriptors")).collect();
        let mut heard = Vec::new();
        handover::parse(&packet, fds, &mut heard).expect("it was said by a session");
        for (message, fds) in heard {
            if second.handle(message, fds).is_err() {
                return;
            }
        }
    }
    assert_eq!(told(&second), told(first));
    assert_eq!(second.rings().running, first.rings().running);
}

/// Starts both rings of a pair, in one place, where four frames wait.
fn plug(session: &mut Session<Wary>, files: &mut Vec<OwnedFd>) {
    let memory = Region { guest: 0, size: 1 << 20, user: 0x10_0000, offset: 0 };
    let file = memfd(memory.size, files);
    let write = |bytes: &[u8], at| rustix::io::pwrite(&file, bytes, at).expect("a file of ours");
    for number in 0..4_u64 {
        write(&[0x1_0000 * number, 100].map(u64::to_ne_bytes).concat(), 16 * number);
    }
    write(&[0_u16, 4, 0, 1, 2, 3].map(u16::to_ne_bytes).concat(), 0x8000);
    let mut tell = |request, fds| {
        session.handle(Message { request, need_reply: false }, fds).expect("it makes sense");
    };
    tell(Request::AddMemReg(memory), vec![file]);
    let addresses = Addresses {
        descriptors: 0x10_0000,
        used: 0x10_4000,
        available: 0x10_8000,
        log: Some(0x4000),
    };
    tell(Request::SetLogBase { size: 4096, offset: 0 }, vec![memfd(4096, files)]);
    for index in [0, 1] {
        tell(Request::SetVringNum { index, size: 256 }, Vec::new());
        tell(Request::SetVringAddr { index, addresses }, Vec::new());
        tell(Request::SetVringEnable { index, enable: true }, Vec::new());
        tell(Request::SetVringKick { index, has_fd: false }, Vec::new());
    }
    assert_eq!(session.parts().0.running, [true, true, false, false]);
    work(session);
}

/// A memfd of so many bytes; a second hold on it stays in `files`.
fn memfd(len: u64, files: &mut Vec<OwnedFd>) -> OwnedFd {
    let file = memfd_create("zovn-fuzz", MemfdFlags::CLOEXEC).expect("there are descriptors");
    ftruncate(&file, len).expect("a sparse file");
    files.push(file.try_clone().expect("there are descriptors"));
    file
}

/// Carries frames from the rings and to them. Whether they are to be believed.
fn work(session: &mut Session<Wary>) -> bool {
    let (Wary { device, .. }, shared) = session.parts();
    let mut slots = Vec::new();
    let taken = device.card_mut().receive(2, |slot, _| slots.push(slot));
    let given = device.transmit(&FrameView::plain(&[7; 60]), shared);
    // The first is done with; what came behind it is held, until its ring stops or there is no
    // room.
    slots.truncate(1);
    for slot in slots {
        let frame = device.card().frame(slot);
        assert_eq!(frame.read(&mut vec![0; frame.len()]), frame.len());
        device.card_mut().release(slot);
    }
    device.publish(shared);
    taken.is_ok() && given.is_ok()
}

/// The bytes of a request whose payload has about the right length.
fn bytes_of(code: Code, flags: u8, next: &Move) -> Vec<u8> {
    let mut pick = next.iter().skip(2).cycle();
    let mut number = || NUMBERS[usize::from(*pick.next().expect("it has no end")) % NUMBERS.len()];
    let (with_index, words) = match code {
        Code::SetMemTable => (true, 1 + 4 * usize::from(flags >> 4)),
        Code::SetVringNum | Code::SetVringBase | Code::GetVringBase | Code::SetVringEnable => {
            (true, 1)
        }
        Code::SetVringAddr => (true, 5),
        Code::SetLogBase => (false, 2),
        Code::GetInflightFd | Code::SetInflightFd => (false, 3),
        Code::AddMemReg | Code::RemMemReg => (false, 5),
        Code::SetFeatures | Code::SetProtocolFeatures | Code::SendRarp | Code::NetSetMtu => {
            (false, 1)
        }
        Code::SetVringKick | Code::SetVringCall | Code::SetVringErr | Code::SetStatus => (false, 1),
        _ => (false, 0),
    };
    let mut payload: Vec<u64> = (0..words).map(|_| number()).collect();
    match payload.first_mut() {
        Some(first) if code == Code::SetMemTable => *first = u64::from(flags >> 4),
        // A ring's number, then 32 bits of whatever it is.
        Some(first) if with_index => *first = u64::from(next[2] % 5) | *first << 32,
        _ => {}
    }
    let header = [code as u32, 1 | u32::from(flags & 8), 8 * payload.len() as u32];
    let bytes = header.iter().flat_map(|field| field.to_ne_bytes());
    bytes.chain(payload.iter().flat_map(|word| word.to_ne_bytes())).collect()
}

/// A memfd of some size, with something in it where rings may be.
fn file(next: &Move, which: usize, files: &mut Vec<OwnedFd>) -> OwnedFd {
    let len = NUMBERS[usize::from(next[2 + which % 10]) % 24].min(1 << 32);
    let file = memfd(len, files);
    for at in [0, 0x1000, 0x4000, 0x8000] {
        rustix::io::pwrite(&file, next, at).expect("a file of ours");
    }
    // What was written may have made it longer.
    ftruncate(&file, len).expect("a file of ours");
    file
}

/// Cuts a file short and touches all memory: what is lost is told, and nobody dies.
fn cut(session: &mut Session<Wary>, files: &[OwnedFd], which: u8) {
    if let Some(file) = files.get(usize::from(which) % files.len().max(1)) {
        ftruncate(file, 0).expect("it is ours");
    }
    let shared = session.shared();
    for region in shared.memory.regions() {
        touch(shared, region.user, region.size);
    }
}

/// Reads the first and the last of so many bytes.
fn touch(shared: &Shared, address: u64, len: u64) {
    let span = shared.memory.user(address).expect("it is in memory");
    assert!(span.len as u64 >= len, "contiguous");
    for at in [0, len as usize - 1] {
        // SAFETY: inside the span, which is mapped while the session has it.
        #[allow(unsafe_code, reason = "guest memory is read by pointer")]
        unsafe {
            span.start.add(at).read_volatile();
        }
    }
}

/// A card's rings, and before that everything is touched that they are given.
struct Wary {
    running: [bool; 4],
    device: Device,
}

impl Wary {
    fn check(&self, vring: &Vring, shared: &Shared) {
        let packed = matches!(vring.base, Base::Packed { .. });
        assert!(packed || vring.size.is_power_of_two());
        for part in vring.addresses.parts(vring.size, packed) {
            touch(shared, part.address, part.len);
        }
        if let (Some(log), Some(inflight)) = (&shared.log, &shared.inflight) {
            assert!(log.mark(0, 0) && inflight.part(99).is_none());
        }
    }
}

impl Rings for Wary {
    fn start(&mut self, vring: Vring, shared: &Shared) {
        assert!(!std::mem::replace(&mut self.running[vring.index], true));
        self.check(&vring, shared);
        self.device.start(vring, shared);
    }

    fn update(&mut self, vring: Vring, shared: &Shared) {
        assert!(self.running[vring.index]);
        self.check(&vring, shared);
        self.device.update(vring, shared);
    }

    fn stop(&mut self, index: usize, shared: &Shared) -> Base {
        assert!(std::mem::replace(&mut self.running[index], false));
        self.device.stop(index, shared)
    }
}
