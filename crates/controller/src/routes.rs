//! The API: HTTP requests in, writes of the catalog and reads of the store, JSON out.
//!
//! A request that is not done is answered with a [`Problem`](crate::problem::Problem), whose
//! sentence says what to do. The OpenAPI document is made from these functions, and kept in
//! docs/controller.openapi.json.

mod app;
mod asked;
mod audited;
mod document;
mod progress;
mod shown;
mod waiting;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use logical::Source;
use logical::objects::{Condition, ConditionType, Identity, Kind, Object};
use serde::Serialize;
use serde_json::Value;
use store::{Entry, Key, Revision, StoreError};
use utoipa::ToSchema;

use self::app::{App, blocking};
use self::asked::{
    Applying, Conditions, Listing, On, PAGE, Removing, prefers_minimal, query, text, waiter,
};
pub use self::document::document;
use self::shown::{declared, defect, shown, tag, told};
use self::waiting::{Reading, Waiter};
use crate::access::Principal;
use crate::audit::{Audit, Peer, Record};
use crate::catalog::{Catalog, Guard, Refused, Write};
use crate::certificate::Shown;
use crate::conditions::Subject;
use crate::door::Door;
use crate::events::Events;
use crate::explain::{Explained, explain};
use crate::members::{Change, Members, MembersError};
use crate::outcome::{Applied, AppliedChange};
use crate::patch::Patch;
use crate::place;
use crate::problem::{Json, Problem, Refusal};
use crate::progress::Progress;
use crate::selection::Selection;
use crate::shares::{Share, Shares};
use crate::statuses::Statuses;
use crate::watched::Watched;

/// The longest body with one object: an address set may have 100,000 members.
const OBJECT_LIMIT_BYTES: usize = 8 << 20;

/// The longest body with many.
const APPLY_LIMIT_BYTES: usize = 32 << 20;

/// The longest body with a question.
const QUESTION_LIMIT_BYTES: usize = 1 << 20;

/// The most objects in one.
const APPLY_LIMIT: usize = 20_000;

/// How many bodies are read, checked and written at once; others wait.
const WRITERS: usize = 16;

/// How many of them of one tenant.
const WRITERS_EACH: usize = 4;

/// How many may watch.
const WATCHERS: usize = 1_000;

/// How many of one tenant.
const WATCHERS_EACH: usize = 200;

/// How many of those who watch are told of conditions, too.
const STATUS_WATCHERS: usize = 64;

/// How many of one tenant.
const STATUS_WATCHERS_EACH: usize = 8;

/// How many may wait until hosts execute something.
const WAITERS: usize = 256;

/// How many of one tenant.
const WAITERS_EACH: usize = 32;

/// How many packets are explained at once.
const TRACERS: usize = 3;

/// How many of one tenant.
const TRACERS_EACH: usize = 1;

/// The methods by which objects are written.
const WRITING: [Method; 4] = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// How many objects are looked at for a page of those that are meant.
const LOOKED_AT: usize = 10_000;

/// How many of them the store is asked for at once, at least.
const LOOKED_AT_ONCE: usize = 256;

/// The API of these objects, for those that the door admits. What they write is recorded.
pub fn router(
    catalog: Arc<Catalog>,
    progress: Arc<Progress>,
    door: Arc<Door>,
    audit: Arc<Audit>,
) -> Router {
    let app = App {
        catalog,
        progress,
        door,
        audit,
        writers: Arc::new(Shares::new(WRITERS, WRITERS_EACH)),
        watchers: Arc::new(Shares::new(WATCHERS, WATCHERS_EACH)),
        status_watchers: Arc::new(Shares::new(STATUS_WATCHERS, STATUS_WATCHERS_EACH)),
        patching: Arc::default(),
        waiters: Arc::new(Shares::new(WAITERS, WAITERS_EACH)),
        tracers: Arc::new(Shares::new(TRACERS, TRACERS_EACH)),
        topologies: Arc::default(),
    };
    let object = get(read).put(write).patch(merge).delete(remove).post(members);
    let object = object.fallback(not_so).layer(from_fn(allow));
    // What these two say is of nobody.
    let public = Router::new()
        .route(document::READY, get(ready))
        .route(document::OPENAPI, get(openapi))
        .method_not_allowed_fallback(not_so);
    Router::new()
        .route(document::APPLY, post(apply))
        .route(document::TRACE, post(trace))
        .route(document::WHOAMI, get(whoami))
        .route(document::AUDIT, get(audited::audit))
        .route(document::REVISION, get(progress::revision))
        .route(document::LIST, get(list))
        .route(document::OBJECT, object.clone())
        .route(&document::of_operator(document::LIST), get(list))
        .route(&document::of_operator(document::OBJECT), object)
        .fallback(nowhere)
        .method_not_allowed_fallback(not_so)
        .layer(from_fn_with_state(app.clone(), ask))
        .merge(public)
        .with_state(app)
}

/// Has a request tell who asks, before anything else of it is read. If it is one that writes, what
/// became of it is recorded.
async fn ask(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let who = match admit(&app, request.headers(), request.extensions().get()).await {
        Ok(who) => who,
        Err(refusal) => return refusal.into_response(),
    };
    let record = WRITING.contains(request.method()).then(|| {
        let peer = request.extensions().get::<Peer>().copied();
        let asked =
            Change::split(request.uri().path()).filter(|_| request.method() == Method::POST);
        let action = asked.map_or(request.method().as_str(), |(_, change)| change.action());
        Arc::new(Record::new(Arc::clone(&app.audit), who.clone(), peer, action))
    });
    request.extensions_mut().insert(who);
    if let Some(record) = &record {
        request.extensions_mut().insert(Arc::clone(record));
    }
    let response = next.run(request).await;
    let status = response.status();
    if let Some(record) = record.filter(|_| !status.is_success()) {
        record.refused(status);
    }
    response
}

/// A place among those who write: only so many wait for one.
async fn place_of(app: &App, who: &Principal) -> Result<Share, Refusal> {
    app.writers.wait(who.share()).await.ok_or_else(|| {
        let problem = "as many of yours wait to write already as may: try again";
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, problem)
    })
}

/// Does a write, and records it: also if nobody waits for the answer any more, who then does not
/// free its place either.
fn commit(
    app: &App,
    who: &Principal,
    record: &Record,
    _share: Share,
    write: Write,
) -> Result<Applied, Refusal> {
    if write.is_dry {
        record.leave_out();
    }
    let written = app.catalog.write(write, SystemTime::now(), || app.door.admits(who));
    let written = written.map_err(Refusal::from);
    match &written {
        Ok(done) => record.done(done),
        Err(refusal) => record.refused(refusal.status()),
    }
    written.map(|it| it.applied)
}

/// Who asks. Of a tenant's name there may have been others before.
async fn admit(
    app: &App,
    headers: &HeaderMap,
    shown: Option<&Arc<Shown>>,
) -> Result<Principal, Refusal> {
    let mut who = app.door.admit(headers, shown)?;
    if let Some(tenant) = who.tenant().cloned() {
        let catalog = Arc::clone(&app.catalog);
        let tenancy = blocking(move || catalog.tenancy(&tenant)).await??;
        let problem = "there is no tenant that this token was made for, or this certificate's name added for: it was not there yet, or is gone; have the operator do that anew";
        let tenancy = tenancy.filter(|it| who.is_of(it));
        who.tenancy = Some(tenancy.ok_or_else(|| Refusal::unauthenticated(problem))?);
    }
    Ok(who)
}

/// Refuses who is not let in any more, or whose tenant is another by now. Asked behind what was
/// read: that is not of another tenant of that name then.
async fn is_in_still(app: &App, who: &Principal) -> Result<(), Refusal> {
    let mut is_in = app.door.admits(who);
    if let Some(tenancy) = who.confined_to() {
        let catalog = Arc::clone(&app.catalog);
        let now = blocking(move || catalog.tenancy(&tenancy.name)).await??;
        is_in &= now == who.tenancy;
    }
    is_in.then_some(()).ok_or_else(|| Refused::Gone.into())
}

/// Some objects, in the order of their names.
#[derive(Serialize, ToSchema)]
pub struct ObjectList {
    /// The revision that they are of: watch from there.
    revision: u64,
    /// They.
    #[schema(value_type = Vec<logical::Object>)]
    items: Vec<Box<serde_json::value::RawValue>>,
    /// There are more: say this as `continue` to have the next, of the same revision.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    more: Option<String>,
}

/// The objects of a kind: a page of them, or as they change.
///
/// A watch answers with server-sent events: `put` with an object, `delete` with the kind, name and
/// tenant of one, `bookmark` with a revision up to which everything was told, `reset` if the
/// history is gone: list, and watch from there. Only bookmarks have an `id`, so `Last-Event-ID`
/// resumes.
///
/// With `status=true` it also tells what is so of the objects: `status` with the kind, name, tenant
/// and revision of one, and its `status` as a read has it. First that of each object, then that
/// of each that was put, and that of each of which a condition has changed, at most 5 times a
/// second. A `put` itself has none. This is not part of the history, so a watch that is resumed
/// tells it of each object again.
#[utoipa::path(get, path = document::LIST, params(
    ("tenant" = String, Path, description = "Whose they are."),
    ("kind" = String, Path, description = "What they are."),
    ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "The most; 100 if it is not said."),
    ("continue" = Option<String>, Query, description = "`continue` of the page before."),
    ("watch" = Option<bool>, Query, description = "Tell what changes, until the client hangs up."),
    ("status" = Option<bool>, Query, description = "In a watch: tell how conditions change, too."),
    ("labelSelector" = Option<String>, Query, description = "Only those with these labels: `app=shop,tier!=db,has`. A page may have fewer than `limit` then and yet go on."),
    ("fieldSelector" = Option<String>, Query, description = "Only those with these fields: `spec.switch=web,spec.mtu!=1400`; at most 8. A list has the value that one of its elements is. The same holds of pages."),
    ("atLeast" = Option<String>, Query, pattern = "^r[0-9]{1,20}$", description = "What there is at this revision or a later one, as `r812`: one that is not there yet is waited for, 2 s at most."),
    ("from" = Option<u64>, Query, description = "What changes after this revision; the newest if it is not said."),
    ("Last-Event-ID" = Option<String>, Header, description = "The same, as browsers say it; it counts."),
), responses(
    (status = 200, description = "A page, or events.", content(
        (ObjectList = "application/json"),
        (String = "text/event-stream"),
    )),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The query is not understood."),
    (status = 401, body = Problem, content_type = "application/problem+json", description = "Nobody that is known asks."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "Nobody has such objects there."),
    (status = 410, body = Problem, content_type = "application/problem+json", description = "The first page's revision is forgotten: begin anew, or go on by the problem's `continue`."),
    (status = 412, body = Problem, content_type = "application/problem+json", description = "There is no such revision yet."),
    (status = 429, body = Problem, content_type = "application/problem+json", description = "Too many watch or wait, or too many of this tenant."),
    (status = 503, body = Problem, content_type = "application/problem+json", description = "The store fails."),
))]
async fn list(
    State(app): State<App>,
    Extension(who): Extension<Principal>,
    on: On,
    request: Request,
) -> Result<Response, Refusal> {
    who.lists(&on.shelf)?;
    let listing: Listing = query(request.uri())?;
    if let Some(revision) = listing.at_least {
        revision.wait(&app, &who).await?;
    }
    let prefix = on.shelf.prefix();
    if listing.watch.unwrap_or(false) {
        let newest = app.catalog.store().revision();
        let from = Revision(listing.from(request.headers())?.unwrap_or(newest.0));
        if from > newest {
            let problem = format!("there is no revision {from} yet, the newest is {newest}");
            return Err(Refusal::bad(problem));
        }
        let share = app.watchers.take(who.share()).ok_or_else(|| {
            let problem = "as many watch already as may: try again";
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, problem)
        })?;
        let begin = || {
            let statuses = Statuses::begin(app.progress, &who, app.status_watchers);
            statuses.ok_or_else(|| {
                let problem = "as many watch conditions already as may: leave `status` out";
                Refusal::new(StatusCode::TOO_MANY_REQUESTS, problem)
            })
        };
        let statuses = listing.status.unwrap_or(false).then(begin).transpose()?;
        let watched = Watched { prefix, selection: listing.selection(&who)? };
        let events = Events::new(app.catalog, app.door, who, watched, statuses, from, share);
        let head =
            [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
        return Ok((head, Body::new(events)).into_response());
    }
    let limit = listing.limit(PAGE)?;
    let (at, after) = listing.page()?;
    if let (Some(at), Some(tenancy)) = (at, &who.tenancy)
        && at < tenancy.since
    {
        return Err(Refusal::new(StatusCode::GONE, "the tenant is younger: begin anew"));
    }
    let after = after.map(|name| place::key(&on.shelf.identity(name)));
    let selection = listing.selection(&who)?;
    let (of, reader) = (app.clone(), who.clone());
    let list = move || page(&of, &reader, &prefix, &selection, after, limit, at);
    let list = blocking(list).await??;
    if listing.at_least.is_some() {
        is_in_still(&app, &who).await?;
    }
    Ok((tag(Revision(list.revision)), Json(list)).into_response())
}

/// At most so many of the objects with a prefix that are meant, behind one of them.
fn page(
    app: &App,
    who: &Principal,
    prefix: &str,
    selection: &Selection,
    mut after: Option<Key>,
    limit: usize,
    mut at: Option<Revision>,
) -> Result<ObjectList, Refusal> {
    let store = app.catalog.store();
    let mut conditions = app.progress.conditions(who.knows_hosts());
    // Few may be meant.
    let step = if selection.is_all() { limit } else { limit.max(LOOKED_AT_ONCE) };
    let (mut items, mut looked_at) = (Vec::new(), 0);
    let first = after.clone();
    let (revision, has_more) = loop {
        let page = store.list(prefix, after.as_ref(), step, at).map_err(|error| match error {
            StoreError::Compacted { .. } if first.is_some() => {
                Refusal::forgotten(going_on(store.revision(), first.as_ref()))
            }
            error => error.into(),
        })?;
        let mut rest = page.entries.iter();
        while items.len() < limit
            && let Some(entry) = rest.next()
        {
            looked_at += 1;
            if selection.selects(entry) {
                items.push(shown(entry, who, &mut conditions)?);
            }
            after = Some(entry.key.clone());
        }
        let has_more = page.has_more || !rest.as_slice().is_empty();
        if !has_more || items.len() == limit || looked_at >= LOOKED_AT {
            break (page.revision, has_more);
        }
        at = Some(page.revision);
    };
    let more = going_on(revision, after.as_ref().filter(|_| has_more));
    Ok(ObjectList { revision: revision.0, items, more })
}

/// What `continue` says: the revision of a list, and the last object of a page.
fn going_on(revision: Revision, last: Option<&Key>) -> Option<String> {
    Some(format!("{revision}.{}", place::identity(last?)?.name))
}

/// One object, and what is so of it: `status` is computed when it is read.
#[utoipa::path(get, path = document::OBJECT, params(
    ("tenant" = String, Path, description = "Whose it is."),
    ("kind" = String, Path, description = "What it is."),
    ("name" = String, Path, description = "Its name."),
    ("atLeast" = Option<String>, Query, pattern = "^r[0-9]{1,20}$", description = "What there is at this revision or a later one, as `r812`: one that is not there yet is waited for, 2 s at most."),
    ("waitFor" = Option<ConditionType>, Query, description = "A condition, as `Realized`: answer once it is `True`, or `timeout` is over."),
    ("timeout" = Option<String>, Query, pattern = "^[0-9]{1,6}(ms|s)$", description = "How long to wait, as `10s`: 30 s if it is not said, at most 300 s."),
), responses(
    (status = 200, body = logical::Object, description = "The object; its ETag is the revision that wrote it. If it was waited for in vain, that condition is not `True`."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The query is not understood."),
    (status = 401, body = Problem, content_type = "application/problem+json", description = "Nobody that is known asks."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such object."),
    (status = 412, body = Problem, content_type = "application/problem+json", description = "There is no such revision yet."),
    (status = 429, body = Problem, content_type = "application/problem+json", description = "Too many wait, or too many of this tenant."),
    (status = 503, body = Problem, content_type = "application/problem+json", description = "The store fails."),
))]
async fn read(
    State(app): State<App>,
    Extension(who): Extension<Principal>,
    on: On,
    request: Request,
) -> Result<Response, Refusal> {
    let identity = on.identity()?;
    who.reads(&identity)?;
    let reading: Reading = query(request.uri())?;
    if let Some(revision) = reading.at_least {
        revision.wait(&app, &who).await?;
    }
    let waiter = reading.waiter(&app, &who, identity.kind)?;
    let has_waited = reading.at_least.is_some() || waiter.is_some();
    let unknown = || Refused::Unknown(identity.clone());
    let mut entry = found(&app, &identity).await?.ok_or_else(unknown)?;
    if let Some((waiter, goal)) = waiter {
        let subject = Subject::of(&entry).map_err(defect)?;
        let is_so = || app.progress.conditions(who.knows_hosts()).is_so(&subject, goal);
        waiter.wait(&app, &who, is_so).await;
        entry = found(&app, &identity).await?.ok_or_else(unknown)?;
    }
    if has_waited {
        is_in_still(&app, &who).await?;
    }
    told(&app, StatusCode::OK, &entry, &who)
}

/// Has an object be as it is declared here. What the controller writes of it is not read.
#[utoipa::path(put, path = document::OBJECT, params(
    ("tenant" = String, Path, description = "Whose it is."),
    ("kind" = String, Path, description = "What it is."),
    ("name" = String, Path, description = "Its name."),
    ("If-Match" = Option<String>, Header, description = "The ETag of what is replaced: `\"r812\"`; `*` for whatever is there."),
    ("If-None-Match" = Option<String>, Header, description = "`*`: only if there is none."),
    ("Prefer" = Option<String>, Header, description = "`return=minimal`: the answer is the ETag alone (RFC 7240)."),
    ("waitFor" = Option<String>, Query, pattern = "^Realized$", description = "`Realized`: answer once all hosts that have to do with it execute it, or `timeout` is over."),
    ("timeout" = Option<String>, Query, pattern = "^[0-9]{1,6}(ms|s)$", description = "How long to wait, as `10s`: 30 s if it is not said, at most 300 s."),
), request_body(content = logical::Object, description = "The object as JSON or YAML."), responses(
    (status = 200, body = logical::Object, description = "It was there, and is so now."),
    (status = 201, body = logical::Object, description = "It is new."),
    (status = 204, description = "It is so now: who asks has preferred a minimal answer."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The body or a condition is not understood."),
    (status = 401, body = Problem, content_type = "application/problem+json", description = "Nobody that is known asks."),
    (status = 403, body = Problem, content_type = "application/problem+json", description = "Who asks may only read."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "Nobody has such objects there."),
    (status = 409, body = Problem, content_type = "application/problem+json", description = "Others, whom a tenant does not know, are in its way."),
    (status = 412, body = Problem, content_type = "application/problem+json", description = "It is not as the condition says; `current` is what it is."),
    (status = 413, body = Problem, content_type = "application/problem+json", description = "The body is longer than 8 MiB."),
    (status = 422, body = Problem, content_type = "application/problem+json", description = "It cannot stand: `errors` has all that is wrong."),
    (status = 428, body = Problem, content_type = "application/problem+json", description = "It is there, and `If-Match` is missing."),
    (status = 429, body = Problem, content_type = "application/problem+json", description = "Too many write or wait, or too many of this tenant."),
    (status = 503, body = Problem, content_type = "application/problem+json", description = "The store fails."),
))]
async fn write(
    State(app): State<App>,
    Extension(who): Extension<Principal>,
    Extension(record): Extension<Arc<Record>>,
    on: On,
    request: Request,
) -> Result<Response, Refusal> {
    let identity = on.identity()?;
    record.is_of(&identity);
    who.changes(&identity)?;
    let guard = Conditions::read(request.headers())?.guard(Guard::New);
    let is_minimal = prefers_minimal(request.headers());
    let waiter = waiter(&app, &who, request.uri())?;
    let share = place_of(&app, &who).await?;
    let text = text(request, OBJECT_LIMIT_BYTES).await?;
    let source = move || logical::read(&text);
    let one = put(&app, &who, record, share, (identity, vec![guard]), source).await?;
    one.told(&app, &who, waiter, is_minimal).await
}

/// Changes some fields of an object, by a merge patch (RFC 7396), where what is null is taken out,
/// or a JSON patch (RFC 6902).
///
/// A JSON patch has at most 1,000 operations, of which none moves or copies. Patches of one object
/// that come at once are done one after another.
#[utoipa::path(patch, path = document::OBJECT, params(
    ("tenant" = String, Path, description = "Whose it is."),
    ("kind" = String, Path, description = "What it is."),
    ("name" = String, Path, description = "Its name."),
    ("If-Match" = Option<String>, Header, description = "Only if its ETag is this one: `\"r812\"`."),
    ("Prefer" = Option<String>, Header, description = "`return=minimal`: the answer is the ETag alone (RFC 7240)."),
    ("waitFor" = Option<String>, Query, pattern = "^Realized$", description = "`Realized`: answer once all hosts that have to do with it execute it, or `timeout` is over."),
    ("timeout" = Option<String>, Query, pattern = "^[0-9]{1,6}(ms|s)$", description = "How long to wait, as `10s`: 30 s if it is not said, at most 300 s."),
), request_body(description = "The fields, or the operations.", content(
    (serde_json::Value = "application/merge-patch+json"),
    (serde_json::Value = "application/json-patch+json"),
)), responses(
    (status = 200, body = logical::Object, description = "It is so now."),
    (status = 204, description = "It is so now: who asks has preferred a minimal answer."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The body or a condition is not understood."),
    (status = 401, body = Problem, content_type = "application/problem+json", description = "Nobody that is known asks."),
    (status = 403, body = Problem, content_type = "application/problem+json", description = "Who asks may only read."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such object."),
    (status = 409, body = Problem, content_type = "application/problem+json", description = "Others, whom a tenant does not know, are in its way."),
    (status = 412, body = Problem, content_type = "application/problem+json", description = "It is not as the condition, or a `test` of the patch, says."),
    (status = 413, body = Problem, content_type = "application/problem+json", description = "The body is longer than 8 MiB."),
    (status = 422, body = Problem, content_type = "application/problem+json", description = "It cannot stand so: `errors` has all that is wrong. Or an operation has no place in it."),
    (status = 429, body = Problem, content_type = "application/problem+json", description = "Too many write or wait, or too many of this tenant."),
    (status = 503, body = Problem, content_type = "application/problem+json", description = "The store fails."),
))]
async fn merge(
    State(app): State<App>,
    Extension(who): Extension<Principal>,
    Extension(record): Extension<Arc<Record>>,
    on: On,
    request: Request,
) -> Result<Response, Refusal> {
    let identity = on.identity()?;
    record.is_of(&identity);
    who.changes(&identity)?;
    let asked = Conditions::read(request.headers())?.guard(Guard::Known);
    let is_minimal = prefers_minimal(request.headers());
    let waiter = waiter(&app, &who, request.uri())?;
    let share = place_of(&app, &who).await?;
    let media_type = request.headers().get(header::CONTENT_TYPE);
    let media_type = media_type.and_then(|it| it.to_str().ok()).unwrap_or_default().to_owned();
    let body = text(request, OBJECT_LIMIT_BYTES).await?;
    let patch = blocking(move || Patch::read(&media_type, &body)).await??;
    // So patches of one object do not find it changed between here and the commit.
    let turn = app.patching.of(&identity).lock().await;
    let (of, reader, wanted) = (app.clone(), who.clone(), identity.clone());
    let patched = blocking(move || patched(&of, &reader, &wanted, &patch));
    let (read, source) = patched.await??;
    // What else changed it in between is seen at the commit: the patch is of an older object then.
    let guards = vec![asked, Guard::At(vec![read.0])];
    let one = put(&app, &who, record, share, (identity, guards), move || source).await?;
    drop(turn);
    one.told(&app, &who, waiter, is_minimal).await
}

/// Has members come to a group or a set, or go, whatever others are in it.
///
/// What is there already is not added again, and what is not there need not be removed. If nothing
/// changes there is no new revision. Requests of one object that come at once are done one after
/// another.
#[utoipa::path(post, path = document::ADD, params(
    ("tenant" = String, Path, description = "Whose it is."),
    ("kind" = String, Path, description = "`address-sets` or `port-groups`."),
    ("name" = String, Path, description = "Its name."),
    ("If-Match" = Option<String>, Header, description = "Only if its ETag is this one: `\"r812\"`."),
    ("Prefer" = Option<String>, Header, description = "`return=minimal`: the answer is the ETag alone (RFC 7240)."),
    ("waitFor" = Option<String>, Query, pattern = "^Realized$", description = "`Realized`: answer once all hosts that have to do with it execute it, or `timeout` is over."),
    ("timeout" = Option<String>, Query, pattern = "^[0-9]{1,6}(ms|s)$", description = "How long to wait, as `10s`: 30 s if it is not said, at most 300 s."),
), request_body(content = Members, description = "The members."), responses(
    (status = 200, body = logical::Object, description = "It is so now."),
    (status = 204, description = "It is so now: who asks has preferred a minimal answer."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The body or a condition is not understood, or the object has no such members."),
    (status = 401, body = Problem, content_type = "application/problem+json", description = "Nobody that is known asks."),
    (status = 403, body = Problem, content_type = "application/problem+json", description = "Who asks may only read."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such object."),
    (status = 412, body = Problem, content_type = "application/problem+json", description = "It is not as the condition says, or was written otherwise meanwhile."),
    (status = 413, body = Problem, content_type = "application/problem+json", description = "The body is longer than 8 MiB."),
    (status = 422, body = Problem, content_type = "application/problem+json", description = "It cannot stand so: `errors` has all that is wrong."),
    (status = 429, body = Problem, content_type = "application/problem+json", description = "Too many write or wait, or too many of this tenant."),
    (status = 503, body = Problem, content_type = "application/problem+json", description = "The store fails."),
))]
async fn members(
    State(app): State<App>,
    Extension(who): Extension<Principal>,
    Extension(record): Extension<Arc<Record>>,
    on: On,
    request: Request,
) -> Result<Response, Refusal> {
    let Some(change) = on.change else { return Err(not_so().await) };
    let identity = on.identity()?;
    record.is_of(&identity);
    who.changes(&identity)?;
    let asked = Conditions::read(request.headers())?.guard(Guard::Known);
    let is_minimal = prefers_minimal(request.headers());
    let waiter = waiter(&app, &who, request.uri())?;
    let share = place_of(&app, &who).await?;
    let body = text(request, OBJECT_LIMIT_BYTES).await?;
    let turn = app.patching.of(&identity).lock().await;
    let (of, wanted) = (app.clone(), identity.clone());
    let changed = blocking(move || {
        let members: Members = serde_json::from_str(&body)
            .map_err(|error| Refusal::bad(format!("the body is no list of members: {error}")))?;
        let object = of.catalog.object(&wanted);
        let object = object.ok_or_else(|| Refused::Unknown(wanted.clone()))?;
        let changed = members.change(&object, change).map_err(|error| match error {
            MembersError::Kind => Refusal::bad(format!("{wanted} has no such members")),
            MembersError::Field(path, message) => {
                Refusal::field(wanted.to_string(), &path, message)
            }
        })?;
        Ok::<_, Refusal>((object.metadata().revision, changed))
    });
    let (read, changed) = changed.await??;
    let mut guards = vec![asked];
    guards.extend(read.map(|it| Guard::At(vec![it])));
    let one = put(&app, &who, record, share, (identity, guards), move || changed.into()).await?;
    drop(turn);
    one.told(&app, &who, waiter, is_minimal).await
}

/// What a patch makes of an object, and the revision that wrote what it is made of.
fn patched(
    app: &App,
    who: &Principal,
    identity: &Identity,
    patch: &Patch,
) -> Result<(Revision, Source), Refusal> {
    // Groups and sets have nothing that a tenant is not to see. Others do not wait for writes here.
    if patch.may_be_of_members(identity.kind)
        && let Some(object) = app.catalog.object(identity)
        && let Some(revision) = object.metadata().revision
        && let Some(changed) = patch.of_members(&object)
    {
        return Ok((Revision(revision), changed.into()));
    }
    let entry = app.catalog.store().get(&place::key(identity), None)?;
    let entry = entry.ok_or_else(|| Refused::Unknown(identity.clone()))?;
    let mut value = serde_json::from_str(declared(&entry, who)?.get()).map_err(defect)?;
    patch.apply(&mut value)?;
    Ok((entry.modified, declaration(identity.kind, value)))
}

/// Reads an object of a kind. What is none is read as a text, by which it is told what is wrong.
fn declaration(kind: Kind, mut value: Value) -> Source {
    let word = value.as_object_mut().and_then(|it| it.remove("kind"));
    if word.as_ref().and_then(Value::as_str) == Some(kind.name())
        && let Ok(object) = Object::read(kind, &value)
    {
        return object.into();
    }
    if let (Some(word), Some(fields)) = (word, value.as_object_mut()) {
        fields.insert("kind".into(), word);
    }
    logical::read(&value.to_string())
}

/// Removes an object that no other needs, or with all that needs it.
#[utoipa::path(delete, path = document::OBJECT, params(
    ("tenant" = String, Path, description = "Whose it is."),
    ("kind" = String, Path, description = "What it is."),
    ("name" = String, Path, description = "Its name."),
    ("If-Match" = Option<String>, Header, description = "Only if its ETag is this one: `\"r812\"`."),
    ("cascade" = Option<bool>, Query, description = "Remove with it all of its owner that needs it. Of a Tenant, that is all that it has."),
    ("dryRun" = Option<bool>, Query, description = "Remove nothing: only say what would go."),
    ("waitFor" = Option<String>, Query, pattern = "^Realized$", description = "`Realized`: answer once all hosts that have to do with it execute it, or `timeout` is over. A host that has nothing to do with its domains any more is not waited for."),
    ("timeout" = Option<String>, Query, pattern = "^[0-9]{1,6}(ms|s)$", description = "How long to wait, as `10s`: 30 s if it is not said, at most 300 s."),
), responses(
    (status = 200, body = Answered, description = "It is gone, and what went with it."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "A condition is not understood."),
    (status = 401, body = Problem, content_type = "application/problem+json", description = "Nobody that is known asks."),
    (status = 403, body = Problem, content_type = "application/problem+json", description = "Who asks may only read."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such object."),
    (status = 409, body = Problem, content_type = "application/problem+json", description = "Others need it: `errors` has who, and by which field. Or too much would go with it at once."),
    (status = 412, body = Problem, content_type = "application/problem+json", description = "It is not as the condition says; `current` is what it is."),
    (status = 429, body = Problem, content_type = "application/problem+json", description = "Too many write or wait, or too many of this tenant."),
    (status = 503, body = Problem, content_type = "application/problem+json", description = "The store fails."),
))]
async fn remove(
    State(app): State<App>,
    Extension(who): Extension<Principal>,
    Extension(record): Extension<Arc<Record>>,
    on: On,
    request: Request,
) -> Result<Response, Refusal> {
    let identity = on.identity()?;
    record.is_of(&identity);
    who.changes(&identity)?;
    let asked = Conditions::read(request.headers())?.guard(Guard::Known);
    let guards = vec![(identity.clone(), Guard::Known), (identity.clone(), asked)];
    let removing: Removing = query(request.uri())?;
    let waiter = removing.waiting().begin(&app, &who)?;
    let share = place_of(&app, &who).await?;
    let [cascade, is_dry] = [removing.cascade, removing.dry_run].map(|it| it.unwrap_or(false));
    let (deletes, tenant) = (vec![identity], who.confined_to());
    let write = Write { deletes, cascade, guards, is_dry, tenant, ..Write::default() };
    let (of, writer) = (app.clone(), who.clone());
    let applied = blocking(move || commit(&of, &writer, &record, share, write)).await??;
    answered(&app, &who, waiter, applied).await
}

/// Has all objects of the body be as they are declared there, at once or not at all.
///
/// They may refer to each other in any order. An object whose `metadata.revision` is there counts
/// only if that is the revision that wrote what is there.
#[utoipa::path(post, path = document::APPLY, params(
    ("dryRun" = Option<bool>, Query, description = "Change nothing: only say what would change."),
    ("prune" = Option<String>, Query, description = "A label, as `app=shop`: objects that have it, and are not in the body, are removed."),
    ("delete" = Option<String>, Query, description = "At most 1,000 objects that are removed in the same revision: `LogicalPort/shop/web-1,Policy/shop/in@r812`. They have to be there, and as this revision wrote them if it is said."),
    ("waitFor" = Option<String>, Query, pattern = "^Realized$", description = "`Realized`: answer once all hosts that have to do with it execute it, or `timeout` is over."),
    ("timeout" = Option<String>, Query, pattern = "^[0-9]{1,6}(ms|s)$", description = "How long to wait, as `10s`: 30 s if it is not said, at most 300 s."),
    ("Idempotency-Key" = Option<String>, Header, description = "1 to 128 printable characters: for 24 hours, the same request with it is answered as the first was, and changes nothing. 10,000 of a token are remembered, in 16 MiB."),
), request_body(content = Vec<logical::Object>, description = "Objects as JSON or YAML; at most 20,000."), responses(
    (status = 200, body = Answered, description = "Applied, and what that has changed."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The body is no text, or empty; or a parameter is not understood."),
    (status = 401, body = Problem, content_type = "application/problem+json", description = "Nobody that is known asks."),
    (status = 403, body = Problem, content_type = "application/problem+json", description = "Who asks may only read."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "Objects are not of who asks: `errors` has them. Or there is none such to be removed."),
    (status = 409, body = Problem, content_type = "application/problem+json", description = "Others, whom a tenant does not know, are in its way. Or, if nothing is in the body, others need what is removed."),
    (status = 412, body = Problem, content_type = "application/problem+json", description = "An object is not of the revision that is said of it; `current` is what it is."),
    (status = 413, body = Problem, content_type = "application/problem+json", description = "The body is longer than 32 MiB, or has more than 20,000 objects."),
    (status = 422, body = Problem, content_type = "application/problem+json", description = "The objects cannot stand: `errors` has all that is wrong. Or the key was of another request."),
    (status = 429, body = Problem, content_type = "application/problem+json", description = "Too many write or wait, or no more keys of who asks can be remembered."),
    (status = 503, body = Problem, content_type = "application/problem+json", description = "The store fails. Whether it was applied is not known: ask again with the same key."),
))]
async fn apply(
    State(app): State<App>,
    Extension(who): Extension<Principal>,
    Extension(record): Extension<Arc<Record>>,
    request: Request,
) -> Result<Response, Refusal> {
    // Before anything is waited for, or read.
    who.may_apply()?;
    let applying: Applying = query(request.uri())?;
    let (prune, deleted) = (applying.prune()?, applying.deletes()?);
    let waiter = applying.waiting().begin(&app, &who)?;
    let mut once = asked::once(&request, &who)?;
    let share = place_of(&app, &who).await?;
    let text = text(request, APPLY_LIMIT_BYTES).await?;
    if let Some(once) = &mut once {
        once.cover(text.as_bytes());
    }
    let (of, writer) = (app.clone(), who.clone());
    let applied = blocking(move || {
        let source = logical::read(&text);
        if source.is_empty {
            return Err(Refusal::bad("the body says nothing: write `[]` to have no objects"));
        }
        if source.objects.len() > APPLY_LIMIT {
            let problem = format!("these are more than {APPLY_LIMIT} objects: apply them in parts");
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, problem));
        }
        let mut all: Vec<_> = source.objects.iter().map(Object::identity).collect();
        let declared: BTreeSet<_> = all.iter().collect();
        if let Some((both, _)) = deleted.iter().find(|(it, _)| declared.contains(it)) {
            let problem = format!("{both} is in the body and in `delete`: leave one out");
            return Err(Refusal::bad(problem));
        }
        let deletes: Vec<_> = deleted.iter().map(|(it, _)| it.clone()).collect();
        all.extend(deletes.iter().cloned());
        let unseen = || all.iter().filter(|it| !writer.sees(it));
        if unseen().next().is_some() {
            return Err(Refusal::others(unseen()));
        }
        if !all.iter().all(|it| writer.writes(it)) {
            return Err(writer.forbidden());
        }
        let revision =
            |it: &Object| it.metadata().revision.map(|at| (it.identity(), Guard::At(vec![at])));
        let guards = source.objects.iter().filter_map(revision).chain(deleted).collect();
        let once = once.map(asked::Once::done);
        let is_dry = applying.dry_run.unwrap_or(false);
        let (tenant, cascade) = (writer.confined_to(), false);
        let write = Write { source, deletes, cascade, guards, is_dry, prune, once, tenant };
        commit(&of, &writer, &record, share, write)
    })
    .await??;
    tracing::info!(revision = applied.revision, objects = applied.objects.len(), "applied");
    answered(&app, &who, waiter, applied).await
}

/// Says what becomes of a packet by the objects as they are now, and why.
///
/// The packet is the first of a connection. All objects decide; a tenant is told of its own ports,
/// of steps and ends at its own objects, and that a packet is sent on to others'.
#[utoipa::path(post, path = document::TRACE, request_body(content = reach::Question, description = "Who sends what to whom."), responses(
    (status = 200, body = Explained, description = "What becomes of it."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The body is no question."),
    (status = 401, body = Problem, content_type = "application/problem+json", description = "Nobody that is known asks."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such port."),
    (status = 413, body = Problem, content_type = "application/problem+json", description = "The body is longer than 1 MiB."),
    (status = 422, body = Problem, content_type = "application/problem+json", description = "The machine sends no such packet."),
    (status = 429, body = Problem, content_type = "application/problem+json", description = "Too many ask at once, or another question of this tenant is being answered."),
    (status = 503, body = Problem, content_type = "application/problem+json", description = "The store fails."),
))]
async fn trace(
    State(app): State<App>,
    Extension(who): Extension<Principal>,
    Extension(record): Extension<Arc<Record>>,
    request: Request,
) -> Result<Json<Explained>, Refusal> {
    // Nothing is written.
    record.leave_out();
    let share = app.tracers.take(who.share()).ok_or_else(|| {
        let problem = "as many packets are explained already as may be at once: try again";
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, problem)
    })?;
    let question = serde_json::from_str(&text(request, QUESTION_LIMIT_BYTES).await?)
        .map_err(|error| Refusal::bad(format!("the body is no question of a packet: {error}")))?;
    let explained = blocking(move || {
        let _share = share;
        explain(&app.catalog, &app.topologies, &who, question)
    });
    Ok(Json(explained.await??))
}

/// Who asks.
#[utoipa::path(get, path = document::WHOAMI, responses(
    (status = 200, body = Principal, description = "The name of the token or of the certificate, its role, and until when a token counts, in seconds since 1970."),
    (status = 401, body = Problem, content_type = "application/problem+json", description = "Nobody that is known asks."),
))]
async fn whoami(Extension(who): Extension<Principal>) -> Json<Principal> {
    Json(who)
}

/// Whether the store answers.
#[utoipa::path(get, path = document::READY, responses(
    (status = 204, description = "It does."),
    (status = 503, body = Problem, content_type = "application/problem+json", description = "It does not."),
))]
async fn ready(State(app): State<App>) -> Result<StatusCode, Refusal> {
    blocking(move || app.catalog.store().oldest()).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// This document.
#[utoipa::path(get, path = document::OPENAPI, responses((status = 200, description = "An OpenAPI 3.1 document.")))]
async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(document())
}

async fn nowhere() -> Refusal {
    let problem = format!("there is nothing here: GET {} says what there is", document::OPENAPI);
    Refusal::new(StatusCode::NOT_FOUND, problem)
}

async fn not_so() -> Refusal {
    let problem = format!("this path is not asked so: GET {} says how", document::OPENAPI);
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, problem)
}

/// Says how an object, or its members, may be asked (RFC 9110, section 15.5.6): the router takes
/// both for one path.
async fn allow(request: Request, next: Next) -> Response {
    let is_of_members = Change::split(request.uri().path()).is_some();
    let mut response = next.run(request).await;
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        let methods = if is_of_members { "POST" } else { "GET,HEAD,PUT,PATCH,DELETE" };
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    }
    response
}

/// What a write has done, and whether hosts execute it, if that was waited for.
#[derive(Serialize, ToSchema)]
pub struct Answered {
    #[serde(flatten)]
    applied: Applied,
    /// Whether hosts execute it. Absent: nobody has waited for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    realized: Option<Condition>,
}

/// Says what a write has done, once it is waited for.
async fn answered(
    app: &App,
    who: &Principal,
    waiter: Option<Waiter>,
    applied: Applied,
) -> Result<Response, Refusal> {
    let realized = match waiter {
        Some(waiter) => Some(waiter.wait_for(app, who, &applied).await),
        None => None,
    };
    Ok((tag(Revision(applied.revision)), Json(Answered { applied, realized })).into_response())
}

/// One object that was written.
struct One {
    applied: Applied,
    entry: Entry,
}

impl One {
    /// The object as it was written, once it is waited for; or its ETag alone, which takes no time
    /// from those who compute and tell.
    async fn told(
        self,
        app: &App,
        who: &Principal,
        waiter: Option<Waiter>,
        is_minimal: bool,
    ) -> Result<Response, Refusal> {
        let Self { applied, entry } = self;
        if let Some(waiter) = waiter {
            waiter.wait_for(app, who, &applied).await;
            if !app.door.admits(who) {
                let problem =
                    "your token or certificate has expired or was revoked: what you wrote is done";
                return Err(Refusal::unauthenticated(problem));
            }
        }
        if is_minimal {
            let applied = [("preference-applied", "return=minimal")];
            return Ok((StatusCode::NO_CONTENT, tag(entry.modified), applied).into_response());
        }
        let is_new = applied.objects.iter().any(|it| it.change == AppliedChange::Created);
        let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
        told(app, status, &entry, who)
    }
}

/// Writes the one object of a source, if all of this holds.
async fn put(
    app: &App,
    who: &Principal,
    record: Arc<Record>,
    share: Share,
    (identity, guards): (Identity, Vec<Guard>),
    source: impl FnOnce() -> Source + Send + 'static,
) -> Result<One, Refusal> {
    let (of, writer, wanted) = (app.clone(), who.clone(), identity);
    let one = blocking(move || {
        let source = source();
        let count = source.objects.len();
        if source.is_empty || count > 1 || (count == 0 && source.faults.is_empty()) {
            return Err(Refusal::bad(format!("the body has to be one object, {wanted}")));
        }
        // What is none is wrong whatever is there now.
        if count == 0 {
            return Err(Refused::Faults(source.faults).into());
        }
        if let Some(other) = source.objects.first().map(Object::identity)
            && other != wanted
        {
            let message = format!("this is {other}, and by its path it is {wanted}");
            return Err(Refusal::field(other.to_string(), "/metadata", message));
        }
        let guards = guards.into_iter().map(|guard| (wanted.clone(), guard)).collect();
        let tenant = writer.confined_to();
        let write = Write { source, guards, tenant, ..Write::default() };
        let applied = commit(&of, &writer, &record, share, write)?;
        // Now: that revision may be forgotten by the time that hosts execute it.
        let at = Some(Revision(applied.revision));
        let entry = of.catalog.store().get(&place::key(&wanted), at)?;
        Ok(One { applied, entry: entry.ok_or(Refused::Unknown(wanted))? })
    });
    one.await?
}

async fn found(app: &App, identity: &Identity) -> Result<Option<Entry>, Refusal> {
    let (catalog, key) = (Arc::clone(&app.catalog), place::key(identity));
    Ok(blocking(move || catalog.store().get(&key, None)).await??)
}
