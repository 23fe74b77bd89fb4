//! Words of the command line for objects, and the paths at which a controller has them.

use logical::objects::{Identity, Kind, Name, Owner};

/// Why a word is not understood.
#[derive(Debug, thiserror::Error)]
pub enum WordError {
    /// It is no kind.
    #[error("`{0}` is no kind of object: they are {known}", known = kinds())]
    Kind(String),
    /// It is no object.
    #[error("`{0}` is no object: write it as `LogicalPort/shop/web-1`, or `TransportNode/h1`")]
    Object(String),
    /// Nobody is said.
    #[error("{0}s are a tenant's: say whose by `--tenant`")]
    Whose(&'static str),
}

fn kinds() -> String {
    let word = |kind: &Kind| format!("{} ({})", kind.name(), kind.short());
    Kind::ALL.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// A kind, by its name, its word in paths, or its short word.
pub fn kind(word: &str) -> Result<Kind, WordError> {
    let is_it = |it: &&Kind| {
        it.name().eq_ignore_ascii_case(word) || it.path() == word || it.short() == word
    };
    Kind::ALL.iter().find(is_it).copied().ok_or_else(|| WordError::Kind(word.into()))
}

/// The path of a kind's objects.
pub fn shelf(kind: Kind, tenant: Option<&Name>) -> Result<String, WordError> {
    match (kind.owner(), tenant) {
        (Owner::Tenant, None) => Err(WordError::Whose(kind.name())),
        (Owner::Tenant | Owner::Either, Some(tenant)) => {
            Ok(format!("/v1/tenants/{tenant}/{}", kind.path()))
        }
        (Owner::Operator, _) | (Owner::Either, None) => Ok(format!("/v1/{}", kind.path())),
    }
}

/// The object that a word is for; without a tenant, one of this tenant's is meant.
pub fn identity(word: &str, tenant: Option<&Name>) -> Result<Identity, WordError> {
    let none = || WordError::Object(word.into());
    let (of, rest) = word.split_once('/').ok_or_else(none)?;
    let kind = kind(of)?;
    let said: Identity = format!("{}/{rest}", kind.name()).parse().map_err(|_| none())?;
    let tenant = match (said.tenant, kind.owner()) {
        (Some(_), Owner::Operator) => return Err(none()),
        (None, Owner::Tenant) => tenant.cloned(),
        (said, _) => said,
    };
    Ok(Identity { kind, tenant, name: said.name })
}

/// The path of an object.
pub fn path(identity: &Identity) -> Result<String, WordError> {
    Ok(format!("{}/{}", shelf(identity.kind, identity.tenant.as_ref())?, identity.name))
}

/// The path of the object that a word is for.
pub fn object(word: &str, tenant: Option<&Name>) -> Result<String, WordError> {
    path(&identity(word, tenant)?)
}

/// A word as a query has it (RFC 3986 §2.1).
pub fn in_query(word: &str) -> String {
    let letter = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    word.bytes().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_for_one_kind() {
        let words =
            |kind: &Kind| [kind.name().to_lowercase(), kind.path().into(), kind.short().into()];
        for it in Kind::ALL {
            assert_eq!(words(it).map(|word| kind(&word).unwrap()), [*it; 3]);
        }
        let error = kind("pod").unwrap_err().to_string();
        assert!(error.contains("LogicalPort (lp), "), "{error}");
    }

    #[test]
    fn words_lead_to_paths() {
        let shop: Name = "shop".parse().unwrap();
        for (word, tenant, path) in [
            ("LogicalPort/shop/web-1", None, "/v1/tenants/shop/logical-ports/web-1"),
            ("logical-ports/web-1", Some(&shop), "/v1/tenants/shop/logical-ports/web-1"),
            ("logicalport/b/web-1", Some(&shop), "/v1/tenants/b/logical-ports/web-1"),
            ("lp/web-1", Some(&shop), "/v1/tenants/shop/logical-ports/web-1"),
            ("node/h1", None, "/v1/transport-nodes/h1"),
            ("TransportNode/h1", Some(&shop), "/v1/transport-nodes/h1"),
            ("Policy/in", Some(&shop), "/v1/policies/in"),
            ("Policy/shop/in", None, "/v1/tenants/shop/policies/in"),
        ] {
            assert_eq!(object(word, tenant).unwrap(), path);
        }
        for (word, problem) in [
            ("LogicalPort", "is no object"),
            ("LogicalPort/web-1", "say whose"),
            ("Port/shop/web-1", "is no kind of object"),
            ("TransportNode/shop/h1", "is no object"),
            ("LogicalPort/shop/../x", "is no object"),
        ] {
            let error = object(word, None).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
        assert_eq!(in_query("app=a b/é"), "app%3Da%20b%2F%C3%A9");
        assert_eq!(shelf(kind("tenants").unwrap(), Some(&shop)).unwrap(), "/v1/tenants");
    }
}
