//! The files that are the program, each with its name.

pub const FILES: &[(&str, &str)] = &[
    ("rules/types.nlog", include_str!("../rules/types.nlog")),
    ("rules/switches.nlog", include_str!("../rules/switches.nlog")),
    ("rules/groups.nlog", include_str!("../rules/groups.nlog")),
    ("rules/policies.nlog", include_str!("../rules/policies.nlog")),
    ("rules/routers.nlog", include_str!("../rules/routers.nlog")),
];
