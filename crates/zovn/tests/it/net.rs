//! `zovn net`: what it tells of files, and how it ends.

use std::path::Path;
use std::process::{Command, Output};

fn net(words: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let zovn = env!("CARGO_BIN_EXE_zovn");
    Command::new(zovn).arg("net").args(words).current_dir(root).output().unwrap()
}

fn told(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_network_is_checked_whole() {
    let (code, out, _) = told(&net(&["check", "examples/shop.yaml"]));
    assert_eq!(code, Some(0));
    assert!(out.contains("2 switches, 5 ports, 1 router, 1 policy"), "{out}");

    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.yaml");
    let text = "kind: LogicalSwich\n---\nkind: Tenant\nmetadata: {name: a}\nspec: {quota: 7}\n";
    std::fs::write(&broken, text).unwrap();
    let name = broken.to_str().unwrap();
    // Lines are those of each file, also behind another.
    let (code, _, error) = told(&net(&["check", "examples/shop.yaml", name]));
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains(&format!("{name}:1:7: ")), "{error}");
    assert!(error.contains(&format!("{name}:5:15: ")), "{error}");
    let (code, out, _) = told(&net(&["check", "--json", name]));
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, out["faults"].as_array().unwrap().len()), (Some(2), 2));
    let (code, _, error) = told(&net(&["check", "/nowhere.yaml"]));
    assert_eq!(code, Some(1));
    assert!(error.starts_with("zovn: cannot read /nowhere.yaml"), "{error}");
}

#[test]
fn a_trace_names_the_rule_that_decided() {
    let trace = |to: &str, port: &str| {
        let words = ["trace", "examples/shop.yaml", "--from", "web-1", "--to", to, "--tcp", port];
        told(&net(&words))
    };
    let (code, out, _) = trace("10.0.2.1", "5432");
    assert_eq!(code, Some(0));
    assert!(out.contains("Policy/shop/db-in/from-web"), "{out}");
    assert!(out.ends_with("delivered to LogicalPort/shop/db-1\n"), "{out}");
    let (code, out, _) = trace("db-1", "80");
    assert_eq!(code, Some(3));
    assert!(out.contains("by Policy/shop/db-in/nothing-else; its sender is told"), "{out}");
    let (code, _, error) = trace("nobody", "80");
    assert_eq!(code, Some(1));
    assert!(error.contains("no port is called `nobody`: there are db-1"), "{error}");
}

#[test]
fn cases_fail_by_the_step_that_is_not_as_expected() {
    let (code, out, _) = told(&net(&["test", "cases/acl-stateful.yaml", "--json"]));
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, Some(0));
    assert!(out.as_array().unwrap().iter().all(|it| it["outcome"] == "passed"), "{out}");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wrong.yaml");
    let text = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases/acl-stateful.yaml"),
    );
    std::fs::write(&file, text.unwrap().replacen("result: silent", "result: open", 1)).unwrap();
    let (code, _, error) = told(&net(&["test", file.to_str().unwrap()]));
    assert_eq!(code, Some(1));
    assert!(error.contains("expected: result open"), "{error}");
    assert!(error.contains("seen: result silent"), "{error}");
    assert!(error.contains("failed on the interpreter step 2"), "{error}");
}

#[test]
fn a_matrix_tells_who_reaches_whom_by_which_rule_and_what_changed() {
    let (code, out, _) = told(&net(&["matrix", "examples/shop.yaml"]));
    assert_eq!(code, Some(0));
    let line = |from: &str, to: &str| {
        let is_it = |line: &&str| line.starts_with(from) && line.contains(&format!("  {to}  "));
        out.lines().find(is_it).unwrap_or_else(|| panic!("{from} to {to}:\n{out}"))
    };
    let asks = line("shop/web-1, shop/web-2", "shop/db-1");
    assert!(asks.contains("tcp 5432"), "{asks}");
    assert!(asks.ends_with("Policy/shop/db-in/from-web"), "{asks}");

    let folder = tempfile::tempdir().unwrap();
    let changed = folder.path().join("new.yaml");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("examples/shop.yaml")).unwrap();
    std::fs::write(&changed, text.replacen("ports: [5432]", "ports: [5432, 22]", 1)).unwrap();
    let page = folder.path().join("reach.html");
    let [name, html] = [&changed, &page].map(|it| it.to_str().unwrap());
    let base = ["--base", "examples/shop.yaml"];
    let (code, out, _) = told(&net(&["matrix", name, base[0], base[1]]));
    assert_eq!(code, Some(0));
    assert!(out.contains("now reached") && out.contains("tcp 22"), "{out}");
    assert!(!out.contains("no longer") && !out.contains("5432"), "{out}");
    let (_, out, _) = told(&net(&["matrix", "examples/shop.yaml", base[0], name]));
    assert!(out.contains("no longer") && !out.contains("now reached"), "{out}");
    let (_, out, _) = told(&net(&["matrix", name, base[0], name]));
    assert_eq!(out, "what is reached is the same\n");

    let (code, out, _) = told(&net(&["matrix", name, base[0], base[1], "--html", html]));
    assert_eq!((code, out.as_str()), (Some(0), ""));
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("Changes against examples/shop.yaml") && page.contains("tcp 22"));
    assert!(page.contains("default-src 'none'") && page.contains("prefers-color-scheme: dark"));

    let (code, out, _) = told(&net(&["matrix", name, base[0], base[1], "--json"]));
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    let ports = out["matrix"]["ports"].as_array().unwrap().len();
    assert_eq!((code, out["matrix"]["table"].as_array().unwrap().len()), (Some(0), ports));
    assert_eq!(out["changes"][0]["by"]["reached"]["to"], "Policy/shop/db-in/from-web");
    let (_, out, _) = told(&net(&["matrix", "examples/shop.yaml", "--all"]));
    assert!(out.contains("Rejected at receiver, by Policy/shop/db-in/nothing-else"), "{out}");
    let (code, _, error) = told(&net(&["matrix", "/nowhere.yaml"]));
    assert_eq!(code, Some(1));
    assert!(error.starts_with("zovn: cannot read /nowhere.yaml"), "{error}");
}

#[test]
fn what_is_refuted_is_shown_by_the_trace_that_is_named() {
    let shop = "examples/shop.yaml";
    let prove = |sentence: &str| told(&net(&["prove", shop, sentence]));
    for holds in [
        "group web-servers reaches port db-1 by tcp 5432",
        "switch web never reaches port db-1 by udp or tcp 1-5431 or icmp",
        "switch db reaches switch web",
        "port web-1 reaches address 10.0.2.1 by tcp 5432",
    ] {
        let (code, out, error) = prove(holds);
        assert_eq!(code, Some(0), "{holds}: {out}{error}");
        assert!(out.starts_with("proven for all packets: "), "{out}");
    }
    for (fails, ends) in [
        ("switch web never reaches port db-1", Some(0)),
        ("tenant shop never reaches address 10.0.1.0/24 by udp", Some(0)),
        ("port web-1 reaches port db-1 by tcp", Some(3)),
        ("switch web reaches switch db by icmp", Some(3)),
    ] {
        let (code, out, error) = prove(fails);
        assert_eq!(code, Some(1), "{fails}: {out}{error}");
        let command = out.lines().find_map(|it| it.strip_prefix("shown by: zovn net "));
        let words: Vec<&str> = command.unwrap().split(' ').collect();
        let (code, shown, error) = told(&net(&words));
        assert_eq!(code, ends, "{words:?}: {shown}{error}");
    }
    let (code, out, _) = told(&net(&["prove", shop, "port web-1 reaches anyone", "--json"]));
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &out["outcome"]), (Some(1), &"refuted".into()));
    let (code, _, error) = prove("port web-1 likes port db-1");
    assert_eq!(code, Some(2));
    assert!(error.ends_with("at `likes`: write `reaches` or `never reaches`\n"), "{error}");
}

#[test]
fn what_is_reached_by_a_translated_address_is_proven_and_shown() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut text = std::fs::read_to_string(root.join("examples/shop.yaml")).unwrap();
    text.push_str(
        "---\n- {kind: ExternalPool, metadata: {name: out}, spec: {prefixes: [10.0.1.0/24], tenants: \
         [shop]}}\n- {kind: Nat, metadata: {name: db, tenant: shop}, spec: {kind: dnat, router: edge, \
         external: 10.0.1.100, logical: 10.0.2.1, protocol: tcp, port: 5432, externalPorts: \
         6000}}\n",
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nat.yaml");
    std::fs::write(&file, text).unwrap();
    let name = file.to_str().unwrap();
    let prove = |sentence: &str| told(&net(&["prove", name, sentence]));
    let (code, out, error) = prove("port web-1 reaches address 10.0.1.100 by tcp 6000");
    assert_eq!(code, Some(0), "{out}{error}");
    let (code, out, _) = prove("port web-1 reaches address 10.0.1.100 by tcp 6001");
    assert_eq!(code, Some(1), "{out}");
    let words = ["trace", name, "--from", "web-1", "--to", "10.0.1.100", "--tcp", "6000"];
    let (code, shown, error) = told(&net(&words));
    assert_eq!(code, Some(0), "{shown}{error}");
    assert!(shown.contains("Nat/shop/db"), "{shown}");
    let (_, out, _) = told(&net(&["matrix", name, "--all"]));
    assert!(out.lines().any(|it| it.contains("10.0.1.100") && it.contains("tcp 6000")), "{out}");
}

#[test]
fn a_trace_sends_whatever_it_is_told_to() {
    let trace = |more: &[&str]| {
        let first = ["trace", "examples/shop.yaml", "--from", "web-1", "--to"];
        told(&net(&[&first, more].concat()))
    };
    for (words, ends) in [
        (&["web-2", "--sctp", "80"][..], 0),
        (&["web-2", "--protocol", "47"], 0),
        (&["web-2", "--icmp", "3/1"], 0),
        (&["web-2", "--ethertype", "0x88b5"], 0),
        (&["web-2", "--source", "10.0.1.2"], 3),
        (&["web-2", "--from-mac", "02:00:00:00:01:77"], 3),
        (&["10.0.1.2", "--to-mac", "02:00:00:00:01:fe"], 0),
        (&["web-2", "--tcp", "80", "--udp", "80"], 2),
        (&["web-2", "--icmp", "echo"], 2),
    ] {
        let (code, out, error) = trace(words);
        assert_eq!(code, Some(ends), "{words:?}: {out}{error}");
    }
}
