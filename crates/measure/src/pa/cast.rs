//! Who asks, who answers, and who sends beside them.

/// Endpoints by what they do.
pub(super) struct Cast {
    /// Ask.
    pub aggregators: Vec<String>,
    /// Answer.
    pub workers: Vec<String>,
    /// Send to each other beside that, if any do.
    pub background: Vec<String>,
}
