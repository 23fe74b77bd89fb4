//! Guests that write anything into their rings, at any time, as a card of ours meets them.

use std::ptr::NonNull;

use port::Span;
use port::{FrameView, Slot};
use vhost::virtio::card::{Agreed, Card};
use vhost::virtio::log::{Places, Written};
use vhost::virtio::memory::{GuestMemory, Region};
use vhost::virtio::packed::Turn;
use vhost::virtio::ring::{Base, Ring};
use vhost::virtio::{Corrupt, Parts};

const PAIRS: usize = 2;
const FRAMES: u32 = 24;

/// What the guest may touch, and on both sides of it what nobody may.
const MEMORY: usize = 1 << 14;
const RECORDS: usize = 1 << 13;
const GUARD: usize = 1 << 10;
const UNTOUCHED: u8 = 0xc5;

/// What the guest has of its memory is here for it.
const FIRST: u64 = 0x1000;

/// Bytes that are shared, between bytes that nobody touches.
struct Guarded {
    bytes: Box<[u128]>,
    inside: Span,
    len: usize,
}

impl Guarded {
    fn new(len: usize) -> Self {
        let mut bytes =
            vec![u128::from_ne_bytes([UNTOUCHED; 16]); (len + 2 * GUARD) / 16].into_boxed_slice();
        bytes[GUARD / 16..(GUARD + len) / 16].fill(0);
        let start = NonNull::new(bytes.as_mut_ptr()).expect("a box is somewhere").cast();
        // SAFETY: the bytes live as long as the guest, whose card is dropped before them.
        #[allow(unsafe_code, reason = "a guest's memory is shared")]
        let inside = unsafe { Span::new(start.add(GUARD), len) };
        Self { bytes, inside, len }
    }

    fn check(&self) {
        let guard = GUARD / 16;
        let ends = [&self.bytes[..guard], &self.bytes[guard + self.len / 16..]];
        let untouched = u128::from_ne_bytes([UNTOUCHED; 16]);
        assert!(ends.into_iter().flatten().all(|word| *word == untouched), "outside of the memory");
    }
}

/// All that is logged lies in the memory.
#[derive(Default)]
struct Noted {
    notes: usize,
}

impl Written for Noted {
    fn note(&mut self, address: u64, len: u64) {
        let offset = address.checked_sub(FIRST).expect("nothing is written before the memory");
        assert!(
            offset <= MEMORY as u64 && len <= MEMORY as u64 - offset,
            "{len} bytes at {address:#x}"
        );
        self.notes += 1;
    }
}

/// What is tried next, and what decides its numbers.
type Move = [u8; 8];

struct World {
    card: Card,
    held: Vec<Slot>,
    rings: [Parts; 2 * PAIRS],
    size: u16,
    packed: bool,
    events: bool,
    recorded: bool,
    agreed: Agreed,
    memory: Guarded,
    records: Guarded,
}

/// Plays a guest that does as `bytes` say. The first two say of what kind its rings are.
pub fn attack(bytes: &[u8]) {
    let Some((&[kind, size], bytes)) = bytes.split_first_chunk() else { return };
    let flag = |bit: u8| kind & 1 << bit != 0;
    let packed = flag(0);
    let size = if packed { 1 + u16::from(size % 32) } else { 1 << (size % 6) };
    let (memory, records) = (Guarded::new(MEMORY), Guarded::new(RECORDS));
    let mut rest = memory.inside;
    let mut cut = |len: usize| {
        let (part, behind) = rest.split(len.next_multiple_of(16));
        rest = behind;
        part
    };
    let rings = [(); 2 * PAIRS].map(|()| {
        Parts::new(Parts::lens(size, packed).map(&mut cut), size, packed)
            .expect("they are cut to fit")
    });
    let mut card = Card::new(PAIRS as u8, FRAMES);
    card.set_memory(GuestMemory::new(vec![Region { address: FIRST, span: memory.inside }]));
    if flag(5) {
        card.show_headers();
    }
    let agreed = Agreed { mergeable: flag(1), offloads: flag(2) };
    let (events, recorded) = (flag(3), flag(4));
    let held = Vec::new();
    let mut world =
        World { card, held, rings, size, packed, events, recorded, agreed, memory, records };
    (0..2 * PAIRS).for_each(|ring| world.start(ring, 0));
    let (moves, _) = bytes.as_chunks::<8>();
    for next in moves {
        if world.go(*next).is_err() {
            // As a port does with a guest that contradicts itself; then it may begin again.
            for ring in 0..2 * PAIRS {
                world.card.stop(ring, &mut Noted::default());
                world.start(ring, next[1].into());
            }
        }
        world.memory.check();
        world.records.check();
    }
}

impl World {
    fn start(&mut self, index: usize, base: u16) {
        let turn = |base: u16| Turn { index: base / 2 % self.size, wrap: base & 1 != 0 };
        let base = if self.packed {
            Base::Packed { available: turn(base), used: turn(base / 3) }
        } else {
            Base::Split(base)
        };
        let parts = self.rings[index];
        let mut ring = Ring::new(parts, self.size, self.events, base);
        if self.recorded {
            let len = RECORDS / (2 * PAIRS);
            let record = self.records.inside.split(len * index).1;
            let record = record.split(Ring::record_len(self.size, self.packed)).0;
            ring = ring.recorded(record, index.is_multiple_of(2));
        }
        self.card.start(index, ring, self.agreed);
        let at = |part: Span| FIRST + self.offset(part) as u64;
        let places = Places { descriptors: at(parts.descriptors), device: at(parts.device) };
        self.card.log_at(index, Some(places));
    }

    fn offset(&self, part: Span) -> usize {
        part.start().addr().get() - self.memory.inside.start().addr().get()
    }

    fn go(&mut self, next: Move) -> Result<(), Corrupt> {
        let [kind, which, a, b, c, d, e, f] = next;
        let word = u16::from_le_bytes([a, b]);
        let ring = usize::from(which) % (2 * PAIRS);
        let Parts { descriptors, driver, .. } = self.rings[ring];
        let mut log = Noted::default();
        match kind % 16 {
            // Anything anywhere.
            0 => drop(
                self.memory.inside.split(usize::from(word) % MEMORY).1.write(&[which, c, d, e, f]),
            ),
            1 => drop(
                self.records
                    .inside
                    .split(usize::from(word) % RECORDS)
                    .1
                    .write(&[which, c, d, e, f][..1 + usize::from(f % 5)]),
            ),
            // Something like a descriptor, and like a driver's index or wish.
            2 | 3 => {
                let at = 16 * usize::from(u16::from(which / 4) % self.size);
                let address = FIRST + u64::from(word) % (MEMORY as u64 + 64);
                let len = u32::from(c) << (d % 8);
                // The flags' upper half, where a packed ring has its wrap counters, and the number
                // behind.
                let rest = u64::from(len) | u64::from(e) << 32 | u64::from(f) << 48;
                let rest = if self.packed {
                    rest & 0xff_ffff_ffff
                        | u64::from(f & 7 | e & 0x80) << 48
                        | u64::from(f & 0x80) << 56
                } else {
                    rest
                };
                let place = descriptors.split(at).1;
                place.write(&address.to_le_bytes());
                place.split(8).1.write(&rest.to_le_bytes());
            }
            4 | 5 => {
                // One more is available.
                let mut index = [0; 2];
                driver.split(2).1.read(&mut index);
                let index = u16::from_le_bytes(index);
                if !self.packed {
                    let place = 4 + 2 * usize::from(index % self.size);
                    driver.split(place).1.write(&(u16::from(c) % (self.size + 1)).to_le_bytes());
                }
                driver.split(2).1.write(&index.wrapping_add(1).to_le_bytes());
            }
            6 => drop(driver.write(&[a, b, c, d])),
            7 | 8 => {
                let (most, held) = (usize::from(which % 40), &mut self.held);
                let mut count = 0;
                let outcome = self.card.receive(most, |slot, frame| {
                    let mut copy = vec![0; frame.len()];
                    assert_eq!(frame.read(&mut copy), copy.len());
                    held.push(slot);
                    count += 1;
                });
                assert!(count <= most && held.len() <= FRAMES as usize);
                outcome?;
            }
            9 if !self.held.is_empty() => {
                let slot = self.held.swap_remove(usize::from(word) % self.held.len());
                self.card.release(slot);
            }
            10 => {
                let bytes = vec![which; 14 + usize::from(word) % 9000];
                let _ = self.card.transmit(&FrameView::plain(&bytes), &mut log)?;
                assert!(log.notes <= 64 * 64, "so many buffers are at hand");
            }
            11 => {
                let mut interrupts = 0;
                self.card.publish(&mut log, |_| interrupts += 1);
                assert!(interrupts <= 2 * PAIRS);
            }
            12 => drop(self.card.arm_ingress()?),
            13 => drop(self.card.arm_egress()?),
            14 => self.card.enable(ring, a & 1 != 0),
            15 => {
                self.card.stop(ring, &mut log);
                self.start(ring, word);
            }
            _ => {}
        }
        // What is held stays as long as it is.
        for &slot in &self.held {
            assert!(self.card.frame(slot).len() <= 65_535 + 22);
        }
        Ok(())
    }
}
