//! Names and numbers of requests ("Front-end message types").

macro_rules! codes {
    ($($code:ident = $number:literal,)*) => {
        /// The kind of a request. The specification has these names in capitals.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        #[repr(u32)]
        #[expect(missing_docs, reason = "the specification tells what each one is")]
        pub enum Code { $($code = $number,)* }

        impl Code {
            /// The requests that a network back-end serves.
            pub const ALL: &[Self] = &[$(Self::$code),*];
        }
    };
}

codes! {
    GetFeatures = 1,
    SetFeatures = 2,
    SetOwner = 3,
    ResetOwner = 4,
    SetMemTable = 5,
    SetLogBase = 6,
    SetLogFd = 7,
    SetVringNum = 8,
    SetVringAddr = 9,
    SetVringBase = 10,
    GetVringBase = 11,
    SetVringKick = 12,
    SetVringCall = 13,
    SetVringErr = 14,
    GetProtocolFeatures = 15,
    SetProtocolFeatures = 16,
    GetQueueNum = 17,
    SetVringEnable = 18,
    SendRarp = 19,
    NetSetMtu = 20,
    SetBackendReqFd = 21,
    GetInflightFd = 31,
    SetInflightFd = 32,
    ResetDevice = 34,
    GetMaxMemSlots = 36,
    AddMemReg = 37,
    RemMemReg = 38,
    SetStatus = 39,
    GetStatus = 40,
}

/// Requests of other devices and later versions.
const UNSERVED: &[(u32, &str)] = &[
    (22, "IOTLB_MSG"),
    (23, "SET_VRING_ENDIAN"),
    (24, "GET_CONFIG"),
    (25, "SET_CONFIG"),
    (26, "CREATE_CRYPTO_SESSION"),
    (27, "CLOSE_CRYPTO_SESSION"),
    (28, "POSTCOPY_ADVISE"),
    (29, "POSTCOPY_LISTEN"),
    (30, "POSTCOPY_END"),
    (33, "GPU_SET_SOCKET"),
    (35, "VRING_KICK"),
    (41, "GET_SHARED_OBJECT"),
    (42, "SET_DEVICE_STATE_FD"),
    (43, "CHECK_DEVICE_STATE"),
];

/// The number of an unknown request, with its name if it has one.
pub(super) fn name(number: u32) -> String {
    match UNSERVED.iter().find(|(known, _)| *known == number) {
        Some((_, name)) => format!("request {number} ({name})"),
        None => format!("request {number}"),
    }
}

impl Code {
    /// Whether it always has a reply of its own ("Communication").
    pub fn is_answered(self) -> bool {
        use Code::*;
        matches!(self, GetFeatures | GetProtocolFeatures | GetQueueNum | GetVringBase)
            || matches!(self, SetLogBase | GetInflightFd | GetMaxMemSlots | GetStatus)
    }

    pub(super) fn of(number: u32) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| *code as u32 == number)
    }
}
