//! What is told of fits: each model, the classes of hours, and what traces say of machines
//! together.

use serde::Serialize;

use crate::fitted::Told;
use crate::hours::Period;
use crate::together::Together;

/// What is told of fits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToldFits {
    /// Each trace and its model, in each class of hours.
    pub traces: Vec<Told>,
    /// Classes of hours, the busiest first; none if hours are not divided.
    pub periods: Vec<Period>,
    /// What the traces say of machines together, if they are of the same times and hours are not
    /// divided.
    pub together: Option<Together>,
}

impl ToldFits {
    /// What is told of all of them: a sentence each.
    pub fn remarks(&self) -> Vec<String> {
        let together = self.together.as_ref().map(|it| it.sentence(false));
        let of_period = |it: &Period| {
            let together = it.together.as_ref();
            let together = together.map(|of| format!("{}: {}", it.name, of.sentence(true)));
            [it.sentence()].into_iter().chain(together)
        };
        self.periods.iter().flat_map(of_period).chain(together).collect()
    }
}
