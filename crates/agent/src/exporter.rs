//! Metrics over TCP: `/metrics`, and nothing else of the API.
//!
//! Whoever reaches the address may ask, as often as he likes. The switch's thread is asked for a
//! page of each format every [`FRESH`] at most; what is asked in between is answered from the last.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::get;
use connections::Bounds;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use crate::metrics::Format;
use crate::routes::{Refusal, metrics_page, metrics_response, not_so};
use crate::worker::{Handle, Stopped};

/// Bounds of the connections by which metrics are read.
const BOUNDS: Bounds = Bounds {
    connections: 16,
    reserved: 2,
    head: Duration::from_secs(5),
    life: Some(Duration::from_secs(30)),
};

/// How long a page answers who asks again.
const FRESH: Duration = Duration::from_millis(250);

/// How long to wait when the address cannot be had.
const RETRY: Duration = Duration::from_secs(1);

/// Serves metrics at `address`, if they are to be served, as soon as that can be had: it may be
/// another program's, or come later than the agent.
pub async fn serve(address: Option<SocketAddr>, switch: Handle) -> Infallible {
    let Some(address) = address else { return pending().await };
    let listener = bound(address).await;
    let accept = async || Ok(connections::accept(&listener).await?.0);
    connections::serve(accept, router(switch), BOUNDS).await
}

async fn bound(address: SocketAddr) -> TcpListener {
    let mut is_told = false;
    loop {
        match listen(address) {
            Ok(listener) => {
                let address = listener.local_addr().unwrap_or(address);
                tracing::info!(%address, "serving metrics over TCP");
                return listener;
            }
            Err(error) if !is_told => {
                let hint = hint_for(&error);
                tracing::error!(%address, %error, "cannot serve `metrics` yet{hint}");
                is_told = true;
            }
            Err(_) => {}
        }
        sleep(RETRY).await;
    }
}

/// Listens on a TCP port, also while connections of an agent that has just ended linger there
/// (`bind` of the standard library sets SO_REUSEADDR).
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// What to do about it, after a separator.
fn hint_for(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => ": another program listens there; choose another port",
        io::ErrorKind::AddrNotAvailable => ": this host does not have the address",
        io::ErrorKind::PermissionDenied => ": choose a port above 1023",
        _ => "",
    }
}

fn router(switch: Handle) -> Router {
    Router::new()
        .route(api::METRICS, get(scrape))
        .fallback(async || {
            Refusal(StatusCode::NOT_FOUND, format!("only {} is served here", api::METRICS))
        })
        .method_not_allowed_fallback(not_so)
        .with_state(Arc::new(Pages { switch, last: Mutex::default() }))
}

async fn scrape(State(pages): State<Arc<Pages>>, headers: HeaderMap) -> Result<Response, Refusal> {
    let format = Format::asked_by(&headers);
    Ok(metrics_response(pages.page(format).await?, format))
}

/// The last page of each format.
struct Pages {
    switch: Handle,
    last: Mutex<[Option<(Instant, Bytes)>; Format::COUNT]>,
}

impl Pages {
    async fn page(&self, format: Format) -> Result<Bytes, Stopped> {
        // Who asks while a page is composed waits for it, and takes it.
        let mut last = self.last.lock().await;
        let last = &mut last[format as usize];
        if let Some((composed, page)) = last
            && composed.elapsed() < FRESH
        {
            return Ok(page.clone());
        }
        let page = Bytes::from(metrics_page(&self.switch, format).await?);
        *last = Some((Instant::now(), page.clone()));
        Ok(page)
    }
}
