use image::Table;
use units::Rng;
use worlds::World;

use super::*;

const SHOP: &str = include_str!("../../../../examples/shop.yaml");

fn objects(text: &str) -> Vec<Object> {
    let source = logical::read(text);
    assert!(source.faults.is_empty(), "{:?}", source.faults);
    source.objects
}

fn names(names: &[&str]) -> BTreeSet<LogicalPortName> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

#[test]
fn a_generation_names_what_differs_and_keeps_what_does_not() {
    let own = names(&["shop/web-1", "shop/db-1"]);
    let first = Logical::default().next(objects(SHOP), own.clone()).unwrap();
    assert_eq!(
        (first.generation(), first.realization(None, |_| None).nets.len()),
        (Generation(1), 1)
    );
    let again = first.next(objects(SHOP), own.clone()).unwrap();
    let [same, there] = [&first, &again].map(|it| it.realization(None, |_| None).nets[0].clone());
    assert!(Arc::ptr_eq(&same, &there), "what is the same is not made anew");
    let Difference { objects: none, domains } = first.difference(&again);
    assert!(none.is_empty() && domains.is_empty());

    let other = SHOP.replace("ports: [5432]", "ports: [5433]");
    let next = again.next(objects(&other), own).unwrap();
    let Difference { objects: changed, domains } = again.difference(&next);
    let change = ObjectFate::Changed;
    assert_eq!(changed, [ObjectChange { change, object: "Service/shop/postgres".into() }]);
    assert_eq!((domains.len(), domains[0].put, domains[0].removed), (1, 1, 0));
    assert!(!Arc::ptr_eq(&next.realization(None, |_| None).nets[0], &there));
}

#[test]
fn a_host_without_ports_of_a_domain_has_nothing_of_it() {
    let none = Logical::default().next(objects(SHOP), BTreeSet::new()).unwrap();
    assert_eq!(none.realization(None, |_| None).nets.len(), 0);
    let two = none.with_ports(names(&["shop/web-2", "shop/unknown"]));
    assert_eq!((two.realization(None, |_| None).nets.len(), two.generation()), (1, Generation(1)));
    assert_eq!(two.with_ports(names(&["other/web-2"])).realization(None, |_| None).nets.len(), 0);
}

#[test]
fn a_routers_port_is_no_machines_to_have() {
    let logical = Logical::default().next(objects(SHOP), names(&["shop/web-edge"])).unwrap();
    assert_eq!(logical.realization(None, |_| None).nets.len(), 0);
    assert!(!logical.ports().any(|port| port.port() == "web-edge"));
}

#[test]
fn interfaces_have_the_address_and_the_mtu_of_their_ports() {
    let text = SHOP.replace("subnets: [10.0.1.0/24]", "subnets: [10.0.1.0/24]\n  mtu: 1400");
    let logical = Logical::default().next(objects(&text), BTreeSet::new()).unwrap();
    let facts = logical.realization(None, |_| None).facts;
    let of = |name: &str| facts.get(&name.parse().unwrap()).unwrap().clone();
    let (mac, class) = (Mac([2, 0, 0, 0, 1, 1]), Class::default());
    let (mtu, rates, vlan, provided) = (Some(1400), None, None, None);
    assert_eq!(of("shop/web-1"), Facts { mac, mtu, class, rates, vlan, provided });
    assert_eq!(of("shop/db-1").mtu, None);
    assert!(!of("shop/web-2").mac.is_multicast());
}

/// A port's own class goes before its profile's, and its profile before its switch's. Whose profile
/// guarantees something is known, and what tenants have.
#[test]
fn ports_have_the_class_and_the_rates_of_their_profiles() {
    let text = "
- {kind: Tenant, metadata: {name: t}, spec: {guarantee: 200mbit}}
- {kind: Tenant, metadata: {name: u}, spec: {guarantee: 1mbit}}
- {kind: QosProfile, metadata: {name: gold}, spec: {guarantee: 100mbit, limit: 1gbit, class: 5}}
- {kind: QosProfile, metadata: {name: slow, tenant: t}, spec: {guarantee: 9mbit, limit: 10mbit, burst: 64kib}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: t}, spec: {subnets: [10.0.0.0/24], qos: gold}}
- {kind: LogicalPort, metadata: {name: a, tenant: t}, spec: {switch: s, vif: {}, addresses: [10.0.0.1]}}
- {kind: LogicalPort, metadata: {name: b, tenant: t}, spec: {switch: s, vif: {}, addresses: [10.0.0.2], class: 0}}
- {kind: LogicalPort, metadata: {name: c, tenant: t}, spec: {switch: s, vif: {}, addresses: [10.0.0.3], qos: slow}}
";
    let logical = Logical::default().next(objects(text), BTreeSet::new()).unwrap();
    let facts = logical.realization(None, |_| None).facts;
    let of = |name: &str| {
        let Facts { class, rates, .. } = facts.get(&name.parse().unwrap()).unwrap();
        (class.pcp(), rates.clone().unwrap())
    };
    let rates = |profile: &str, guarantee: &str, limit: &str, burst: Option<u64>| {
        let (tenant, name) = profile.split_once('/').unwrap();
        let tenant = (!tenant.is_empty()).then(|| tenant.parse().unwrap());
        Rates {
            profile: Identity { kind: Kind::QosProfile, tenant, name: name.parse().unwrap() },
            guarantee: guarantee.parse().ok(),
            limit: limit.parse().ok(),
            burst: burst.map(Bytes),
        }
    };
    assert_eq!(of("t/a"), (5, rates("/gold", "100mbit", "1gbit", None)));
    assert_eq!(of("t/b"), (0, rates("/gold", "100mbit", "1gbit", None)));
    assert_eq!(of("t/c"), (0, rates("t/slow", "9mbit", "10mbit", Some(64 << 10))));
    let tenants: Vec<_> = facts.tenants.iter().map(|(at, it)| (&*at.0, it.terms)).collect();
    let terms = TenantTerms { guarantee: "200mbit".parse().ok(), limit: None };
    assert_eq!(tenants, [("logical/t", terms)], "the other has no port");
}

#[test]
fn what_was_applied_is_there_for_the_next_agent() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("agent.sock");
    let kept = Kept::new(&socket, false);
    let settings = model::LogicalSettings::default();
    assert_eq!(Logical::at_start(&settings, None, &kept).unwrap().generation(), Generation(0));
    let first = Logical::default().next(objects(SHOP), BTreeSet::new()).unwrap();
    kept.keep(Generation(6), first.objects());
    let next = Logical::at_start(&settings, None, &Kept::new(&socket, false)).unwrap();
    assert_eq!((next.objects(), next.generation()), (first.objects(), Generation(6)));
    kept.clear();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_was_applied_and_cannot_be_read_is_set_aside() {
    for text in ["{", "{\"generation\": 1, \"objects\": [{\"kind\": \"Switch\"}]}"] {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("agent.sock");
        let path = folder.path().join("agent.sock.logical.json");
        std::fs::write(&path, text).unwrap();
        let settings = model::LogicalSettings::default();
        let logical = Logical::at_start(&settings, None, &Kept::new(&socket, false)).unwrap();
        assert!(logical.objects().is_empty());
        assert!(!path.exists() && path.with_extension("unreadable").exists());
    }
}

#[test]
fn files_count_and_all_that_is_wrong_with_them_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two] = ["one.yaml", "two.yaml"].map(|it| folder.path().join(it));
    let (tenant, rest) = SHOP.split_at(SHOP.find("---").unwrap());
    std::fs::write(&one, rest).unwrap();
    std::fs::write(&two, tenant).unwrap();
    let files: Vec<_> = [&one, &two].map(|it| it.display().to_string()).into();
    let settings = model::LogicalSettings { files, ..Default::default() };
    check(&settings).unwrap();
    std::fs::write(&two, "").unwrap();
    let wrong = check(&settings).unwrap_err().to_string();
    assert!(wrong.lines().count() > 1 && wrong.contains("shop"), "{wrong}");
    std::fs::write(&two, "kind: Tenent").unwrap();
    let wrong = check(&settings).unwrap_err().to_string();
    assert!(wrong.contains("two.yaml:1:7: ") && wrong.contains("`Tenant`"), "{wrong}");
}

#[test]
fn a_port_of_a_provider_network_knows_by_what_its_host_has_that() {
    const OUTSIDE: &str = "
- {kind: ProviderNetwork, metadata: {name: campus}, spec: {vlanRanges: [[7, 7]]}}
- {kind: ProviderNetwork, metadata: {name: other}, spec: {}}
- {kind: TransportNode, metadata: {name: h1}, spec: {vteps: [192.0.2.1, 192.0.2.9], providers: {campus: eth1}}}
- {kind: TransportNode, metadata: {name: h2}, spec: {vteps: [192.0.2.2], providers: {other: eth1}}}
- {kind: Tenant, metadata: {name: t}, spec: {allowProvider: [campus]}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: t}, spec: {subnets: [203.0.113.0/24], provider: {network: campus, vlan: 7}}}
- {kind: LogicalPort, metadata: {name: out, tenant: t}, spec: {switch: s, provider: {}}}
";
    let at = |own: &[[u8; 4]]| {
        let own: Vec<std::net::IpAddr> = own.iter().map(|it| (*it).into()).collect();
        let none = Logical { own: VtepList::try_from(own).ok(), ..Logical::default() };
        let logical = none.next(objects(OUTSIDE), BTreeSet::new()).unwrap();
        let facts = logical.realization(None, |_| None).facts;
        let provided = facts.get(&"t/out".parse().unwrap()).unwrap().provided.clone();
        provided.map(|it| (it.network.to_string(), it.node.to_string(), it.interface))
    };
    let known = |node: &str, interface: Option<&str>| {
        Some(("campus".to_string(), node.to_string(), interface.map(Into::into)))
    };
    assert_eq!(at(&[[192, 0, 2, 9], [192, 0, 2, 1]]), known("h1", Some("eth1")));
    assert_eq!(at(&[[192, 0, 2, 2]]), known("h2", None));
    // A host that is no TransportNode cannot contradict one.
    assert_eq!([at(&[[192, 0, 2, 3]]), at(&[])], [None, None]);
}

/// Two switches on two hosts, and a router between them that hides one from the other.
const HIDDEN: &str = "
- {kind: Tenant, metadata: {name: t}, spec: {}}
- {kind: ExternalPool, metadata: {name: p}, spec: {prefixes: [10.0.1.0/24], tenants: [t]}}
- {kind: TransportNode, metadata: {name: h1}, spec: {vteps: [192.0.2.1]}}
- {kind: TransportNode, metadata: {name: h2}, spec: {vteps: [192.0.2.2]}}
- {kind: TransportNode, metadata: {name: h3}, spec: {vteps: [192.0.2.3]}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: t}, spec: {subnets: [10.0.0.0/24]}}
- {kind: LogicalSwitch, metadata: {name: u, tenant: t}, spec: {subnets: [10.0.1.0/24]}}
- {kind: LogicalPort, metadata: {name: a, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:01', addresses: [10.0.0.1]}}
- {kind: LogicalPort, metadata: {name: b, tenant: t}, spec: {switch: u, vif: {}, mac: '02:00:00:00:00:02', addresses: [10.0.1.2]}}
- {kind: Binding, metadata: {name: a}, spec: {port: t/a, node: h2}}
- {kind: Binding, metadata: {name: b}, spec: {port: t/b, node: h3}}
- {kind: LogicalRouter, metadata: {name: r, tenant: t}, spec: {}}
- {kind: RouterPort, metadata: {name: rs, tenant: t}, spec: {router: r, mac: '02:00:00:00:01:00', addresses: [10.0.0.254/24]}}
- {kind: RouterPort, metadata: {name: ru, tenant: t}, spec: {router: r, mac: '02:00:00:00:01:01', addresses: [10.0.1.254/24]}}
- {kind: LogicalPort, metadata: {name: sr, tenant: t}, spec: {switch: s, router: {routerPort: rs}}}
- {kind: LogicalPort, metadata: {name: ur, tenant: t}, spec: {switch: u, router: {routerPort: ru}}}
- {kind: Nat, metadata: {name: n, tenant: t}, spec: {kind: snat, router: r, external: 10.0.1.100, logical: 10.0.0.0/24}}
";

#[test]
fn a_router_that_translates_is_at_one_host_which_all_know() {
    let at = |text: &str, host: u8| {
        let own: std::net::IpAddr = [192, 0, 2, host].into();
        let own = VtepList::try_from(vec![own]).unwrap();
        let none = Logical { own: Some(own.clone()), ..Logical::default() };
        let logical = none.next(objects(text), BTreeSet::new()).unwrap();
        let networks = logical.labelled();
        let hosts: Vec<_> = networks.iter().flat_map(|it| it.hosts.iter().cloned()).collect();
        (logical.realization(Some(&own), |_| None).has_routers, hosts.len())
    };
    // The first that has one of its ports.
    assert_eq!([1, 2, 3].map(|host| at(HIDDEN, host)), [(false, 0), (true, 1), (false, 1)]);
    // Its gateway, which tunnels lead to.
    let gateway = HIDDEN
        .replace("[10.0.1.254/24]", "[10.0.1.254/24], gateway: {nodes: [{node: h1, priority: 1}]}");
    assert_eq!([1, 2, 3].map(|host| at(&gateway, host).0), [true, false, false]);
    // Not only one that translates is at one host: also one that leads flows back as they came.
    let plain: Vec<_> = HIDDEN.lines().filter(|line| !line.contains("kind: Nat")).collect();
    let route = "routes: [{prefix: 10.9.0.0/16, ecmp: [{nextHop: 10.0.1.2}], symmetric: true}]";
    let back = plain.join("\n").replace(
        "name: r, tenant: t}, spec: {}",
        &format!("name: r, tenant: t}}, spec: {{{route}}}"),
    );
    assert_eq!([1, 2, 3].map(|host| at(&back, host).0), [false, true, false]);
    // None translates: it is where its packets are.
    assert_eq!([1, 2, 3].map(|host| at(&plain.join("\n"), host).0), [false; 3]);
}

/// No row says so: where ports are found does.
#[test]
fn a_router_translates_here_until_it_has_a_home_elsewhere() {
    let topology = logical::load(HIDDEN).unwrap();
    let (name, rows) = compiler::compile(&topology).pop_first().unwrap();
    let domains: Domains = [(name.clone(), Arc::new(rows))].into();
    let router: Identity = "LogicalRouter/t/r".parse().unwrap();
    let mut logical = Logical::of(Some(&vtep()));
    let mut translates_at = |home: Option<u8>| {
        let home = home.map(|host| (router.clone(), vec![[192, 0, 2, host].into()]));
        let (generation, sites) = (Generation(logical.generation().0 + 1), home.into_iter());
        let sites = vec![sites.collect()];
        let (domains, own) = (domains.clone(), names(&["t/a"]));
        logical = logical.followed(generation, domains, &sites, &Labels::new(), &own).unwrap();
        logical.parts[&name].net.own_routers().any(|it| *it == router)
    };
    let at = [None, Some(2), Some(3), None, Some(1), Some(2)].map(&mut translates_at);
    assert_eq!(at, [true, false, false, true, true, false]);
}

/// The last of a host's addresses is its number.
fn peer(host: IpAddr) -> Option<Peer> {
    match host {
        IpAddr::V4(host) => Peer::new(host.octets()[3].into()),
        IpAddr::V6(_) => None,
    }
}

fn vtep() -> VtepList {
    VtepList::try_from(vec![[192, 0, 2, 1].into()]).unwrap()
}

#[test]
fn a_member_and_a_move_leave_what_they_do_not_concern() {
    let topology = logical::load(SHOP).unwrap();
    let (name, rows) = compiler::compile(&topology).pop_first().unwrap();
    let [web, db] = ["shop/web-2", "shop/db-1"].map(|it| identity(&it.parse().unwrap()).unwrap());
    let own = names(&["shop/db-1"]);
    let at = |host: u8| [(web.clone(), vec![[192, 0, 2, host].into()])].into_iter().collect();
    let followed = |before: &Logical, rows: &Domain, sites: &Sites| {
        let generation = Generation(before.generation().0 + 1);
        let domains = [(name.clone(), Arc::new(rows.clone()))].into();
        let next = before.followed(generation, domains, sites, &Labels::new(), &own).unwrap();
        let (_, realization) = (next.labelled(), next.realization(next.own.as_ref(), peer));
        (next, realization)
    };
    let sites = vec![at(2)];
    let (first, before) = followed(&Logical::of(Some(&vtep())), &rows, &sites);

    let mut more = rows.clone();
    let group = rows.members.keys().next().unwrap().0.clone();
    more.members.insert((group, db), Vec::new());
    let (second, now) = followed(&first, &more, &sites);
    assert!(Arc::ptr_eq(&now.facts, &before.facts) && Arc::ptr_eq(&now.places, &before.places));
    assert!(!Arc::ptr_eq(&now.nets[0], &before.nets[0]));
    assert!(second.parts[&name].rows.stations.is_same(&rows.stations));

    let (_, moved) = followed(&second, &more, &vec![at(3)]);
    assert!(Arc::ptr_eq(&moved.facts, &now.facts) && Arc::ptr_eq(&moved.nets[0], &now.nets[0]));
    assert_ne!(format!("{:?}", moved.places), format!("{:?}", now.places));
}

/// What follows from all rows, and of [`Net`]s the routers that are at home here.
fn told(logical: &Logical) -> String {
    let Realization { facts, places, .. } = logical.realization(logical.own.as_ref(), peer);
    let part = |it: &Part| (it.rows.clone(), it.net.own_routers().cloned().collect::<Vec<_>>());
    let parts: Vec<_> = logical.parts.values().map(part).collect();
    format!("{facts:?} {places:?} {:?} {parts:?}", logical.labelled())
}

#[test]
fn what_follows_from_changes_is_what_follows_from_all() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut world = World::new(seed).spread(3, &mut rng);
        let (mut domains, mut sites) = (Domains::new(), vec![Table::default()]);
        let mut labels = Labels::new();
        let mut changed = Logical::of(Some(&vtep()));
        for generation in (1..10).map(Generation) {
            let topology = &world.topology;
            let next = compiler::compile(topology).into_iter().map(|(name, next)| {
                let mut now = domains.get(&name).map_or_else(Domain::default, |it| (**it).clone());
                now.diff(&next).into_iter().for_each(|change| now.apply(change));
                (name, Arc::new(now))
            });
            let next: Domains = next.collect();
            domains = next;
            let at = compiler::sites(topology).into_iter();
            let mut at: Table<_, _> =
                at.map(|(id, node)| (id, topology[node].node.vteps.clone())).collect();
            // One is elsewhere.
            let moved = rng.below(1 + at.len() as u64) as usize;
            if let Some(id) = at.keys().nth(moved).cloned() {
                at.insert(id, vec![[192, 0, 2, 1 + rng.below(3) as u8].into()]);
            }
            if sites[0] != at {
                sites = vec![at];
            }
            let is_here = |(id, site): &(&Identity, &image::Site)| {
                id.kind == Kind::LogicalPort && site.contains(&vtep().first())
            };
            let here = sites[0].iter().filter(is_here);
            let own = here.filter_map(|(id, _)| {
                format!("{}/{}", id.tenant.as_ref()?.as_str(), id.name).parse().ok()
            });
            let own = own.collect();
            // Some are others' now, of the same names.
            if rng.below(3) == 0 {
                let all = domains.values().flat_map(|it| it.labelled());
                let all: BTreeSet<_> = all.cloned().collect();
                labels = vec![all.into_iter().zip((1 + rng.below(9) as u32)..).collect()];
            }
            let of = |before: &Logical| {
                before.followed(generation, domains.clone(), &sites, &labels, &own)
            };
            let anew = of(&Logical::of(Some(&vtep()))).unwrap();
            changed = of(&changed).unwrap();
            assert_eq!(told(&changed), told(&anew), "seed {seed}, {generation:?}");
            world = world.edited(&mut rng);
        }
    }
}

/// Two of a switch, whose names have the same label.
const ALIKE: &str = "
- {kind: Tenant, metadata: {name: shop}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: shop}, spec: {}}
- {kind: LogicalPort, metadata: {name: p34417, tenant: shop}, spec: {switch: s, vif: {}}}
- {kind: LogicalPort, metadata: {name: p99995, tenant: shop}, spec: {switch: s, vif: {}}}
";

#[test]
fn names_with_one_label_are_refused_unless_a_controller_has_given_them_others() {
    let own = names(&["shop/p34417"]);
    let faults = Logical::default().next(objects(ALIKE), own.clone()).unwrap_err();
    let [fault] = &faults[..] else { panic!("{faults:#?}") };
    assert_eq!((fault.index, &*fault.path), (Some(3), "/metadata/name"));
    assert!(fault.message.contains("have the same label"), "{fault:?}");

    let [one, two] =
        ["shop/p34417", "shop/p99995"].map(|it| identity(&it.parse().unwrap()).unwrap());
    let compiled = compiler::compile(&logical::load(ALIKE).unwrap()).into_iter();
    let domains: Domains = compiled.map(|(name, domain)| (name, Arc::new(domain))).collect();
    let followed = |before: &Logical, labels: &[(&Identity, u32)]| {
        let labels = labels.iter().map(|(id, label)| ((*id).clone(), *label)).collect();
        let (none, labels) = (Sites::new(), vec![labels]);
        before.followed(Generation(1), domains.clone(), &none, &labels, &own)
    };
    let places = |logical: Logical| logical.realization(None, |_| None).places;
    let both = followed(&Logical::default(), &[(&one, 7), (&two, 8)]).unwrap();
    let anew = followed(&both, &[(&one, 9), (&two, 8)]).unwrap();
    let [both, anew] = [both, anew].map(|it| format!("{:?}", places(it)));
    assert!(both.contains("7: ") && both.contains("8: "), "{both}");
    assert!(anew.contains("9: ") && !anew.contains("7: "), "a name that came again: {anew}");
    // What a name has is nobody's where it was given to another.
    let taken = followed(&Logical::default(), &[(&one, logical::label(&two))]).unwrap();
    assert!(!format!("{:?}", places(taken)).contains("p99995"));
}
