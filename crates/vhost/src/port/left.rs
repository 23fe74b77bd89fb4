//! What a port leaves to the next one, and how that one goes on with it.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::super::features::Features;
use super::super::handover::{Handover, Kept};
use super::super::socket::Connection;
use super::{CONNECTION, Mode, VhostConfig, VhostPort, watch};

impl VhostConfig {
    /// Whether it is for a port of this declaration what the one before has left there. It stays
    /// there.
    pub fn is_left(&self, kept: impl AsFd) -> bool {
        Handover::is_of(kept, &self.owner())
    }

    /// Takes over what the port before has [left](VhostPort::attach) there, if it was of this
    /// declaration.
    pub fn inherit(&self, kept: OwnedFd) -> Option<Handover> {
        Handover::inherit(kept, &self.owner())
    }

    /// Whose [`Handover`] it is: another version's, or one of another declaration, is not for us.
    /// Nor is one of another listening socket, or of other records, which do not say where its
    /// rings stand.
    pub(super) fn owner(&self) -> String {
        let Self { socket, mode, queue_pairs, mtu, records, .. } = self;
        let file =
            |path: &Path| std::fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()));
        let door = file(socket).filter(|_| matches!(mode, Mode::Listen(_)));
        let records = file(records);
        format!(
            "zovn 1: {socket:?}, {mode:?} {door:?}, {queue_pairs} pairs, MTU {mtu}, records {records:?}"
        )
    }
}

impl VhostPort {
    /// Goes on with the connection of the port before.
    pub(super) fn resume(&mut self, connection: Connection, requests: Vec<Kept>) {
        let watched = watch(&self.epoll, &connection, CONNECTION);
        let resumed =
            self.backend.resume(connection, requests).map_err(|refusal| refusal.to_string());
        let resumed = resumed.and_then(|()| {
            let watched = watched.and_then(|()| self.watch_front_end());
            watched.map_err(|error| format!("its events cannot be waited for: {error}"))
        });
        let resumed = resumed.and_then(|()| self.knows_where_it_stands());
        match resumed {
            // Where we listen, others are turned away.
            Ok(()) => self.knock(),
            Err(why) => {
                self.disconnect(format!("the connection that was left to us is of no use: {why}"))
            }
        }
    }

    /// Whether its rings, or their records, tell where they stand: a packed ring itself does not.
    fn knows_where_it_stands(&self) -> Result<(), String> {
        match self.unrecorded() {
            Some(why)
                if self.backend.session().rings().features().contains(Features::RING_PACKED) =>
            {
                Err(why.into())
            }
            _ => Ok(()),
        }
    }

    /// Leaves all that the next switch needs to whoever keeps it.
    pub(super) fn deposit(&mut self) {
        let knows_where_it_stands = self.knows_where_it_stands().is_ok();
        let Self { handover: Some(handover), owner, backend, listener, .. } = self else { return };
        let session = backend.session();
        let mut fds: Vec<_> = listener.iter().map(AsFd::as_fd).collect();
        let mut requests = Vec::new();
        if let Some(connection) = backend.connection()
            && backend.is_resumable()
            && knows_where_it_stands
        {
            fds.push(connection);
            requests = session.retell();
        }
        self.unkept = handover.deposit(owner, &fds, &requests).err().map(|error| error.to_string());
    }
}
