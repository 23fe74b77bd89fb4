//! Reports that go with frames.

use super::*;

fn of_class(class: u8) -> Stream {
    Stream { label: 1, class: Class::from_low_bits(class) }
}

/// Two ends of which the second has taken a frame of this class, and told nothing of that.
fn owing(class: u8) -> [End; 2] {
    let mut ends = pair(ms(1), config());
    let [from, to] = &mut ends;
    assert_eq!(from.admit(LANE, of_class(class), bytes(100), false), Admission::Go);
    let data = from.send(ms(1), of_class(class), bytes(100), 0);
    arrive(ms(1), to, &data)
        .into_iter()
        .for_each(|(stream, epoch, offset)| to.consumed(stream, epoch, offset));
    ends
}

#[test]
fn what_rides_tells_all_that_a_report_tells_and_is_not_told_again() {
    let [mut from, mut to] = owing(3);
    let expected = to.clone().poll_transmit(ms(1)).unwrap();
    let report = to.piggyback(Class::from_low_bits(3)).unwrap();
    assert_eq!(Message::Report(report.clone()), expected);
    assert_eq!((to.poll_transmit(ms(1)), to.piggyback(Class::from_low_bits(3))), (None, None));
    let mut completed = Vec::new();
    from.handle_report(ms(1), &report, |frame, _| completed.push(frame));
    assert_eq!((completed, from.outstanding()), (vec![0], 0));
}

#[test]
fn nothing_rides_with_a_frame_of_another_class() {
    let [_, mut to] = owing(3);
    assert_eq!(to.piggyback(Class::from_low_bits(4)), None);
    assert!(to.piggyback(Class::from_low_bits(3)).is_some());
}

#[test]
fn an_answer_does_not_wait_and_does_not_ride() {
    let class = Class::from_low_bits(3);
    let ask = WindowProbe { stream: of_class(3), sent: 100 };
    let ask = Report {
        ends: Ends { from: incarnation(1).tag(), to: incarnation(2).tag() },
        window_probes: vec![ask],
        ..report()
    };
    let causes: [&dyn Fn(&mut End); 3] = [
        &|end| end.handle_report(ms(1), &ask, |_, _| ()),
        &|end| end.handle_hello(ms(1), &incarnations::hello(1, Some(2)), |_| ()),
        &|end| end.change_path(ms(1)),
    ];
    for cause in causes {
        let [_, mut to] = owing(3);
        assert!(to.may_piggyback() && to.poll_urgent(ms(1)).is_none());
        cause(&mut to);
        assert_eq!((to.may_piggyback(), to.piggyback(class)), (false, None));
        let said: Vec<_> = std::iter::from_fn(|| to.poll_urgent(ms(1))).collect();
        assert!(said.iter().any(|message| matches!(message, Message::Report(_))), "{said:?}");
        assert!(
            !to.may_piggyback() && to.poll_transmit(ms(1)).is_none(),
            "it advertised all there was"
        );
    }
}

#[test]
fn questions_do_not_wait_for_news_to_ride() {
    let [mut from, mut to] = pair(ms(1), config());
    let sent = |end: &mut End| end.send(ms(1), of_class(3), bytes(100), 0);
    for end in [&mut from, &mut to] {
        assert_eq!(end.admit(LANE, of_class(3), bytes(100), false), Admission::Go);
    }
    // It asks after what it sent, while it has news of what came.
    sent(&mut to);
    let data = sent(&mut from);
    arrive(ms(1), &mut to, &data);
    assert!(to.may_piggyback() && to.poll_urgent(ms(1)).is_none());
    let Some(Message::Report(report)) = to.poll_urgent(ms(2)) else {
        panic!("a millisecond is over")
    };
    assert_eq!((report.window_probes.len(), &report.came[..]), (1, &[[0, 0]][..]));
}

#[test]
fn nothing_rides_to_nobody() {
    let mut alone = End::new(ms(1), config(), Rng::new(1));
    assert_eq!(alone.piggyback(Class::from_low_bits(0)), None);
}
