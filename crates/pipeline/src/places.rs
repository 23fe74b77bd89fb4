//! The places of what a part has: names become numbers.

/// Says once which places there are.
macro_rules! places {
    ($($(#[$doc:meta])* $place:ident,)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
            pub struct $place(pub u32);

            impl $place {
                /// As an index.
                pub const fn at(self) -> usize {
                    self.0 as usize
                }
            }
        )*
    };
}

places! {
    /// A switch's place.
    SwitchAt,
    /// A port's place.
    PortAt,
    /// A router's place.
    RouterAt,
    /// The place of a router's port.
    RouterPortAt,
    /// A rule's place, among all of a part's by name.
    RuleAt,
}
