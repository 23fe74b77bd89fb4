//! HTTP: bodies in, answers out.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tls::TlsError;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::counts::{Counts, Seen, page};
use super::desk::{Desk, Unanswered};
use super::entrance::{Encryption, Entrance};
use super::exchange::{Answered, Question, respond};
use super::observed::Observed;
use super::problem::Refusal;
use super::scheduler::Scheduler;
use super::unlisted::Unlisted;
use crate::fault::PlanError;
use crate::plan::Plan;

/// The longest body: 10,000 names are 200 kB, and 400 nodes with all that is said of them 4 MB.
const BODY_LIMIT_BYTES: usize = 4 << 20;

/// The longest time from a request's head to the end of its body: who stalls keeps a connection.
const BODY_PATIENCE: Duration = Duration::from_secs(5);

/// How often what agents have said is used while others are still read, and the shortest time
/// between two readings.
const SOON: Duration = Duration::from_secs(1);

/// How long to wait when too many questions wait.
const BUSY: Duration = Duration::from_millis(100);

/// Where a plan is served.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address.
    pub listen: SocketAddr,
    /// How connections are encrypted. `None`: they are not.
    pub encryption: Option<Encryption>,
    /// Whether others than this host may ask although nobody is to show a certificate.
    pub is_open: bool,
}

impl Options {
    /// Whether a plan may be served so.
    ///
    /// # Errors
    ///
    /// Others would reach the planner, and nobody has said that they may.
    fn check(&self) -> Result<(), ServeError> {
        let Self { listen, encryption, is_open } = self;
        if *is_open || listen.ip().is_loopback() {
            return Ok(());
        }
        match encryption {
            None => Err(ServeError::Exposed(*listen)),
            Some(Encryption { clients: None, .. }) => Err(ServeError::Unasked(*listen)),
            Some(_) => Ok(()),
        }
    }
}

/// Why a plan is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// What is said would not be encrypted on the way.
    #[error(
        "{0} can be reached by others, and nothing is encrypted: say `--tls-certificate` and `--tls-key`, listen on 127.0.0.1 or ::1, or say `--plain` in a network that only schedulers reach"
    )]
    Exposed(SocketAddr),
    /// Whoever reaches the address could have machines be assumed that nobody places.
    #[error(
        "{0} can be reached by others, and nobody is asked who they are: say `--clients-ca`, listen on 127.0.0.1 or ::1, or say `--open` in a network that only schedulers reach"
    )]
    Unasked(SocketAddr),
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
    options.check()?;
    let Options { listen, encryption, .. } = options;
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
    let observed = app.observed.clone();
    let place = move |scheduler: &mut Scheduler<'_>| place(scheduler, &observed);
    match app.desk.replace(plan, place, || app.begun.elapsed()) {
        Ok(()) => {
            tracing::info!("the plan was read again");
            app.is_replaced.notify_one();
        }
        Err(error) => tracing::error!(%error, "the plan before is served on"),
    }
}

/// Answers questions about a plan. Its agents are read while the future is waited for, which never
/// ends.
///
/// # Errors
///
/// No thread can be had.
pub fn router(plan: Plan) -> io::Result<(Router, impl Future<Output = ()>)> {
    let app = App::new(Desk::open(plan)?);
    Ok((router_of(app.clone()), app.observe()))
}

#[derive(Clone)]
struct App {
    desk: Desk,
    counts: Counts,
    observed: Observed,
    unlisted: Unlisted,
    /// Whether another plan is served, which may name other agents.
    is_replaced: Arc<Notify>,
    begun: Instant,
}

impl App {
    fn new(desk: Desk) -> Self {
        Self {
            desk,
            counts: Counts::default(),
            observed: Observed::default(),
            unlisted: Unlisted::default(),
            is_replaced: Arc::default(),
            begun: Instant::now(),
        }
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
            silences: Vec::new(),
            goal: scheduler.plan().epsilon,
            assumed: scheduler.assumed(),
        }
    };
    let seen = app.desk.ask(seen).await?;
    let silences = app.observed.silences(Instant::now());
    let seen = Seen { paused: app.observed.shares(), silences, ..seen };
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
        let Answered { body, refusals, unlisted } = answer.await?.map_err(|error| {
            self.counts.malformed();
            Refusal(StatusCode::BAD_REQUEST, format!("the question is not understood: {error}"))
        })?;
        self.counts.refused(&refusals);
        if let Some(model) = unlisted {
            self.counts.unlisted();
            if let Some(model) = self.unlisted.note(&model) {
                tracing::warn!(
                    ?model,
                    "a machine says that it has this model, which `serve` does not list: it counts as \
                     `default`, or its traffic is not judged"
                );
            }
        }
        self.counts.answered(question, begun.elapsed());
        Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
    }

    /// Reads agents' metrics again and again, if the plan names any, and has machines be where they
    /// say, if the plan says which ports they are.
    async fn observe(self) {
        loop {
            let agents = self.desk.ask(|scheduler| {
                let plan = scheduler.plan();
                let agents = plan.serve.agents.iter();
                let agents = agents.map(|(host, it)| (plan.names(&[*host]).remove(0), it.clone()));
                (agents.collect(), plan.serve.every, plan.serve.assume)
            });
            let every: Duration = match agents.await {
                Ok((agents, every, assume)) => {
                    let mut reading = pin!(self.observed.read(agents, assume.into(), &self.counts));
                    // Hosts whose agents are there do not wait for those whose agents are not.
                    while timeout(SOON, &mut reading).await.is_err() {
                        self.place().await;
                    }
                    self.place().await;
                    every.into()
                }
                Err(_) => SOON,
            };
            sleep(SOON).await;
            let _ = timeout(every.saturating_sub(SOON), self.is_replaced.notified()).await;
        }
    }

    /// Has the plan's machines be where agents have said.
    async fn place(&self) {
        loop {
            let observed = self.observed.clone();
            let placed = self.desk.ask(move |scheduler| place(scheduler, &observed)).await;
            if placed != Err(Unanswered::Busy) {
                return;
            }
            sleep(BUSY).await;
        }
    }
}

/// Has the machines be on hosts that have ports of theirs.
fn place(scheduler: &mut Scheduler<'_>, observed: &Observed) {
    for (host, machines) in observed.machines(scheduler.plan()) {
        scheduler.place(host, machines);
    }
    scheduler.judge_all();
}

fn internal(error: impl Display) -> Refusal {
    Refusal(StatusCode::INTERNAL_SERVER_ERROR, format!("cannot write the answer: {error}"))
}

#[cfg(test)]
mod tests {
    use tls::Own;

    use super::*;

    #[test]
    fn nobody_who_is_not_asked_reaches_the_planner_unless_that_is_said() {
        let of = |listen: &str, encryption: Option<Option<&str>>, is_open| {
            let own = || Own { certificate: "own.pem".into(), key: "own.key".into() };
            let encryption =
                encryption.map(|it| Encryption { own: own(), clients: it.map(Into::into) });
            Options { listen: listen.parse().unwrap(), encryption, is_open }.check()
        };
        let (near, far) = ("[::1]:1", "0.0.0.0:1");
        let ways = [None, Some(None), Some(Some("ca.pem"))];
        assert!(ways.iter().all(|way| of(near, *way, false).is_ok()));
        assert!(ways.iter().all(|way| of(far, *way, true).is_ok()));
        let [plain, unasked, asked] = ways.map(|way| of(far, way, false));
        assert!(matches!(plain, Err(ServeError::Exposed(_))), "{plain:?}");
        assert!(matches!(unasked, Err(ServeError::Unasked(_))), "{unasked:?}");
        assert!(asked.is_ok());
    }
}
