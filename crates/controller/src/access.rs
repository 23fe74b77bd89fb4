//! Who asks, and what of the objects that is for.
//!
//! | role | sees | writes |
//! |---|---|---|
//! | `admin` | all | all |
//! | `auditor` | all | nothing |
//! | `tenant-admin` | its tenant, and that tenant's objects | these objects |
//! | `tenant-viewer` | the same | nothing |
//! | `node` | the TransportNode that it is | nothing |
//!
//! What somebody does not see is not there for them: 404, whether it exists or not. Only what they
//! see and may not write is forbidden.

use std::sync::Arc;

use axum::http::StatusCode;
use logical::objects::{Identity, Kind, Name};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::catalog::Tenancy;
use crate::certificate::Shown;
use crate::identity::made_ms;
use crate::place::Shelf;
use crate::problem::Refusal;

/// What somebody is.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "role", rename_all = "kebab-case")]
pub enum Role {
    /// The operator.
    Admin,
    /// Sees everything.
    Auditor,
    /// Writes a tenant's objects.
    TenantAdmin {
        /// Whose.
        #[schema(value_type = String)]
        tenant: Name,
    },
    /// Sees a tenant's objects.
    TenantViewer {
        /// Whose.
        #[schema(value_type = String)]
        tenant: Name,
    },
    /// A host.
    Node {
        /// The TransportNode that it is.
        #[schema(value_type = String)]
        node: Name,
    },
}

/// Who asks.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, ToSchema)]
pub struct Principal {
    /// The name of their token, or of their certificate.
    pub name: String,
    /// What they are.
    #[serde(flatten)]
    pub role: Role,
    /// Until when their token counts, in seconds since 1970. Absent: they need none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// What no other has: the digest of their token's secret, or the number that their
    /// certificate's name was added with. `None`: they need neither.
    #[serde(skip)]
    pub proof: Option<String>,
    /// The certificate that they are known by, if it is one.
    #[serde(skip)]
    pub certificate: Option<Arc<Shown>>,
    /// When their token was made, or their certificate's name added, in milliseconds since 1970.
    #[serde(skip)]
    pub since_ms: u64,
    /// Whose objects they see, if that is one tenant: that which is there, not one of its name.
    #[serde(skip)]
    pub tenancy: Option<Tenancy>,
}

impl Principal {
    /// Somebody who needs no token.
    pub fn new(name: &str, role: Role) -> Self {
        Self {
            name: name.into(),
            role,
            expires: None,
            proof: None,
            certificate: None,
            since_ms: 0,
            tenancy: None,
        }
    }

    /// The one tenant whose objects they see, if it is not all.
    pub fn tenant(&self) -> Option<&Name> {
        match &self.role {
            Role::TenantAdmin { tenant } | Role::TenantViewer { tenant } => Some(tenant),
            Role::Admin | Role::Auditor | Role::Node { .. } => None,
        }
    }

    /// Whether they may know which hosts there are.
    pub fn knows_hosts(&self) -> bool {
        matches!(self.role, Role::Admin | Role::Auditor)
    }

    /// Whether they were let in for this tenant: it was there already when that was said.
    pub fn is_of(&self, tenancy: &Tenancy) -> bool {
        made_ms(&tenancy.uid).is_some_and(|it| it <= self.since_ms)
    }

    /// The tenant that they see and write as. `None`: they know everything.
    pub fn confined_to(&self) -> Option<Tenancy> {
        self.tenant()?;
        let tenancy = self.tenancy.clone();
        assert!(tenancy.is_some(), "{} was let in without its tenant", self.name);
        tenancy
    }

    /// Who shares what one of them may take at once. `None`: the operator takes what there is.
    pub fn share(&self) -> Option<String> {
        match &self.role {
            Role::Admin => None,
            Role::TenantAdmin { tenant } | Role::TenantViewer { tenant } => {
                Some(format!("tenant/{tenant}"))
            }
            Role::Auditor | Role::Node { .. } => Some(self.name.clone()),
        }
    }

    /// Whether they see an object, if it is there.
    pub fn sees(&self, identity: &Identity) -> bool {
        let Identity { kind, tenant, name } = identity;
        match &self.role {
            Role::Admin | Role::Auditor => true,
            Role::TenantAdmin { tenant: own } | Role::TenantViewer { tenant: own } => {
                tenant.as_ref() == Some(own) || (*kind == Kind::Tenant && name == own)
            }
            Role::Node { node } => *kind == Kind::TransportNode && name == node,
        }
    }

    /// Whether they may write an object, if they see it.
    pub fn writes(&self, identity: &Identity) -> bool {
        match &self.role {
            Role::Admin => true,
            Role::TenantAdmin { tenant } => identity.tenant.as_ref() == Some(tenant),
            Role::TenantViewer { .. } | Role::Auditor | Role::Node { .. } => false,
        }
    }

    /// Whether there is anything that they may write.
    fn applies(&self) -> bool {
        matches!(self.role, Role::Admin | Role::TenantAdmin { .. })
    }

    /// Refuses who may write nothing.
    pub fn may_apply(&self) -> Result<(), Refusal> {
        self.applies().then_some(()).ok_or_else(|| self.forbidden())
    }

    /// Refuses who sees no objects of others.
    pub fn sees_some(&self) -> Result<(), Refusal> {
        let is_node = matches!(self.role, Role::Node { .. });
        (!is_node).then_some(()).ok_or_else(nothing)
    }

    /// Refuses who does not see everything.
    pub fn sees_all(&self) -> Result<(), Refusal> {
        let sees_all = matches!(self.role, Role::Admin | Role::Auditor);
        sees_all.then_some(()).ok_or_else(nothing)
    }

    /// Refuses who does not see the objects of a shelf.
    pub fn lists(&self, shelf: &Shelf) -> Result<(), Refusal> {
        let sees = match &self.role {
            Role::Admin | Role::Auditor => true,
            Role::TenantAdmin { tenant } | Role::TenantViewer { tenant } => {
                shelf.tenant.as_ref() == Some(tenant)
            }
            Role::Node { .. } => false,
        };
        sees.then_some(()).ok_or_else(nothing)
    }

    /// Refuses who does not see an object, as if it were not there.
    pub fn reads(&self, identity: &Identity) -> Result<(), Refusal> {
        self.sees(identity).then_some(()).ok_or_else(|| Refusal::unknown(identity))
    }

    /// Refuses who may not write an object.
    pub fn changes(&self, identity: &Identity) -> Result<(), Refusal> {
        self.reads(identity)?;
        self.writes(identity).then_some(()).ok_or_else(|| self.forbidden())
    }

    /// What they see is not theirs to write.
    pub fn forbidden(&self) -> Refusal {
        let problem = "you may only read this: GET /v1/whoami says who you are";
        Refusal::new(StatusCode::FORBIDDEN, problem)
    }
}

fn nothing() -> Refusal {
    let problem = "there is nothing here that you may see: GET /v1/whoami says who you are";
    Refusal::new(StatusCode::NOT_FOUND, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of these objects a role sees, and which of them it writes.
    fn may(role: Role) -> [Vec<&'static str>; 2] {
        let objects = [
            "LogicalPort/a/web",
            "LogicalPort/b/web",
            "Policy/a/in",
            "Policy/in",
            "Tenant/a",
            "Tenant/b",
            "TransportNode/a",
            "TransportNode/h1",
            "Binding/a",
        ];
        let principal = Principal::new("p", role);
        let those = |may: fn(&Principal, &Identity) -> bool| {
            objects.into_iter().filter(|it| may(&principal, &it.parse().unwrap())).collect()
        };
        [those(Principal::sees), those(|it, id| it.sees(id) && it.writes(id))]
    }

    #[test]
    fn each_role_has_its_objects() {
        let name = |it: &str| it.parse().unwrap();
        let own = vec!["LogicalPort/a/web", "Policy/a/in"];
        let seen = [own.clone(), vec!["Tenant/a"]].concat();
        assert_eq!(may(Role::TenantAdmin { tenant: name("a") }), [seen.clone(), own]);
        assert_eq!(may(Role::TenantViewer { tenant: name("a") }), [seen, vec![]]);
        assert_eq!(may(Role::Node { node: name("h1") }), [vec!["TransportNode/h1"], vec![]]);
        assert_eq!(may(Role::Admin).map(|it| it.len()), [9, 9]);
        assert_eq!(may(Role::Auditor).map(|it| it.len()), [9, 0]);
    }
}
