//! Whether a path to a host works, as far as frames use it.

/// What is known of a path. The greater is the better.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Liveness {
    /// It worked, and does not any more: nothing is sent by it.
    Down,
    /// BFD does not watch it, or never found it up: the far host may not speak BFD. Frames use it,
    /// unless there is a better one.
    #[default]
    Unknown,
    /// It works.
    Up,
}

impl Liveness {
    /// The state after BFD has found that the path works, or that it does not. `None`: the far
    /// host's operator holds BFD down, which says nothing of the path (RFC 5882 §3.2).
    #[must_use]
    pub fn found(self, works: Option<bool>) -> Self {
        match (self, works) {
            (_, None) | (Self::Unknown, Some(false)) => Self::Unknown,
            (_, Some(true)) => Self::Up,
            (Self::Up | Self::Down, Some(false)) => Self::Down,
        }
    }

    /// The state after the far host has restarted, perhaps without BFD.
    #[must_use]
    pub fn begun_anew(self) -> Self {
        if self == Self::Down { Self::Unknown } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::Liveness::{Down, Unknown, Up};

    #[test]
    fn a_path_is_down_only_after_it_was_up() {
        assert_eq!(Unknown.found(Some(false)), Unknown);
        assert_eq!(Unknown.found(Some(true)), Up);
        assert_eq!(Up.found(Some(false)), Down);
        assert_eq!(Down.found(Some(false)), Down);
        assert_eq!(Down.found(Some(true)), Up);
    }

    #[test]
    fn who_ends_bfd_or_begins_without_it_is_reached() {
        assert_eq!([Unknown, Up, Down].map(|it| it.found(None)), [Unknown; 3]);
        assert_eq!([Unknown, Up, Down].map(super::Liveness::begun_anew), [Unknown, Up, Unknown]);
    }
}
