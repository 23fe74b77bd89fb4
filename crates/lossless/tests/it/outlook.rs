//! What the switch says would become of a frame, against what then becomes of it; and its list of
//! what it refused, against its books.

use lossless::Fate;

use super::*;

type Books = Vec<(ClassMap<u64>, BTreeMap<Reason, u64>)>;

/// Of each side of each port: what is held in each class, and what was refused.
fn books(switch: &Switch<Frame>, ids: &[PortId]) -> [Books; 2] {
    let side = |account: &dyn Fn(PortId, Class) -> lossless::Account| {
        let book = |id: &PortId| {
            let mut refused = BTreeMap::new();
            for class in Class::all() {
                for (reason, frames) in account(*id, class).refusals() {
                    *refused.entry(reason).or_default() += frames;
                }
            }
            (ClassMap::from_fn(|class| account(*id, class).held), refused)
        };
        ids.iter().map(book).collect()
    };
    [
        side(&|id, class| *switch.ingress_account(id, class)),
        side(&|id, class| *switch.egress_account(id, class)),
    ]
}

/// How many were refused at each side of each port, by reason.
type Refusals = BTreeMap<(usize, usize, Reason), u64>;

fn refusals(books: &[Books; 2]) -> Refusals {
    let sides = books.iter().enumerate();
    let all =
        sides.flat_map(|(side, ports)| ports.iter().enumerate().map(move |port| (side, port)));
    all.flat_map(|(side, (port, (_, refused)))| {
        refused.iter().map(move |(reason, frames)| ((side, port, *reason), *frames))
    })
    .collect()
}

proptest! {
    #[test]
    fn a_frame_fares_as_was_said_before(
        ports in prop::collection::vec(port(), 2..6),
        lossy in 0u8..8,
        steps in prop::collection::vec((0u8..12, 0usize..6, 0usize..7, 0u8..8, 60u32..1515), 1..200),
    ) {
        let kinds = ClassMap::from_fn(|class| match class.pcp() < lossy {
            true => ClassKind::Lossy,
            false => ClassKind::Lossless,
        });
        let settings = Settings { classes: Classes(kinds), ..Settings::default() };
        let (mut switch, ids) = switch(settings, &ports);
        switch.list_refused(true);
        let mut now = Instant::ZERO;
        for (number, (kind, a, b, pcp, bytes)) in (0u64..).zip(steps) {
            let (from, class) = (a % ids.len(), Class::from_low_bits(pcp));
            let before = books(&switch, &ids);
            match kind {
                0..=8 => {
                    let to = (b < ids.len()).then_some(b);
                    let frame = Frame { number, from, flow: 0 };
                    let arrival = arrival(frame, to, class, bytes);
                    let room = switch.room(now, ids[from]);
                    let is_for = |port: &usize| to.map_or(*port != from, |to| to == *port);
                    let egresses: Vec<_> = (0..ids.len()).filter(is_for).collect();
                    let look = |switch: &Switch<Frame>| -> Vec<_> {
                        egresses.iter().map(|port| switch.outlook(ids[*port], class, arrival.size)).collect()
                    };
                    let mut outlooks = look(&switch);
                    match arrival.offer(&mut switch, now, &ids) {
                        Offered::Full(_) => {
                            prop_assert_eq!(room, 0);
                            continue;
                        }
                        Offered::Refused(back, Reason::SamePort) => {
                            prop_assert_eq!((back, to), (frame, Some(from)));
                            outlooks.clear();
                        }
                        _ => {}
                    }
                    let after = books(&switch, &ids);
                    for (outlook, next) in outlooks.iter().zip(look(&switch)) {
                        let (fate, load, waiting) = (outlook.fate, outlook.load, outlook.waiting);
                        let place = outlook.port.index();
                        let grown = |place: usize| after[1][place].0[class] - before[1][place].0[class];
                        let in_queue = next.load.frames - load.frames;
                        match fate {
                            Fate::Switched => prop_assert_eq!((grown(place), in_queue, next.waiting), (1, 1, waiting)),
                            Fate::Waits => prop_assert_eq!((grown(place), in_queue, next.waiting), (1, 0, waiting + 1)),
                            Fate::Refused(reason) => {
                                let was = before[1][place].1.get(&reason).copied().unwrap_or(0);
                                prop_assert_eq!((grown(place), after[1][place].1[&reason]), (0, was + 1));
                            }
                        }
                    }
                }
                9 | 10 => {
                    let mut visit = switch.departures(now, ids[from]);
                    if let Some(head) = visit.head() {
                        head.delivered();
                    }
                }
                _ => {
                    now += Span::from_secs(b as u64);
                    switch.tick(now, |_| {});
                }
            }
            // Each refusal at an egress is in the list, and each of what no egress has heard of.
            let after = books(&switch, &ids);
            let mut listed = refusals(&before);
            for refused in switch.take_refused() {
                let (side, port) = refused.egress.map_or((0, refused.ingress), |egress| (1, egress));
                *listed.entry((side, port.index(), refused.reason)).or_default() += 1;
            }
            let mut counted = refusals(&after);
            // What all egresses refused is in the ingress's books, too, and needs no line of its
            // own.
            let told = |(side, _, reason): &(usize, usize, Reason)| {
                *side == 1 || !matches!(reason, Reason::Full | Reason::StalledReceiver)
            };
            counted.retain(|key, _| told(key));
            listed.retain(|key, _| told(key));
            prop_assert_eq!(listed, counted);
        }
    }
}
