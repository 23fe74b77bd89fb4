//! What messages promise.

use proptest::prelude::*;

use units::Mac;
use zerocopy::IntoBytes;

use super::header::{REPLY, RawHeader};
use super::payload::RawInflight;
use super::*;

/// Reads bytes as one message and what it must come with.
fn parse(bytes: &[u8], fds: usize) -> Result<Message, MessageError> {
    let (header, payload) = bytes.split_first_chunk().expect("a header");
    Message::parse(&Header::parse(header)?, payload, fds)
}

/// A request of any kind, and how many descriptors go with it.
fn any_request() -> impl Strategy<Value = (Request, usize)> {
    let region = || {
        any::<[u64; 4]>().prop_map(|[guest, size, user, offset]| Region {
            guest,
            size,
            user,
            offset,
        })
    };
    let inflight = || {
        any::<(u64, u64, u16, u16)>().prop_map(|(size, offset, queues, queue_size)| Inflight {
            size,
            offset,
            queues,
            queue_size,
        })
    };
    let addresses =
        any::<(u64, u64, u64, Option<u64>)>().prop_map(|(descriptors, used, available, log)| {
            Addresses { descriptors, used, available, log }
        });
    let table = proptest::collection::vec(region(), 0..=MAX_TABLE)
        .prop_map(|regions| (Request::SetMemTable(Table::new(&regions).unwrap()), regions.len()));
    let alone = |request: Request| (request, 0);
    let file = |make: fn(u8, bool) -> Request| {
        any::<(u8, bool)>()
            .prop_map(move |(index, has_fd)| (make(index, has_fd), usize::from(has_fd)))
    };
    let plain = prop::sample::select(vec![
        (Request::GetFeatures, 0),
        (Request::SetOwner, 0),
        (Request::ResetOwner, 0),
        (Request::SetLogFd, 1),
        (Request::GetProtocolFeatures, 0),
        (Request::GetQueueNum, 0),
        (Request::SetBackendReqFd, 1),
        (Request::ResetDevice, 0),
        (Request::GetMaxMemSlots, 0),
        (Request::GetStatus, 0),
    ]);
    let simple = prop_oneof![
        any::<u64>().prop_map(Request::SetFeatures),
        any::<u64>().prop_map(Request::SetProtocolFeatures),
        (any::<u8>(), 1..=MAX_RING).prop_map(|(index, size)| Request::SetVringNum { index, size }),
        (any::<u8>(), addresses)
            .prop_map(|(index, addresses)| Request::SetVringAddr { index, addresses }),
        any::<(u8, u32)>().prop_map(|(index, base)| Request::SetVringBase { index, base }),
        any::<u8>().prop_map(|index| Request::GetVringBase { index }),
        any::<(u8, bool)>().prop_map(|(index, enable)| Request::SetVringEnable { index, enable }),
        any::<[u8; 6]>().prop_map(|mac| Request::SendRarp(Mac(mac))),
        any::<u64>().prop_map(Request::NetSetMtu),
        any::<u8>().prop_map(Request::SetStatus),
        inflight().prop_map(Request::GetInflightFd),
    ];
    prop_oneof![
        plain,
        simple.prop_map(alone),
        table,
        any::<(u64, u64)>().prop_map(|(size, offset)| (Request::SetLogBase { size, offset }, 1)),
        file(|index, has_fd| Request::SetVringKick { index, has_fd }),
        file(|index, has_fd| Request::SetVringCall { index, has_fd }),
        file(|index, has_fd| Request::SetVringErr { index, has_fd }),
        inflight().prop_map(|inflight| (Request::SetInflightFd(inflight), 1)),
        region().prop_map(|region| (Request::AddMemReg(region), 1)),
        (region(), 0..2_usize).prop_map(|(region, fds)| (Request::RemMemReg(region), fds)),
    ]
}

fn any_reply() -> impl Strategy<Value = (Code, Reply)> {
    let of_numbers: Vec<_> = Code::ALL
        .iter()
        .copied()
        .filter(|c| !matches!(c, Code::GetVringBase | Code::GetInflightFd))
        .collect();
    prop_oneof![
        (prop::sample::select(of_numbers), any::<u64>())
            .prop_map(|(code, n)| (code, Reply::Number(code, n))),
        any::<(u8, u32)>()
            .prop_map(|(index, base)| (Code::GetVringBase, Reply::Base { index, base })),
        any::<(u64, u64, u16, u16)>().prop_map(|(size, offset, queues, queue_size)| {
            (Code::GetInflightFd, Reply::Inflight(Inflight { size, offset, queues, queue_size }))
        }),
    ]
}

proptest! {
    #[test]
    fn parsing_a_request_undoes_emitting_it((request, fds) in any_request(), need_reply in any::<bool>()) {
        let message = Message { request, need_reply };
        prop_assert_eq!(parse(message.emit().as_ref(), fds), Ok(message));
        prop_assert_eq!(Code::of(request.code() as u32), Some(request.code()));
    }

    #[test]
    fn a_request_with_more_descriptors_than_it_has_is_refused((request, fds) in any_request(), more in 1..9_usize) {
        let bytes = Message { request, need_reply: false }.emit();
        let fds = if matches!(request, Request::RemMemReg(_)) { 1 } else { fds };
        let refused = matches!(parse(bytes.as_ref(), fds + more), Err(MessageError::Descriptors { .. }));
        prop_assert!(refused);
    }

    #[test]
    fn parsing_a_reply_undoes_emitting_it((code, reply) in any_reply()) {
        let bytes = reply.emit();
        let (header, payload) = bytes.as_ref().split_first_chunk().unwrap();
        let fds = usize::from(code == Code::GetInflightFd);
        let header = Header::parse(header).unwrap();
        prop_assert_eq!(Reply::parse(code, &header, payload, fds), Ok(reply));
        prop_assert!(Reply::parse(code, &header, payload, fds + 1).is_err());
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(
        request in 0..45_u32,
        flags in prop_oneof![Just(1), Just(9), any::<u32>()],
        payload in proptest::collection::vec(any::<u8>(), 0..300),
        fds in 0..10_usize,
    ) {
        let header = RawHeader { request, flags, size: payload.len() as u32 };
        if let Ok(message) = parse(&[header.as_bytes(), &payload].concat(), fds) {
            prop_assert!(payload.len() <= MAX_PAYLOAD);
            prop_assert_eq!(parse(message.emit().as_ref(), fds), Ok(message));
        }
    }
}

#[test]
fn every_request_has_its_number_in_the_specification() {
    let numbers: Vec<_> = Code::ALL.iter().map(|code| *code as u32).collect();
    let served = (1..=21).chain([31, 32, 34]).chain(36..=40);
    assert_eq!(numbers, served.collect::<Vec<_>>());
    assert_eq!(size_of::<RawInflight>(), 24);
    assert_eq!(MAX_PAYLOAD, 264);
}

#[test]
fn a_request_that_is_not_served_is_named() {
    let ask = |request: u32, flags: u32, size: u32| {
        let header = RawHeader { request, flags, size };
        parse(header.as_bytes(), 0).unwrap_err().to_string()
    };
    assert!(ask(22, 1, 0).contains("request 22 (IOTLB_MSG)"), "{}", ask(22, 1, 0));
    assert!(ask(1000, 1, 0).contains("request 1000:"));
    assert!(ask(1, 2, 0).contains("version 1"));
    assert!(ask(1, 1 | REPLY, 0).contains("version 1"), "a reply is no request");
    assert!(ask(5, 1, 265).contains("exceeds 264"));
    assert!(ask(5, 1, u32::MAX).contains("exceeds 264"));
    assert!(ask(2, 1, 0).contains("SetFeatures: its payload has 0 bytes, not 8"));
}

#[test]
fn a_table_may_be_sent_whole_with_unused_regions() {
    let region = Region { guest: 1, size: 2, user: 3, offset: 4 };
    let short = Message {
        request: Request::SetMemTable(Table::new(&[region]).unwrap()),
        need_reply: false,
    };
    let mut whole = short.emit().as_ref().to_vec();
    whole.resize(HEADER_LEN + MAX_PAYLOAD, 0xee);
    whole[8..12].copy_from_slice(&(MAX_PAYLOAD as u32).to_ne_bytes());
    assert_eq!(parse(&whole, 1), Ok(short));
    whole[12] = 9;
    assert!(parse(&whole, 9).is_err(), "nine regions");
}

#[test]
fn a_reply_to_another_request_is_refused() {
    let bytes = Reply::Number(Code::GetFeatures, 1).emit();
    let (header, payload) = bytes.as_ref().split_first_chunk().unwrap();
    let header = Header::parse(header).unwrap();
    assert_eq!(
        Reply::parse(Code::GetQueueNum, &header, payload, 0),
        Err(MessageError::Astray(Code::GetQueueNum, 1))
    );
}
