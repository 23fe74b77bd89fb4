//! What is forgotten, and when.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::catalog::Catalog;

/// How often that is looked at.
const PERIOD: Duration = Duration::from_secs(60);

/// Forgets history and outcomes that are too old, again and again.
pub async fn forget(catalog: Arc<Catalog>) -> Infallible {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let catalog = Arc::clone(&catalog);
        let forgotten =
            tokio::task::spawn_blocking(move || catalog.forget(std::time::SystemTime::now()));
        match forgotten.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "old history cannot be forgotten"),
            Err(error) => tracing::error!(%error, "forgetting old history failed"),
        }
    }
}
