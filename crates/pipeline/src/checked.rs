//! Which backends of load balancers are to be asked whether they serve, and who asks.

use core::net::IpAddr;

use logical::objects::{HealthCheck, Identity, Protocol};
use packet::BALANCER;
use units::Mac;

use crate::net::{Net, Port};

/// A backend of a load balancer that has a health check.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked<'a> {
    /// The load balancer.
    pub balancer: &'a Identity,
    /// The backend's address and port.
    pub backend: (IpAddr, u16),
    /// How it is asked.
    pub check: HealthCheck,
    /// Who asks it on this host, if it is a machine's port here.
    pub asked: Option<Asked>,
}

/// Who asks a machine, and where.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Asked {
    /// The machine's port.
    pub port: Identity,
    /// Of a port behind another's tag: the tag.
    pub vlan: Option<u16>,
    /// The machine's Ethernet address.
    pub mac: Mac,
    /// Who asks: a router of the machine's switch, which it finds by ARP or neighbor discovery in
    /// its own subnet; the load balancer itself, if there is none.
    pub by: (Mac, IpAddr),
}

impl Net {
    /// The backends of load balancers with health checks.
    pub fn checked(&self) -> impl Iterator<Item = Checked<'_>> {
        let is_tcp = |(_, it): &&(Identity, image::Balancer)| it.protocol == Protocol::TCP;
        self.balancers.iter().filter(is_tcp).flat_map(move |(id, balancer)| {
            balancer.backends.iter().filter_map(move |it| {
                let check = balancer.health_check?;
                let backend = (it.address, it.port.or(balancer.port)?);
                let asked = self.asked(it.address, balancer.vip);
                Some(Checked { balancer: id, backend, check, asked })
            })
        })
    }

    fn asked(&self, address: IpAddr, vip: IpAddr) -> Option<Asked> {
        let is_it = |port: &&Port| port.is_machine() && port.station.addresses.contains(&address);
        let port = self.own_ports().find(is_it)?;
        let parent = port.own.as_ref()?.parent;
        let mut routers =
            self.routers_on(port.switch).filter(|(at, router)| self.is_up(*at, *router));
        let by = routers.find_map(|(_, router)| {
            let router = &self.router_ports[router.at()];
            Some((router.row.mac, router.address_like(address)?))
        });
        Some(Asked {
            port: port.id.clone(),
            vlan: parent.map(|(_, vlan)| vlan),
            mac: port.station.mac,
            by: by.unwrap_or((BALANCER, vip)),
        })
    }
}
