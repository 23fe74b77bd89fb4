//! Streams and downloads: what is sent, and what is told of it.

use std::time::Duration;

use lab::Lab;
use units::Bytes;

use super::super::cases::Case;
use super::super::processors::{Bound, Busy, Processors};
use super::super::report::CONGESTION;
use super::super::rounds::{most, share};
use super::report::{Carried, Config, Transfer};
use crate::endpoint::{Order, Role, TcpDownload, TcpDownloaded, TcpServe, TcpServed};
use crate::fleet::Program;
use crate::flood::{RECEIVER, sender};
use crate::losses::{Losses, settled};
use crate::site::address;
use crate::stats::Boxplot;
use crate::streams::Streams;
use crate::{Bench, MeasureError};

/// The server's port.
const PORT: u16 = 5005;

/// How long a download may take: who waits longer has forgotten it. Its programs notice much sooner
/// if it stands still.
const PATIENCE: Duration = Duration::from_hours(24);

/// What was found of streams, or of downloads of one size.
#[derive(Debug, Default)]
pub struct Samples {
    /// Payload in 10⁹ bits a second: of each part of the time, or of each download.
    pub gbps: Vec<f64>,
    bounds: Vec<Bound>,
    busy: Vec<Busy>,
    retransmits: u64,
    losses: Losses,
}

impl Samples {
    /// Has streams send for the whole time.
    pub fn stream(
        &mut self,
        bench: &Bench<'_>,
        lab: &Lab,
        config: &Config,
    ) -> Result<(), MeasureError> {
        let part = config.part();
        let senders = vec![sender(1); config.streams as usize];
        let streams = Streams {
            senders: &senders,
            receivers: &[RECEIVER],
            congestion: CONGESTION,
            duration: config.duration,
            part: Some(part),
        };
        let before = settled(lab)?;
        let watch = || Processors::watch(bench, lab, config.duration);
        let (streamed, processors) = streams.run_while(bench, lab, watch)?;
        self.losses += Losses::between(&before, &settled(lab)?);
        self.retransmits += streamed.repairs.retransmits;
        let all_ns = config.duration.as_nanos();
        let senders = streamed.senders_busy_ns.iter().map(|busy_ns| share(*busy_ns, all_ns));
        let received = streamed.received;
        self.look(
            processors,
            senders.sum::<f64>() / f64::from(config.streams.max(1)),
            share(received.busy_ns, received.elapsed_ns),
        );
        if received.bytes > 0 {
            let whole = (all_ns / part.as_nanos()) as usize;
            self.gbps.extend(rates(&received.parts, whole, part.as_nanos()));
        }
        Ok(())
    }

    /// Downloads a file so often, one after the other.
    pub fn download(
        &mut self,
        bench: &Bench<'_>,
        lab: &Lab,
        size: Bytes,
        count: u32,
    ) -> Result<(), MeasureError> {
        let before = settled(lab)?;
        for _ in 0..count {
            self.download_once(bench, lab, size.0)?;
        }
        self.losses += Losses::between(&before, &settled(lab)?);
        Ok(())
    }

    fn download_once(
        &mut self,
        bench: &Bench<'_>,
        lab: &Lab,
        bytes: u64,
    ) -> Result<(), MeasureError> {
        let congestion = || CONGESTION.to_owned();
        let from = &sender(1);
        let role = Role::TcpServe(TcpServe { port: PORT, bytes, congestion: congestion() });
        let mut server = Program::start(bench, lab, from, &role)?;
        server.ready(bench)?;
        let from = address(lab, from, PORT)?;
        let role = Role::TcpDownload(TcpDownload { from, bytes, congestion: congestion() });
        let mut client = Program::start(bench, lab, RECEIVER, &role)?;
        client.ready(bench)?;
        let ((got, served), processors) = Processors::during(lab, || {
            client.tell(Order::Start)?;
            let got: TcpDownloaded = client.report(bench, PATIENCE)?;
            let served: TcpServed = server.report(bench, PATIENCE)?;
            Ok((got, served))
        })?;
        self.retransmits += served.repairs.retransmits;
        let all_ns = got.elapsed_ns;
        self.look(processors, share(served.busy_ns, all_ns), share(got.busy_ns, all_ns));
        self.gbps.push(bytes as f64 * 8.0 / all_ns.max(1) as f64);
        Ok(())
    }

    /// Notes who ran for how much of the time.
    fn look(&mut self, processors: Processors, sender: f64, receiver: f64) {
        let busy =
            Busy { switch: processors.busiest, sender, receiver, machine: processors.machine };
        self.bounds.push(Bound::of(&busy, processors.wanted, None));
        self.busy.push(busy);
    }

    /// What they say together; none if nothing came.
    pub fn told(
        &self,
        case: &Case,
        offload: bool,
        load: Transfer,
        bytes: Option<u64>,
    ) -> Option<Carried> {
        let Case { switch, way, tunnel, .. } = *case;
        let bound_by = most(self.bounds.iter().copied())?;
        Some(Carried {
            switch,
            way,
            tunnel,
            offload,
            load,
            bytes,
            gbps: Boxplot::of(self.gbps.iter().copied())?,
            bound_by,
            at_least: bound_by != Bound::Switch,
            busy: Busy::middle(self.busy.iter().copied()),
            retransmits: self.retransmits,
            lost: self.losses.lost,
            balanced: self.losses.balanced,
        })
    }
}

/// What came in each whole part, in 10⁹ bits a second; nothing where nothing was counted.
fn rates(parts: &[u64], whole: usize, part_ns: u64) -> impl Iterator<Item = f64> {
    let all = parts.iter().copied().chain(std::iter::repeat(0)).take(whole);
    all.map(move |bytes| bytes as f64 * 8.0 / part_ns as f64)
}

#[cfg(test)]
mod tests {
    use lab::SwitchKind;

    use super::super::super::{Tunnel, Way};
    use super::*;

    #[test]
    fn parts_are_rates_and_a_pause_is_one_of_nothing() {
        // A part is a millisecond; what comes behind the last whole one does not count.
        let rates = |parts: &[u64], whole| rates(parts, whole, 1_000_000).collect::<Vec<_>>();
        assert_eq!(rates(&[125_000, 0, 250_000, 99], 3), [1.0, 0.0, 2.0]);
        assert_eq!(rates(&[125_000], 3), [1.0, 0.0, 0.0]);
    }

    #[test]
    fn downloads_are_told_together() {
        let (switch, way, tunnel) = (SwitchKind::Ovs, Way::Link, Tunnel::Gre);
        let case = Case { switch, way, tunnel, far: 1, underlay: None, cores: 2 };
        let mut samples = Samples::default();
        let told = |samples: &Samples| samples.told(&case, false, Transfer::Download, Some(10));
        assert_eq!(told(&samples), None);
        for (gbps, busiest) in [(1.0, 0.95), (2.0, 0.96), (3.0, 0.5)] {
            let busiest = Some(busiest);
            samples.look(Processors { busiest, machine: 0.6, ..Processors::default() }, 0.2, 0.3);
            samples.gbps.push(gbps);
        }
        let carried = told(&samples).unwrap();
        assert_eq!((carried.gbps.quartiles.median, carried.gbps.count), (2.0, 3));
        assert_eq!((carried.bound_by, carried.at_least), (Bound::Switch, false));
        assert_eq!((carried.busy.switch, carried.busy.sender), (Some(0.95), 0.2));
        assert!(!carried.is_lossless());
    }
}
