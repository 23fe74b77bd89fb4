//! Where objects are: in paths of the API, and in the store.
//!
//! ```text
//! /v1/tenants/shop/logical-ports/web-1      o/logical-ports/shop/web-1
//! /v1/transport-nodes/h0                    o/transport-nodes/-/h0
//! ```
//!
//! Beside them is where agents have ports that nobody has bound: `on/shop/web-1` is a node. And the
//! label of each object that hosts send to: `ol/logical-ports/shop/web-1` is a number. Nobody who
//! asks for objects is shown either.

use logical::objects::{Identity, Kind, Name, Owner};
use store::Key;

/// What stands in a key for the operator, as no tenant is called so.
const OPERATOR: &str = "-";

/// Where all objects are in the store.
pub const ALL: &str = "o/";

/// Where it is said where ports were found.
pub const FOUND: &str = "on/";

/// Where labels are.
pub const LABELS: &str = "ol/";

/// Where all is that agents are told of: all three.
pub const TOLD: &str = "o";

/// The objects of a kind that a tenant, or the operator, has.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Shelf {
    pub kind: Kind,
    pub tenant: Option<Name>,
}

impl Shelf {
    /// By the words of a path. `None`: nobody has such objects there.
    pub fn new(kind: &str, tenant: Option<Name>) -> Option<Self> {
        let kind = *Kind::ALL.iter().find(|it| it.path() == kind)?;
        let fits = match kind.owner() {
            Owner::Tenant => tenant.is_some(),
            Owner::Operator => tenant.is_none(),
            Owner::Either => true,
        };
        fits.then_some(Self { kind, tenant })
    }

    /// Where its objects are in the store.
    pub fn prefix(&self) -> String {
        let tenant = self.tenant.as_ref().map_or(OPERATOR, Name::as_str);
        format!("{ALL}{}/{tenant}/", self.kind.path())
    }

    /// Who an object of it is.
    pub fn identity(&self, name: Name) -> Identity {
        Identity { kind: self.kind, tenant: self.tenant.clone(), name }
    }
}

/// Where an object is in the store.
pub fn key(identity: &Identity) -> Key {
    key_in(ALL, identity)
}

/// The object that is there in the store. `None`: none can be.
pub fn identity(key: &Key) -> Option<Identity> {
    identity_in(ALL, key)
}

/// Where an object's label is.
pub fn label_key(identity: &Identity) -> Key {
    key_in(LABELS, identity)
}

/// The object whose label is there. `None`: nobody's.
pub fn labelled(key: &Key) -> Option<Identity> {
    identity_in(LABELS, key)
}

/// Where it is said which label was given last.
pub fn last_label() -> Key {
    Key::new("labels/last").expect("it is short")
}

fn key_in(prefix: &str, Identity { kind, tenant, name }: &Identity) -> Key {
    let tenant = tenant.as_ref().map_or(OPERATOR, Name::as_str);
    let key = format!("{prefix}{}/{tenant}/{name}", kind.path());
    Key::new(key).expect("names have at most 63 letters, digits and dashes")
}

fn identity_in(prefix: &str, key: &Key) -> Option<Identity> {
    let mut words = key.as_str().strip_prefix(prefix)?.split('/');
    let (kind, tenant, name) = (words.next()?, words.next()?, words.next()?);
    let tenant = (tenant != OPERATOR).then(|| tenant.parse().ok());
    let tenant = match tenant {
        Some(None) => return None,
        other => other.flatten(),
    };
    Some(Shelf::new(kind, tenant)?.identity(name.parse().ok()?))
}

/// Where it is said at which node a port was found.
pub fn found_key(port: &Identity) -> Key {
    let tenant = port.tenant.as_ref().map_or(OPERATOR, Name::as_str);
    let key = format!("{FOUND}{tenant}/{}", port.name);
    Key::new(key).expect("names have at most 63 letters, digits and dashes")
}

/// The port of which it is said there. `None`: of none.
pub fn found(key: &Key) -> Option<Identity> {
    let port = key.as_str().strip_prefix(FOUND)?;
    format!("{}/{port}", Kind::LogicalPort).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_leads_back_to_its_object() {
        for (kind, tenant, name) in [
            ("logical-ports", Some("shop"), "web-1"),
            ("transport-nodes", None, "h0"),
            ("policies", Some("shop"), "in"),
            ("policies", None, "in"),
        ] {
            let tenant = tenant.map(|it| it.parse().unwrap());
            let identity_of = Shelf::new(kind, tenant).unwrap().identity(name.parse().unwrap());
            assert_eq!(labelled(&label_key(&identity_of)), Some(identity_of.clone()));
            assert_eq!(
                (labelled(&key(&identity_of)), identity(&label_key(&identity_of))),
                (None, None)
            );
            assert_eq!(identity(&key(&identity_of)), Some(identity_of));
        }
        let port = "LogicalPort/shop/web-1".parse().unwrap();
        assert_eq!(found_key(&port).as_str(), "on/shop/web-1");
        assert_eq!((found(&key(&port)), identity(&found_key(&port))), (None, None));
        assert_eq!((found(&label_key(&port)), labelled(&found_key(&port))), (None, None));
        assert_eq!(found(&found_key(&port)), Some(port));
        assert_eq!(Shelf::new("logical-ports", None), None);
        assert_eq!(Shelf::new("ports", None), None);
    }
}
