//! By what a controller, its agents and who declares objects prove who they are, where connections
//! are encrypted: an authority of the experiment's own signs certificates for all.

use southbound::Proof;
use tls::sign::Authority;
use tls::{Client, Own};

use super::plan;

/// Where controllers listen.
const HERE: &str = "127.0.0.1";

/// All proofs, in files that are gone with this.
pub struct Proofs {
    authority: Authority,
    controller: Own,
    hosts: Vec<Own>,
    token: String,
}

impl Proofs {
    /// Those of a controller and of so many hosts. `token`: an operator's.
    pub fn new(hosts: u32, token: String) -> Self {
        let authority = Authority::new();
        let controller = authority.sign(HERE);
        let hosts = (0..hosts).map(|host| authority.sign(&plan::node(host))).collect();
        Self { authority, controller, hosts, token }
    }

    /// What has a controller encrypt everything, and ask for certificates of its agents.
    pub fn arguments(&self) -> Vec<std::ffi::OsString> {
        let Own { certificate, key } = &self.controller;
        let authorities = self.authority.path("ca");
        [("--tls-certificate", certificate), ("--tls-key", key), ("--agents-ca", &authorities)]
            .into_iter()
            .flat_map(|(flag, file)| [flag.into(), file.into()])
            .collect()
    }

    /// Who declares objects: whom they trust, and their token.
    pub fn operator(&self) -> (Client, String) {
        (self.authority.client(HERE, None), self.token.clone())
    }

    /// The agent of a host.
    pub fn agent(&self, host: u32) -> Proof {
        let own = self.hosts[host as usize].clone();
        Proof { tls: Some(self.authority.client(HERE, Some(own))), token: None }
    }
}
