//! Changes of a shelf as server-sent events.
//!
//! A watcher is a cursor into the store's list of changes, and at most one text that waits to be
//! taken. So one that is slow costs no more than another. It resumes by the last bookmark that it
//! has seen; whose place in history is gone is told to list anew. What is so of objects has no
//! history: who asks for it is told what it is now.
//!
//! ```text
//! event: put            data: the object
//! event: delete         data: its kind, tenant and name, and the revision; gone, or not meant now
//! event: status         data: its kind, tenant, name and revision, and what is so of it now
//! event: bookmark       id: the revision up to which everything was told
//! event: reset          that history is gone: list, and watch from there
//! ```

use std::convert::Infallible;
use std::fmt::Write;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use hyper::body::{Body, Frame};
use serde_json::{Value, json};
use store::{Change, Changes, Cursor, Key, Revision, StoreError};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use crate::access::Principal;
use crate::catalog::{self, Catalog, OpenError, Tenancy};
use crate::door::Door;
use crate::place;
use crate::shares::Share;
use crate::statuses::{Now, Statuses};
use crate::watched::Watched;

/// How often a watcher hears something, at least.
const BOOKMARK: Duration = Duration::from_secs(10);

/// How long a watcher may take to take what waits for it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Events, as the body of an answer.
pub struct Events(mpsc::Receiver<Bytes>);

impl Events {
    /// What changes of these objects after a revision, and what is so of them if that is asked
    /// for, for as long as who watches is let in.
    pub fn new(
        catalog: Arc<Catalog>,
        door: Arc<Door>,
        who: Principal,
        watched: Watched,
        statuses: Option<Statuses>,
        from: Revision,
        share: Share,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            tokio::select! {
                () = tell(catalog, watched, who.confined_to(), statuses, from, sender) => {}
                () = door.until_gone(&who) => {}
            }
            drop(share);
        });
        Self(receiver)
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|text| text.map(|text| Ok(Frame::data(text))))
    }
}

/// Tells a watcher of changes until it hangs up, is too slow, or has to begin anew.
async fn tell(
    catalog: Arc<Catalog>,
    watched: Watched,
    tenant: Option<Tenancy>,
    mut statuses: Option<Statuses>,
    from: Revision,
    sender: mpsc::Sender<Bytes>,
) {
    let mut revisions = catalog.store().subscribe();
    let mut cursor = Cursor::behind(from);
    // The revision of which something was told, and that is not known to be told of as a whole.
    let mut open = None;
    let mut heard = Instant::now();
    // The first words say that the watch has begun.
    let mut text = bookmark(from);
    let is_before = tenant.as_ref().is_some_and(|it| from.0 + 1 < it.since.0);
    loop {
        let (of, watched, whose) = (Arc::clone(&catalog), watched.clone(), tenant.clone());
        let mut kept = statuses.take();
        let read = move || (read(&of, &watched, whose.as_ref(), cursor, kept.as_mut()), kept);
        let Ok((read, kept)) = tokio::task::spawn_blocking(read).await else { return };
        statuses = kept;
        let (changes, now) = match read {
            Ok(Some(read)) if !is_before => read,
            // The tenant is gone.
            Ok(None) => return,
            // What was before a tenant is another's of its name.
            Ok(Some(_)) | Err(OpenError::Store(StoreError::Compacted { .. })) => {
                text.push_str("event: reset\ndata: {}\n\n");
                let _ = timeout(PATIENCE, sender.send(text.into())).await;
                return;
            }
            Err(error) => {
                tracing::error!(%error, "a watch ends");
                return;
            }
        };
        cursor = changes.next;
        for change in changes.changes {
            if let Some(told) = open.replace(change.revision).filter(|it| *it != change.revision) {
                text.push_str(&bookmark(told));
            }
            text.push_str(&event(&change, tenant.is_some()));
        }
        if let Some(revision) = changes.complete
            && open.take().is_some()
        {
            text.push_str(&bookmark(revision));
        }
        now.iter().for_each(|it| text.push_str(&status(it)));
        if !text.is_empty() {
            let sent = timeout(PATIENCE, sender.send(std::mem::take(&mut text).into())).await;
            if !matches!(sent, Ok(Ok(()))) {
                return;
            }
            heard = Instant::now();
        }
        if let Some(revision) = changes.complete {
            let due = async {
                match &mut statuses {
                    Some(statuses) => statuses.due().await,
                    None => pending().await,
                }
            };
            tokio::select! {
                newer = revisions.wait_for(|it| *it > revision) => if newer.is_err() { return },
                () = due => {}
                () = sleep_until(heard + BOOKMARK) => text = bookmark(revision),
                () = sender.closed() => return,
            }
        }
    }
}

/// Some changes, and what is so of some objects if that is due. `None`: the tenant is gone.
fn read(
    catalog: &Catalog,
    watched: &Watched,
    tenant: Option<&Tenancy>,
    cursor: Cursor,
    statuses: Option<&mut Statuses>,
) -> Result<Option<(Changes, Vec<Now>)>, OpenError> {
    let changes = watched.changes(catalog.store(), cursor)?;
    let mut now = Vec::new();
    if let Some(statuses) = statuses {
        changes.changes.iter().for_each(|change| statuses.forget(&change.key));
        // Of objects as they were told: who watches has not heard of later ones.
        if let Some(revision) = changes.complete {
            now = statuses.look(catalog.store(), watched, revision)?;
        }
    }
    // Asked behind the rest: what was read is not of another tenant of that name.
    let is_gone = match tenant {
        Some(it) => catalog.tenancy(&it.name)?.as_ref() != Some(it),
        None => false,
    };
    Ok((!is_gone).then_some((changes, now)))
}

fn bookmark(revision: Revision) -> String {
    format!("event: bookmark\nid: {revision}\ndata: {{\"revision\":{revision}}}\n\n")
}

/// A change as an event. JSON of ours has no line ends.
fn event(change: &Change, is_tenants: bool) -> String {
    let mut text = String::new();
    match &change.entry {
        Some(entry) => {
            text.push_str("event: put\ndata: ");
            let shown = is_tenants.then(|| catalog::shown(&change.key, &entry.value));
            let shown = shown.map(|it| json!(it.ok().flatten()).to_string());
            text.push_str(&shown.unwrap_or_else(|| String::from_utf8_lossy(&entry.value).into()));
        }
        None => {
            let _ = write!(text, "event: delete\ndata: {}", named(&change.key, change.revision));
        }
    }
    text.push_str("\n\n");
    text
}

/// What is so of an object, as an event. It has no id, as it is no part of history.
fn status(now: &Now) -> String {
    let mut object = named(&now.key, now.revision);
    object["status"] = json!(now.status);
    format!("event: status\ndata: {object}\n\n")
}

/// An object by its key, and a revision of it.
fn named(key: &Key, revision: Revision) -> Value {
    let Some(it) = place::identity(key) else { return Value::Null };
    let mut metadata = json!({ "name": it.name, "revision": revision.0 });
    if let Some(tenant) = it.tenant {
        metadata["tenant"] = json!(tenant);
    }
    json!({ "kind": it.kind.name(), "metadata": metadata })
}
