//! HTTP: bodies in, answers out.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Serialize;
use tls::TlsError;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use super::counts::{Counts, Seen, page};
use super::desk::{Desk, Unanswered};
use super::entrance::{Encryption, Entrance};
use super::exchange::{Question, respond};
use super::observed::Observed;
use super::ports::machines;
use super::scheduler::Scheduler;
use crate::fault::PlanError;
use crate::plan::Plan;

/// The longest body: 10,000 names are 200 kB, and 400 nodes with all that is said of them 4 MB.
const BODY_LIMIT_BYTES: usize = 4 << 20;

/// The longest time from a request's head to the end of its body: who stalls keeps a connection.
const BODY_PATIENCE: Duration = Duration::from_secs(5);

/// Where a plan is served.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address.
    pub listen: SocketAddr,
    /// How connections are encrypted. `None`: they are not.
    pub encryption: Option<Encryption>,
    /// Whether others than this host may ask, unencrypted.
    pub plain: bool,
}

/// Why a plan is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// What is said would not be encrypted on the way.
    #[error(
        "{0} can be reached by others, and nothing is encrypted: say `--tls-certificate` and `--tls-key`, listen on 127.0.0.1 or ::1, or say `--plain` in a network that only schedulers reach"
    )]
    Exposed(SocketAddr),
    /// Nothing can be encrypted.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// There is nothing to ask about.
    #[error("the plan has no hosts, so nobody can be sent anywhere: add some")]
    NoHosts,
    /// The address cannot be had.
    #[error("cannot listen on {address}: choose an address of this host that is free")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// Threads or signals cannot be had.
    #[error("cannot serve the plan: raise the limits on threads and open files")]
    Runtime(#[source] io::Error),
    /// The thread that answers has ended.
    #[error("the plan cannot be served on, as the thread that answers has failed: start it again")]
    Gone,
}

/// Serves a plan until SIGTERM or SIGINT. On SIGHUP it is read again: if anything is wrong with it
/// then, that is logged, and the one before stays.
///
/// # Errors
///
/// [`ServeError`]
pub fn serve(
    plan: Plan,
    options: Options,
    again: impl Fn() -> Result<Plan, PlanError> + Send + Sync + 'static,
) -> Result<(), ServeError> {
    let Options { listen, encryption, plain } = options;
    if encryption.is_none() && !plain && !listen.ip().is_loopback() {
        return Err(ServeError::Exposed(listen));
    }
    if plan.hosts().len() == 0 {
        return Err(ServeError::NoHosts);
    }
    let entrance = Entrance::open(encryption.as_ref())?;
    let begun = Instant::now();
    let desk = Desk::open(plan).map_err(ServeError::Runtime)?;
    let runtime =
        Builder::new_current_thread().enable_all().build().map_err(ServeError::Runtime)?;
    let again = Arc::new(again);
    runtime.block_on(async {
        let on = |kind| signal(kind).map_err(ServeError::Runtime);
        let (mut terminate, mut interrupt) =
            (on(SignalKind::terminate())?, on(SignalKind::interrupt())?);
        let mut hang_up = on(SignalKind::hangup())?;
        let wrong = |source| ServeError::Listen { address: listen, source };
        let listener = TcpListener::bind(listen).await.map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?;
        let is_encrypted = encryption.is_some();
        tracing::info!(%address, is_encrypted, judged_in = ?begun.elapsed(), "serving");
        let app = App::new(desk);
        let router = router_of(app.clone());
        let mut reload = async || {
            loop {
                hang_up.recv().await;
                let (app, again) = (app.clone(), Arc::clone(&again));
                // It takes a while, in which questions are answered by the plan there is.
                let done = tokio::task::spawn_blocking(move || replace(&app, &*again)).await;
                if let Err(error) = done {
                    tracing::error!(%error, "the plan was not read again");
                }
            }
        };
        tokio::select! {
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
            never = entrance.answer(listener, router) => match never {},
            () = reload() => Ok(()),
            () = app.clone().observe() => Ok(()),
            () = app.desk.gone() => Err(ServeError::Gone),
        }
    })
}

/// Puts the plan as its files say it now in the place of the one that is served.
fn replace(app: &App, again: &impl Fn() -> Result<Plan, PlanError>) {
    let mut plan = match again() {
        Ok(plan) if plan.hosts().len() > 0 => plan,
        Ok(_) => return tracing::error!("the plan has no hosts now: the one before is served on"),
        Err(PlanError::Faults(faults)) => {
            for fault in faults {
                tracing::error!(%fault, "the plan before is served on");
            }
            return;
        }
        Err(error) => return tracing::error!(%error, "the plan before is served on"),
    };
    // What agents have said meanwhile is newer than the files.
    app.observed.place(&mut plan);
    match app.desk.replace(plan, || app.begun.elapsed()) {
        Ok(()) => tracing::info!("the plan was read again"),
        Err(error) => tracing::error!(%error, "the plan before is served on"),
    }
}

/// Answers questions about a plan.
///
/// # Errors
///
/// No thread can be had.
pub fn router(plan: Plan) -> io::Result<Router> {
    Ok(router_of(App::new(Desk::open(plan)?)))
}

#[derive(Clone)]
struct App {
    desk: Desk,
    counts: Counts,
    observed: Observed,
    begun: Instant,
}

impl App {
    fn new(desk: Desk) -> Self {
        let (counts, observed) = (Counts::default(), Observed::default());
        Self { desk, counts, observed, begun: Instant::now() }
    }
}

fn router_of(app: App) -> Router {
    Router::new()
        .route("/k8s/filter", post(filter))
        .route("/k8s/prioritize", post(prioritize))
        .route("/v1/plan/hosts", post(hosts))
        .route("/metrics", get(metrics))
        .fallback(async || {
            let detail = "served are POST /k8s/filter, /k8s/prioritize and /v1/plan/hosts, and \
                          GET /metrics";
            Refusal(StatusCode::NOT_FOUND, detail.into())
        })
        .method_not_allowed_fallback(async || {
            let detail = "ask by POST, and for /metrics by GET";
            Refusal(StatusCode::METHOD_NOT_ALLOWED, detail.into())
        })
        .layer(DefaultBodyLimit::max(BODY_LIMIT_BYTES))
        .with_state(app)
}

async fn filter(State(app): State<App>, request: Request) -> Answer {
    app.answer(Question::Filter, request).await
}

async fn prioritize(State(app): State<App>, request: Request) -> Answer {
    app.answer(Question::Prioritize, request).await
}

async fn hosts(State(app): State<App>, request: Request) -> Answer {
    app.answer(Question::Hosts, request).await
}

async fn metrics(State(app): State<App>) -> Answer {
    let now = app.begun.elapsed();
    let seen = move |scheduler: &mut Scheduler<'_>| {
        scheduler.expire(now);
        let overloads = scheduler.overloads().into_iter();
        Seen {
            overloads: overloads.map(|(it, share)| (it.into(), share)).collect(),
            paused: Vec::new(),
            goal: scheduler.plan().epsilon,
            assumed: scheduler.assumed(),
        }
    };
    let seen = Seen { paused: app.observed.shares(), ..app.desk.ask(seen).await? };
    let page = page(&app.counts, &seen).map_err(internal)?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], page).into_response())
}

type Answer = Result<Response, Refusal>;

impl App {
    /// Has a question answered, and counts it.
    async fn answer(&self, question: Question, request: Request) -> Answer {
        let begun = Instant::now();
        let read = match timeout(BODY_PATIENCE, Bytes::from_request(request, &())).await {
            Ok(read) => read.map_err(|it| {
                Refusal(it.status(), format!("the body cannot be read: {}", it.body_text()))
            }),
            Err(_) => {
                let detail = format!("the body has not come within {} s", BODY_PATIENCE.as_secs());
                Err(Refusal(StatusCode::REQUEST_TIMEOUT, detail))
            }
        };
        let body = read.inspect_err(|_| self.counts.malformed())?;
        let now = self.begun.elapsed();
        let answer = self.desk.ask(move |scheduler| respond(question, &body, now, scheduler));
        let (answer, refusals) = answer.await?.map_err(|error| {
            self.counts.malformed();
            Refusal(StatusCode::BAD_REQUEST, format!("the question is not understood: {error}"))
        })?;
        self.counts.refused(&refusals);
        self.counts.answered(question, begun.elapsed());
        Ok(([(header::CONTENT_TYPE, "application/json")], answer).into_response())
    }

    /// Reads agents' metrics again and again, if the plan names any, and has machines be where they
    /// say, if the plan says which ports they are.
    async fn observe(self) {
        loop {
            let agents = self.desk.ask(|scheduler| {
                let plan = scheduler.plan();
                let agents = plan.serve.agents.iter();
                let agents = agents.map(|(host, it)| (plan.names(&[*host]).remove(0), it.clone()));
                (agents.collect(), plan.serve.every)
            });
            let every = match agents.await {
                Ok((agents, every)) => {
                    self.observed.read(agents, &self.counts).await;
                    let ports = self.observed.ports();
                    // Who is busy hears it the next time.
                    let _ = self.desk.ask(move |scheduler| place(scheduler, &ports)).await;
                    every.into()
                }
                Err(_) => Duration::from_secs(1),
            };
            tokio::time::sleep(every).await;
        }
    }
}

/// Has the machines be on hosts that have ports of theirs.
fn place(scheduler: &mut Scheduler<'_>, hosts: &[(String, Vec<String>)]) {
    let known = &scheduler.plan().serve.ports;
    if known.is_empty() {
        return;
    }
    for (host, ports) in hosts {
        scheduler.place(host, machines(known, ports.iter().map(String::as_str)));
    }
    scheduler.judge_all();
}

fn internal(error: impl Display) -> Refusal {
    Refusal(StatusCode::INTERNAL_SERVER_ERROR, format!("cannot write the answer: {error}"))
}

/// Why a question is not answered (RFC 9457).
pub struct Refusal(pub StatusCode, pub String);

impl From<Unanswered> for Refusal {
    fn from(why: Unanswered) -> Self {
        let detail = match why {
            Unanswered::Busy => "too many questions wait already: ask again in a second",
            Unanswered::Gone => "the planner has failed and ends: ask again when it was restarted",
        };
        Self(StatusCode::SERVICE_UNAVAILABLE, detail.into())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Problem<'a> {
            #[serde(rename = "type")]
            kind: &'static str,
            title: &'static str,
            status: u16,
            detail: &'a str,
        }
        let Self(status, detail) = self;
        let problem = Problem {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            detail: &detail,
        };
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (status, kind, body).into_response();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_for_now_is_told_when_to_ask_again() {
        let response = Refusal::from(Unanswered::Busy).into_response();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    }
}
