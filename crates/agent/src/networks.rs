//! One generation of virtual networks: the declaration, and the directory made from it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use admission::{Claim, Host, OfNoRate, Promise};
use datapath::{Directory, Place};
use model::{
    Generation, InvalidConfig, NetworkName, NetworkShare, NetworkSpec, NetworksStatus, PortName,
    PortSpec, Uplink, VtepList, check_networks,
};
use units::{Bytes, Rate, Span};

/// Networks that are valid on this host.
#[derive(Debug)]
pub struct Networks {
    specs: Vec<Arc<NetworkSpec>>,
    vtep: Option<VtepList>,
    directory: Arc<Directory>,
    /// What this host has for them.
    capacity: Capacity,
    /// What they are promised together.
    promise: Promise,
}

/// What a host has for networks.
#[derive(Clone, Debug)]
pub struct Capacity {
    host: Host,
    frame: FrameCost,
}

impl Capacity {
    /// What a host with this uplink has.
    pub fn new(uplink: Option<&Uplink>) -> Self {
        let host = Host {
            rate: uplink.and_then(|uplink| uplink.rate),
            latency: uplink.map_or(Span::ZERO, |uplink| uplink.latency),
            memory: Bytes(uplink.map_or(0, |_| overlay::MEMORY / 2)),
        };
        Self { host, frame: FrameCost::default() }
    }

    /// What a frame costs the switch's thread, as that sees it.
    pub fn frame(&self) -> &FrameCost {
        &self.frame
    }
}

/// What a frame costs the switch's thread, which whoever promises frames reckons with. The thread
/// tells it, and others ask.
#[derive(Clone, Debug)]
pub struct FrameCost(Arc<AtomicU64>);

impl Default for FrameCost {
    /// A container's, until something else is seen.
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(3_000)))
    }
}

impl FrameCost {
    /// The last that was told.
    pub fn get(&self) -> Span {
        Span::from_nanos(self.0.load(Ordering::Relaxed))
    }

    /// It is this from now on.
    pub fn set(&self, cost: Span) {
        self.0.store(cost.as_nanos(), Ordering::Relaxed);
    }
}

/// What all networks together are promised of this host: those that have a machine here. Of a
/// network that is promised no rate that is what these ports of it are.
///
/// # Errors
///
/// [`InvalidConfig::Promises`] if it has less, [`InvalidConfig::PortPromises`] if ports are
/// promised more than their network; or if either says something of an uplink without a rate, where
/// nobody would keep it.
pub fn promise<'a>(
    specs: impl IntoIterator<Item = &'a NetworkSpec>,
    ports: impl IntoIterator<Item = &'a PortSpec>,
    vtep: Option<&VtepList>,
    capacity: &Capacity,
) -> Result<Promise, InvalidConfig> {
    let is_here =
        |spec: &&NetworkSpec| spec.members.iter().any(|member| Some(&member.vtep) == vtep);
    let frame = capacity.frame.get();
    let mut ports_of: BTreeMap<&NetworkName, Vec<(&PortName, Rate)>> = BTreeMap::new();
    for port in ports {
        if !port.share.is_default() && capacity.host.rate.is_none() {
            let error = OfNoRate { port: port.name.clone() };
            let what = error.to_string();
            return Err(InvalidConfig::PortPromises { port: error.port, what });
        }
        if let (Some(network), Some(min)) = (&port.network, port.share.min) {
            ports_of.entry(network).or_default().push((&port.name, min));
        }
    }
    let claims = |spec: &&NetworkSpec| {
        let NetworkShare { min, max, min_packets, memory, .. } = spec.share;
        let own = min.or(max).is_some() || min_packets.is_some() || memory.is_some();
        own || ports_of.contains_key(&spec.name)
    };
    let mut all = Vec::new();
    for spec in specs.into_iter().filter(claims).filter(is_here) {
        let NetworkSpec { name, share, .. } = spec;
        let ports = ports_of.get(name).map_or(&[][..], Vec::as_slice);
        let sum = admission::admit_ports(name, share, ports.iter().copied()).map_err(|error| {
            let port = error.blamed().cloned().unwrap_or_else(|| PortName(String::new()));
            InvalidConfig::PortPromises { port, what: error.to_string() }
        })?;
        let burst = share.burst().0;
        all.push(Claim {
            network: name,
            min: share.min.or_else(|| Rate::from_bits_per_sec(sum)),
            max: share.max,
            burst: Bytes(if share.min.is_some() { burst } else { burst * ports.len() as u64 }),
            min_packets: share.min_packets.unwrap_or(0),
            frame,
            memory: share.memory.unwrap_or(Bytes(0)),
        });
    }
    admission::admit(&capacity.host, all).map_err(|error| {
        let network = error.blamed().cloned();
        InvalidConfig::Promises { network, what: error.to_string() }
    })
}

impl Networks {
    /// Checks networks and makes their directory. With many networks that takes a while, so it must
    /// not run on the switch's thread.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`] if they are invalid, or if there are any and the host has no tunnel
    /// address.
    pub fn new(
        specs: Vec<NetworkSpec>,
        vtep: Option<VtepList>,
        capacity: Capacity,
    ) -> Result<Self, InvalidConfig> {
        let directory = match &vtep {
            Some(vtep) => Directory::new(&specs, vtep)?,
            None if specs.is_empty() => Directory::default(),
            None => return Err(InvalidConfig::NoUplink),
        };
        let promise = promise(&specs, [], vtep.as_ref(), &capacity)?;
        let specs = specs.into_iter().map(Arc::new).collect();
        Ok(Self { specs, vtep, directory: directory.into(), capacity, promise })
    }

    /// Checks a network by itself: whatever others there are, it cannot stand if this fails.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`], as of [`new`](Self::new).
    pub fn check_alone(spec: &NetworkSpec, vtep: Option<&VtepList>) -> Result<(), InvalidConfig> {
        Ok(check_networks([spec], Some(vtep.ok_or(InvalidConfig::NoUplink)?))?)
    }

    /// The same with this network in place of the one with its name, or beside the others.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`], as of [`new`](Self::new).
    pub fn with(&self, spec: NetworkSpec) -> Result<Self, InvalidConfig> {
        let (name, spec) = (spec.name.clone(), Arc::new(spec));
        let mut specs = self.specs.clone();
        match specs.iter_mut().find(|it| it.name == name) {
            Some(place) => *place = spec,
            None => specs.push(spec),
        }
        self.changed(&name, specs)
    }

    /// The same without the network of this name. `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`], as of [`new`](Self::new).
    pub fn without(&self, name: &NetworkName) -> Option<Result<Self, InvalidConfig>> {
        let mut specs = self.specs.clone();
        specs.remove(specs.iter().position(|spec| spec.name == *name)?);
        Some(self.changed(name, specs))
    }

    /// Networks of which only this one differs from those.
    fn changed(
        &self,
        name: &NetworkName,
        specs: Vec<Arc<NetworkSpec>>,
    ) -> Result<Self, InvalidConfig> {
        let vtep = self.vtep.as_ref().ok_or(InvalidConfig::NoUplink)?;
        let all = specs.iter().map(|spec| &**spec);
        let directory = self.directory.with_change(name, all, vtep)?;
        let capacity = self.capacity.clone();
        let promise = promise(specs.iter().map(|spec| &**spec), [], Some(vtep), &capacity)?;
        let vtep = self.vtep.clone();
        Ok(Self { specs, vtep, directory: directory.into(), capacity, promise })
    }

    /// Checks whether a port may be attached with these networks.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`], as of [`PortSpec::check_within`].
    pub fn check(&self, port: &PortSpec) -> Result<(), InvalidConfig> {
        let (Some(name), Some(label)) = (&port.network, port.label) else { return Ok(()) };
        let known = self.directory.vni(name).and_then(|vni| self.directory.network(vni));
        port.check_class(known.and_then(|network| network.classes()))?;
        let is_member = known.is_some_and(|network| {
            port.mac().is_none_or(|mac| {
                network.place(mac) == Some(Place::Here { label })
                    && port.attach.addresses().iter().all(|prefix| {
                        network.owner(prefix.address).is_none_or(|owner| owner == mac)
                    })
            })
        });
        if is_member {
            return Ok(());
        }
        // It says what is wrong.
        let spec = self.specs.iter().find(|spec| spec.name == *name);
        port.check_within(spec.map(|spec| &**spec), self.vtep.as_ref())
    }

    /// Checks whether these ports together can have what they are promised.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`], as of [`promise`].
    pub fn check_ports<'a>(
        &'a self,
        ports: impl Iterator<Item = &'a PortSpec> + Clone,
    ) -> Result<(), InvalidConfig> {
        if ports.clone().all(|port| port.share.is_default()) {
            return Ok(());
        }
        let specs = self.specs.iter().map(|spec| &**spec);
        promise(specs, ports, self.vtep.as_ref(), &self.capacity).map(drop)
    }

    /// Whether this host's uplink has a rate, of which networks and ports can have a share.
    pub fn has_rate(&self) -> bool {
        self.capacity.host.rate.is_some()
    }

    /// The directory of all members.
    pub fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// What each has of what networks share.
    pub fn shares(&self) -> impl Iterator<Item = (&NetworkName, &NetworkShare)> {
        self.specs.iter().map(|spec| (&spec.name, &spec.share))
    }

    /// What they are promised of this host together.
    pub fn promise(&self) -> Promise {
        self.promise
    }

    /// Their status.
    pub fn status(&self, generation: Generation) -> NetworksStatus {
        let networks = self.specs.iter().map(|spec| (**spec).clone()).collect();
        NetworksStatus { generation, vtep: self.vtep.clone(), networks }
    }
}
