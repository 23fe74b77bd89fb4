//! What objects guarantee logical ports of a host's uplink, one after the other.
//!
//! Nobody is asked before an object is written whether hosts can keep it: the port may come to any.
//! So a guarantee that has no room beside others is not kept, and all else of the port is as it
//! was. Whose turn it is to be admitted:
//!
//! ```text
//! file ─▶ what was kept: ─▶ the rest: tenants' guarantees, ports' by the operator's profiles,
//!         as much of it     ports' by tenants' own; of each kind by name
//! ```
//!
//! So what is kept stays kept whatever others ask for: only the file and the terms of its own
//! tenant take it away. Whoever asks for more than is kept has that if it fits, and else what was
//! kept.
//!
//! A port of a tenant with a guarantee has its own out of that one. Any other's is one more of the
//! uplink, as of a network that is promised nothing. Such ports have their bursts within the part
//! of the latency that their tenant's limit is of the rate, so that many small guarantees of one
//! tenant leave room for others'.
//!
//! A tenant names profiles of the operator's itself. So ports with one are before others only if
//! their tenant has terms, which bound what that gives it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

use units::{Rate, Span};

use crate::excess::Amount;
use crate::{Host, Promise, most_promised};

/// What a tenant is promised, all its ports on the host together.
#[derive(Clone, Copy, Debug)]
pub struct TenantAsk<T> {
    /// The tenant.
    pub tenant: T,
    /// The least rate of the uplink.
    pub guarantee: Option<Rate>,
    /// The highest.
    pub limit: Option<Rate>,
    /// So much was kept before. Its ports that had theirs out of that ask anew if none of it is
    /// kept now.
    pub had: Option<Rate>,
}

/// What a port is promised.
#[derive(Clone, Copy, Debug)]
pub struct PortAsk<T, P> {
    /// Whose it is. Without a [`TenantAsk`], its tenant is promised nothing and may have all.
    pub tenant: T,
    /// The port.
    pub port: P,
    /// The least rate.
    pub guarantee: Rate,
    /// The operator's profile promises it, not one of the tenant's own.
    pub is_operators: bool,
    /// So much was kept before.
    pub had: Option<Rate>,
}

/// Whose guarantees are kept, and why others' are not.
#[derive(Clone, Debug)]
pub struct Kept<T, P> {
    /// Of tenants that ask for one.
    pub tenants: BTreeMap<T, Result<Grant, NotKept>>,
    /// Of ports.
    pub ports: BTreeMap<P, Result<Grant, NotKept>>,
}

/// What is kept of a guarantee.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Grant {
    /// The rate.
    pub rate: Rate,
    /// Why that is what was kept before, and not all that is asked for.
    pub short: Option<NotKept>,
}

/// Why a guarantee is not kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NotKept {
    /// The rate of the uplink is not declared.
    NoRate,
    /// So much is left of what the uplink may be promised for, in bits a second.
    Uplink(u64),
    /// So much is left of what the tenant is guaranteed, in bits a second.
    Guarantee(u64),
    /// So much is left of what the tenant may have at most, in bits a second.
    Limit(u64),
    /// One more frame that all others wait for takes the uplink too long: this long with it.
    Burst(Span),
    /// One more frame of the tenant's ports takes the uplink longer than the tenant's part of the
    /// latency.
    PartOfLatency {
        /// How long frames of its ports take the uplink with it.
        wait: Span,
        /// Its part.
        part: Span,
    },
}

impl NotKept {
    /// What is left, in bits a second, if that is what is missing.
    fn left(self) -> Option<u64> {
        match self {
            Self::Uplink(left) | Self::Guarantee(left) | Self::Limit(left) => Some(left),
            Self::NoRate | Self::Burst(_) | Self::PartOfLatency { .. } => None,
        }
    }
}

impl fmt::Display for NotKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(left) = self.left() {
            match Rate::from_bits_per_sec(left) {
                Some(left) => Amount::Rate(left).fmt(f)?,
                None => f.write_str("nothing")?,
            }
        }
        match self {
            Self::NoRate => {
                f.write_str("the uplink's rate is not known: declare `rate` in [uplink]")
            }
            Self::Uplink(_) => f.write_str(
                " is left of what the uplink can guarantee: lower it or another, or move the port to another host",
            ),
            Self::Guarantee(_) => f.write_str(
                " is left of its tenant's `guarantee`: lower it or another port's, or raise the tenant's",
            ),
            Self::Limit(_) => f.write_str(
                " is left of its tenant's `limit`: lower it or another port's, or raise the tenant's",
            ),
            Self::Burst(wait) => write!(
                f,
                "a frame of each that has one takes the uplink {wait}: raise `latency` of [uplink], or move the port to \
                 another host"
            ),
            Self::PartOfLatency { wait, part } => write!(
                f,
                "a frame of each port of its tenant that has one takes the uplink {wait}, and the tenant's part of \
                 `latency` is {part}: raise the tenant's `limit` or `guarantee`, or have fewer of its ports have one"
            ),
        }
    }
}

/// What guarantees take of an uplink.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// In bits a second.
    bits: u64,
    /// How many may send a burst at once.
    bursts: u64,
}

impl Use {
    /// What one guarantee takes, if there is one.
    fn of(guarantee: Option<Rate>) -> Self {
        guarantee.map_or_else(Self::default, |it| Self { bits: it.bits_per_sec(), bursts: 1 })
    }

    /// This with `before` replaced by `after`.
    fn with(self, before: Self, after: Self) -> Self {
        let one = |own: u64, before, after| own.saturating_sub(before).saturating_add(after);
        Self {
            bits: one(self.bits, before.bits, after.bits),
            bursts: one(self.bursts, before.bursts, after.bursts),
        }
    }
}

/// What an uplink has for guarantees.
struct Room {
    rate: Rate,
    latency: Span,
    /// The most that may be promised beside what the file promises, in bits a second.
    most: u64,
    /// How long what the file promises is waited for at most.
    wait: Span,
    /// In bytes.
    burst: u32,
    taken: Use,
}

impl Room {
    fn new(host: &Host, promise: &Promise, burst: u32) -> Option<Self> {
        let rate = host.rate?;
        Some(Self {
            rate,
            latency: host.latency,
            most: most_promised(rate).saturating_sub(promise.bits_per_sec),
            wait: promise.wait,
            burst,
            taken: Use::default(),
        })
    }

    /// How long bursts take the uplink.
    fn time_for(&self, bursts: u64) -> Span {
        self.rate.time_for(bursts.saturating_mul(u64::from(self.burst)))
    }

    /// The part of `latency` that is the part of the rate.
    fn part_of_latency(&self, bits: u64) -> Span {
        let ns = u128::from(self.latency.as_nanos()) * u128::from(bits);
        let ns = ns / u128::from(self.rate.bits_per_sec());
        Span::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX)).min(self.latency)
    }

    /// Takes `after` in place of `before`, which was taken.
    fn exchange(&mut self, before: Use, after: Use) -> Result<(), NotKept> {
        let taken = self.taken.with(before, after);
        if taken.bits > self.most {
            let others = self.taken.bits.saturating_sub(before.bits);
            return Err(NotKept::Uplink(self.most.saturating_sub(others)));
        }
        let wait = self.wait + self.time_for(taken.bursts);
        if after.bursts > before.bursts && wait > self.latency {
            return Err(NotKept::Burst(wait));
        }
        self.taken = taken;
        Ok(())
    }
}

/// What a tenant's ports may have.
struct Part {
    /// At most, in bits a second; `None`: all that the uplink has.
    most: Option<u64>,
    is_limit: bool,
    /// What the tenant itself is guaranteed: its ports' guarantees are out of that.
    own: Option<Rate>,
    /// What its ports have.
    ports: Use,
    /// The guarantee that its ports had theirs out of is gone: they ask anew.
    is_lost: bool,
}

impl Part {
    fn of<T>(ask: &TenantAsk<T>) -> Self {
        Self {
            most: ask.guarantee.or(ask.limit).map(Rate::bits_per_sec),
            is_limit: ask.guarantee.is_none(),
            ..Self::default()
        }
    }

    /// The operator bounds what the tenant may have.
    fn has_terms(&self) -> bool {
        self.most.is_some()
    }

    /// Gives a port `after` in place of `before`, which it had.
    fn exchange(
        &mut self,
        room: &mut Option<Room>,
        before: Use,
        after: Use,
    ) -> Result<(), NotKept> {
        let ports = self.ports.with(before, after);
        if let Some(most) = self.most
            && ports.bits > most
        {
            let left = most.saturating_sub(self.ports.bits.saturating_sub(before.bits));
            return Err(match self.is_limit {
                true => NotKept::Limit(left),
                false => NotKept::Guarantee(left),
            });
        }
        if self.own.is_none() {
            let room = room.as_mut().ok_or(NotKept::NoRate)?;
            // One burst is in every part: a small one would have none.
            if let Some(most) = self.most
                && after.bursts > before.bursts
                && ports.bursts > 1
            {
                let (wait, part) = (room.time_for(ports.bursts), room.part_of_latency(most));
                if wait > part {
                    return Err(NotKept::PartOfLatency { wait, part });
                }
            }
            room.exchange(before, after)?;
        }
        self.ports = ports;
        Ok(())
    }

    /// Gives the tenant itself this guarantee in place of what it has, or of what its ports have.
    /// Returns whether that has left room for others' bursts.
    fn guarantee(&mut self, room: &mut Option<Room>, guarantee: Rate) -> Result<bool, NotKept> {
        let room = room.as_mut().ok_or(NotKept::NoRate)?;
        let before = if self.own.is_some() { Use::of(self.own) } else { self.ports };
        room.exchange(before, Use::of(Some(guarantee)))?;
        self.own = Some(guarantee);
        self.most = Some(guarantee.bits_per_sec());
        Ok(before.bursts > 1)
    }
}

impl Default for Part {
    /// Of a tenant without terms.
    fn default() -> Self {
        Self { most: None, is_limit: true, own: None, ports: Use::default(), is_lost: false }
    }
}

/// What is granted of what is asked for, so far.
#[derive(Clone, Copy, Default)]
struct Trial {
    granted: Option<Rate>,
    /// Why the last attempt failed.
    why: Option<NotKept>,
}

impl Trial {
    /// Takes what was attempted.
    fn note(&mut self, rate: Rate, attempt: Result<(), NotKept>) {
        self.why = attempt.err();
        if self.why.is_none() {
            self.granted = Some(rate);
        }
    }

    fn outcome(self) -> Option<Result<Grant, NotKept>> {
        match (self.granted, self.why) {
            (Some(rate), short) => Some(Ok(Grant { rate, short })),
            (None, why) => why.map(Err),
        }
    }
}

/// Admits what objects guarantee, beside what the file promises: `promise`. Each guarantee may send
/// `burst` bytes at once after a rest.
///
/// What is kept, with what the file promises, is never more than [`admit`](crate::admit) takes.
pub fn admit_objects<T: Clone + Ord, P: Clone + Ord>(
    host: &Host,
    promise: &Promise,
    burst: u32,
    tenants: impl IntoIterator<Item = TenantAsk<T>>,
    ports: impl IntoIterator<Item = PortAsk<T, P>>,
) -> Kept<T, P> {
    let mut room = Room::new(host, promise, burst);
    let mut tenants: Vec<_> = tenants.into_iter().map(|it| (it, Trial::default())).collect();
    tenants.sort_by(|(a, _), (b, _)| a.tenant.cmp(&b.tenant));
    let mut parts: BTreeMap<T, Part> = BTreeMap::new();
    // What was kept, as far as it is still asked for.
    for (ask, trial) in &mut tenants {
        let mut part = Part::of(ask);
        if let Some(had) = ask.had {
            if let Some(rate) = ask.guarantee.map(|it| it.min(had)) {
                trial.note(rate, part.guarantee(&mut room, rate).map(|_| ()));
            }
            part.is_lost = trial.granted.is_none();
        }
        parts.insert(ask.tenant.clone(), part);
    }
    let mut ports: Vec<_> = ports.into_iter().map(|it| (it, Trial::default())).collect();
    for (ask, _) in &ports {
        parts.entry(ask.tenant.clone()).or_default();
    }
    // Whoever has no terms could name the operator's profiles to be before others.
    let order = |it: &PortAsk<T, P>| !(it.is_operators && parts[&it.tenant].has_terms());
    ports.sort_by(|(a, _), (b, _)| (order(a), &a.port).cmp(&(order(b), &b.port)));
    for (ask, trial) in &mut ports {
        let part = parts.entry(ask.tenant.clone()).or_default();
        if let Some(had) = ask.had.filter(|_| !part.is_lost) {
            let rate = had.min(ask.guarantee);
            trial.note(rate, part.exchange(&mut room, Use::default(), Use::of(Some(rate))));
        }
    }
    // What is asked for beside that. A tenant's guarantee in place of its ports' leaves room for
    // bursts, also of those that came before.
    let mut is_freed = true;
    while is_freed {
        is_freed = false;
        for (ask, trial) in &mut tenants {
            let part = parts.entry(ask.tenant.clone()).or_default();
            if let Some(rate) = ask.guarantee.filter(|it| trial.granted != Some(*it)) {
                let attempt = part.guarantee(&mut room, rate);
                is_freed |= attempt == Ok(true);
                trial.note(rate, attempt.map(|_| ()));
            }
        }
        for (ask, trial) in &mut ports {
            let part = parts.entry(ask.tenant.clone()).or_default();
            if trial.granted != Some(ask.guarantee) {
                let (before, after) = (Use::of(trial.granted), Use::of(Some(ask.guarantee)));
                trial.note(ask.guarantee, part.exchange(&mut room, before, after));
            }
        }
    }
    let of_tenant = |(ask, trial): (TenantAsk<T>, Trial)| Some((ask.tenant, trial.outcome()?));
    let of_port = |(ask, trial): (PortAsk<T, P>, Trial)| Some((ask.port, trial.outcome()?));
    Kept {
        tenants: tenants.into_iter().filter_map(of_tenant).collect(),
        ports: ports.into_iter().filter_map(of_port).collect(),
    }
}

#[cfg(test)]
mod tests;
