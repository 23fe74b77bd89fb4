//! What to buy.

use demand::Source;
use placement::{Binding, buy};

use crate::worlds::{GBIT, MBIT, class, host_type, three_classes};

/// Large hosts look cheapest by their cores; their switch does not carry what these machines send.
#[test]
fn the_network_changes_what_is_cheapest() {
    let mut problem = three_classes(0);
    problem.types = vec![host_type(64, 512, 2 * GBIT, 16_500), host_type(16, 128, 2 * GBIT, 6_000)];
    problem.classes = vec![class(600, 1, 4, Source::on_off(200 * MBIT, 0.15), 2)];
    let quotes = buy(&problem, &[600, 250]);
    let [large, small] = &quotes[..] else { panic!() };
    assert!(large.ignored.price < small.ignored.price, "{quotes:?}");
    assert!(large.price > small.price, "{quotes:?}");
    assert_eq!((large.binds, small.binds), (Binding::Limit(0), Binding::Cores));
    assert!(large.ignored.overload > 0.1 && small.ignored.overload <= 1e-3, "{quotes:?}");
    assert!(!large.is_efficient || large.cores_free > small.cores_free);
    assert!(small.is_efficient);
    // What one small host may become dearer.
    let more = large.break_even(small);
    assert!((more * small.hosts as f64 - (large.price - small.price) as f64).abs() < 1e-6);
    assert!(more > 0.0);
}

#[test]
fn a_machine_that_fits_no_host_is_told() {
    let mut problem = three_classes(0);
    problem.classes[2].cores = 100;
    let quotes = buy(&problem, &[500]);
    assert_eq!(quotes[0].unplaced, 40);
}
