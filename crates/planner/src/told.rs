//! What is told of fits: each model, the hours that were fitted, and what traces say of machines
//! together.

use serde::Serialize;

use crate::busy::Busy;
use crate::fitted::Told;
use crate::together::Together;

/// What is told of fits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToldFits {
    /// Each trace and its model.
    pub traces: Vec<Told>,
    /// The hours of the week that were fitted, if not all.
    pub busy: Option<Busy>,
    /// What the traces say of machines together, if they are of the same times.
    pub together: Option<Together>,
}

impl ToldFits {
    /// What is told of all of them: a sentence each.
    pub fn remarks(&self) -> Vec<String> {
        let busy = self.busy.as_ref().map(Busy::sentence);
        let together = self.together.as_ref().map(|it| it.sentence(busy.is_some()));
        busy.into_iter().chain(together).collect()
    }
}
