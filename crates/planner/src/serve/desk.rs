//! The thread that answers, one question after another.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use placement::Tables;
use tokio::sync::{Notify, oneshot};

use super::scheduler::{Scheduler, by_model};
use crate::plan::Plan;

/// A question, and where its answer goes.
type Question = Box<dyn FnOnce(&mut Scheduler<'_>) + Send>;

/// More questions than this do not wait. They are fewer than connections, or nobody would be told.
const MOST_WAITING: usize = 16;

/// Where questions are put. Clones are of one desk.
#[derive(Clone)]
pub struct Desk {
    sender: Arc<Mutex<SyncSender<Question>>>,
    gone: Arc<Notify>,
}

/// Why a question is not answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unanswered {
    /// Too many wait already.
    Busy,
    /// Nobody is there any more who answers.
    Gone,
}

impl Desk {
    /// Opens a desk for a plan. All hosts are judged before this returns.
    ///
    /// # Errors
    ///
    /// No thread can be had.
    pub fn open(plan: Plan) -> io::Result<Self> {
        Ok(Self { sender: Arc::new(Mutex::new(open(plan)?)), gone: Arc::default() })
    }

    /// Puts another plan in the place of the one that is served, as soon as it is ready. `place`
    /// has machines be where they are known to be by then. What was assumed still is, but for what
    /// has a place after that. `now` is asked for when that is known.
    ///
    /// # Errors
    ///
    /// No thread can be had.
    pub fn replace(
        &self,
        plan: Plan,
        place: impl FnOnce(&mut Scheduler<'_>) + Send + 'static,
        now: impl FnOnce() -> Duration,
    ) -> io::Result<()> {
        let next = open(plan)?;
        let mut sender = self.sender.lock().unwrap_or_else(|it| it.into_inner());
        // The old thread hands its assumptions over when it has answered what is waiting, and ends
        // when nobody can ask it any more.
        let (give, take) = sync_channel(1);
        let asked = sender.send(Box::new(move |old| {
            let _ = give.send(old.assumptions());
        }));
        let assumptions = asked.ok().and_then(|()| take.recv().ok());
        let now = now();
        let _ = next.send(Box::new(move |new| {
            // A machine that came while this plan was judged is not assumed any more by the one
            // before: it has to be placed here, and before assumptions are held against places.
            place(new);
            if let Some(assumptions) = assumptions {
                new.adopt(assumptions, now);
            }
        }));
        *sender = next;
        Ok(())
    }

    /// Asks something.
    ///
    /// # Errors
    ///
    /// [`Unanswered`]
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Scheduler<'_>) -> T + Send + 'static,
    ) -> Result<T, Unanswered> {
        let (give, take) = oneshot::channel();
        let question: Question = Box::new(move |scheduler| {
            // For whoever does not wait any more, nothing is computed, and nothing assumed.
            if !give.is_closed() {
                let _ = give.send(question(scheduler));
            }
        });
        let sent = self.sender.lock().unwrap_or_else(|it| it.into_inner()).try_send(question);
        let answer = match sent {
            Ok(()) => take.await.map_err(|_| Unanswered::Gone),
            Err(TrySendError::Full(_)) => Err(Unanswered::Busy),
            Err(TrySendError::Disconnected(_)) => Err(Unanswered::Gone),
        };
        if matches!(answer, Err(Unanswered::Gone)) {
            self.gone.notify_one();
        }
        answer
    }

    /// Waits until a question found that nobody answers any more.
    pub async fn gone(&self) {
        self.gone.notified().await;
    }
}

/// Starts the thread of a plan.
fn open(plan: Plan) -> io::Result<SyncSender<Question>> {
    let (sender, questions) = sync_channel(MOST_WAITING);
    let (ready, is_ready) = sync_channel(1);
    thread::Builder::new().name("desk".into()).spawn(move || answer(&plan, &questions, &ready))?;
    is_ready.recv().map_err(|_| io::Error::other("the plan cannot be judged"))?;
    Ok(sender)
}

fn answer(plan: &Plan, questions: &Receiver<Question>, ready: &SyncSender<()>) {
    let (problem, placement) = by_model(plan);
    let tables = Tables::new(&problem);
    let mut scheduler = Scheduler::new(plan, &tables, &placement);
    scheduler.judge_all();
    let _ = ready.send(());
    while let Ok(question) = questions.recv() {
        question(&mut scheduler);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use placement::Pattern;
    use tokio::runtime::{Builder, Runtime};

    use super::super::refusals::Refused;
    use super::super::scheduler::Machine;
    use super::*;

    const PLAN: &str = "\
goal: {epsilon: 0.001}
types:
  r: {cores: 4, memory: 4gib, switch: [{cores: 1, carries: 1gbit}]}
hosts:
  h: {type: r}
models:
  web: {rate: 1mbit}
vms:
  web: {count: 2, model: web, cores: 1, memory: 1gib}
serve: {models: [web]}
";

    fn plan() -> Plan {
        Plan::of_text(Path::new("p.yaml"), PLAN).unwrap_or_else(|it| panic!("{it:?}"))
    }

    fn opened() -> (Runtime, Desk) {
        (Builder::new_current_thread().build().unwrap(), Desk::open(plan()).unwrap())
    }

    #[test]
    fn too_many_questions_are_refused_and_those_of_who_hung_up_passed_over() {
        let (runtime, desk) = opened();
        let (begun, has_begun) = sync_channel(1);
        let (end, ended) = sync_channel::<()>(1);
        runtime.block_on(async {
            let first = desk.clone();
            let first = async move {
                let waits = first.ask(move |_| {
                    begun.send(()).unwrap();
                    ended.recv().unwrap();
                });
                waits.await
            };
            let mut first = Box::pin(first);
            // A question is put when it is waited for the first time.
            assert!(at_once(&mut first).is_none());
            has_begun.recv().unwrap();
            let was_asked = Arc::new(Mutex::new(0));
            let mut waiting: Vec<_> = (0..MOST_WAITING)
                .map(|_| {
                    let was_asked = Arc::clone(&was_asked);
                    Box::pin(desk.ask(move |_| *was_asked.lock().unwrap() += 1))
                })
                .collect();
            assert!(waiting.iter_mut().all(|it| at_once(it).is_none()));
            assert_eq!(desk.ask(|_| ()).await, Err(Unanswered::Busy));
            waiting.truncate(3);
            end.send(()).unwrap();
            assert_eq!(first.await, Ok(()));
            for it in waiting {
                assert_eq!(it.await, Ok(()));
            }
            // Each that waits is before this one.
            while desk.ask(|_| ()).await.is_err() {
                tokio::task::yield_now().await;
            }
            assert_eq!(*was_asked.lock().unwrap(), 3);
        });
    }

    /// What a future says at once.
    fn at_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::Pin::new(future).poll(&mut context) {
            std::task::Poll::Ready(it) => Some(it),
            std::task::Poll::Pending => None,
        }
    }

    #[test]
    fn a_machine_that_comes_while_the_next_plan_is_judged_is_placed_there() {
        let (runtime, desk) = opened();
        let machine = |key: &str, milli_cores| Machine {
            key: key.into(),
            model: Some(0),
            milli_cores,
            memory: 0,
        };
        let seconds = Duration::from_secs;
        runtime.block_on(async {
            let (a, b) = (machine("a", 1000), machine("b", 1000));
            let assumed = desk.ask(move |scheduler| {
                scheduler.assume(seconds(1), &a, "h");
                scheduler.assume(seconds(2), &b, "h");
            });
            assumed.await.unwrap();
            // The next plan was made when neither was there. The agent's port of one comes.
            let next = plan();
            let one = || Pattern::new([(0, 1)]);
            desk.ask(move |scheduler| scheduler.place(0, one())).await.unwrap();
            desk.replace(next, move |scheduler| scheduler.place(0, one()), || seconds(3)).unwrap();
            let more = machine("c", 1001);
            let seen = desk.ask(move |scheduler| {
                let seen = (scheduler.assumed(), scheduler.judge(&more, "h"));
                // The next reading says the same, and nobody has come since.
                scheduler.place(0, one());
                (seen, scheduler.assumed())
            });
            let refused = Refused::Cores { needs: 1001, left: 1000 };
            assert_eq!(seen.await, Ok(((1, Err(refused)), 1)));
        });
    }

    #[test]
    fn a_desk_that_nobody_is_at_is_told() {
        let (runtime, desk) = opened();
        runtime.block_on(async {
            assert_eq!(
                desk.ask(|_| panic!("as a test wants it")).await,
                Err::<(), _>(Unanswered::Gone)
            );
            assert_eq!(desk.ask(|_| ()).await, Err(Unanswered::Gone));
            desk.gone().await;
        });
    }
}
