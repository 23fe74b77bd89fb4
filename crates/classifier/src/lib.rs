//! Which class a packet is of, which rule is the first for it, and what was decided before.
//!
//! ```text
//! packet ─▶ exact ──▶ classes, intervals ──▶ decisions ─▶ the first rule
//!             ▲                                  │         and what was read
//!             └────────────── kept ──────────────┘
//! ```
//!
//! - [`prefixes`]: the longest prefix of a key; [`classes`]: the sets that an address is in.
//! - [`intervals`]: the services that a packet is of.
//! - [`decisions`]: the first rule of a list.
//! - [`exact`]: what was decided of a key.
//! - [`cells`]: what remembered decisions depend on; [`tracked`]: which bits of a key were read.
//!
//! Each can be used alone. All that is found says by which bits it was found, so that whoever
//! remembers it remembers it for all packets that have these bits, and for no other. The laws that
//! tests hold: each structure answers as a list would that is searched from its beginning; a
//! packet that agrees with another in the bits that decided is decided the same; what is still
//! held to be true is what would be decided anew.
//!
//! There is no clock here, no randomness, and no packet: keys are words, and what they mean is
//! their owner's.
//!
//! # Example
//!
//! ```
//! use classifier::cells::{CellId, Cells, Depends};
//! use classifier::class::{ClassId, SetId};
//! use classifier::classes::{Classes, Member};
//! use classifier::decisions::{
//!     Aspect, Condition, Decisions, End, Facts, Memory, Peer, Rule,
//! };
//! use classifier::exact::Exact;
//! use classifier::intervals::{Form, Services};
//! use classifier::table::HashKey;
//!
//! // Who numbers sets, and what is secret, is the caller's choice.
//! const CLIENTS: SetId = SetId(0);
//! const WEB: SetId = SetId(1);
//! const SECRET: HashKey = HashKey([0x6b8b_4567_327b_23c6, 0x6437_9869_66d1_1d07]);
//!
//! let mut classes = Classes::default();
//! classes.add(CLIENTS, Member::V4(0x0a00_0000, 0x0aff_ffff), |_| {});
//! let form = Form { protocol: 6, destination: vec![(80, 80), (443, 443)], source: vec![] };
//! let mut services = Services::new([(WEB, form)], 64, SECRET);
//! let clients = Peer { sets: vec![CLIENTS], ..Peer::default() };
//! let condition =
//!     Condition { source: Some(clients), services: vec![WEB], ..Condition::default() };
//! let rule = Rule { conditions: vec![condition], names_control: true, ..Rule::default() };
//! let memory = Memory { bitmaps: 64, decisions: 64 };
//! let mut policy = Decisions::new(&[vec![rule]], memory, SECRET);
//! // A cell for the policy, and a few that the classes of addresses share.
//! let mut cells = Cells::new(1 + 16);
//! let cell_of = |class: ClassId| CellId(1 + class.number() as u32 % 16);
//! let mut known: Exact<2, Option<u32>> = Exact::new(1024, SECRET);
//!
//! let (source, port) = (0x0a01_0203, 443);
//! let key = [source.into(), port.into()];
//! assert_eq!(known.find(&cells, &key), None);
//!
//! // The first packet is decided, and it is noted on what that depends.
//! let mut depends = Depends::now(&cells);
//! let source = classes.class_of_v4(source);
//! let decision = policy.decide(&Facts {
//!     source: End::Address(source.class),
//!     service: services.class_of(6, 50_000, port).class,
//!     ..Facts::default()
//! });
//! depends.on(CellId(0));
//! if decision.read.contains(Aspect::SourceAddress) {
//!     depends.on(cell_of(source.class.id));
//! }
//! known.insert(&cells, key, decision.rule, depends);
//! assert_eq!(known.find(&cells, &key), Some(&Some(0)));
//!
//! // That is so until addresses leave the class of the source.
//! classes.add(SetId(7), Member::V4(0x0aff_0001, 0x0aff_0001), |left| {
//!     cells.change(cell_of(left));
//! });
//! assert_eq!(known.find(&cells, &key), None);
//! ```

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod block;
pub mod cells;
pub mod class;
pub mod classes;
pub mod decisions;
pub mod exact;
pub mod intervals;
pub mod prefixes;
pub mod table;
pub mod tracked;
