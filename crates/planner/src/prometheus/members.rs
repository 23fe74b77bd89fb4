//! Series of one machine: which way each counts, and what they say together.
//!
//! ```text
//!   members ─rows─▶ values at the same times ─amounts─▶ how much of each ─▶ sends, frame
//!                                            └─growth─▶ paused_share
//! ```
//!
//! How they are asked for, and which belong together, is not known here.

use std::collections::{BTreeMap, BTreeSet};

use crate::trace::mean_frame;

/// What values are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Values {
    /// A counter of bytes.
    Bytes,
    /// Bits a second.
    Rate,
}

/// Names and values of a series' labels.
pub type Labels = BTreeMap<String, String>;

/// A series of a group.
#[derive(Clone)]
pub struct Member {
    /// What it counts, if that is known.
    pub way: Option<Way>,
    pub points: Vec<(f64, f64)>,
}

/// What a series counts of a machine.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Way {
    Sent,
    Received,
}

impl Way {
    /// By the label `direction`, or a word in the name of the metric. What comes in at a port of
    /// zovn's its machine has sent. Whose ingress others count is not known, nor on which side of a
    /// machine's interface the node exporter stands.
    pub fn of(expression: &str, labels: &Labels) -> Option<Self> {
        let is_of_zovn = expression.contains("zovn_");
        let way = |word: &str| match word {
            "transmit" | "tx" | "sent" => Some(Self::Sent),
            "receive" | "rx" | "received" => Some(Self::Received),
            "ingress" if is_of_zovn => Some(Self::Sent),
            "egress" if is_of_zovn => Some(Self::Received),
            _ => None,
        };
        let name = labels.get("__name__").map_or("", String::as_str);
        if name.starts_with("node_") {
            return None;
        }
        labels.get("direction").map_or(name, String::as_str).split('_').find_map(way)
    }
}

/// The share that was sent, if all members say what they count.
pub fn sends(values: Values, members: &[Member], points: &[Row]) -> Option<f64> {
    let ways: Option<Vec<Way>> = members.iter().map(|it| it.way).collect();
    let (ways, amounts) = (ways?, amounts(values, points));
    let all: f64 = amounts.iter().sum();
    let sent = ways.iter().zip(&amounts).filter(|(way, _)| **way == Way::Sent);
    (all > 0.0).then(|| sent.map(|(_, amount)| amount).sum::<f64>() / all)
}

/// The mean bytes of a frame, if frames are counted in the same directions as bytes.
pub fn frame(values: Values, members: &[Member], packets: &[Member]) -> Option<u64> {
    let ways = |of: &[Member]| of.iter().map(|it| it.way).collect::<BTreeSet<_>>();
    if ways(members) != ways(packets) {
        return None;
    }
    let amounts = amounts(values, &rows(&[members, packets].concat()));
    let (bytes, frames) = amounts.split_at_checked(members.len())?;
    let per_byte = if values == Values::Rate { 8.0 } else { 1.0 };
    mean_frame(bytes.iter().sum::<f64>() / per_byte, frames.iter().sum())
}

/// The share of time for which a machine's sender was paused, of several the most paused one's.
pub fn paused_share(members: &[Member]) -> Option<f64> {
    let points = rows(members);
    let secs = points.last()?.0 - points.first()?.0;
    let most = growth(&points).into_iter().fold(0.0, f64::max);
    (secs > 0.0).then(|| most / secs)
}

/// What each column counts in all.
fn amounts(values: Values, points: &[Row]) -> Vec<f64> {
    match values {
        Values::Bytes => growth(points),
        Values::Rate => {
            let mut sums = vec![0.0; columns(points)];
            for (_, row) in points {
                sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
            sums
        }
    }
}

/// By how much each column has grown. A counter that goes back has begun anew.
fn growth(points: &[Row]) -> Vec<f64> {
    let mut growth = vec![0.0; columns(points)];
    for pair in points.windows(2) {
        for (place, growth) in growth.iter_mut().enumerate() {
            *growth += (pair[1].1[place] - pair[0].1[place]).max(0.0);
        }
    }
    growth
}

fn columns(points: &[Row]) -> usize {
    points.first().map_or(0, |(_, row)| row.len())
}

/// A time, and what each member of a group has then.
pub type Row = (f64, Vec<f64>);

/// The times at which all members of a group have a point, and their values.
pub fn rows(members: &[Member]) -> Vec<Row> {
    let [first, others @ ..] = members else { return Vec::new() };
    let mut others: Vec<_> = others.iter().map(|it| it.points.iter().peekable()).collect();
    let mut rows = Vec::with_capacity(first.points.len());
    for (at, value) in &first.points {
        let mut row = vec![*value];
        for member in &mut others {
            while member.next_if(|it| it.0 < *at).is_some() {}
            row.extend(member.next_if(|it| it.0 == *at).map(|it| it.1));
        }
        if row.len() == members.len() {
            rows.push((*at, row));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_are_those_that_series_say() {
        let labels = |all: &[(&str, &str)]| -> Labels {
            all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let of = |expression, all: &[(&str, &str)]| Way::of(expression, &labels(all));
        assert_eq!(of("zovn_port_bytes_total", &[("direction", "ingress")]), Some(Way::Sent));
        assert_eq!(of("zovn_port_bytes_total", &[("direction", "egress")]), Some(Way::Received));
        assert_eq!(of("flows", &[("direction", "ingress")]), None);
        assert_eq!(of("flows", &[("direction", "tx"), ("__name__", "received")]), Some(Way::Sent));
        for (name, way) in [
            ("libvirt_domain_interface_stats_transmit_bytes_total", Some(Way::Sent)),
            ("container_network_receive_bytes_total", Some(Way::Received)),
            ("node_network_receive_bytes_total", None),
            ("bytes_total", None),
        ] {
            assert_eq!(of(name, &[("__name__", name)]), way, "{name}");
        }
    }
}
