//! What somebody who asks a controller may do, as the command line says and shows it.

use clap::ValueEnum;
use controller::Role;
use logical::objects::Name;

/// A role, and whose.
#[derive(clap::Args)]
pub struct RoleArgs {
    /// What they may do.
    #[arg(long, value_enum)]
    role: RoleName,
    /// Whose objects those are: a tenant that is there already.
    #[arg(long, required_if_eq_any([("role", "tenant-admin"), ("role", "tenant-viewer")]))]
    tenant: Option<Name>,
    /// The TransportNode that a node is.
    #[arg(long, required_if_eq("role", "node"))]
    node: Option<Name>,
}

#[derive(Clone, Copy, ValueEnum)]
enum RoleName {
    /// Everything.
    Admin,
    /// Read everything.
    Auditor,
    /// Read and write the objects of `--tenant`.
    TenantAdmin,
    /// Read the objects of `--tenant`.
    TenantViewer,
    /// Read the TransportNode `--node`.
    Node,
}

impl RoleArgs {
    /// The role, if all that it needs is said, and nothing else.
    pub fn role(self) -> Result<Role, &'static str> {
        match (self.role, self.tenant, self.node) {
            (RoleName::Admin, None, None) => Ok(Role::Admin),
            (RoleName::Auditor, None, None) => Ok(Role::Auditor),
            (RoleName::TenantAdmin, Some(tenant), None) => Ok(Role::TenantAdmin { tenant }),
            (RoleName::TenantViewer, Some(tenant), None) => Ok(Role::TenantViewer { tenant }),
            (RoleName::Node, None, Some(node)) => Ok(Role::Node { node }),
            _ => Err("`--tenant` is a tenant's, `--node` a node's: leave it out"),
        }
    }
}

/// A role as the flags say it, and whose.
pub fn words(role: &Role) -> (&'static str, &str) {
    match role {
        Role::Admin => ("admin", ""),
        Role::Auditor => ("auditor", ""),
        Role::TenantAdmin { tenant } => ("tenant-admin", tenant.as_str()),
        Role::TenantViewer { tenant } => ("tenant-viewer", tenant.as_str()),
        Role::Node { node } => ("node", node.as_str()),
    }
}
