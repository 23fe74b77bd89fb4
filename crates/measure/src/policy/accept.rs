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
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::ends::{BURST, Ends, PATIENCE, SILENCE};
use super::segments::Segment;
use crate::vhost::clock::Clock;
use crate::vhost::delays::Delays;
use crate::vhost::ends::Broken;
use crate::vhost::sink::Carried;

/// How many connections are open at a time.
const WINDOW: u64 = 256;

/// How long nothing may come before what is owed counts as lost, and others are opened instead.
const LOST: Duration = Duration::from_millis(5);

/// Segments that a machine is to send.
type Due = VecDeque<(u32, Segment)>;

/// Opens so many connections and closes them. What is told to have come `in_time` are those that
/// came to their end.
///
/// # Errors
///
/// [`Broken`]
pub fn accept(ends: &mut Ends, connections: u64, stop: &AtomicBool) -> Result<Carried, Broken> {
    let clock = ends.clock();
    let [lost, silence, patience] = [LOST, SILENCE, PATIENCE].map(|time| clock.ticks(time));
    let writers = ends.of_segments();
    let (first, [client, server]) = ends.parts();
    let (mut opened, mut done, mut given_up) = (0, 0, 0);
    let [mut asks, mut answers] = [Due::new(), Due::new()];
    let (mut sent, mut received) = (0, 0);
    let began = Clock::now();
    let (mut moved, mut last, mut was_busy, mut busy) = (began, began, false, 0);
    let mut ended = None;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(Broken::Interrupted);
        }
        let now = Clock::now();
        if was_busy && ended.is_none() {
            busy += now - last;
        }
        last = now;
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
                done += 1;
            }
            _ => {}
        });
        while opened < connections && opened < done + given_up + WINDOW && asks.len() < BURST {
            asks.push_back((first + opened as u32, Segment::Syn));
            opened += 1;
        }
        let asked = client.send(asks.len().min(BURST), |_, frame| {
            let (flow, segment) = asks.pop_front().expect("no more are sent than there are");
            writers[0].write(frame, flow, segment);
        });
        client.publish();
        sent += (put + asked) as u64;
        received += (taken + heard) as u64;
        was_busy = taken + put + heard + asked > 0;
        if was_busy {
            moved = now;
        }
        let silent = now - moved;
        if silent > lost && asks.is_empty() && answers.is_empty() {
            given_up = opened.saturating_sub(done);
        }
        if ended.is_none() && done + given_up >= connections {
            ended = Some((now - began, done));
        }
        let is_still = asks.is_empty() && answers.is_empty() && client.on_their_way() == 0;
        if let Some((elapsed, in_time)) = ended
            && (sent == received || silent > silence)
            && is_still
            && server.on_their_way() == 0
        {
            ends.used(first + opened as u32);
            return Ok(Carried {
                sent,
                to_stalled: 0,
                received,
                in_time,
                duplicates: 0,
                out_of_order: 0,
                strangers: 0,
                seconds: clock.seconds(elapsed),
                busy: busy as f64 / elapsed.max(1) as f64,
                delays: Delays::default(),
            });
        }
        if silent > patience {
            return Err(Broken::Stuck);
        }
    }
}
