//! A program's side of the conversation with its parent.

use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// What the parent says.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Begin.
    Start,
    /// Come to an end and report.
    Finish,
}

/// What a program says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    /// Sockets are open; waiting for the start.
    Ready,
    /// The work is done; this is the role's report.
    Report(serde_json::Value),
    /// The work could not be done.
    Failed(String),
}

/// The parent, as its program sees it.
pub struct Control {
    orders: Receiver<Order>,
    origin: Instant,
}

impl Control {
    /// Starts to listen. When the parent is gone, the program exits wherever it is.
    pub fn new() -> Self {
        let (send, orders) = channel();
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines() {
                let Ok(order) =
                    line.map_err(drop).and_then(|line| serde_json::from_str(&line).map_err(drop))
                else {
                    break;
                };
                if send.send(order).is_err() {
                    return;
                }
            }
            std::process::exit(1);
        });
        Self { orders, origin: Instant::now() }
    }

    /// Tells the parent. A parent that does not listen any more is gone, and the listener ends the
    /// program.
    pub fn say(&self, event: &Event) {
        if let Ok(line) = serde_json::to_string(event) {
            let mut stdout = std::io::stdout().lock();
            let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
        }
    }

    /// Says that all is ready and waits for the start.
    pub fn ready(&self) {
        self.say(&Event::Ready);
        while self.orders.recv() == Ok(Order::Finish) {}
    }

    /// Whether the parent wants the report by now. Once true it need not be asked again.
    pub fn finishing(&self) -> bool {
        match self.orders.try_recv() {
            Ok(order) => order == Order::Finish,
            Err(TryRecvError::Empty) => false,
            Err(TryRecvError::Disconnected) => true,
        }
    }

    /// Waits for `pause`, or less if the parent wants the report: then true.
    pub fn finishes_within(&self, pause: Duration) -> bool {
        match self.orders.recv_timeout(pause) {
            Ok(order) => order == Order::Finish,
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        }
    }

    /// Now, since the program began.
    pub fn now(&self) -> units::Instant {
        let ns = u64::try_from(self.origin.elapsed().as_nanos())
            .expect("a program does not run for 584 years");
        units::Instant::from_nanos(ns)
    }
}
