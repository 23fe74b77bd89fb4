//! Plays a back-end to the first front-end that connects, and tells what it asks for:
//!
//!     cargo run --package vhost --example transcript -- SOCKET [QUEUE_PAIRS]

#![expect(clippy::print_stdout, reason = "it is a program")]

use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use vhost::message::Message;
use vhost::session::{Offer, Rings, Session, Shared};
use vhost::socket::{Access, Connection, Listener, Received};
use vhost::vring::{Base, Vring};

/// Rings that nobody processes: each stops where it started.
#[derive(Debug, Default)]
struct Idle(Vec<(usize, Base)>);

impl Rings for Idle {
    fn start(&mut self, vring: Vring, _: &Shared) {
        println!("    ring {} starts: {vring:?}", vring.index);
        self.0.push((vring.index, vring.base));
    }

    fn update(&mut self, vring: Vring, _: &Shared) {
        println!("    ring {} changes: {vring:?}", vring.index);
    }

    fn stop(&mut self, index: usize, _: &Shared) -> Base {
        let at = self
            .0
            .iter()
            .position(|(started, _)| *started == index)
            .expect("only what runs is stopped");
        println!("    ring {index} stops");
        self.0.remove(at).1
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: vhost_transcript SOCKET [QUEUE_PAIRS]")?;
    let pairs = arguments.next().map_or(Ok(1), |pairs| pairs.parse())?;
    let listener = Listener::bind(Path::new(&path), Access::Owner)?;
    let connection = loop {
        poll(&mut [PollFd::new(&listener, PollFlags::IN)], None)?;
        if let Some(connection) = listener.accept()? {
            break connection;
        }
    };
    converse(connection, Session::new(Offer::net(pairs), Idle::default()))
}

fn converse(
    mut connection: Connection,
    mut session: Session<Idle>,
) -> Result<(), Box<dyn std::error::Error>> {
    loop {
        let frame = match connection.receive()? {
            Received::Message(frame) => frame,
            Received::Closed => return Ok(()),
            Received::Nothing => {
                poll(&mut [PollFd::new(&connection, PollFlags::IN)], None)?;
                continue;
            }
        };
        let message = Message::parse(&frame.header, frame.payload, frame.fds.len())?;
        println!("{message:x?} with {} descriptors", frame.fds.len());
        let outcome = session.handle(message, frame.fds)?;
        println!("    {outcome:x?}");
        if let Some((reply, fd)) = outcome.reply {
            connection.send(reply.emit(), fd.into_iter().collect())?;
        }
    }
}
