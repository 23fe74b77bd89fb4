use core::net::IpAddr;

use proptest::prelude::*;
use wire::geneve::Packet;

use super::*;
use crate::context::ContextFlags;

fn incarnations() -> impl Strategy<Value = Incarnation> {
    (1..=u64::MAX).prop_map(|number| Incarnation(NonZeroU64::new(number).unwrap()))
}

fn streams() -> impl Strategy<Value = Stream> {
    (any::<u32>(), 0_u8..8)
        .prop_map(|(label, class)| Stream { label, class: Class::new(class).unwrap() })
}

fn ends() -> impl Strategy<Value = Ends> {
    any::<[u32; 2]>().prop_map(|[from, to]| Ends { from: Tag(from), to: Tag(to) })
}

fn returns() -> impl Strategy<Value = Return> {
    let answer = prop_oneof![
        (any::<IpAddr>(), any::<u32>())
            .prop_map(|(host, label)| Answer::Moved { host: host.to_canonical(), label }),
        Just(Answer::Gone),
        any::<u16>().prop_map(Answer::Refused),
        Just(Answer::Unsupported),
    ];
    (streams(), any::<[u32; 2]>(), answer).prop_map(|(stream, [from, until], answer)| Return {
        stream,
        from,
        until,
        answer,
    })
}

/// A report that may go with a frame.
fn riding(report: Report) -> Report {
    Report { window_probes: Vec::new(), returns: Vec::new(), ..report }
}

fn messages() -> impl Strategy<Value = Message> {
    let hello = (
        incarnations(),
        prop::option::of(incarnations()),
        any::<[u8; 2]>(),
        any::<[u8; 2]>(),
        any::<u32>(),
    )
        .prop_map(|(from, to, versions, classes, bytes)| {
            let [reliable, unlimited] = classes.map(ClassSet::from_bits);
            let unsolicited = Unsolicited { bytes, unlimited };
            Message::Hello(Hello { from, to, versions, reliable, unsolicited })
        });
    let part =
        (any::<bool>(), any::<bool>()).prop_map(|(continues, more)| Part { continues, more });
    let place = (any::<u32>(), any::<u32>(), 1..=u16::MAX);
    let cut = (
        any::<u16>(),
        (1..=u16::MAX).prop_map(|size| NonZeroU16::new(size).unwrap()),
        prop::sample::select(alloc::vec![Flags(0), Flags::PSH, Flags::FIN, Cut::FLAGS]),
    )
        .prop_map(|(sequence, size, flags)| Cut { sequence, size, flags });
    let left = prop_oneof![
        any::<Option<[u8; Offload::LEN]>>().prop_map(|offload| (offload, None)),
        cut.prop_map(|cut| (None, Some(cut))),
    ];
    let context = any::<Option<(u32, u32, u16, u8)>>().prop_map(|context| {
        let (origin, generation, flags, routers) = context?;
        Some(Context { origin, generation, flags: ContextFlags(flags), routers })
    });
    let data = (ends(), streams(), place, part, left, context).prop_map(
        |(ends, stream, (number, offset, len), part, (offload, cut), context)| {
            let len = NonZeroU16::new(len).unwrap();
            Data { ends, number, stream, offset, len, part, offload, context, cut }
        },
    );
    let steps = prop::collection::vec((0_u16.., 0_u16..), 0..=MAX_RANGES);
    let grants = (streams(), any::<u32>(), any::<u32>())
        .prop_map(|(stream, consumed, limit)| CreditGrant { stream, consumed, limit });
    let nacks = (streams(), any::<u32>(), any::<u32>(), any::<bool>())
        .prop_map(|(stream, number, from, is_early)| Nack { stream, number, from, is_early });
    let window_probes =
        (streams(), any::<u32>()).prop_map(|(stream, sent)| WindowProbe { stream, sent });
    let grants = prop::collection::vec(grants, 0..=3);
    let nacks = prop::collection::vec(nacks, 0..=MAX_GRANTS - 3);
    let window_probes = prop::collection::vec(window_probes, 0..=MAX_WINDOW_PROBES);
    let marks = prop::collection::vec((any::<u32>(), any::<u16>()), 0..=MAX_MARKS);
    let numbers = (any::<u32>(), any::<u32>(), marks);
    let told = prop_oneof![
        window_probes.prop_map(|window_probes| (window_probes, Vec::new())),
        prop::collection::vec(returns(), 1..=MAX_RETURNS).prop_map(|returns| (Vec::new(), returns)),
    ];
    let report = (ends(), numbers, steps, (grants, nacks), told).prop_map(
        |(ends, (marked, largest, marks), steps, (grants, nacks), (window_probes, returns))| {
            let mut next = largest;
            let came = steps.into_iter().enumerate().map(|(place, (missing, len))| {
                let last =
                    if place == 0 { next } else { next.wrapping_sub(u32::from(missing) + 2) };
                next = last.wrapping_sub(len.into());
                [next, last]
            });
            let came = came.collect();
            let marks = marks.into_iter().map(|(last, len)| [last.wrapping_sub(len.into()), last]);
            let marks = marks.collect();
            let mut report =
                Report { ends, marked, came, marks, grants, nacks, window_probes, returns };
            report.marks.truncate(report.room_for_marks());
            report
        },
    );
    let report = report.boxed();
    let with_data = (data, prop::option::of(report.clone())).prop_map(|(data, report)| {
        let report = report.filter(|_| data.cut.is_none());
        Message::Data(data, report.map(riding))
    });
    prop_oneof![hello, with_data, report.prop_map(Message::Report)]
}

proptest! {
    #[test]
    fn what_was_written_is_read(message in messages()) {
        let mut draft = Draft::new(7).unwrap();
        prop_assert!(message.write(&mut draft), "{message:?} has no grant");
        let bytes = draft.parts().concat();
        let packet = Packet::parse(&bytes).unwrap();
        prop_assert!(packet.options.clone().all(|option| Message::knows(option.kind)));
        prop_assert_eq!(Message::parse(packet.options), Some(message));
    }

    #[test]
    fn a_frame_without_bytes_is_no_message(message in messages()) {
        let Message::Data(data, _) = message else { return Ok(()) };
        let mut draft = Draft::new(7).unwrap();
        prop_assert!(data.write(&mut draft));
        let mut bytes = draft.parts().concat();
        let end = bytes.len();
        let options = [data.offload.is_some(), data.context.is_some()];
        let options = options.into_iter().filter(|is_there| *is_there).count();
        let end = end - 16 * options - data.cut.map_or(0, |_| 4);
        bytes[end - 2..end].fill(0);
        prop_assert_eq!(Message::parse(Packet::parse(&bytes).unwrap().options), None);
    }

    #[test]
    fn a_report_of_more_streams_than_may_be_is_none(ends in ends(), more in 0..3_usize, is_rooms: bool) {
        let mut draft = Draft::new(7).unwrap();
        let report = Report { ends, marked: 0, came: Vec::new(), marks: Vec::new(), grants: Vec::new(), nacks: Vec::new(), window_probes: Vec::new(), returns: Vec::new() };
        prop_assert!(report.write(&mut draft));
        let (kind, words, most) = if is_rooms { (GRANTS, 4, MAX_GRANTS) } else { (WINDOW_PROBES, 3, MAX_WINDOW_PROBES) };
        for count in [most, more] {
            prop_assert!(add(&mut draft, kind, &alloc::vec![0; 4 * words * count]));
        }
        let bytes = draft.parts().concat();
        let read = Message::parse(Packet::parse(&bytes).unwrap().options);
        prop_assert_eq!(read.is_some(), more == 0);
    }

    #[test]
    fn what_rides_is_a_report_with_what_no_card_cuts(message in messages(), report in messages()) {
        let (Message::Data(data, None), Message::Report(report)) = (message, report) else { return Ok(()) };
        let report = riding(report);
        let mut draft = Draft::new(7).unwrap();
        prop_assert!(data.write(&mut draft) && report.write(&mut draft));
        let bytes = draft.parts().concat();
        let read = Message::parse(Packet::parse(&bytes).unwrap().options);
        prop_assert_eq!(read.is_some(), data.cut.is_none());
        let mut draft = Draft::new(7).unwrap();
        prop_assert!(data.write(&mut draft) && add(&mut draft, GRANTS, &[]));
        let bytes = draft.parts().concat();
        prop_assert_eq!(Message::parse(Packet::parse(&bytes).unwrap().options), None);
    }

    #[test]
    fn any_bytes_are_a_message_or_none(kinds in prop::collection::vec((0x80_u8..0x90, 0_usize..32), 1..4), byte: u8) {
        let mut draft = Draft::new(7).unwrap();
        for (kind, words) in kinds {
            add(&mut draft, kind, &alloc::vec![byte; 4 * words]);
        }
        let bytes = draft.parts().concat();
        let packet = Packet::parse(&bytes).unwrap();
        let _ = Message::parse(packet.options);
    }
}
