//! Waiting until hosts execute something, for so long and for so many.

use std::time::Duration;

use axum::http::StatusCode;
use logical::objects::{Condition, ConditionType, Kind, Truth};
use serde::Deserialize;
use store::Revision;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use units::Span;

use super::app::App;
use crate::access::Principal;
use crate::catalog::Refused;
use crate::conditions::may_have;
use crate::outcome::Applied;
use crate::problem::Refusal;
use crate::progress::Written;
use crate::shares::Share;

/// How long is waited if nothing is said, and at most.
const USUAL: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(300);

/// How long a revision is waited for that a read has to have.
const LONGEST_BEHIND: Duration = Duration::from_secs(2);

/// How often it is looked at again, at most.
const PACE: Duration = Duration::from_millis(5);

/// Of so many moments, all who wait spend one looking: who publishes waits meanwhile.
const REST: u32 = 2;

/// What a query says of waiting.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waiting {
    #[serde(rename = "waitFor")]
    pub wait_for: Option<ConditionType>,
    pub timeout: Option<Span>,
}

/// What a query of one object says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    #[serde(rename = "atLeast")]
    pub at_least: Option<AtLeast>,
    #[serde(rename = "waitFor")]
    wait_for: Option<ConditionType>,
    timeout: Option<Span>,
}

impl Reading {
    /// Who waits until a condition of an object of a kind is `True`, if that is asked for, and for
    /// which.
    pub fn waiter(
        &self,
        app: &App,
        who: &Principal,
        kind: Kind,
    ) -> Result<Option<(Waiter, ConditionType)>, Refusal> {
        let Self { wait_for, timeout, .. } = *self;
        if let Some(it) = wait_for.filter(|it| !may_have(kind, *it)) {
            return Err(Refusal::bad(format!("a {kind} has no condition `{it:?}`")));
        }
        Ok(Waiting { wait_for, timeout }.place(app, who)?.zip(wait_for))
    }
}

/// The oldest revision that a read may be of: `r812`, as its ETag says it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct AtLeast(Revision);

impl TryFrom<String> for AtLeast {
    type Error = &'static str;

    fn try_from(word: String) -> Result<Self, Self::Error> {
        let revision = word.strip_prefix('r').and_then(|it| it.parse().ok());
        revision.map(|it| Self(Revision(it))).ok_or("`atLeast` is a revision: `atLeast=r812`")
    }
}

impl AtLeast {
    /// Waits until the store has it, but not for long.
    pub async fn wait(self, app: &App, who: &Principal) -> Result<(), Refusal> {
        if app.catalog.store().revision() >= self.0 {
            return Ok(());
        }
        let _share = place(app, who)?;
        let mut revisions = app.catalog.store().subscribe();
        let is_there = timeout(LONGEST_BEHIND, revisions.wait_for(|it| *it >= self.0));
        let is_there = tokio::select! {
            done = is_there => matches!(done, Ok(Ok(_))),
            () = app.door.until_gone(who) => return Err(Refused::Gone.into()),
        };
        is_there.then_some(()).ok_or_else(|| {
            let newest = app.catalog.store().revision();
            let problem = format!("there is no revision {} yet, the newest is {newest}", self.0);
            Refusal::new(StatusCode::PRECONDITION_FAILED, problem)
        })
    }
}

/// A place among those who wait.
fn place(app: &App, who: &Principal) -> Result<Share, Refusal> {
    app.waiters.take(who.share()).ok_or_else(|| {
        let problem =
            "as many wait already as may: ask without `waitFor` and `atLeast`, or try again";
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, problem)
    })
}

/// Somebody who waits: a place among those who do.
pub struct Waiter {
    longest: Duration,
    _share: Share,
}

impl Waiting {
    /// What a query says, if it is not of a dry run.
    pub fn unless(
        dry_run: Option<bool>,
        wait_for: Option<ConditionType>,
        timeout: Option<Span>,
    ) -> Self {
        let is_done = !dry_run.unwrap_or(false);
        Self { wait_for: wait_for.filter(|_| is_done), timeout: timeout.filter(|_| is_done) }
    }

    /// A place among those who wait until hosts execute a write, if that is asked for.
    pub fn begin(&self, app: &App, who: &Principal) -> Result<Option<Waiter>, Refusal> {
        if self.wait_for.is_some_and(|it| it != ConditionType::Realized) {
            return Err(Refusal::bad("here `waitFor` can only be `Realized`"));
        }
        self.place(app, who)
    }

    fn place(&self, app: &App, who: &Principal) -> Result<Option<Waiter>, Refusal> {
        let longest = self.timeout.map(|it| Duration::from_nanos(it.as_nanos()));
        match (self.wait_for, longest) {
            (None, None) => return Ok(None),
            (Some(_), longest) if longest.is_none_or(|it| it <= LONGEST) => {}
            (Some(_), _) => {
                let problem = format!("`timeout` is longer than {} s", LONGEST.as_secs());
                return Err(Refusal::bad(problem));
            }
            (None, Some(_)) => {
                return Err(Refusal::bad("say what is waited for, as `waitFor=Realized`"));
            }
        }
        let share = place(app, who)?;
        Ok(Some(Waiter { longest: longest.unwrap_or(USUAL), _share: share }))
    }
}

impl Waiter {
    /// Waits until hosts execute a write: whether they do.
    pub async fn wait_for(self, app: &App, who: &Principal, applied: &Applied) -> Condition {
        let written = Written::from(applied);
        let realized = || app.progress.realized(&written, who.tenant()).0;
        self.wait(app, who, || realized().status == Truth::True).await;
        realized()
    }

    /// Waits until something is so, it has lasted too long, or who waits is let in no more.
    pub async fn wait(self, app: &App, who: &Principal, is_so: impl Fn() -> bool) {
        tokio::select! {
            () = until(app, Instant::now() + self.longest, is_so) => {}
            () = app.door.until_gone(who) => {}
        }
    }
}

async fn until(app: &App, end: Instant, is_so: impl Fn() -> bool) {
    let mut moved = app.progress.subscribe();
    loop {
        let begun = Instant::now();
        if is_so() || begun >= end {
            return;
        }
        let rest = rest(begun.elapsed(), app.waiters.taken());
        sleep(rest.min(end.saturating_duration_since(begun))).await;
        let _ = timeout_at(end, moved.changed()).await;
    }
}

/// How long who has looked for so long rests, while so many wait.
fn rest(looking: Duration, waiters: usize) -> Duration {
    let waiters = u32::try_from(waiters).unwrap_or(u32::MAX);
    PACE.max(looking.saturating_mul(REST.saturating_mul(waiters)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_wait_the_longer_each_rests() {
        let millis = Duration::from_millis;
        assert_eq!(rest(Duration::from_micros(10), 1), PACE);
        assert_eq!(rest(millis(10), 1), millis(20));
        assert_eq!(rest(millis(10), 256), millis(5120));
    }
}
