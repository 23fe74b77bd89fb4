//! What a request asks for: its path, its query, its conditions, its body.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use axum::extract::{FromRequestParts, Query, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};
use hyper::body::Body;
use logical::objects::{ConditionType, Identity, Name};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use store::Revision;
use tokio::time::{Instant, timeout_at};
use units::Span;

use super::app::App;
use super::waiting::{AtLeast, Waiter, Waiting};
use crate::access::Principal;
use crate::catalog::{self, Guard};
use crate::fields;
use crate::identity::hex;
use crate::labels;
use crate::members::Change;
use crate::place::Shelf;
use crate::problem::Refusal;
use crate::selection::Selection;

/// How long a body may take to come, whatever its length; and how long for what has come of it. Who
/// sends one has a place among those who write.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
const BODY_GRACE: Duration = Duration::from_secs(5);
const BODY_BYTES_PER_SECOND: f64 = 256.0 * 1024.0;

/// How many objects there are in a page if nobody says it.
pub const PAGE: usize = 100;

/// The most objects in a page, and that go with what is applied.
const MOST: usize = 1_000;

/// The objects, or the one, that a path is of.
pub struct On {
    pub shelf: Shelf,
    name: Option<Name>,
    /// What is asked for of its members.
    pub change: Option<Change>,
}

impl On {
    /// The one.
    pub fn identity(&self) -> Result<Identity, Refusal> {
        let nowhere = || Refusal::new(StatusCode::NOT_FOUND, "no object has such a name");
        Ok(self.shelf.identity(self.name.clone().ok_or_else(nowhere)?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for On {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let nowhere = |what: &str| Refusal::new(StatusCode::NOT_FOUND, what);
        let words = RawPathParams::from_request_parts(parts, state).await;
        let words = words.map_err(|error| nowhere(&error.body_text()))?;
        let word = |name| words.iter().find(|(it, _)| *it == name).map(|(_, word)| word);
        let name = |key| word(key).map(str::parse).transpose();
        let no_name = |_| nowhere("no tenant and no object has such a name");
        let tenant: Option<Name> = name("tenant").map_err(no_name)?;
        let asked = word("name").filter(|_| parts.method == Method::POST).and_then(Change::split);
        let (named, change) = match asked {
            Some((before, change)) => (Some(before.parse()).transpose(), Some(change)),
            None => (name("name"), None),
        };
        let name: Option<Name> = named.map_err(no_name)?;
        let no_kind =
            || nowhere("nobody has such objects here: the API's document lists the kinds");
        let shelf = Shelf::new(word("kind").unwrap_or_default(), tenant).ok_or_else(no_kind)?;
        Ok(Self { shelf, name, change })
    }
}

/// Reads a query.
pub fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Refusal> {
    let query = Query::try_from_uri(uri);
    query.map(|Query(query)| query).map_err(|error| Refusal::bad(error.body_text()))
}

/// A place among those who wait, if a query asks for it and for nothing else.
pub fn waiter(app: &App, who: &Principal, uri: &Uri) -> Result<Option<Waiter>, Refusal> {
    query::<Waiting>(uri)?.begin(app, who)
}

/// Which objects of a shelf are asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listing {
    limit: Option<usize>,
    r#continue: Option<String>,
    pub watch: Option<bool>,
    pub status: Option<bool>,
    from: Option<u64>,
    #[serde(rename = "atLeast")]
    pub at_least: Option<AtLeast>,
    #[serde(rename = "labelSelector")]
    label_selector: Option<String>,
    #[serde(rename = "fieldSelector")]
    field_selector: Option<String>,
}

impl Listing {
    pub fn limit(&self, default: usize) -> Result<usize, Refusal> {
        let limit = self.limit.unwrap_or(default);
        let fits = (1..=MOST).contains(&limit);
        fits.then_some(limit)
            .ok_or_else(|| Refusal::bad(format!("`limit` lies outside 1 to {MOST}")))
    }

    /// The revision of the first page, and the last name of the page before.
    pub fn page(&self) -> Result<(Option<Revision>, Option<Name>), Refusal> {
        if self.from.is_some() || self.status.is_some() {
            let problem = "`from` and `status` are of a watch: say `watch=true`, too";
            return Err(Refusal::bad(problem));
        }
        let Some(told) = &self.r#continue else { return Ok((None, None)) };
        let page = told.split_once('.').and_then(|(revision, name)| {
            Some((Some(Revision(revision.parse().ok()?)), Some(name.parse().ok()?)))
        });
        page.ok_or_else(|| Refusal::bad("`continue` is not what a page says"))
    }

    /// Which of them are asked for.
    pub fn selection(&self, who: &Principal) -> Result<Selection, Refusal> {
        let labels = self.label_selector.as_deref().map(|text| {
            let wrong = "`labelSelector` is labels: `app=shop,tier!=db,has`";
            labels::selector(text).ok_or_else(|| Refusal::bad(wrong))
        });
        let fields = self.field_selector.as_deref().map(|text| {
            let wrong = "`fieldSelector` is at most 8 fields of `metadata` or `spec`: `spec.switch=web,spec.mtu!=1400`";
            fields::fields(text).ok_or_else(|| Refusal::bad(wrong))
        });
        let fields = fields.transpose()?.unwrap_or_default();
        Ok(Selection { labels: labels.transpose()?, fields, is_tenants: who.tenant().is_some() })
    }

    /// The revision after which changes are asked for.
    pub fn from(&self, headers: &HeaderMap) -> Result<Option<u64>, Refusal> {
        let Some(last) = headers.get("last-event-id") else { return Ok(self.from) };
        let last = last.to_str().ok().and_then(|it| it.parse().ok());
        let wrong = || Refusal::bad("`Last-Event-ID` is not the id of a bookmark");
        last.map(Some).ok_or_else(wrong)
    }
}

/// How an object is removed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Removing {
    pub cascade: Option<bool>,
    #[serde(rename = "dryRun", alias = "dry_run")]
    pub dry_run: Option<bool>,
    #[serde(rename = "waitFor")]
    wait_for: Option<ConditionType>,
    timeout: Option<Span>,
}

impl Removing {
    /// What is to be waited for. A dry run leads to nothing.
    pub fn waiting(&self) -> Waiting {
        Waiting::unless(self.dry_run, self.wait_for, self.timeout)
    }
}

/// How objects are applied.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Applying {
    #[serde(rename = "dryRun", alias = "dry_run")]
    pub dry_run: Option<bool>,
    prune: Option<String>,
    delete: Option<String>,
    #[serde(rename = "waitFor")]
    wait_for: Option<ConditionType>,
    timeout: Option<Span>,
}

impl Applying {
    /// What is to be waited for. A dry run leads to nothing.
    pub fn waiting(&self) -> Waiting {
        Waiting::unless(self.dry_run, self.wait_for, self.timeout)
    }

    /// The objects that are to be gone, and what has to be so of each: it is there, and as its
    /// revision wrote it if that is said.
    pub fn deletes(&self) -> Result<Vec<(Identity, Guard)>, Refusal> {
        let delete = |word: &str| {
            let (object, guard) = match word.split_once('@') {
                None => (word, Guard::Known),
                Some((object, at)) => {
                    (object, Guard::At(vec![at.strip_prefix('r')?.parse().ok()?]))
                }
            };
            Some((object.parse().ok()?, guard))
        };
        let all = self.delete.iter().flat_map(|it| it.split(','));
        let all: Option<Vec<_>> = all.map(delete).collect();
        all.filter(|it| it.len() <= MOST).ok_or_else(|| {
            let problem =
                "`delete` is objects, at most 1,000: `LogicalPort/shop/web-1,Policy/shop/in@r812`";
            Refusal::bad(problem)
        })
    }

    /// The label by which is pruned, and its value.
    pub fn prune(&self) -> Result<Option<(String, String)>, Refusal> {
        let Some(prune) = &self.prune else { return Ok(None) };
        let label = prune.split_once('=').filter(|(label, _)| !label.is_empty());
        let label = label.map(|(label, value)| Some((label.to_owned(), value.to_owned())));
        label.ok_or_else(|| Refusal::bad("`prune` is a label and its value: `prune=app=shop`"))
    }
}

/// What has to be so for a write (RFC 9110 §13.1).
pub struct Conditions {
    guard: Option<Guard>,
}

impl Conditions {
    pub fn read(headers: &HeaderMap) -> Result<Self, Refusal> {
        let matching = tags(headers, header::IF_MATCH);
        let none = tags(headers, header::IF_NONE_MATCH);
        let guard = match (matching.as_slice(), none.as_slice()) {
            ([], []) => None,
            ([], [one]) if one == "*" => Some(Guard::Absent),
            ([], _) => return Err(Refusal::bad("`If-None-Match` can only be `*` here")),
            (_, [_, ..]) => return Err(Refusal::bad("say `If-Match` or `If-None-Match`")),
            (tags, []) if tags.iter().any(|tag| tag == "*") => Some(Guard::There),
            // What is no tag of ours is none that there could be.
            (tags, []) => Some(Guard::At(tags.iter().filter_map(|it| revision(it)).collect())),
        };
        Ok(Self { guard })
    }

    /// What has to be so, or this if nothing is said.
    pub fn guard(self, otherwise: Guard) -> Guard {
        self.guard.unwrap_or(otherwise)
    }
}

/// Whether who asks has enough of an answer without a body (RFC 7240, section 4.2).
pub fn prefers_minimal(headers: &HeaderMap) -> bool {
    let words = tags(headers, HeaderName::from_static("prefer"));
    words.iter().any(|it| it.eq_ignore_ascii_case("return=minimal"))
}

fn tags(headers: &HeaderMap, name: HeaderName) -> Vec<String> {
    let values = headers.get_all(name).iter();
    let tags = values.flat_map(|it| it.as_bytes().split(|byte| *byte == b','));
    tags.map(|it| String::from_utf8_lossy(it.trim_ascii()).into_owned()).collect()
}

fn revision(tag: &str) -> Option<u64> {
    tag.strip_prefix("\"r")?.strip_suffix('"')?.parse().ok()
}

/// A request that is done once, however often it comes.
pub struct Once {
    writer: String,
    key: String,
    digest: Context,
}

/// `Idempotency-Key`, with what of the request is known before its body. A token's keys are not
/// another's, not even of one of the same name.
pub fn once(request: &Request, principal: &Principal) -> Result<Option<Once>, Refusal> {
    let Some(key) = request.headers().get("idempotency-key") else { return Ok(None) };
    let key = key.to_str().ok().filter(|it| (1..=128).contains(&it.len()));
    let wrong = || Refusal::bad("`Idempotency-Key` has 1 to 128 printable characters");
    let mut digest = Context::new(&SHA256);
    digest.update(request.uri().to_string().as_bytes());
    // No URI has it.
    digest.update(b"\n");
    let writer = principal.proof.clone().unwrap_or_else(|| principal.name.clone());
    Ok(Some(Once { writer, key: key.ok_or_else(wrong)?.to_owned(), digest }))
}

impl Once {
    /// The request has this, too.
    pub fn cover(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
    }

    pub fn done(self) -> catalog::Once {
        let digest = self.digest.finish();
        catalog::Once { writer: self.writer, key: self.key, digest: hex(digest.as_ref()) }
    }
}

/// Reads a body that is text, of at most so many bytes.
pub async fn text(request: Request, longest: usize) -> Result<String, Refusal> {
    let begun = Instant::now();
    let too_long = || {
        let problem = format!("the body is longer than {} MiB", longest >> 20);
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, problem)
    };
    let (mut body, mut read) = (request.into_body(), Vec::new());
    if body.size_hint().lower() > longest as u64 {
        return Err(too_long());
    }
    loop {
        let slowest = BODY_GRACE.as_secs_f64() + read.len() as f64 / BODY_BYTES_PER_SECOND;
        let end = begun + BODY_TIMEOUT.min(Duration::from_secs_f64(slowest));
        let frame = timeout_at(end, poll_fn(|context| Pin::new(&mut body).poll_frame(context)));
        let frame = frame.await.map_err(|_| {
            let problem = "the body comes too slowly: send it faster, or in parts";
            Refusal::new(StatusCode::REQUEST_TIMEOUT, problem)
        })?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|error| Refusal::bad(format!("the body breaks off: {error}")))?;
        read.extend(frame.into_data().unwrap_or_default());
        if read.len() > longest {
            return Err(too_long());
        }
    }
    let no_text = |_| Refusal::bad("the body is no text: write UTF-8");
    String::from_utf8(read).map_err(no_text)
}
