//! Shipped cases can fail, and whatever is written of cases is read without a panic.

extern crate std;

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use tree::{Key, Node, Value};

use crate::{File, OnInterpreter, Outcome, run};

/// The texts that are shipped.
fn texts() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases");
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let yaml = |path: &std::path::PathBuf| path.extension().is_some_and(|it| it == "yaml");
    paths.into_iter().filter(yaml).map(|path| fs::read_to_string(path).unwrap()).collect()
}

fn entry<'a>(node: &'a mut Node, word: &str) -> Option<&'a mut Node> {
    match &mut node.value {
        Value::Map(entries) => {
            entries.iter_mut().find(|(key, _)| key.text == word).map(|(_, it)| it)
        }
        _ => None,
    }
}

/// What contradicts an expectation, one thing at a time.
fn contraries(expect: &Node) -> Vec<Node> {
    let mut all = Vec::new();
    let Value::Map(entries) = &expect.value else { return all };
    for (key, value) in entries.iter().filter(|(key, _)| key.text != "strict") {
        match (&value.value, key.text.as_str()) {
            (Value::Map(ports), "deliver" | "answer") if ports.is_empty() => {
                let mut contrary = expect.clone();
                let any = Node { at: value.at, value: Value::Text("any".to_owned()) };
                let nobody = (Key { at: value.at, text: "nobody".to_owned() }, any);
                entry(&mut contrary, &key.text).unwrap().value = Value::Map(alloc::vec![nobody]);
                all.push(contrary);
            }
            (Value::Map(ports), "deliver" | "answer") => {
                for (port, _) in ports {
                    let mut contrary = expect.clone();
                    entry(&mut contrary, &key.text).unwrap().take(&port.text);
                    all.push(contrary);
                }
            }
            (_, "either") => {}
            _ => {
                let mut contrary = expect.clone();
                entry(&mut contrary, &key.text).unwrap().value = Value::Text("another".to_owned());
                all.push(contrary);
            }
        }
    }
    all
}

#[test]
fn every_expectation_of_a_shipped_case_can_fail() {
    let mut turned = 0;
    for text in texts() {
        let file = File::read(&text).unwrap();
        for case in &file.cases {
            for (place, step) in case.steps.iter().enumerate() {
                let Some(expect) = step.get("expect") else { continue };
                for contrary in contraries(expect) {
                    let mut case = case.clone();
                    *entry(&mut case.steps[place], "expect").unwrap() = contrary;
                    let report = run(&file, &case, &mut OnInterpreter::new());
                    assert_eq!(report.outcome, Outcome::Failed, "{} {place}", case.name);
                    turned += 1;
                }
            }
        }
    }
    assert!(turned > 900, "{turned} expectations");
}

/// Words that mean something in files of cases.
const WORDS: [&str; 24] = [
    "- ",
    "{",
    "}",
    "[",
    "]",
    ": ",
    "\"",
    "@a1.mac",
    "@a.ip6",
    "@r1.lan.ll",
    "0xffff",
    "-1",
    "1e300",
    "65536",
    "0.0.0.0/0",
    "::/0",
    "ff:ff:ff:ff:ff:ff",
    "null",
    "true",
    "same",
    "quote",
    "deliver",
    "ip4.len",
    "payload",
];

/// Reads a text, and runs a case of what it says.
fn attack(text: &str, place: usize) {
    let Ok(file) = File::read(text) else { return };
    if let Some(case) = file.cases.get(place % file.cases.len().max(1)) {
        run(&file, case, &mut OnInterpreter::new());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_text_of_a_case_is_a_panic(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..12usize, 0..WORDS.len()), 1..6),
        place in 0..64usize,
    ) {
        let texts = texts();
        let mut text: Vec<char> = which.get(&texts).chars().collect();
        for (at, len, word) in edits {
            let at = at.index(text.len());
            let end = (at + len).min(text.len());
            text.splice(at..end, WORDS[word].chars());
        }
        attack(&text.iter().collect::<String>(), place);
    }

    #[test]
    fn no_field_of_a_frame_is_a_panic(
        field in "(eth|vlan|arp|ip|ip4|ip6|tcp|udp|sctp|icmp|icmp6|nd|ns|na|ra|dhcp|dhcp6|dns|igmp)\\.(src|dst|type|len|ihl|frag|mf|proto|next|sport|dport|flags|seq|ack|sum|code|mtu|target|sll|xid|server|address|name|kind|a|id|op)",
        value in "([0-9]{1,6}|0x[0-9a-f]{1,8}|10\\.0\\.0\\.[0-9]|fd00::[0-9]|[a-z.]{1,12})",
        other in "(tcp|udp|icmp|icmp6|ns|na|ra|dhcp|dhcp6|dns|igmp|sctp)",
        quoted in any::<bool>(),
    ) {
        let frame = match quoted {
            true => format!("icmp: {{type: 3, quote: {{{other}: {{}}, {field}: \"{value}\"}}}}"),
            false => format!("{other}: {{}}, {field}: \"{value}\""),
        };
        let text = format!(
            "format: zovn-semantics/1\ncategory: own\ntopologies:\n  t:\n    hosts: [h]\n    \
             switches: {{s: {{}}}}\n    ports: {{a: {{switch: s, at: h, ips: [10.0.0.1, \"fd00::1\"]}}, \
             b: {{switch: s, at: h, ips: [10.0.0.2, \"fd00::2\"]}}}}\ncases:\n\
             - {{name: c, topology: t, steps: [{{send: {{from: a, to: b, {frame}}}, expect: {{deliver: {{b: {{{field}: 1}}}}, answer: {{a: {{{field}: 1, icmp.quote.{field}: 1}}}}}}}}]}}\n"
        );
        attack(&text, 0);
    }
}
