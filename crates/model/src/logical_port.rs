//! The names of logical ports.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use units::serde_as_word;

/// A port of a logical network, by its tenant and its name: `shop/web-1`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LogicalPortName {
    tenant: String,
    port: String,
}

serde_as_word!(LogicalPortName);

/// Why a word names no port of a logical network.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "`{0}` names no logical port: write its tenant and its name, as shop/web-1, each of 1 to 63 lower-case letters, digits \
     and inner hyphens"
)]
pub struct NoLogicalPort(String);

impl LogicalPortName {
    /// Whose it is.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// Its name among the tenant's.
    pub fn port(&self) -> &str {
        &self.port
    }
}

impl FromStr for LogicalPortName {
    type Err = NoLogicalPort;

    fn from_str(word: &str) -> Result<Self, NoLogicalPort> {
        match word.split_once('/') {
            Some((tenant, port)) if is_label(tenant) && is_label(port) => {
                Ok(Self { tenant: tenant.into(), port: port.into() })
            }
            _ => Err(NoLogicalPort(word.chars().take(130).collect())),
        }
    }
}

impl fmt::Display for LogicalPortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.port)
    }
}

/// Whether a word is an RFC 1123 label, as logical objects' names are.
fn is_label(word: &str) -> bool {
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let ends = [word.bytes().next(), word.bytes().last()];
    (1..=63).contains(&word.len())
        && ends.into_iter().flatten().all(letter)
        && word.bytes().all(|b| letter(b) || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_logical_port_is_named_by_tenant_and_name() {
        let name: LogicalPortName = "shop/web-1".parse().unwrap();
        assert_eq!((name.tenant(), name.port()), ("shop", "web-1"));
        assert_eq!(name.to_string(), "shop/web-1");
        for wrong in ["", "/", "shop", "shop/", "/web", "shop/Web", "shop/-a", "a/b/c", "shop/a_b"]
        {
            assert!(wrong.parse::<LogicalPortName>().is_err(), "{wrong}");
        }
        let long = "x".repeat(64);
        assert!(alloc::format!("{long}/a").parse::<LogicalPortName>().is_err());
    }
}
