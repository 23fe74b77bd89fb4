//! What handlers of requests have in common.

use std::array;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use axum::http::StatusCode;
use logical::objects::Identity;
use tokio::sync::Mutex;

use crate::audit::Audit;
use crate::catalog::Catalog;
use crate::door::Door;
use crate::explain::Topologies;
use crate::problem::Refusal;
use crate::progress::Progress;
use crate::shares::Shares;

/// What handlers have.
#[derive(Clone)]
pub struct App {
    pub catalog: Arc<Catalog>,
    pub progress: Arc<Progress>,
    pub door: Arc<Door>,
    pub audit: Arc<Audit>,
    pub writers: Arc<Shares>,
    pub watchers: Arc<Shares>,
    pub status_watchers: Arc<Shares>,
    pub waiters: Arc<Shares>,
    pub tracers: Arc<Shares>,
    pub topologies: Arc<Topologies>,
    pub patching: Arc<Turns>,
}

/// How many locks there are for all objects.
const LOCKS: usize = 64;

/// Whose turn it is to patch an object: others find it as the last has left it.
///
/// Few objects share a lock, and nobody can choose which: the hash is another in each process.
#[derive(Debug)]
pub struct Turns {
    locks: [Mutex<()>; LOCKS],
    hash: RandomState,
}

impl Default for Turns {
    fn default() -> Self {
        Self { locks: array::from_fn(|_| Mutex::default()), hash: RandomState::new() }
    }
}

impl Turns {
    /// The lock of an object.
    pub fn of(&self, identity: &Identity) -> &Mutex<()> {
        &self.locks[self.hash.hash_one(identity) as usize % LOCKS]
    }
}

/// Does what waits for a disk, or computes, on a thread where that is allowed.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let failed = |error| {
        tracing::error!(%error, "a request failed: this is a defect");
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the request failed: look at the log")
    };
    tokio::task::spawn_blocking(work).await.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_patches_an_object_holds_up_few_others() {
        let turns = Turns::default();
        let port = |it: usize| -> Identity { format!("LogicalPort/t/p{it}").parse().unwrap() };
        let _turn = turns.of(&port(0)).try_lock().unwrap();
        assert!(turns.of(&port(0)).try_lock().is_err());
        let free = (1..=100).filter(|it| turns.of(&port(*it)).try_lock().is_ok()).count();
        assert!(free > 80, "{free} of 100");
    }
}
