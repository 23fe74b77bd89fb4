//! Which paths from one uplink to other hosts work, as BFD finds.

use std::net::IpAddr;
use std::num::NonZeroU8;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use kernel::clock::now;
use model::{BfdState, BfdStatus, CONTROL, Uplink};
use overlay::Monitor;
use seal::Keys;
use tunnel::bfd::Interval;
use units::Dscp;
use wire::bfd::{Diagnostic, State};

use crate::bfd::{Bfd, Health, Path, Settings};

/// BFD on the paths from one of this host's addresses.
#[derive(Debug)]
pub(super) struct BfdMonitor {
    local: IpAddr,
    /// `None` if no paths are watched.
    bfd: Option<Bfd>,
    /// Why not all paths are watched, although that is wanted.
    failure: Option<String>,
}

impl BfdMonitor {
    /// Starts BFD without paths, if it is declared, authenticated if there are keys. The seed is as
    /// of [`Bfd::start`].
    pub(super) fn new(uplink: &Uplink, keys: Option<Arc<Keys>>, local: IpAddr, seed: u64) -> Self {
        let mut monitor = Self { local, bfd: None, failure: None };
        let Some(model::Bfd { interval, multiplier }) = uplink.bfd else { return monitor };
        let settings = Settings {
            address: local,
            interval: Interval::new(interval).expect("the declaration was checked"),
            multiplier: NonZeroU8::new(multiplier).expect("the declaration was checked"),
            dscp: uplink.dscp.map_or(Dscp::CS6, |dscp| dscp[CONTROL.index()]),
            keys,
        };
        match Bfd::start(settings, seed) {
            Ok(bfd) => monitor.bfd = Some(bfd),
            Err(error) => monitor.failed(&error),
        }
        monitor
    }

    fn failed(&mut self, error: &(dyn std::error::Error + 'static)) {
        let local = self.local;
        tracing::warn!(%local, error, "paths to other hosts are not watched");
        self.failure = Some(format!("paths from {local} to other hosts are not watched: {error}"));
    }
}

impl Monitor for BfdMonitor {
    fn watch(&mut self, far: &[IpAddr]) {
        let Self { local, bfd: Some(bfd), failure } = self else { return };
        match bfd.set_paths(far.iter().map(|remote| Path { local: *local, remote: *remote })) {
            Ok(()) => *failure = None,
            Err(error) => self.failed(&error),
        }
    }

    fn set_keys(&mut self, keys: &Arc<Keys>) {
        self.bfd.iter().for_each(|bfd| bfd.set_keys(keys));
    }

    fn events(&self) -> Option<BorrowedFd<'_>> {
        self.bfd.as_ref().map(Bfd::bell)
    }

    fn each(&self, found: &mut dyn FnMut(IpAddr, Option<bool>)) {
        let Some(bfd) = &self.bfd else { return };
        bfd.silence();
        for (Path { remote, .. }, health) in bfd.paths() {
            found(remote, (!is_ended(health)).then(|| health.is_up()));
        }
    }

    fn status(&self, remote: IpAddr) -> Option<BfdStatus> {
        let Health { status, since } =
            self.bfd.as_ref()?.health(Path { local: self.local, remote })?;
        Some(BfdStatus {
            state: match status.state {
                State::Up => BfdState::Up,
                State::Init => BfdState::Init,
                State::Down => BfdState::Down,
                State::AdminDown => BfdState::AdminDown,
            },
            diagnostic: status.diagnostic.name().into(),
            remote_diagnostic: status.remote_diagnostic.name().into(),
            since: now().since(since),
        })
    }

    fn notes(&self) -> Vec<String> {
        self.failure.iter().cloned().collect()
    }
}

/// Whether the far end's operator holds the session down.
fn is_ended(Health { status, .. }: Health) -> bool {
    (status.diagnostic, status.remote_diagnostic)
        == (Diagnostic::NEIGHBOR_SIGNALED_DOWN, Diagnostic::ADMINISTRATIVELY_DOWN)
}
