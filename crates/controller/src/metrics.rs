//! What Prometheus reads of a controller, over TCP: `/metrics`, and nothing else of the API.

use std::fmt::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use axum::routing::get;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use southbound::Publisher;

use crate::catalog::Catalog;

/// How much there is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Objects.
    pub objects: usize,
    /// Domains, and rows of all of them.
    pub domains: usize,
    pub rows: usize,
    /// Tuples that the rules hold.
    pub tuples: usize,
    /// Parts of recursive tables that were computed anew, since the start.
    pub recomputed: u64,
}

/// What is counted.
#[derive(Debug, Default)]
pub struct Metrics {
    objects: AtomicU64,
    domains: AtomicU64,
    rows: AtomicU64,
    tuples: AtomicU64,
    tuple_bytes_at_start: AtomicU64,
    recomputed: AtomicU64,
    computed: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Metrics {
    /// All was computed at once, to tuples that have so many bytes.
    pub fn began(&self, tuple_bytes: usize) {
        self.tuple_bytes_at_start.store(tuple_bytes as u64, Ordering::Relaxed);
    }

    /// A revision, or several together, was computed in so long. There is so much now.
    pub fn computed(&self, size: Size, took: Duration) {
        for (place, many) in [
            (&self.objects, size.objects),
            (&self.domains, size.domains),
            (&self.rows, size.rows),
            (&self.tuples, size.tuples),
        ] {
            place.store(many as u64, Ordering::Relaxed);
        }
        self.recomputed.store(size.recomputed, Ordering::Relaxed);
        self.computed.fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }
}

/// What a page is made of.
#[derive(Clone, Debug)]
pub struct Measured {
    pub catalog: Arc<Catalog>,
    pub publisher: Arc<Publisher>,
    pub metrics: Arc<Metrics>,
}

impl Measured {
    fn page(&self) -> Result<String, Error> {
        let mut registry = Registry::with_prefix("zovn_controller");
        let metrics = &*self.metrics;
        let of = |it: &AtomicU64| it.load(Ordering::Relaxed);
        let (agents, wakes) = self.publisher.woken();
        let (stored, told) = (self.catalog.store().revision().0, self.publisher.revision().0);
        let gauges = [
            ("revision", "The newest revision of the store", stored),
            ("told_revision", "The revision that agents are told of", told),
            ("objects", "Objects that are declared", of(&metrics.objects)),
            ("domains", "Domains: what is connected by switches and routers", of(&metrics.domains)),
            ("rows", "Rows of all domains", of(&metrics.rows)),
            ("tuples", "Tuples that the rules hold", of(&metrics.tuples)),
            (
                "tuple_bytes_at_start",
                "Bytes that the tuples and their values took when all was computed at the start",
                of(&metrics.tuple_bytes_at_start),
            ),
            ("agents", "Agents that are connected", agents as u64),
            (
                "lagging_agents",
                "Agents that do not execute the newest of a domain",
                self.publisher.behind() as u64,
            ),
            (
                "refusing_agents",
                "Agents that have refused the last that they were told of a domain",
                self.publisher.refusing() as u64,
            ),
            (
                "held_claims",
                "Ports that come and go so often that their agents keep their domains for now",
                self.publisher.held_claims() as u64,
            ),
        ];
        for (name, help, value) in gauges {
            registry.register(name, help, ConstGauge::new(value as i64));
        }
        let counters = [
            ("computations", "How often rows were computed", of(&metrics.computed)),
            (
                "recomputed_parts",
                "Parts of recursive tables that were computed anew, as too much of them had to go",
                of(&metrics.recomputed),
            ),
            (
                "differing_domains",
                "Domains at agents that were not what these had answered for",
                self.publisher.differing(),
            ),
            ("wakes", "How often an agent was told that there is something new", wakes),
        ];
        for (name, help, value) in counters {
            registry.register(name, help, ConstCounter::new(value));
        }
        let refused = Family::<Vec<(&str, &str)>, Counter>::default();
        for (reason, many) in self.publisher.refusals() {
            refused.get_or_create(&vec![("reason", reason)]).inc_by(many);
        }
        registry.register("refused_updates", "Updates that agents have not taken", refused);
        let seconds = ConstCounter::new(of(&metrics.nanoseconds) as f64 / 1e9);
        let help = "The time that rows were computed in";
        registry.register_with_unit("computing", help, Unit::Seconds, seconds);
        let mut page = String::new();
        text::encode(&mut page, &registry)?;
        Ok(page)
    }
}

/// Answers who asks for metrics.
pub fn router(measured: Measured) -> Router {
    Router::new()
        .route(api::METRICS, get(scrape))
        .fallback(async || {
            (StatusCode::NOT_FOUND, format!("only {} is served here\n", api::METRICS))
        })
        .with_state(measured)
}

async fn scrape(
    State(measured): State<Measured>,
) -> Result<([(HeaderName, &'static str); 1], String), StatusCode> {
    let page = measured.page().map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], page))
}
