//! Waiting for an answer that nobody may want any more.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::timeout;

/// How long is waited before it is looked whether somebody still wants the answer.
const A_LOOK: Duration = Duration::from_millis(20);

/// Waits for work until `stop` is set. `None`: it was set before the work was done.
pub async fn unless<T>(stop: &AtomicBool, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    loop {
        if let Ok(done) = timeout(A_LOOK, work.as_mut()).await {
            return Some(done);
        }
        if stop.load(Ordering::Relaxed) {
            return None;
        }
    }
}
