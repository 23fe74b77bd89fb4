//! What commands say of the objects that a controller keeps, and what they have it do.

use std::fs;

use serde_json::Value;

use crate::kept::Kept;

const SHOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/shop.yaml");

#[test]
fn what_is_shown_as_yaml_is_what_was_applied() {
    let kept = Kept::new();
    kept.zovn(&["apply", "-f", SHOP]);
    let port = kept.zovn(&["get", "objects", "LogicalPort/shop/web-1", "--yaml"]);
    assert!(port.starts_with("kind: LogicalPort\nmetadata:\n  labels:\n    app: web\n"), "{port}");
    let shop = kept.file("all.yaml", &kept.zovn(&["get", "objects", "--yaml"]));
    assert_eq!(kept.zovn(&["diff", "-f", &shop]), "");
    let told: Value = serde_json::from_str(&kept.zovn(&["apply", "-f", &shop, "--json"])).unwrap();
    let objects = told["objects"].as_array().unwrap();
    let declared = fs::read_to_string(SHOP).unwrap().matches("kind: ").count();
    assert_eq!(objects.len(), declared);
    assert!(objects.iter().all(|it| it["change"] == "unchanged"), "{told}");
    // Another controller takes them, too, and a tenant's are less than all.
    Kept::new().zovn(&["apply", "-f", &shop]);
    let own = kept.zovn(&["get", "objects", "--tenant", "shop", "--yaml"]);
    assert_eq!(own.matches("kind: ").count(), declared - 1, "all but the Tenant");
    assert_eq!(kept.zovn(&["get", "objects", "nats", "--tenant", "shop", "--yaml"]), "[]\n");
}

#[test]
fn a_diff_shows_what_an_apply_changes() {
    let kept = Kept::new();
    let text = fs::read_to_string(SHOP).unwrap();
    let all = kept.ends(1, &["diff", "-f", SHOP]);
    assert_eq!(all.matches("--- /dev/null\n+++ ").count(), text.matches("kind: ").count());
    kept.zovn(&["apply", "-f", SHOP]);
    assert_eq!(kept.zovn(&["diff", "-f", SHOP]), "");
    let other = text.replace("ports: [5432]", "ports: [5433]");
    let other = kept.file("other.yaml", &other);
    let diff = kept.ends(1, &["diff", "-f", &other]);
    assert!(diff.contains("- 5432\n+"), "{diff}");
    assert_eq!(diff.matches("--- ").count(), 1, "{diff}");
    let told = kept.ends(1, &["diff", "-f", &other, "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    let [one] = told["objects"].as_array().unwrap().as_slice() else { panic!("{told}") };
    assert_eq!(one["change"], "updated");
    assert_eq!(one["before"]["metadata"], one["after"]["metadata"], "only what is declared");
    // A dry run and a diff have changed nothing; an apply says the same before it does.
    let dry = kept.zovn(&["apply", "-f", &other, "--diff", "--dry-run"]);
    assert!(dry.starts_with(&diff) && dry.contains("revision 1 stays"), "{dry}");
    let done = kept.zovn(&["apply", "-f", &other, "--diff"]);
    assert!(done.starts_with(&diff) && done.contains("revision 2"), "{done}");
    assert_eq!(kept.zovn(&["diff", "-f", &other]), "");
}

#[test]
fn each_condition_can_be_waited_for() {
    let kept = Kept::new();
    kept.zovn(&["apply", "-f", SHOP]);
    let port = "LogicalPort/shop/web-1";
    assert_eq!(kept.zovn(&["wait", "--for", "compiled", port]), "agents are told of it\n");
    let late = kept.ends(1, &["wait", "--for", "policy-ready", port, "--timeout", "100ms"]);
    assert_eq!(late, "no host has it\n");
    let other = kept.run(&["wait", "--for", "resolved", port]);
    let said = String::from_utf8(other.stderr).unwrap();
    assert!(said.contains("a LogicalPort has no condition `Resolved`"), "{said}");
}

#[test]
fn what_has_a_label_and_is_in_no_file_goes() {
    let kept = Kept::new();
    let set = |name: &str| {
        format!(
            "---\nkind: AddressSet\nmetadata: {{name: {name}, tenant: a, labels: {{app: x}}}}\n\
             spec: {{addresses: [10.0.0.1]}}\n"
        )
    };
    let tenant = "kind: Tenant\nmetadata: {name: a}\nspec: {}\n";
    kept.zovn(&["apply", "-f", &kept.file("tenant.yaml", tenant)]);
    let both = kept.file("both.yaml", &(set("one") + &set("two")));
    kept.zovn(&["apply", "-f", &both, "--prune=app=x"]);
    let one = kept.file("one.yaml", &set("one"));
    assert_eq!(kept.zovn(&["diff", "-f", &one]), "");
    let diff = kept.ends(1, &["diff", "-f", &one, "--prune", "app=x"]);
    assert!(diff.starts_with("--- AddressSet/a/two\n+++ /dev/null\n"), "{diff}");
    let unlabelled = kept.run(&["diff", "-f", &one, "--prune", "app=y/ z&x"]);
    let said = String::from_utf8(unlabelled.stderr).unwrap();
    assert!(said.contains("write `app: y/ z&x`") && unlabelled.status.code() == Some(2), "{said}");
    let done = kept.zovn(&["apply", "-f", &one, "--prune=app=x"]);
    assert!(done.contains("- AddressSet/a/two"), "{done}");
}

#[test]
fn what_cannot_be_told_ends_otherwise_than_a_difference() {
    let kept = Kept::new();
    let wrong = kept.file("wrong.yaml", "\nkind: Tenant\nmetadata: {name: B}\nspec: {}\n");
    let output = kept.run(&["diff", "-f", &wrong]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("{wrong}:3: ")), "{said}");
    assert_eq!(kept.run(&["diff", "-f", "there/is/none"]).status.code(), Some(2));
    for command in ["diff", "apply"] {
        kept.ends(2, &[command, "-f", SHOP, "--prune=app"]);
    }
    let unsaid = kept.run(&["apply", "-f", SHOP, "--prune"]);
    let said = String::from_utf8(unsaid.stderr).unwrap();
    assert!(said.contains("say which objects") && unsaid.status.code() == Some(1), "{said}");
}

#[test]
fn a_diff_of_a_deletion_shows_what_goes_with_an_object() {
    let kept = Kept::new();
    kept.zovn(&["apply", "-f", SHOP]);
    let gone = kept.ends(1, &["diff", "--delete", "LogicalSwitch/shop/web"]);
    for object in ["LogicalSwitch/shop/web", "LogicalPort/shop/web-1"] {
        assert!(gone.contains(&format!("--- {object}\n+++ /dev/null\n")), "{object}: {gone}");
    }
    assert!(gone.contains("-  switch: web\n") && !gone.contains("Tenant/shop"), "{gone}");
    let told = kept.ends(1, &["diff", "--delete", "LogicalSwitch/shop/web", "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    let objects = told["objects"].as_array().unwrap();
    assert!(objects.iter().all(|it| it["change"] == "deleted" && it.get("after").is_none()));
    // As many go as a deletion takes along, and nothing has gone.
    let count = gone.matches("+++ /dev/null").count();
    assert_eq!(objects.len(), count);
    let dry = kept.zovn(&["delete", "object", "LogicalSwitch/shop/web", "--cascade", "--dry-run"]);
    assert_eq!(dry.lines().filter(|it| it.starts_with("- ")).count(), count);
    assert_eq!(kept.zovn(&["diff", "-f", SHOP]), "");
    kept.ends(2, &["diff", "--delete", "LogicalSwitch/shop/none"]);
    kept.ends(2, &["diff", "--delete", "LogicalSwitch/shop/web", "-f", SHOP]);
    kept.ends(2, &["diff"]);
}
