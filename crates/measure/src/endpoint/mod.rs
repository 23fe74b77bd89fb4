//! The small programs that run inside the endpoints' namespaces: they send, receive, ask and
//! answer.
//!
//! A program is told its [`Role`] as one JSON argument. It talks with its parent over its own stdin
//! and stdout, one JSON value a line, so that nothing of the conversation crosses the network that
//! is measured:
//!
//! ```text
//!   parent ──"start"──▶ ──"finish"──▶           (end of file: the parent is gone, the program exits)
//!          ◀──"ready"──  ◀──{"report":{…}}──  or  {"failed":"why"}
//! ```

mod ask;
mod background;
mod connections;
mod control;
mod download;
mod error;
mod frame;
mod pace;
mod query;
mod raw;
mod repairs;
mod sockets;
mod states;
mod stream;
mod timed;
mod udp;

use std::process::ExitCode;

use serde::{Deserialize, Serialize};

pub use ask::{Answer, Answered, Ask, Asked};
pub use background::{Background, BackgroundReport};
pub use connections::{TcpAccept, TcpAccepted, TcpConnect, TcpConnected};
pub use control::{Event, Order};
pub use download::{TcpDownload, TcpDownloaded, TcpServe, TcpServed};
pub use error::EndpointError;
pub use frame::FRAME_HEADERS;
pub use query::{Aggregator, AggregatorReport, Worker, WorkerReport};
pub use raw::{RawSend, Target};
pub use repairs::Repairs;
pub use sockets::{Sockets, SocketsRead};
pub use states::{BIN, StatesSend, StatesSent, Towards, Visit};
pub use stream::{TcpReceive, TcpReceived, TcpSend, TcpSent, TcpWatch, TcpWatched};
pub(crate) use timed::monotonic_ns;
pub use timed::{
    SMALLEST_TIMED_FRAME, Skipped, TimedReceive, TimedReceived, TimedSend, TimedSent, Timetable,
};
pub use udp::{SMALLEST_FRAME, UdpReceive, UdpReceived, UdpSend, UdpSent};

use control::Control;

/// What a program does, with all it needs to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Role {
    /// Sends UDP frames in a blocking loop.
    UdpSend(UdpSend),
    /// Sends UDP frames whose every header is its own choice.
    RawSend(RawSend),
    /// Counts UDP frames, at a pace if asked.
    UdpReceive(UdpReceive),
    /// Opens many UDP sockets, and reads them or does not.
    Sockets(Sockets),
    /// Sends UDP frames when they are due.
    TimedSend(TimedSend),
    /// Tells how long each was on its way.
    TimedReceive(TimedReceive),
    /// Sends UDP frames at rates that change with time.
    StatesSend(StatesSend),
    /// Asks when it is time to, and waits for each answer.
    Ask(Ask),
    /// Answers.
    Answer(Answer),
    /// Answers queries.
    PaWorker(Worker),
    /// Asks queries and times them.
    PaAggregator(Aggregator),
    /// Sends one TCP stream as fast as it goes.
    TcpSend(TcpSend),
    /// Opens TCP connections and waits for their end.
    TcpConnect(TcpConnect),
    /// Accepts TCP connections and closes them.
    TcpAccept(TcpAccept),
    /// Takes TCP streams.
    TcpReceive(TcpReceive),
    /// Serves a file over TCP to one client.
    TcpServe(TcpServe),
    /// Downloads it.
    TcpDownload(TcpDownload),
    /// Takes one stream, and tells when how much of it came.
    TcpWatch(TcpWatch),
    /// Sends flows of random sizes to random peers, and takes theirs.
    Background(Background),
}

/// Plays `role`, given as JSON, until its work is done or its parent is gone.
pub fn run(role: &str) -> ExitCode {
    let control = Control::new();
    let played = match serde_json::from_str(role) {
        Ok(role) => play(role, &control),
        Err(error) => Err(EndpointError::Role(format!("cannot read the endpoint's role: {error}"))),
    };
    match played {
        Ok(report) => {
            control.say(&Event::Report(report));
            ExitCode::SUCCESS
        }
        Err(error) => {
            control.say(&Event::Failed(error.to_string()));
            ExitCode::FAILURE
        }
    }
}

fn play(role: Role, control: &Control) -> Result<serde_json::Value, EndpointError> {
    match role {
        Role::UdpSend(role) => report(udp::send(&role, control)?),
        Role::RawSend(role) => report(raw::send(&role, control)?),
        Role::Sockets(role) => report(sockets::hold(&role, control)?),
        Role::UdpReceive(role) => report(udp::receive(&role, control)?),
        Role::TimedSend(role) => report(timed::send(&role, control)?),
        Role::TimedReceive(role) => report(timed::receive(&role, control)?),
        Role::StatesSend(role) => report(states::send(&role, control)?),
        Role::Ask(role) => report(ask::ask(&role, control)?),
        Role::Answer(role) => report(ask::answer(&role, control)?),
        Role::PaWorker(role) => report(query::work(&role, control)?),
        Role::PaAggregator(role) => report(query::aggregate(&role, control)?),
        Role::TcpSend(role) => report(stream::send(&role, control)?),
        Role::TcpConnect(role) => report(connections::connect(&role, control)?),
        Role::TcpAccept(role) => report(connections::accept(&role, control)?),
        Role::TcpReceive(role) => report(stream::receive(&role, control)?),
        Role::TcpServe(role) => report(download::serve(&role, control)?),
        Role::TcpDownload(role) => report(download::download(&role, control)?),
        Role::TcpWatch(role) => report(stream::watch(&role, control)?),
        Role::Background(role) => report(background::run(&role, control)?),
    }
}

fn report(report: impl Serialize) -> Result<serde_json::Value, EndpointError> {
    serde_json::to_value(report)
        .map_err(|error| EndpointError::Role(format!("cannot write the report: {error}")))
}
