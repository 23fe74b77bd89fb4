use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use model::NetworkName;
use proptest::prelude::*;
use units::Bytes;

use super::*;

/// A hundred megabits: 94.05 of them can be promised, and 41 frames at once.
fn host() -> Host {
    let rate = "100mbit".parse().ok();
    Host { rate, latency: Span::from_millis(5), memory: Bytes(0) }
}

const FRAME: u32 = 1514;

fn mbit(number: u64) -> Rate {
    Rate::from_bits_per_sec(number * 1_000_000).unwrap()
}

fn tenant(tenant: &str, guarantee: u64, limit: u64) -> TenantAsk<&str> {
    let rate = |number| Some(number).filter(|it| *it > 0).map(mbit);
    TenantAsk { tenant, guarantee: rate(guarantee), limit: rate(limit), had: None }
}

/// A port with a profile of the operator's.
fn port<'a>(tenant: &'a str, port: &'a str, guarantee: u64) -> PortAsk<&'a str, &'a str> {
    PortAsk { tenant, port, guarantee: mbit(guarantee), is_operators: true, had: None }
}

/// All that was asked for.
fn whole(number: u64) -> Grant {
    Grant { rate: mbit(number), short: None }
}

/// What is kept of the ports, in megabits, or why it is not.
fn ports(
    tenants: &[TenantAsk<&'static str>],
    ports: &[PortAsk<&'static str, &'static str>],
) -> Vec<Result<u64, NotKept>> {
    let none = Promise::default();
    let kept = admit_objects(&host(), &none, FRAME, tenants.to_vec(), ports.to_vec());
    kept.ports.into_values().map(|it| it.map(|it| it.rate.bits_per_sec() / 1_000_000)).collect()
}

#[test]
fn a_guarantee_that_does_not_fit_is_not_kept_and_smaller_ones_are() {
    let all = [port("t", "a", 60), port("u", "b", 40), port("t", "c", 30)];
    assert_eq!(ports(&[], &all), [Ok(60), Err(NotKept::Uplink(34_050_000)), Ok(30)]);
    // Without the first there is room for the second.
    assert_eq!(ports(&[], &all[1..]), [Ok(40), Ok(30)]);
}

#[test]
fn what_is_kept_stays_kept_whoever_else_asks() {
    let limits = [tenant("t", 0, 90), tenant("u", 90, 0)];
    let had = PortAsk { had: Some(mbit(40)), is_operators: false, ..port("t", "z", 40) };
    let others = port("t", "a", 60);
    let left = Err(NotKept::Limit(50_000_000));
    assert_eq!(ports(&limits[..1], &[had, others]), [left, Ok(40)], "the operator's");
    // A neighbour is gone: what waits for its room takes no other's.
    let own = PortAsk { is_operators: false, ..port("u", "b", 60) };
    assert_eq!(ports(&[], &[had, own]), [Err(NotKept::Uplink(54_050_000)), Ok(40)]);
    // The first port of a tenant with a guarantee.
    let first = port("u", "b", 10);
    let kept = admit_objects(&host(), &Promise::default(), FRAME, limits, [had, first]);
    assert_eq!(kept.tenants["u"], Err(NotKept::Uplink(54_050_000)));
    assert_eq!((kept.ports["z"], kept.ports["b"]), (Ok(whole(40)), Ok(whole(10))));
}

#[test]
fn the_operators_profile_is_before_others_only_where_the_tenant_has_terms() {
    let own = PortAsk { is_operators: false, ..port("t", "b", 60) };
    let all = [own, port("u", "c", 60)];
    let left = NotKept::Uplink(34_050_000);
    assert_eq!(ports(&[], &all), [Ok(60), Err(left)], "it names it itself");
    assert_eq!(ports(&[tenant("u", 0, 60)], &all), [Err(left), Ok(60)]);
}

#[test]
fn more_than_is_kept_is_tried_beside_what_is() {
    let more = |asked, had| PortAsk { had: Some(mbit(had)), ..port("t", "a", asked) };
    let kept = |all: &[PortAsk<_, _>], tenants: &[TenantAsk<_>]| {
        let none = Promise::default();
        admit_objects(&host(), &none, FRAME, tenants.to_vec(), all.to_vec())
    };
    let beside = PortAsk { had: Some(mbit(40)), ..port("u", "b", 40) };
    let now = kept(&[more(60, 40), beside], &[]);
    let short = Some(NotKept::Uplink(54_050_000));
    assert_eq!(now.ports["a"], Ok(Grant { rate: mbit(40), short }));
    assert_eq!(now.ports["b"], Ok(whole(40)));
    assert_eq!(kept(&[more(54, 40), beside], &[]).ports["a"], Ok(whole(54)));
    assert_eq!(kept(&[more(30, 40), beside], &[]).ports["a"], Ok(whole(30)), "less is less");
    // Of a tenant too, whose ports keep theirs.
    let asks = |asked| [TenantAsk { had: Some(mbit(40)), ..tenant("t", asked, 0) }];
    let now = kept(&[more(40, 40), beside], &asks(80));
    assert_eq!(now.tenants["t"], Ok(Grant { rate: mbit(40), short }));
    assert_eq!(now.ports.into_values().collect::<Vec<_>>(), [Ok(whole(40)); 2]);
    let now = kept(&[more(50, 40), beside], &asks(50));
    assert_eq!((now.tenants["t"], now.ports["a"]), (Ok(whole(50)), Ok(whole(50))));
}

#[test]
fn a_tenants_new_guarantee_is_in_place_of_its_ports() {
    let had = |name, rate| PortAsk { had: Some(mbit(rate)), ..port("t", name, rate) };
    let all = [had("a", 40), had("b", 40), port("u", "c", 30)];
    let none = Promise::default();
    let kept = admit_objects(&host(), &none, FRAME, [tenant("t", 90, 0)], all);
    assert_eq!(kept.tenants["t"], Ok(whole(90)));
    assert_eq!([kept.ports["a"], kept.ports["b"]], [Ok(whole(40)); 2]);
    assert_eq!(kept.ports["c"], Err(NotKept::Uplink(4_050_000)));
    // It is gone: its ports ask as others do, and take nothing of theirs.
    let lost = TenantAsk { had: Some(mbit(90)), ..tenant("t", 0, 0) };
    let others = PortAsk { had: Some(mbit(20)), ..port("u", "c", 20) };
    let kept = admit_objects(&host(), &none, FRAME, [lost], [all[0], all[1], others]);
    assert_eq!((kept.ports["a"], kept.ports["c"]), (Ok(whole(40)), Ok(whole(20))));
    assert_eq!(kept.ports["b"], Err(NotKept::Uplink(34_050_000)));
}

#[test]
fn small_guarantees_of_one_tenant_leave_bursts_for_others() {
    let names: Vec<String> = (10..60).map(|at| format!("p{at}")).collect();
    let all = || names.iter().map(|name| port("t", name, 1)).chain([port("u", "z", 1)]);
    let none = Promise::default();
    let kept = admit_objects(&host(), &none, FRAME, [tenant("t", 0, 50)], all());
    let many = kept.ports.values().filter(|it| it.is_ok()).count();
    // Half of 5 ms are 20 frames of 121 us.
    assert_eq!((many, kept.ports["z"].is_ok()), (21, true));
    let refused = kept.ports["p30"].unwrap_err();
    let part = Span::from_micros(2500);
    assert!(matches!(refused, NotKept::PartOfLatency { part: it, .. } if it == part));
    assert!(refused.to_string().contains("part of `latency` is 2500us: raise"), "{refused}");
    // One is in each part, and those within their tenant's guarantee are not counted.
    let kept = admit_objects(&host(), &none, FRAME, [tenant("t", 0, 1)], all());
    assert!(kept.ports["p10"].is_ok() && kept.ports["p11"].is_err());
    let kept = admit_objects(&host(), &none, FRAME, [tenant("t", 50, 0)], all());
    assert!(kept.ports.values().all(Result::is_ok));
}

#[test]
fn what_the_file_promises_goes_first() {
    let promise = Promise { bits_per_sec: 94_000_000, ..Promise::default() };
    let all = [PortAsk { had: Some(mbit(1)), ..port("t", "a", 1) }];
    let kept = admit_objects(&host(), &promise, FRAME, [tenant("t", 0, 0)], all);
    assert_eq!(kept.ports["a"], Err(NotKept::Uplink(50_000)));
}

#[test]
fn ports_have_their_guarantees_out_of_their_tenants() {
    let all = [port("t", "a", 40), port("t", "b", 20), port("u", "c", 40)];
    let ok = [Ok(40), Err(NotKept::Guarantee(10_000_000)), Ok(40)];
    assert_eq!(ports(&[tenant("t", 50, 90)], &all), ok, "50 and 40 of 94.05");
    let ok = [Ok(40), Err(NotKept::Limit(10_000_000)), Ok(40)];
    assert_eq!(ports(&[tenant("t", 0, 50)], &all), ok, "it may have no more");
}

#[test]
fn ports_of_a_tenant_whose_guarantee_is_not_kept_are_admitted_one_by_one() {
    let tenants = [tenant("t", 80, 0), tenant("u", 90, 0)];
    let all = [port("u", "a", 10), port("u", "b", 10)];
    let none = Promise::default();
    let kept = admit_objects(&host(), &none, FRAME, tenants, all);
    assert_eq!(kept.tenants["t"], Ok(whole(80)));
    assert_eq!(kept.tenants["u"], Err(NotKept::Uplink(14_050_000)));
    assert_eq!(kept.ports["a"], Ok(whole(10)));
    assert_eq!(kept.ports["b"], Err(NotKept::Uplink(4_050_000)));
}

#[test]
fn frames_that_others_wait_for_are_bounded_too() {
    let names: Vec<String> = (10..60).map(|at| format!("p{at}")).collect();
    let all = names.iter().map(|name| PortAsk { guarantee: mbit(1), ..port("t", name, 1) });
    let kept = admit_objects(&host(), &Promise::default(), FRAME, [], all);
    let kept: Vec<_> = kept.ports.values().copied().collect();
    assert!(kept[..41].iter().all(Result::is_ok));
    let refused = kept[41].unwrap_err();
    assert!(matches!(refused, NotKept::Burst(_)));
    assert!(refused.to_string().contains("takes the uplink 5"), "{refused}");
    assert!(refused.to_string().ends_with("or move the port to another host"), "{refused}");
}

#[test]
fn nothing_is_kept_of_an_uplink_whose_rate_is_not_declared() {
    let host = Host { rate: None, ..host() };
    let all = [port("t", "a", 1)];
    let kept = admit_objects(&host, &Promise::default(), FRAME, [tenant("t", 1, 0)], all);
    assert_eq!((kept.tenants["t"], kept.ports["a"]), (Err(NotKept::NoRate), Err(NotKept::NoRate)));
}

#[test]
fn a_sentence_says_what_is_left_and_what_to_do() {
    assert_eq!(
        NotKept::Uplink(34_050_000).to_string(),
        "34050kbit is left of what the uplink can guarantee: lower it or another, or move the port to another host"
    );
    assert!(NotKept::Guarantee(0).to_string().starts_with("nothing is left of its tenant's `g"));
}

#[test]
fn bursts_that_a_tenants_guarantee_frees_are_for_whoever_was_refused_before_it() {
    let names: Vec<String> = (10..51).map(|at| format!("p{at}")).collect();
    // Of the 41, as many as the tenant's part holds, and others'.
    let had = |tenant, name| PortAsk { had: Some(mbit(1)), ..port(tenant, name, 1) };
    let all = names.iter().enumerate();
    let all = all.map(|(at, name)| had(if at < 24 { "t" } else { "u" }, name));
    let tenants = [tenant("s", 10, 0), tenant("t", 60, 0)];
    let all = all.chain([port("s", "a", 5)]);
    let kept = admit_objects(&host(), &Promise::default(), FRAME, tenants, all);
    assert!(kept.tenants.values().chain(kept.ports.values()).all(Result::is_ok), "{kept:?}");
}

/// What was kept of a guarantee.
fn rate_of(outcome: Option<&Result<Grant, NotKept>>) -> Option<Rate> {
    outcome?.ok().map(|it| it.rate)
}

/// What is taken of a part.
fn sum(rates: impl Iterator<Item = Option<Rate>>) -> Use {
    rates.fold(Use::default(), |sum, it| sum.with(Use::default(), Use::of(it)))
}

/// What is asked for, and what is kept of it.
#[derive(Debug)]
struct Settled {
    host: Host,
    promise: Promise,
    tenants: Vec<TenantAsk<u8>>,
    ports: Vec<PortAsk<u8, usize>>,
    kept: Kept<u8, usize>,
}

impl Settled {
    fn new(
        host: Host,
        promise: Promise,
        tenants: Vec<TenantAsk<u8>>,
        ports: Vec<PortAsk<u8, usize>>,
    ) -> Self {
        let kept = admit_objects(&host, &promise, FRAME, tenants.clone(), ports.clone());
        Self { host, promise, tenants, ports, kept }
    }

    fn of_port(&self, port: usize) -> Option<Rate> {
        rate_of(self.kept.ports.get(&port))
    }

    fn of_tenant(&self, tenant: u8) -> Option<Rate> {
        rate_of(self.kept.tenants.get(&tenant))
    }

    /// What a tenant's ports have.
    fn within(&self, tenant: u8) -> Use {
        sum(self.ports.iter().filter(|it| it.tenant == tenant).map(|it| self.of_port(it.port)))
    }

    /// What a tenant's ports may have at most, in bits a second.
    fn most(&self, tenant: u8) -> Option<u64> {
        let terms = self.tenants.iter().find(|it| it.tenant == tenant);
        let terms = terms.and_then(|it| it.guarantee.or(it.limit));
        self.of_tenant(tenant).or(terms).map(Rate::bits_per_sec)
    }

    /// What all have of the uplink.
    fn all(&self) -> Use {
        let tenants = sum(self.kept.tenants.values().map(|it| rate_of(Some(it))));
        let beside = self.ports.iter().filter(|it| self.of_tenant(it.tenant).is_none());
        let ports = sum(beside.map(|it| self.of_port(it.port)));
        tenants.with(Use::default(), ports)
    }

    /// Asserts that what is refused would be too much beside what is kept, and that what is left is
    /// what the sums leave, or was before smaller ones were admitted.
    fn assert_refused_is_too_much(
        &self,
        asked: Rate,
        tenant: u8,
        before: Use,
        outcome: Result<Grant, NotKept>,
    ) {
        let frames = |many| self.host.rate.unwrap().time_for(many * u64::from(FRAME));
        let rate = self.host.rate.unwrap();
        let (why, had) = match outcome {
            Ok(Grant { short: None, rate }) => return assert_eq!(rate, asked),
            Ok(Grant { short: Some(why), rate }) => (why, Use::of(Some(rate))),
            Err(why) => (why, before),
        };
        let (all, within) = (self.all(), self.within(tenant));
        let of_part = |left: u64| {
            let sums = (self.most(tenant).unwrap() + had.bits).saturating_sub(within.bits);
            assert!(asked.bits_per_sec() > left && left >= sums, "{left} and {sums}: {self:?}");
        };
        match why {
            NotKept::NoRate => panic!("it is known"),
            NotKept::Uplink(left) => {
                let most = most_promised(rate) - self.promise.bits_per_sec;
                let sums = most + had.bits - all.bits;
                assert!(asked.bits_per_sec() > left && left >= sums, "{left} and {sums}: {self:?}");
            }
            NotKept::Guarantee(left) | NotKept::Limit(left) => of_part(left),
            NotKept::Burst(wait) => {
                let now = self.promise.wait + frames(all.bursts + 1);
                assert!(wait > self.host.latency && wait <= now, "{wait} of {now}: {self:?}");
            }
            NotKept::PartOfLatency { wait, part } => {
                let now = frames(within.bursts + 1);
                let most = u128::from(self.most(tenant).unwrap());
                let of_rate = u128::from(self.host.latency.as_nanos()) * most;
                let of_rate = of_rate / u128::from(rate.bits_per_sec());
                assert_eq!(
                    u128::from(part.as_nanos()),
                    of_rate.min(self.host.latency.as_nanos().into())
                );
                assert!(wait > part && wait <= now, "{wait} of {now}: {self:?}");
            }
        }
    }

    fn assert_all_refused_is_too_much(&self) {
        for it in &self.tenants {
            if let Some(asked) = it.guarantee {
                let before = self.within(it.tenant);
                self.assert_refused_is_too_much(
                    asked,
                    it.tenant,
                    before,
                    self.kept.tenants[&it.tenant],
                );
            }
        }
        for it in &self.ports {
            let outcome = self.kept.ports[&it.port];
            self.assert_refused_is_too_much(it.guarantee, it.tenant, Use::default(), outcome);
        }
    }
}

proptest! {
    /// What is kept can be promised by networks as it is; each one that is not kept would be too
    /// much; and what is kept is kept when it is asked for again, beside fewer and beside others,
    /// also if more is asked for.
    #[test]
    fn what_is_kept_is_never_too_much_and_stays_kept(
        file in 0..60u64,
        latency in 1..8u64,
        tenants in proptest::collection::btree_map(0..4u8, (0..60u64, 0..60u64, 0..60u64), 0..4),
        ports in proptest::collection::vec((0..4u8, 1..40u64, any::<bool>(), 0..40u64), 0..30),
        gone in (0..30usize, 0..8u8),
        more in (0..30usize, 0..4u8, 1..40u64),
        others in proptest::collection::vec((4..6u8, 1..60u64, any::<bool>()), 0..6),
    ) {
        let host = Host { latency: Span::from_millis(latency), ..host() };
        let network = NetworkName("file".into());
        let claim = |network, min, bursts: u64| crate::Claim {
            network,
            min,
            max: None,
            burst: Bytes(bursts * u64::from(FRAME)),
            min_packets: 0,
            frame: Span::ZERO,
            memory: Bytes(0),
        };
        let of_file = claim(&network, Rate::from_bits_per_sec(file * 1_000_000), 1);
        let promise = crate::admit(&host, [of_file]).unwrap();
        let rate = |number| Rate::from_bits_per_sec(number * 1_000_000);
        let tenants = tenants.into_iter().map(|(tenant, (guarantee, limit, had))| TenantAsk {
            tenant,
            guarantee: rate(guarantee),
            limit: rate(limit),
            had: rate(had),
        });
        let ask = |(port, (tenant, guarantee, is_operators, had)): (usize, _)| PortAsk {
            tenant,
            port,
            guarantee: mbit(guarantee),
            is_operators,
            had: rate(had),
        };
        let ports = (0..).zip(ports).map(ask).collect();
        let first = Settled::new(host, promise, tenants.collect(), ports);
        first.assert_all_refused_is_too_much();

        // As networks: one of each tenant.
        let names: Vec<_> = (0..4u8).map(|it| NetworkName(it.to_string())).collect();
        let claims = (0..4u8).map(|tenant| {
            let Use { bits, bursts } = first.within(tenant);
            match first.of_tenant(tenant) {
                Some(rate) => claim(&names[usize::from(tenant)], Some(rate), 1),
                None => claim(&names[usize::from(tenant)], Rate::from_bits_per_sec(bits), bursts),
            }
        });
        let all: Vec<_> = claims.chain([of_file]).filter(|it| it.min.is_some()).collect();
        // Spans are rounded for each part.
        let slack = Span::from_nanos(8);
        let within = Host { latency: host.latency + slack, ..host };
        prop_assert!(crate::admit(&within, all.iter().copied()).is_ok(), "{:?}", first.kept);
        for tenant in 0..4 {
            let most = first.most(tenant).unwrap_or(u64::MAX);
            prop_assert!(first.within(tenant).bits <= most, "{:?}", first.kept);
        }

        // Once more: a port and all of a tenant are gone, a port and a tenant ask for more, and
        // there are new ones.
        let raised = |rate: Rate, is_raised: bool| match is_raised {
            true => Rate::from_bits_per_sec(rate.bits_per_sec() + more.2 * 1_000_000).unwrap(),
            false => rate,
        };
        let tenants = first.tenants.iter().filter(|it| it.tenant != gone.1).map(|it| TenantAsk {
            guarantee: it.guarantee.map(|rate| raised(rate, it.tenant == more.1)),
            had: first.of_tenant(it.tenant),
            ..*it
        });
        let new = |tenant| TenantAsk { tenant, guarantee: Some(mbit(30)), limit: None, had: None };
        let left = first.ports.iter().filter(|it| it.port != gone.0 && it.tenant != gone.1);
        let left = left.map(|it| PortAsk {
            guarantee: raised(it.guarantee, it.port == more.0),
            had: first.of_port(it.port),
            ..*it
        });
        let others = others.into_iter().map(|(tenant, guarantee, own)| (tenant, guarantee, own, 0));
        let others = (100..).zip(others).map(ask);
        let tenants = tenants.chain([new(4)]).collect();
        let again = Settled::new(host, promise, tenants, left.chain(others).collect());
        again.assert_all_refused_is_too_much();
        for it in &again.ports {
            prop_assert!(again.of_port(it.port) >= it.had, "{it:?} of {:?}", again.kept);
        }
        for it in &again.tenants {
            prop_assert!(again.of_tenant(it.tenant) >= it.had, "{it:?} of {:?}", again.kept);
        }
    }
}
