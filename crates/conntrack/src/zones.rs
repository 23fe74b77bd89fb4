//! Whose connections there are, and how many they may have.

use crate::lists::Lists;
use crate::slots::Slots;

/// Who owns zones.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Tenant(u32);

/// Where connections are told apart: a logical port's, or a router's that translates.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Zone(pub(crate) u32);

/// What is used up. New connections are refused, no other packets are.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Full {
    /// The zone's quota.
    Zone,
    /// The tenant's quota.
    Tenant,
    /// The memory of all.
    Table,
}

#[derive(Clone, Debug)]
struct Owner {
    quota: u32,
    count: u32,
    zones: u32,
}

#[derive(Clone, Debug)]
struct Place {
    tenant: u32,
    quota: u32,
    count: u32,
}

/// Zones, their tenants and, in two lists each, their connections: those that nobody has answered
/// and the others, the oldest first.
#[derive(Clone, Debug)]
pub struct Zones {
    tenants: Slots<Owner>,
    zones: Slots<Place>,
    lists: Lists,
    /// How often a zone got a connection that had none.
    begun: u64,
}

/// One of a zone's two lists.
const fn list(zone: Zone, is_answered: bool) -> u32 {
    2 * Slots::<Place>::slot(zone.0) + is_answered as u32
}

impl Zones {
    pub fn new(tenants: u32, zones: u32, connections: u32) -> Self {
        let zones = Slots::new(zones);
        let lists = Lists::new(2 * zones.most(), connections);
        Self { tenants: Slots::new(tenants), zones, lists, begun: 0 }
    }

    pub fn add_tenant(&mut self, quota: u32) -> Option<Tenant> {
        self.tenants.add(Owner { quota, count: 0, zones: 0 }).map(Tenant)
    }

    pub fn remove_tenant(&mut self, tenant: Tenant) -> bool {
        let is_idle = self.tenants.get(tenant.0).is_some_and(|it| it.zones == 0);
        is_idle && self.tenants.remove(tenant.0).is_some()
    }

    pub fn set_tenant_quota(&mut self, tenant: Tenant, quota: u32) -> bool {
        self.tenants.get_mut(tenant.0).map(|it| it.quota = quota).is_some()
    }

    pub fn add_zone(&mut self, tenant: Tenant, quota: u32) -> Option<Zone> {
        let owner = self.tenants.get_mut(tenant.0)?;
        let zone = self.zones.add(Place { tenant: tenant.0, quota, count: 0 })?;
        owner.zones += 1;
        Some(Zone(zone))
    }

    /// Removes a zone that has no connections.
    pub fn remove_zone(&mut self, zone: Zone) -> bool {
        if self.zones.get(zone.0).is_none_or(|it| it.count > 0) {
            return false;
        }
        let gone = self.zones.remove(zone.0).expect("it is there");
        self.tenants.get_mut(gone.tenant).expect("a zone's tenant stays").zones -= 1;
        true
    }

    pub fn set_zone_quota(&mut self, zone: Zone, quota: u32) -> bool {
        self.zones.get_mut(zone.0).map(|it| it.quota = quota).is_some()
    }

    pub fn has(&self, zone: Zone) -> bool {
        self.zones.get(zone.0).is_some()
    }

    pub fn zone_len(&self, zone: Zone) -> u32 {
        self.zones.get(zone.0).map_or(0, |it| it.count)
    }

    pub const fn begun(&self) -> u64 {
        self.begun
    }

    pub fn tenant_len(&self, tenant: Tenant) -> u32 {
        self.tenants.get(tenant.0).map_or(0, |it| it.count)
    }

    /// Whether a zone, if it is there, may have one connection more: by its own quota and its
    /// tenant's. `Err(is_helped)`: whether it may once it has one less.
    pub fn room(&self, zone: Zone) -> Result<(), (Full, bool)> {
        let Some(place) = self.zones.get(zone.0) else { return Ok(()) };
        let owner = self.tenants.get(place.tenant).expect("a zone's tenant stays");
        let is_helped = place.count <= place.quota && owner.count <= owner.quota;
        if place.count >= place.quota {
            return Err((Full::Zone, is_helped));
        }
        if owner.count >= owner.quota {
            return Err((Full::Tenant, is_helped));
        }
        Ok(())
    }

    /// One more connection there may be.
    pub fn add_item(&mut self) {
        self.lists.add_item();
    }

    fn count(&mut self, zone: Zone, by: i32) {
        let place = self.zones.get_mut(zone.0).expect("a connection's zone stays");
        self.begun += u64::from(place.count == 0);
        place.count = place.count.strict_add_signed(by);
        let owner = self.tenants.get_mut(place.tenant).expect("a zone's tenant stays");
        owner.count = owner.count.strict_add_signed(by);
    }

    /// Counts a connection.
    pub fn enter(&mut self, zone: Zone, item: u32, is_answered: bool) {
        self.count(zone, 1);
        self.lists.push(list(zone, is_answered), item);
    }

    /// Counts it no longer.
    pub fn leave(&mut self, zone: Zone, item: u32) {
        self.count(zone, -1);
        self.lists.unlink(item);
    }

    /// A connection has been answered.
    pub fn answered(&mut self, zone: Zone, item: u32) {
        self.lists.unlink(item);
        self.lists.push(list(zone, true), item);
    }

    /// The oldest connection of a zone that nobody has answered.
    pub fn oldest_half_open(&self, zone: Zone) -> Option<u32> {
        self.zones.get(zone.0)?;
        self.lists.first(list(zone, false))
    }

    /// A zone's first connection, in the order in which [`next`](Self::next) goes on.
    pub fn first(&self, zone: Zone) -> Option<u32> {
        self.zones.get(zone.0)?;
        self.lists.first(list(zone, false)).or_else(|| self.lists.first(list(zone, true)))
    }

    /// The connection behind another one of the zone: first all that nobody has answered. So what
    /// is answered meanwhile is met later on, not missed.
    pub fn next(&self, zone: Zone, item: u32, is_answered: bool) -> Option<u32> {
        let next = self.lists.next(item);
        if is_answered { next } else { next.or_else(|| self.lists.first(list(zone, true))) }
    }
}
