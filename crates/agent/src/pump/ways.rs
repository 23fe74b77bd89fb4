//! Whether the ways from one uplink to other hosts work, as BFD finds.

use std::net::IpAddr;
use std::num::NonZeroU8;
use std::os::fd::BorrowedFd;

use model::{BfdState, BfdStatus, CONTROL, Uplink};
use tunnel::bfd::Interval;
use units::{Dscp, Instant};
use wire::bfd::{Diagnostic, State};

use crate::bfd::{Bfd, Health, Path, Settings};

/// The ways from one of this host's addresses.
#[derive(Debug)]
pub(super) struct Ways {
    local: IpAddr,
    /// None if they are not watched.
    bfd: Option<Bfd>,
    /// Why they are not, or not all, although that is wanted.
    failure: Option<String>,
}

impl Ways {
    /// Watches no way yet, and none ever if that is not wanted or cannot be. The seed is as of [`Bfd::start`].
    pub(super) fn new(uplink: &Uplink, local: IpAddr, seed: u64) -> Self {
        let mut ways = Self { local, bfd: None, failure: None };
        let Some(model::Bfd { interval, multiplier }) = uplink.bfd else { return ways };
        let settings = Settings {
            address: local,
            interval: Interval::new(interval).expect("the declaration was checked"),
            multiplier: NonZeroU8::new(multiplier).expect("the declaration was checked"),
            dscp: uplink.dscp.map_or(Dscp::CS6, |dscp| dscp[CONTROL.index()]),
        };
        match Bfd::start(settings, seed) {
            Ok(bfd) => ways.bfd = Some(bfd),
            Err(error) => ways.failed(&error),
        }
        ways
    }

    /// Watches the ways to these hosts, and no others.
    pub(super) fn follow(&mut self, far: impl Iterator<Item = IpAddr>) {
        let Self { local, bfd: Some(bfd), failure } = self else { return };
        match bfd.set_paths(far.map(|remote| Path { local: *local, remote })) {
            Ok(()) => *failure = None,
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&mut self, error: &(dyn std::error::Error + 'static)) {
        let local = self.local;
        tracing::warn!(%local, error, "ways to other hosts are not watched");
        self.failure = Some(format!("ways from {local} to other hosts are not watched: {error}"));
    }

    /// What becomes readable when a way has changed, if ways are watched.
    pub(super) fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.bfd.as_ref().map(Bfd::bell)
    }

    /// Tells of each way whether it works now; `None` if the far end's operator holds BFD down, which says nothing of the way (RFC 5882
    /// §3.2).
    pub(super) fn look(&self, mut tell: impl FnMut(IpAddr, Option<bool>)) {
        let Some(bfd) = &self.bfd else { return };
        bfd.silence();
        for (Path { remote, .. }, health) in bfd.paths() {
            tell(remote, (!is_ended(health)).then(|| health.is_up()));
        }
    }

    /// What is found of the way to a host, if it is watched.
    pub(super) fn status(&self, now: Instant, remote: IpAddr) -> Option<BfdStatus> {
        let Health { status, since } = self.bfd.as_ref()?.health(Path { local: self.local, remote })?;
        Some(BfdStatus {
            state: match status.state {
                State::Up => BfdState::Up,
                State::Init => BfdState::Init,
                State::Down => BfdState::Down,
                State::AdminDown => BfdState::AdminDown,
            },
            diagnostic: status.diagnostic.name().into(),
            remote_diagnostic: status.remote_diagnostic.name().into(),
            since: now.since(since),
        })
    }

    /// What the operator ought to know, in sentences.
    pub(super) fn notes(&self) -> Vec<String> {
        self.failure.iter().cloned().collect()
    }
}

/// Whether the far end has said that its operator holds the session down.
fn is_ended(Health { status, .. }: Health) -> bool {
    (status.diagnostic, status.remote_diagnostic)
        == (Diagnostic::NEIGHBOR_SIGNALED_DOWN, Diagnostic::ADMINISTRATIVELY_DOWN)
}
