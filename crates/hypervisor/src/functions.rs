//! What rules compute by functions.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};

use logical::objects::AddressRange;
use nlog::{Answer, Call, Datum, Library, Scalar};
use units::{Mac, Prefix, hash};

use crate::text;

/// The functions that the rules declare.
pub fn library() -> Library {
    Library::new()
        .with("selects", |call| {
            let labels = text::read_labels(input(call, 1));
            Ok(holds(text::read_selector(input(call, 0)).selects(&labels)))
        })
        .with("covers", |call| {
            let network: Prefix = text::read(input(call, 0));
            Ok(holds(AddressRange::from(network).contains(text::read(input(call, 1)))))
        })
        .with("hop_target", |call| {
            let target = text::hop(input(call, 0), input(call, 1));
            give(call, &target)
        })
        .with("no_policies", |call| give_empty(call, &[Scalar::Text]))
        .with("silence", |call| give_empty(call, &[Scalar::Int, Scalar::Text]))
        .with("give_mac", |call| {
            let Datum::Set(all) = call.datum(1) else { return Err("no set".into()) };
            match mac(input(call, 0), all.iter().filter_map(word)) {
                Some(mac) => give(call, &mac.to_string()),
                None => Ok(Answer::Nothing),
            }
        })
}

fn word<'a>(datum: &Datum<'a>) -> Option<&'a str> {
    match datum {
        Datum::Text(text) => Some(text),
        _ => None,
    }
}

fn input<'a>(call: &'a Call<'_>, index: usize) -> &'a str {
    word(&call.datum(index)).expect("the rules declare texts")
}

fn give(call: &mut Call<'_>, text: &str) -> Result<Answer, String> {
    let value = call.values().text(text);
    call.give(value);
    Ok(Answer::Row)
}

/// Gives sets of such members, without any.
fn give_empty(call: &mut Call<'_>, of: &[Scalar]) -> Result<Answer, String> {
    for scalar in of {
        let value = call.values().empty(*scalar);
        call.give(value);
    }
    Ok(Answer::Row)
}

fn holds(it: bool) -> Answer {
    if it { Answer::Row } else { Answer::Nothing }
}

/// The Ethernet address of one of those who are at a switch. Who declares one has it. The others
/// are given one by their names, in their order; where two names make one address, the later
/// counts on. `None` if it is none of those: so it may be asked while a batch is under way.
fn mac<'a>(claimant: &str, all: impl Iterator<Item = &'a str> + Clone) -> Option<Mac> {
    if let Ok(declared) = claimant.parse() {
        return Some(declared);
    }
    let mut taken: BTreeSet<Mac> = all.clone().filter_map(|it| it.parse().ok()).collect();
    // In the order of names, of which sets have theirs.
    for port in all.filter(|it| it.parse::<Mac>().is_err()) {
        let name = text::identity(port).to_string();
        let mut number = hash::fnv1a_32(name.as_bytes());
        while !taken.insert(Mac::local(number)) {
            number = number.wrapping_add(1);
        }
        if port == claimant {
            return Some(Mac::local(number));
        }
    }
    None
}
