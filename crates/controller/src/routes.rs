//! The API: HTTP requests in, writes of the catalog and reads of the store, JSON out.
//!
//! A request that is not done is answered with a [`Problem`](crate::problem::Problem), whose
//! sentence says what to do. The OpenAPI document is made from these functions, and kept in
//! docs/controller.openapi.json.

mod asked;
mod document;

use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Extension, Request, State};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use logical::objects::{Identity, Object};
use serde::Serialize;
use store::{Entry, Revision};
use utoipa::ToSchema;

use self::asked::{Applying, Conditions, Listing, On, query, text};
pub use self::document::document;
use crate::access::Principal;
use crate::audit::{Audit, Peer, Record};
use crate::catalog::{self, Catalog, Guard, Refused, Write};
use crate::door::Door;
use crate::events::Events;
use crate::outcome::Applied;
use crate::patch;
use crate::place;
use crate::problem::{Json, Problem, Refusal};
use crate::shares::{Share, Shares};

/// The longest body with one object: an address set may have 100,000 members.
const OBJECT_LIMIT_BYTES: usize = 8 << 20;

/// The longest body with many.
const APPLY_LIMIT_BYTES: usize = 32 << 20;

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

/// The methods by which objects are written.
const WRITING: [Method; 4] = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// How many objects there are in a page if nobody says it.
const PAGE: usize = 100;

/// What handlers have.
#[derive(Clone)]
struct App {
    catalog: Arc<Catalog>,
    door: Arc<Door>,
    audit: Arc<Audit>,
    writers: Arc<Shares>,
    watchers: Arc<Shares>,
}

/// The API of these objects, for those that the door admits. What they write is recorded.
pub fn router(catalog: Arc<Catalog>, door: Arc<Door>, audit: Arc<Audit>) -> Router {
    let app = App {
        catalog,
        door,
        audit,
        writers: Arc::new(Shares::new(WRITERS, WRITERS_EACH)),
        watchers: Arc::new(Shares::new(WATCHERS, WATCHERS_EACH)),
    };
    let object = || get(read).put(write).patch(merge).delete(remove);
    // What these two say is of nobody.
    let public = Router::new()
        .route(document::READY, get(ready))
        .route(document::OPENAPI, get(openapi))
        .method_not_allowed_fallback(not_so);
    Router::new()
        .route(document::APPLY, post(apply).layer(DefaultBodyLimit::max(APPLY_LIMIT_BYTES)))
        .route(document::WHOAMI, get(whoami))
        .route(document::LIST, get(list))
        .route(document::OBJECT, object())
        .route(&document::of_operator(document::LIST), get(list))
        .route(&document::of_operator(document::OBJECT), object())
        .fallback(nowhere)
        .method_not_allowed_fallback(not_so)
        .layer(from_fn_with_state(app.clone(), ask))
        .merge(public)
        .layer(DefaultBodyLimit::max(OBJECT_LIMIT_BYTES))
        .with_state(app)
}

/// Has a request tell who asks, before anything else of it is read. If it is one that writes, what
/// became of it is recorded.
async fn ask(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let who = match admit(&app, request.headers()).await {
        Ok(who) => who,
        Err(refusal) => return refusal.into_response(),
    };
    let record = WRITING.contains(request.method()).then(|| {
        let peer = request.extensions().get::<Peer>().copied();
        let action = request.method().as_str();
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
        Ok(applied) => record.applied(applied),
        Err(refusal) => record.refused(refusal.status()),
    }
    written
}

/// Who asks. Of a tenant's name there may have been others before.
async fn admit(app: &App, headers: &HeaderMap) -> Result<Principal, Refusal> {
    let mut who = app.door.admit(headers)?;
    if let Some(tenant) = who.tenant().cloned() {
        let catalog = Arc::clone(&app.catalog);
        let tenancy = blocking(move || catalog.tenancy(&tenant)).await??;
        let problem = "there is no tenant that this token was made for: it was not there yet, or is gone; have the operator make another token";
        let tenancy = tenancy.filter(|it| who.is_of(it));
        who.tenancy = Some(tenancy.ok_or_else(|| Refusal::unauthenticated(problem))?);
    }
    Ok(who)
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

type Tag = [(HeaderName, String); 1];

fn tag(revision: Revision) -> Tag {
    [(header::ETAG, format!("\"r{revision}\""))]
}

/// The objects of a kind: a page of them, or as they change.
///
/// A watch answers with server-sent events: `put` with an object, `delete` with the kind, name and
/// tenant of one, `bookmark` with a revision up to which everything was told, `reset` if the
/// history is gone: list, and watch from there. Only bookmarks have an `id`, so `Last-Event-ID`
/// resumes.
#[utoipa::path(get, path = document::LIST, params(
    ("tenant" = String, Path, description = "Whose they are."),
    ("kind" = String, Path, description = "What they are."),
    ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "The most; 100 if it is not said."),
    ("continue" = Option<String>, Query, description = "`continue` of the page before."),
    ("watch" = Option<bool>, Query, description = "Tell what changes, until the client hangs up."),
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
    (status = 410, body = Problem, content_type = "application/problem+json", description = "The first page's revision is gone: begin anew."),
    (status = 429, body = Problem, content_type = "application/problem+json", description = "Too many watch, or too many of this tenant."),
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
        let events = Events::new(app.catalog, app.door, who, prefix, from, share);
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
    let page =
        blocking(move || app.catalog.store().list(&prefix, after.as_ref(), limit, at)).await??;
    let last = page.entries.last().and_then(|entry| place::identity(&entry.key));
    let more = last.filter(|_| page.has_more).map(|it| format!("{}.{}", page.revision, it.name));
    let items = page.entries.into_iter().map(|it| raw(it, &who)).collect::<Result<_, _>>()?;
    let list = ObjectList { revision: page.revision.0, items, more };
    Ok((tag(page.revision), Json(list)).into_response())
}

/// One object.
#[utoipa::path(get, path = document::OBJECT, params(
    ("tenant" = String, Path, description = "Whose it is."),
    ("kind" = String, Path, description = "What it is."),
    ("name" = String, Path, description = "Its name."),
), responses(
    (status = 200, body = logical::Object, description = "The object; its ETag is the revision that wrote it."),
    (status = 401, body = Problem, content_type = "application/problem+json", description = "Nobody that is known asks."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such object."),
    (status = 503, body = Problem, content_type = "application/problem+json", description = "The store fails."),
))]
async fn read(
    State(app): State<App>,
    Extension(who): Extension<Principal>,
    on: On,
) -> Result<Response, Refusal> {
    let identity = on.identity()?;
    who.reads(&identity)?;
    let entry = found(&app, &identity).await?.ok_or(Refused::Unknown(identity))?;
    told(StatusCode::OK, entry, &who)
}

/// Has an object be as it is declared here. What the controller writes of it is not read.
#[utoipa::path(put, path = document::OBJECT, params(
    ("tenant" = String, Path, description = "Whose it is."),
    ("kind" = String, Path, description = "What it is."),
    ("name" = String, Path, description = "Its name."),
    ("If-Match" = Option<String>, Header, description = "The ETag of what is replaced: `\"r812\"`; `*` for whatever is there."),
    ("If-None-Match" = Option<String>, Header, description = "`*`: only if there is none."),
), request_body(content = logical::Object, description = "The object as JSON or YAML."), responses(
    (status = 200, body = logical::Object, description = "It was there, and is so now."),
    (status = 201, body = logical::Object, description = "It is new."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The body or a condition is not understood."),
    (status = 401, body = Problem, content_type = "application/problem+json", description = "Nobody that is known asks."),
    (status = 403, body = Problem, content_type = "application/problem+json", description = "Who asks may only read."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "Nobody has such objects there."),
    (status = 409, body = Problem, content_type = "application/problem+json", description = "Others, whom a tenant does not know, are in its way."),
    (status = 412, body = Problem, content_type = "application/problem+json", description = "It is not as the condition says; `current` is what it is."),
    (status = 413, body = Problem, content_type = "application/problem+json", description = "The body is longer than 8 MiB."),
    (status = 422, body = Problem, content_type = "application/problem+json", description = "It cannot stand: `errors` has all that is wrong."),
    (status = 428, body = Problem, content_type = "application/problem+json", description = "It is there, and `If-Match` is missing."),
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
    let share = place_of(&app, &who).await?;
    let text = text(request).await?;
    put(&app, &who, record, share, (identity, vec![guard]), text).await
}

/// Changes some fields of an object, by a merge patch (RFC 7396): what is null is taken out.
#[utoipa::path(patch, path = document::OBJECT, params(
    ("tenant" = String, Path, description = "Whose it is."),
    ("kind" = String, Path, description = "What it is."),
    ("name" = String, Path, description = "Its name."),
    ("If-Match" = Option<String>, Header, description = "Only if its ETag is this one: `\"r812\"`."),
), request_body(content = serde_json::Value, content_type = "application/merge-patch+json", description = "The fields."), responses(
    (status = 200, body = logical::Object, description = "It is so now."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The body or a condition is not understood."),
    (status = 401, body = Problem, content_type = "application/problem+json", description = "Nobody that is known asks."),
    (status = 403, body = Problem, content_type = "application/problem+json", description = "Who asks may only read."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such object."),
    (status = 409, body = Problem, content_type = "application/problem+json", description = "Others, whom a tenant does not know, are in its way."),
    (status = 412, body = Problem, content_type = "application/problem+json", description = "It is not as the condition says; `current` is what it is."),
    (status = 413, body = Problem, content_type = "application/problem+json", description = "The body is longer than 8 MiB."),
    (status = 422, body = Problem, content_type = "application/problem+json", description = "It cannot stand so: `errors` has all that is wrong."),
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
    let share = place_of(&app, &who).await?;
    let patch = text(request).await?;
    let patch: serde_json::Value = serde_json::from_str(&patch)
        .map_err(|error| Refusal::bad(format!("the body is no merge patch: {error}")))?;
    let unknown = || Refused::Unknown(identity.clone());
    let entry = found(&app, &identity).await?.ok_or_else(unknown)?;
    // A change that came in between is seen at the commit: by then the patch is of an older object.
    let read = Guard::At(vec![entry.modified.0]);
    let mut object = serde_json::from_str(raw(entry, &who)?.get()).map_err(defect)?;
    patch::merge(&mut object, patch);
    put(&app, &who, record, share, (identity, vec![asked, read]), object.to_string()).await
}

/// Removes an object that no other needs.
#[utoipa::path(delete, path = document::OBJECT, params(
    ("tenant" = String, Path, description = "Whose it is."),
    ("kind" = String, Path, description = "What it is."),
    ("name" = String, Path, description = "Its name."),
    ("If-Match" = Option<String>, Header, description = "Only if its ETag is this one: `\"r812\"`."),
), responses(
    (status = 200, body = Applied, description = "It is gone."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "A condition is not understood."),
    (status = 401, body = Problem, content_type = "application/problem+json", description = "Nobody that is known asks."),
    (status = 403, body = Problem, content_type = "application/problem+json", description = "Who asks may only read."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such object."),
    (status = 409, body = Problem, content_type = "application/problem+json", description = "Others need it: `errors` has who, and by which field."),
    (status = 412, body = Problem, content_type = "application/problem+json", description = "It is not as the condition says; `current` is what it is."),
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
    let share = place_of(&app, &who).await?;
    let tenant = who.confined_to();
    let write = Write { deletes: vec![identity], guards, tenant, ..Write::default() };
    let applied = blocking(move || commit(&app, &who, &record, share, write)).await??;
    Ok((tag(Revision(applied.revision)), Json(applied)).into_response())
}

/// Has all objects of the body be as they are declared there, at once or not at all.
///
/// They may refer to each other in any order. An object whose `metadata.revision` is there counts
/// only if that is the revision that wrote what is there.
#[utoipa::path(post, path = document::APPLY, params(
    ("dry_run" = Option<bool>, Query, description = "Change nothing: only say what would change."),
    ("prune" = Option<String>, Query, description = "A label, as `app=shop`: objects that have it, and are not in the body, are removed."),
    ("Idempotency-Key" = Option<String>, Header, description = "1 to 128 printable characters: for 24 hours, the same request with it is answered as the first was, and changes nothing. 10,000 of a token are remembered, in 16 MiB."),
), request_body(content = Vec<logical::Object>, description = "Objects as JSON or YAML; at most 20,000."), responses(
    (status = 200, body = Applied, description = "Applied, and what that has changed."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The body is no text, or empty; or a parameter is not understood."),
    (status = 401, body = Problem, content_type = "application/problem+json", description = "Nobody that is known asks."),
    (status = 403, body = Problem, content_type = "application/problem+json", description = "Who asks may only read."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "Objects are not of who asks: `errors` has them."),
    (status = 409, body = Problem, content_type = "application/problem+json", description = "Others, whom a tenant does not know, are in its way."),
    (status = 412, body = Problem, content_type = "application/problem+json", description = "An object is not of the revision that is said of it; `current` is what it is."),
    (status = 413, body = Problem, content_type = "application/problem+json", description = "The body is longer than 32 MiB, or has more than 20,000 objects."),
    (status = 422, body = Problem, content_type = "application/problem+json", description = "The objects cannot stand: `errors` has all that is wrong. Or the key was of another request."),
    (status = 429, body = Problem, content_type = "application/problem+json", description = "No more keys of who asks can be remembered."),
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
    let prune = applying.prune()?;
    let mut once = asked::once(&request, &who)?;
    let share = place_of(&app, &who).await?;
    let text = text(request).await?;
    if let Some(once) = &mut once {
        once.cover(text.as_bytes());
    }
    let applied = blocking(move || {
        let source = logical::read(&text);
        if source.is_empty {
            return Err(Refusal::bad("the body says nothing: write `[]` to have no objects"));
        }
        if source.objects.len() > APPLY_LIMIT {
            let problem = format!("these are more than {APPLY_LIMIT} objects: apply them in parts");
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, problem));
        }
        let all: Vec<_> = source.objects.iter().map(Object::identity).collect();
        let unseen = || all.iter().filter(|it| !who.sees(it));
        if unseen().next().is_some() {
            return Err(Refusal::others(unseen()));
        }
        if !all.iter().all(|it| who.writes(it)) {
            return Err(who.forbidden());
        }
        let revision =
            |it: &Object| it.metadata().revision.map(|at| (it.identity(), Guard::At(vec![at])));
        let guards = source.objects.iter().filter_map(revision).collect();
        let once = once.map(asked::Once::done);
        let is_dry = applying.dry_run.unwrap_or(false);
        let (tenant, deletes) = (who.confined_to(), Vec::new());
        let write = Write { source, deletes, guards, is_dry, prune, once, tenant };
        commit(&app, &who, &record, share, write)
    })
    .await??;
    tracing::info!(revision = applied.revision, objects = applied.objects.len(), "applied");
    Ok((tag(Revision(applied.revision)), Json(applied)).into_response())
}

/// Who asks.
#[utoipa::path(get, path = document::WHOAMI, responses(
    (status = 200, body = Principal, description = "The name of the token, its role, and until when it counts, in seconds since 1970."),
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

/// Writes the one object of a text, if all of this holds.
async fn put(
    app: &App,
    who: &Principal,
    record: Arc<Record>,
    share: Share,
    (identity, guards): (Identity, Vec<Guard>),
    text: String,
) -> Result<Response, Refusal> {
    let (of, writer, wanted) = (app.clone(), who.clone(), identity.clone());
    let applied = blocking(move || {
        let source = logical::read(&text);
        let count = source.objects.len();
        if source.is_empty || count > 1 || (count == 0 && source.faults.is_empty()) {
            return Err(Refusal::bad(format!("the body has to be one object, {wanted}")));
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
        commit(&of, &writer, &record, share, write)
    })
    .await??;
    let is_new =
        applied.objects.iter().any(|it| it.change == crate::outcome::AppliedChange::Created);
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let at = Some(Revision(applied.revision));
    let (catalog, key) = (Arc::clone(&app.catalog), place::key(&identity));
    let entry = blocking(move || catalog.store().get(&key, at)).await??;
    told(status, entry.ok_or(Refused::Unknown(identity))?, who)
}

async fn found(app: &App, identity: &Identity) -> Result<Option<Entry>, Refusal> {
    let (catalog, key) = (Arc::clone(&app.catalog), place::key(identity));
    Ok(blocking(move || catalog.store().get(&key, None)).await??)
}

/// An object, as they may see it, with its ETag.
fn told(status: StatusCode, entry: Entry, who: &Principal) -> Result<Response, Refusal> {
    let tag = tag(entry.modified);
    Ok((status, tag, Json(raw(entry, who)?)).into_response())
}

/// An object as it is kept, or of it what a tenant may see.
fn raw(entry: Entry, who: &Principal) -> Result<Box<serde_json::value::RawValue>, Refusal> {
    if who.tenant().is_some() {
        let object = catalog::shown(&entry.key, &entry.value).map_err(defect)?;
        return serde_json::value::to_raw_value(&object).map_err(defect);
    }
    let text = String::from_utf8(entry.value).map_err(defect)?;
    serde_json::value::RawValue::from_string(text).map_err(defect)
}

/// What is kept is not what was written.
fn defect(error: impl std::fmt::Display) -> Refusal {
    let problem = format!("the store has what is no object ({error}): look at the log");
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, problem)
}

/// Does what waits for a disk, or computes, on a thread where that is allowed.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let failed = |error| {
        tracing::error!(%error, "a request failed: this is a defect");
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the request failed: look at the log")
    };
    tokio::task::spawn_blocking(work).await.map_err(failed)
}
