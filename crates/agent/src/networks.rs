//! One generation of virtual networks: the declaration, and the directory made from it.

use std::sync::Arc;

use datapath::Directory;
use model::{Generation, InvalidConfig, NetworkSpec, NetworksStatus, PortSpec, VtepList};

/// Networks that are valid on this host.
#[derive(Debug)]
pub struct Networks {
    specs: Vec<NetworkSpec>,
    vtep: Option<VtepList>,
    directory: Arc<Directory>,
}

impl Networks {
    /// Checks networks and makes their directory. With many networks that takes a while, so it must
    /// not run on the switch's thread.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`] if they are invalid, or if there are any and the host has no tunnel
    /// address.
    pub fn new(specs: Vec<NetworkSpec>, vtep: Option<VtepList>) -> Result<Self, InvalidConfig> {
        let directory = match &vtep {
            Some(vtep) => Directory::new(&specs, vtep)?,
            None if specs.is_empty() => Directory::default(),
            None => return Err(InvalidConfig::NoUplink),
        };
        Ok(Self { specs, vtep, directory: directory.into() })
    }

    /// Checks whether a port may be attached with these networks.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`], as of [`PortSpec::check_within`].
    pub fn check(&self, port: &PortSpec) -> Result<(), InvalidConfig> {
        port.check_within(&self.specs, self.vtep.as_ref())
    }

    /// The directory of all members.
    pub fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// Their status.
    pub fn status(&self, generation: Generation) -> NetworksStatus {
        NetworksStatus { generation, vtep: self.vtep.clone(), networks: self.specs.clone() }
    }
}
