//! One generation of virtual networks: what was declared, and the directory that was made of it.

use std::sync::Arc;

use datapath::Directory;
use model::{Generation, InvalidConfig, NetworkSpec, NetworksStatus, PortSpec, VtepList};

/// Networks that can stand on this host.
#[derive(Debug)]
pub struct Networks {
    specs: Vec<NetworkSpec>,
    vtep: Option<VtepList>,
    directory: Arc<Directory>,
}

impl Networks {
    /// Checks networks and makes their directory, which takes a while where there are many: not on
    /// the switch's thread.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`] if they cannot stand, or if there are some and the host has no address at
    /// which they would be reached.
    pub fn new(specs: Vec<NetworkSpec>, vtep: Option<VtepList>) -> Result<Self, InvalidConfig> {
        let directory = match &vtep {
            Some(vtep) => Directory::new(&specs, vtep)?,
            None if specs.is_empty() => Directory::default(),
            None => return Err(InvalidConfig::NoUplink),
        };
        Ok(Self { specs, vtep, directory: directory.into() })
    }

    /// Whether a port may be attached beside them.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`], as of [`PortSpec::check_within`].
    pub fn check(&self, port: &PortSpec) -> Result<(), InvalidConfig> {
        port.check_within(&self.specs, self.vtep.as_ref())
    }

    /// Where each member is.
    pub fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// What is told of them.
    pub fn status(&self, generation: Generation) -> NetworksStatus {
        NetworksStatus { generation, vtep: self.vtep.clone(), networks: self.specs.clone() }
    }
}
