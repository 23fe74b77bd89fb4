//! What the engine has done, for profiles and gates.

/// Of a rule, since the engine was made.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RuleCounters {
    /// Changed tuples that the rule was asked about.
    pub runs: u64,
    /// Searches of tables.
    pub probes: u64,
    /// Rows that searches found.
    pub rows: u64,
    /// Calls of functions.
    pub calls: u64,
    /// Solutions of the body.
    pub derivations: u64,
}

impl RuleCounters {
    /// What the rule has done since these were its counters.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            runs: self.runs - before.runs,
            probes: self.probes - before.probes,
            rows: self.rows - before.rows,
            calls: self.calls - before.calls,
            derivations: self.derivations - before.derivations,
        }
    }
}

/// Of the whole engine, since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Batches that were committed.
    pub commits: u64,
    /// Batches that were refused, or only previewed.
    pub undone: u64,
    /// Tables that the last commit looked at, because what they derive from had changed.
    pub touched: u64,
    /// Tuples that the last commit made come or go, in all tables.
    pub flips: u64,
    /// Parts of recursive tables that were computed anew because too much of them had to go.
    pub recomputed: u64,
    /// How often all tuples were looked at for values that are needed no more.
    pub swept: u64,
}
