//! Places that many want: how many are taken at once, and how many of these by one of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places, of which each has a share only.
#[derive(Debug)]
pub struct Shares {
    places: usize,
    all: Arc<Semaphore>,
    /// Those that who has a share may take: the rest is for who has none.
    shared: Arc<Semaphore>,
    each: usize,
    /// Of those that have a place, or wait for one.
    own: Mutex<BTreeMap<String, Weak<Own>>>,
}

/// One's own share.
#[derive(Debug)]
struct Own {
    places: Arc<Semaphore>,
    /// Those that have a place, and those that wait.
    queue: Arc<Semaphore>,
}

/// How many wait of one, for each place that it may have.
const QUEUE: usize = 8;

/// A place, for as long as this lives.
#[derive(Debug)]
pub struct Share {
    _all: OwnedSemaphorePermit,
    _own: Option<(Arc<Own>, [OwnedSemaphorePermit; 3])>,
}

const OPEN: &str = "nobody closes it";

impl Shares {
    /// So many places, of which each may have `each`, and together all but so many.
    pub fn new(all: usize, each: usize) -> Self {
        let shared = Arc::new(Semaphore::new(all - each));
        let (places, all) = (all, Arc::new(Semaphore::new(all)));
        Self { places, all, shared, each, own: Mutex::default() }
    }

    /// How many places are taken.
    pub fn taken(&self) -> usize {
        self.places - self.all.available_permits()
    }

    /// Waits for a place, first behind others of one's own; not if too many of these wait. `None`
    /// is bounded by what there is.
    pub async fn wait(&self, whose: Option<String>) -> Option<Share> {
        let own = match whose {
            Some(whose) => {
                let own = self.own(whose);
                let queue = Arc::clone(&own.queue).try_acquire_owned().ok()?;
                let place = Arc::clone(&own.places).acquire_owned().await.expect(OPEN);
                let shared = Arc::clone(&self.shared).acquire_owned().await.expect(OPEN);
                Some((own, [queue, place, shared]))
            }
            None => None,
        };
        Some(Share { _own: own, _all: Arc::clone(&self.all).acquire_owned().await.expect(OPEN) })
    }

    /// Takes a place, if there is one.
    pub fn take(&self, whose: Option<String>) -> Option<Share> {
        let own = match whose {
            Some(whose) => {
                let own = self.own(whose);
                let all = [&own.queue, &own.places, &self.shared];
                let [queue, place, shared] = all.map(|it| Arc::clone(it).try_acquire_owned().ok());
                Some((own, [queue?, place?, shared?]))
            }
            None => None,
        };
        Some(Share { _own: own, _all: Arc::clone(&self.all).try_acquire_owned().ok()? })
    }

    fn own(&self, whose: String) -> Arc<Own> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = own.get(&whose).and_then(Weak::upgrade) {
            return found;
        }
        own.retain(|_, it| it.strong_count() > 0);
        let of = |places| Arc::new(Semaphore::new(places));
        let new = Arc::new(Own { places: of(self.each), queue: of(self.each * (1 + QUEUE)) });
        own.insert(whose, Arc::downgrade(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(whose: &str) -> Option<String> {
        Some(whose.into())
    }

    #[test]
    fn one_who_takes_all_it_can_leaves_the_rest_to_others() {
        let shares = Shares::new(5, 2);
        let mut taken: Vec<_> = (0..2).map(|_| shares.take(of("a")).unwrap()).collect();
        assert!(shares.take(of("a")).is_none());
        taken.push(shares.take(of("b")).unwrap());
        assert!(shares.take(of("b")).is_none(), "some are left to who has no share");
        taken.extend((0..2).map(|_| shares.take(None).unwrap()));
        assert!(shares.take(None).is_none() && shares.take(of("c")).is_none());
        assert_eq!(shares.taken(), 5);
        taken.clear();
        assert_eq!(shares.taken(), 0);
        assert!(shares.take(of("a")).is_some());
        assert_eq!(shares.own.lock().unwrap().len(), 1, "who has none is forgotten");
    }
}
