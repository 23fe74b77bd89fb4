//! Background flows: sizes from a distribution, to random peers, with random gaps (zOVN §5.3,
//! figure 8).

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use traffic::{Cdf, Distribution};
use units::{Rng, Span};

use super::control::Control;
use super::error::{Doing, EndpointError};
use super::query::{ZEROES, connect_now, listen};

/// How long a blocked call may hide the parent.
const GLANCE: Duration = Duration::from_millis(50);

/// Sends flows to peers, one after the other, and takes theirs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Background {
    /// The port to take flows on.
    pub port: u16,
    /// The other endpoints that run this role.
    pub peers: Vec<SocketAddr>,
    /// The cumulative distribution of flow sizes: bytes and probability.
    pub sizes: Vec<(f64, f64)>,
    /// The mean of the gap between the end of a flow and the next; gaps are exponential.
    pub gap: Span,
    /// TCP's congestion control.
    pub congestion: String,
    /// Decides sizes, peers and gaps.
    pub seed: u64,
}

/// What a generator did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BackgroundReport {
    /// Flows that were taken to their last byte.
    pub flows: u64,
}

/// Sends and takes until the parent wants the report.
pub fn run(role: &Background, control: &Control) -> Result<BackgroundReport, EndpointError> {
    let cdf = Cdf::new(&role.sizes).map_err(|error| EndpointError::Role(error.to_string()))?;
    let sizes = Distribution::Cdf(cdf);
    let gaps = Distribution::Exponential { mean: role.gap.as_nanos() as f64 };
    let listener = listen(role.port, &role.congestion)?;
    // The sink ends with the process.
    std::thread::spawn(move || sink(&listener));
    let mut rng = Rng::new(role.seed);
    let mut report = BackgroundReport::default();
    control.ready();

    while !control.finishes_within(Duration::from_nanos(gaps.sample_whole(&mut rng))) {
        let Some(peer) = (!role.peers.is_empty())
            .then(|| role.peers[rng.below(role.peers.len() as u64) as usize])
        else {
            continue;
        };
        let bytes = sizes.sample_whole(&mut rng);
        match flow(peer, &role.congestion, bytes, || control.finishing()) {
            Ok(true) => report.flows += 1,
            Ok(false) => break,
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error).doing("send a background flow"),
        }
    }
    Ok(report)
}

/// Whether the peer has ended. It was told to before us: our turn comes.
fn is_gone(error: &io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionRefused | ConnectionReset)
}

/// Sends one flow and waits until the peer has it all. False if the parent wants the report before.
fn flow(
    to: SocketAddr,
    congestion: &str,
    bytes: u64,
    finishing: impl Fn() -> bool,
) -> io::Result<bool> {
    let mut stream = connect_now(to, congestion)?;
    stream.set_write_timeout(Some(GLANCE))?;
    stream.set_read_timeout(Some(GLANCE))?;
    let mut left = bytes;
    while left > 0 {
        let piece = usize::try_from(left).unwrap_or(usize::MAX).min(ZEROES.len());
        match stream.write(&ZEROES[..piece]) {
            Ok(count) => left -= count as u64,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        if finishing() {
            return Ok(false);
        }
    }
    stream.shutdown(Shutdown::Write)?;
    // The sink closes once it has read everything: the end of file is the acknowledgement.
    loop {
        match stream.read(&mut [0; 1]) {
            Ok(_) => break,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        if finishing() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads every flow to its end, each in a thread of its own.
fn sink(listener: &TcpListener) {
    for stream in listener.incoming().flatten() {
        std::thread::spawn(move || io::copy(&mut &stream, &mut io::sink()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_has_ended_is_no_failure() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        // It takes a part of the flow and ends.
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 1000]).unwrap();
        });
        let send = || flow(to, "reno", 100 << 20, || false);
        assert!(is_gone(&send().unwrap_err()));
        peer.join().unwrap();
        assert!(is_gone(&send().unwrap_err()));
    }
}
