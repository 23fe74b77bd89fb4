//! Connections of TCP that are opened and closed again, one after the other on ports of their own.
//!
//! ```text
//!   client ── SYN ─▶ switch ─▶ server        six segments a connection, and no payload
//!          ◀─ SYN, ACK ──────
//!          ── ACK; FIN ─────▶
//!          ◀─ FIN, ACK ──────
//!          ── ACK ──────────▶
//! ```

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::ends::{BURST, Ends};
use super::segments::Segment;
use crate::vhost::delays::Delays;
use crate::vhost::sink::Carried;
use crate::vhost::watch::{Broken, Run};

/// How long nothing may come before what is owed counts as lost, and others are opened instead.
const LOST: Duration = Duration::from_millis(5);

/// Segments that a machine is to send.
type Due = VecDeque<(u32, Segment)>;

/// Opens so many connections and closes them, `window` at a time. What is told to have come
/// `in_time` are those that came to their end, and delays are how long each took to it.
///
/// # Errors
///
/// [`Broken`]
pub fn accept(
    ends: &mut Ends,
    connections: u64,
    window: u64,
    stop: &AtomicBool,
) -> Result<Carried, Broken> {
    let clock = ends.clock();
    let lost = clock.ticks(LOST);
    let writers = ends.of_segments();
    let (first, [client, server]) = ends.parts();
    let (mut done, mut given_up, mut in_time) = (0, 0, 0);
    let [mut asks, mut answers] = [Due::new(), Due::new()];
    let (mut sent, mut received) = (0, 0);
    // When each was opened.
    let mut opened: Vec<u64> = Vec::with_capacity(connections as usize);
    let mut delays = Delays::default();
    let mut run = Run::begin(clock, stop);
    loop {
        let now = run.turn()?;
        let taken = server.receive(BURST, |frame, _| match Segment::read(frame, 0) {
            Some((flow, Segment::Syn)) => answers.push_back((flow, Segment::SynAck)),
            Some((flow, Segment::Fin)) => answers.push_back((flow, Segment::FinAck)),
            _ => {}
        });
        let put = server.send(answers.len().min(BURST), |_, frame| {
            let (flow, segment) = answers.pop_front().expect("no more are sent than there are");
            writers[1].write(frame, flow, segment);
        });
        server.publish();
        let heard = client.receive(BURST, |frame, _| match Segment::read(frame, 1) {
            Some((flow, Segment::SynAck)) => {
                asks.extend([(flow, Segment::Established), (flow, Segment::Fin)]);
            }
            Some((flow, Segment::FinAck)) => {
                asks.push_back((flow, Segment::Closed));
                let its = flow.checked_sub(first).and_then(|it| opened.get(it as usize));
                delays.book(its.map_or(0, |its| now - its));
                done += 1;
            }
            _ => {}
        });
        let most = connections.min(done + given_up + window);
        while (opened.len() as u64) < most && asks.len() < BURST {
            asks.push_back((first + opened.len() as u32, Segment::Syn));
            opened.push(now);
        }
        let asked = client.send(asks.len().min(BURST), |_, frame| {
            let (flow, segment) = asks.pop_front().expect("no more are sent than there are");
            writers[0].write(frame, flow, segment);
        });
        client.publish();
        sent += (put + asked) as u64;
        received += (taken + heard) as u64;
        run.moved(taken + put + heard + asked);
        if run.silent() > lost && asks.is_empty() && answers.is_empty() {
            given_up = (opened.len() as u64).saturating_sub(done);
        }
        if !run.is_over() {
            if done + given_up >= connections {
                in_time = done;
                run.end();
            }
            continue;
        }
        let is_still = asks.is_empty() && answers.is_empty();
        if (sent == received || run.is_silent())
            && is_still
            && client.on_their_way() + server.on_their_way() == 0
        {
            ends.used(first + opened.len() as u32);
            return Ok(Carried {
                sent,
                to_stalled: 0,
                received,
                in_time,
                duplicates: 0,
                out_of_order: 0,
                strangers: 0,
                seconds: run.seconds(),
                busy: run.busy(),
                delays,
            });
        }
    }
}
