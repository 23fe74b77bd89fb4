//! Our own front-end against our own back-end, over a real socket.

use std::os::fd::{AsFd, OwnedFd};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use vhost::backend::{Backend, Ended};
use vhost::features::{Features, ProtocolFeatures};
use vhost::front::{FrontConfig, FrontEnd, FrontError};
use vhost::memory::Span;
use vhost::message::{Code, Request};
use vhost::session::{Offer, Rings, Shared};
use vhost::socket::{Connection, ConnectionError};
use vhost::vring::{Base, Turn, Vring};

/// How long a broken world may take.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn sockets() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
}

pub fn socketpair() -> (Connection, Connection) {
    let (one, other) = sockets();
    (Connection::new(one), Connection::new(other))
}

pub fn config(features: Features) -> FrontConfig {
    FrontConfig {
        features,
        protocol: Offer::net(1).protocol,
        queue_pairs: 2,
        queue_size: 256,
        buffers: 1 << 20,
        huge: false,
        timeout: PATIENCE,
    }
}

pub fn split() -> Features {
    Features::of(&[Features::VERSION_1, Features::PROTOCOL_FEATURES, Features::MRG_RXBUF])
}

pub fn packed() -> Features {
    Features::of(&[split(), Features::RING_PACKED])
}

/// Where 8 bytes of the front-end's memory are.
fn word(front: &FrontEnd, offset: u64) -> *mut u64 {
    front.memory(offset).unwrap().0.start.cast().as_ptr()
}

/// When a ring is enabled, answers with its first 8 bytes in its used part and tells the driver.
/// Stands one further whenever it stops.
#[derive(Debug, Default)]
struct Echo {
    bases: Vec<(usize, Base)>,
}

impl Rings for Echo {
    fn start(&mut self, vring: Vring, _: &Shared) {
        self.bases.push((vring.index, vring.base));
    }

    fn update(&mut self, vring: Vring, shared: &Shared) {
        let at = |address| shared.memory.user(address).unwrap().start.cast::<u64>().as_ptr();
        // SAFETY: both parts have 8 bytes in memory, and the front-end waits meanwhile.
        #[expect(unsafe_code, reason = "guest memory is read and written by pointer")]
        unsafe {
            let asked = at(vring.addresses.descriptors).read_volatile();
            at(vring.addresses.available).write_volatile(asked + 1);
        }
        if let Some(inflight) = &shared.inflight {
            *counter(&mut inflight.part(vring.index).unwrap()) += 1;
        }
        rustix::io::write(vring.call.unwrap(), &1u64.to_ne_bytes()).unwrap();
    }

    fn stop(&mut self, index: usize, _: &Shared) -> Base {
        let at = self.bases.iter().position(|(running, _)| *running == index).unwrap();
        match self.bases.remove(at).1 {
            Base::Split(index) => Base::Split(index + 1),
            Base::Packed { available, used } => {
                Base::Packed { available: Turn { index: available.index + 1, ..available }, used }
            }
        }
    }
}

/// The first number of a ring's in-flight part, which nobody else uses.
fn counter(part: &mut Span) -> &mut u64 {
    // SAFETY: the part has more bytes, is aligned, and is used while its region is there. The
    // front-end only keeps it.
    #[expect(unsafe_code, reason = "the region is shared with the front-end")]
    unsafe {
        part.start.cast().as_mut()
    }
}

/// What a back-end told when it ended.
struct Told {
    ended: Ended,
    /// What of the memory was lost.
    lost: Option<String>,
    /// What each ring's in-flight part counted.
    counters: Vec<u64>,
}

/// A back-end on a thread of its own, until its connection ends.
fn serve(connection: Connection, pairs: u8) -> JoinHandle<Told> {
    std::thread::spawn(move || {
        let mut backend = Backend::new(Offer::net(pairs), Echo::default());
        backend.connect(connection);
        let ended = loop {
            if let Err(ended) = backend.serve(|_| {}) {
                break ended;
            }
            poll(
                &mut [PollFd::from_borrowed_fd(backend.connection().unwrap(), PollFlags::IN)],
                None,
            )
            .unwrap();
        };
        let shared = backend.session().shared();
        let counter =
            |queue| shared.inflight.as_ref()?.part(queue).map(|mut part| *counter(&mut part));
        Told { lost: shared.lost(), counters: (0..).map_while(counter).collect(), ended }
    })
}

pub fn until_called(front: &FrontEnd, ring: usize) {
    let patience = PATIENCE.try_into().unwrap();
    let call = front.rings()[ring].call.as_fd();
    assert_eq!(
        poll(&mut [PollFd::new(&call, PollFlags::IN)], Some(&patience)),
        Ok(1),
        "ring {ring} is used"
    );
}

/// Runs a front-end through a whole life with two back-ends.
fn live(config: FrontConfig, wanted: Features, last: [Base; 4]) {
    let mut front = FrontEnd::new(config).unwrap();
    let mut bases = vec![Base::new(wanted.contains(Features::RING_PACKED)); 4];
    for life in 1..=2 {
        let (ours, theirs) = socketpair();
        let back = serve(theirs, 2);
        front.connect(ours).unwrap();
        assert_eq!(front.features(), (wanted, config.protocol));
        for ring in 0..4 {
            // SAFETY: inside the memory, and the back-end has no ring yet.
            #[expect(unsafe_code, reason = "shared memory is written by pointer")]
            unsafe {
                word(&front, front.rings()[ring].offsets[0]).write_volatile(100 * ring as u64);
            }
        }
        front.start(&bases).unwrap();
        for ring in 0..4 {
            until_called(&front, ring);
            // SAFETY: inside the memory; the back-end has written before it called.
            #[expect(unsafe_code, reason = "shared memory is read by pointer")]
            let answer = unsafe { word(&front, front.rings()[ring].offsets[2]).read_volatile() };
            assert_eq!(answer, 100 * ring as u64 + 1);
        }
        bases = front.stop().unwrap();
        front.disconnect();
        let told = back.join().unwrap();
        assert!(matches!(told.ended, Ended::Closed), "{}", told.ended);
        assert_eq!(
            (told.lost, told.counters),
            (None, vec![life; 4]),
            "what was in flight is remembered"
        );
    }
    assert_eq!(bases, last);
}

#[test]
fn split_rings_live_through_a_change_of_back_ends() {
    live(config(split()), split(), [Base::Split(2); 4]);
}

#[test]
fn packed_rings_live_through_a_change_of_back_ends() {
    let turn = |index| Turn { index, wrap: true };
    live(config(packed()), packed(), [Base::Packed { available: turn(2), used: turn(0) }; 4]);
}

#[test]
fn a_table_of_memory_and_no_replies_do_as_well() {
    let protocol = ProtocolFeatures::of(&[ProtocolFeatures::MQ, ProtocolFeatures::INFLIGHT_SHMFD]);
    live(FrontConfig { protocol, ..config(split()) }, split(), [Base::Split(2); 4]);
}

/// Huge pages set aside for a test, on top of those that others use.
struct HugePages(u64);

impl HugePages {
    const COUNT: &str = "/proc/sys/vm/nr_hugepages";

    fn change(by: impl Fn(u64) -> u64) {
        let now: u64 = std::fs::read_to_string(Self::COUNT).unwrap().trim().parse().unwrap();
        std::fs::write(Self::COUNT, by(now).to_string()).unwrap();
    }

    fn reserve(pages: u64) -> Self {
        Self::change(|now| now + pages);
        Self(pages)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        Self::change(|now| now.saturating_sub(self.0));
    }
}

#[test]
fn memory_in_huge_pages_does_as_well() {
    if !needs::root() {
        return;
    }
    let _pages = HugePages::reserve(4);
    live(FrontConfig { huge: true, ..config(split()) }, split(), [Base::Split(2); 4]);
}

#[test]
fn memory_that_is_taken_away_is_noticed_and_nobody_dies() {
    let mut front = FrontEnd::new(config(split())).unwrap();
    let (ours, theirs) = socketpair();
    let back = serve(theirs, 2);
    front.connect(ours).unwrap();
    let (index, enable) = (0, true);
    front.start(&[Base::Split(0); 4]).unwrap();
    front.enable(false).unwrap();
    rustix::fs::ftruncate(front.file(), 0).unwrap();
    front.ask(Request::SetVringEnable { index, enable }).unwrap();
    drop(front);
    let told = back.join().unwrap();
    assert_eq!(
        told.lost.as_deref().map(|lost| lost.contains("memory region")),
        Some(true),
        "{:?}",
        told.lost
    );
}

#[test]
fn a_front_end_reports_errors() {
    let mut front = FrontEnd::new(config(split())).unwrap();
    assert!(matches!(
        front.ask(Request::GetFeatures),
        Err(FrontError::Unconnected(Code::GetFeatures))
    ));

    let (ours, theirs) = socketpair();
    let back = serve(theirs, 1);
    let error = front.connect(ours).unwrap_err();
    assert_eq!(error.to_string(), "cannot use 2 queue pairs: the back-end has 1; ask for fewer");
    assert!(matches!(back.join().unwrap().ended, Ended::Closed));

    let (ours, theirs) = socketpair();
    let back = serve(theirs, 2);
    front.connect(ours).unwrap();
    assert!(matches!(
        front.ask(Request::NetSetMtu(1)),
        Err(FrontError::Refused(Code::NetSetMtu, 1))
    ));
    let request = Request::SetVringNum { index: 4, size: 1 };
    assert!(matches!(front.ask(request), Err(FrontError::Refused(Code::SetVringNum, 1))));
    assert!(matches!(back.join().unwrap().ended, Ended::Refused(_)));
    let answer = front.ask(Request::GetFeatures);
    assert!(
        matches!(answer, Err(FrontError::Connection(ConnectionError::Broken { .. }))),
        "{answer:?}"
    );

    let mut hasty =
        FrontEnd::new(FrontConfig { timeout: Duration::ZERO, ..config(split()) }).unwrap();
    let (ours, _silent) = socketpair();
    assert!(matches!(hasty.connect(ours), Err(FrontError::Late(Code::GetFeatures, _))));
}
