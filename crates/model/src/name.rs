//! Names, as declarations may have them.

use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Serialize};

/// A port's name: what people call it in files, tables and metrics.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(pattern = "^[!-.0-~]{1,63}$"))]
#[serde(transparent)]
pub struct PortName(pub String);

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether a text can be the path of a socket whatever the working directory is: `sockaddr_un` has
/// 108 bytes with the closing zero (unix(7)).
pub(crate) fn is_socket(path: &str) -> bool {
    path.starts_with('/') && path.len() <= 107 && !path.contains('\0')
}

/// Whether a text is 1 to `most` visible ASCII characters without `/`.
pub(crate) fn is_word(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic() && b != b'/')
}

/// Whether Linux lets an interface have this name (`dev_valid_name`, and the names that the
/// directories under /proc/sys/net have). A `%` would be replaced by a number.
pub(crate) fn is_interface(name: &str) -> bool {
    // IFNAMSIZ is 16 with the closing zero.
    is_word(name, 15)
        && !name.contains([':', '%'])
        && !matches!(name, "." | ".." | "all" | "default" | "lo")
}
