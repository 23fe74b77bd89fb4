//! Where flow control is on: in the virtual network, in the physical one, in both or in none (zOVN
//! §5.3).

use std::fmt;
use std::str::FromStr;

use lab::{HostsSpec, LabSpec, SwitchKind};
use model::ClassKind;
use serde::{Deserialize, Serialize};

use crate::MeasureError;

/// What each network between two machines promises. On a command line it is two letters, `L`
/// (lossy) or `Z` (zero loss), of which the first is the virtual network's, with `+retransmit` if
/// hosts send again what the physical one dropped: the paper's LL, LZ, ZL and ZZ. Elsewhere it is
/// `virtual=lossless physical=lossy retransmit=on`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FlowControl {
    /// Switches on hosts, and the tunnels between them.
    pub in_virtual: ClassKind,
    /// The switch between hosts.
    pub in_physical: ClassKind,
    /// Whether hosts send again what the physical network dropped.
    pub retransmit: bool,
}

impl FlowControl {
    /// None anywhere.
    pub const NONE: Self =
        Self { in_virtual: ClassKind::Lossy, in_physical: ClassKind::Lossy, retransmit: false };

    /// Whether nothing may be lost.
    pub fn is_lossless(self) -> bool {
        self.in_virtual == ClassKind::Lossless
            && (self.in_physical == ClassKind::Lossless || self.retransmit)
    }

    /// The switch on each host.
    pub fn switch(self) -> SwitchKind {
        match self.in_virtual {
            ClassKind::Lossless => SwitchKind::Zovn,
            ClassKind::Lossy => SwitchKind::ZovnLossy,
        }
    }

    /// Has the lab of `hosts` be so.
    pub(super) fn apply(self, spec: &mut LabSpec, mut hosts: HostsSpec) {
        hosts.credit = (self.in_virtual == ClassKind::Lossless).into();
        hosts.retransmit = self.retransmit.into();
        hosts.physical.promise = self.in_physical;
        spec.switch = self.switch();
        spec.hosts = Some(hosts);
    }
}

impl fmt::Display for FlowControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |kind| match kind {
            ClassKind::Lossless => "lossless",
            ClassKind::Lossy => "lossy",
        };
        let retransmit = if self.retransmit { "on" } else { "off" };
        write!(
            f,
            "virtual={} physical={} retransmit={retransmit}",
            word(self.in_virtual),
            word(self.in_physical)
        )
    }
}

impl From<FlowControl> for String {
    fn from(flow_control: FlowControl) -> Self {
        flow_control.to_string()
    }
}

impl TryFrom<String> for FlowControl {
    type Error = MeasureError;

    fn try_from(text: String) -> Result<Self, MeasureError> {
        text.parse()
    }
}

impl FromStr for FlowControl {
    type Err = MeasureError;

    fn from_str(text: &str) -> Result<Self, MeasureError> {
        // Five there are: a lossy switch has nothing to repair for.
        let all = ["LL", "LZ", "ZL", "ZZ", "ZL+retransmit"].map(|word| (word, Self::of(word)));
        let found = all.into_iter().find(|(word, it)| *word == text || it.to_string() == text);
        found.map(|(_, it)| it).ok_or_else(|| {
            MeasureError::Config(format!(
                "`{text}` is no flow control: write LL, LZ, ZL, ZZ or ZL+retransmit (virtual network, physical network; L: lossy, \
                 Z: zero loss)"
            ))
        })
    }
}

impl FlowControl {
    fn of(word: &str) -> Self {
        let promise = |letter| if letter == b'Z' { ClassKind::Lossless } else { ClassKind::Lossy };
        let [in_virtual, in_physical] = [0, 1].map(|at| promise(word.as_bytes()[at]));
        Self { in_virtual, in_physical, retransmit: word.ends_with("+retransmit") }
    }
}

#[cfg(test)]
mod tests {
    use units::ClassSet;

    use super::*;

    #[test]
    fn short_words_and_full_words_are_the_same() {
        for (word, full, lossless) in [
            ("LL", "virtual=lossy physical=lossy retransmit=off", false),
            ("LZ", "virtual=lossy physical=lossless retransmit=off", false),
            ("ZL", "virtual=lossless physical=lossy retransmit=off", false),
            ("ZZ", "virtual=lossless physical=lossless retransmit=off", true),
            ("ZL+retransmit", "virtual=lossless physical=lossy retransmit=on", true),
        ] {
            let it: FlowControl = word.parse().unwrap();
            assert_eq!((it.to_string().as_str(), it.is_lossless()), (full, lossless));
            assert_eq!(full.parse::<FlowControl>().unwrap(), it);
        }
        assert_eq!("LL".parse::<FlowControl>().unwrap(), FlowControl::NONE);
        for word in ["", "Z", "LL+retransmit", "zz", "ZZ+"] {
            assert!(word.parse::<FlowControl>().is_err(), "{word}");
        }
    }

    #[test]
    fn a_lab_is_told_by_its_own_keys() {
        let mut spec = LabSpec::new("a", SwitchKind::Bridge);
        "ZL+retransmit".parse::<FlowControl>().unwrap().apply(&mut spec, HostsSpec::new(2));
        let hosts = spec.hosts.as_ref().unwrap();
        assert_eq!(
            (spec.switch, hosts.credit, hosts.retransmit),
            (SwitchKind::Zovn, ClassSet::ALL, ClassSet::ALL)
        );
        assert_eq!(hosts.physical.promise, ClassKind::Lossy);
        FlowControl::NONE.apply(&mut spec, HostsSpec::new(2));
        let hosts = spec.hosts.as_ref().unwrap();
        assert_eq!(
            (spec.switch, hosts.credit, hosts.retransmit),
            (SwitchKind::ZovnLossy, ClassSet::NONE, ClassSet::NONE)
        );
    }
}
