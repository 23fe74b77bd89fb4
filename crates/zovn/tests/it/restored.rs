//! A controller's folder that was put back from a backup.

use std::fs;

use serde_json::Value;

use crate::kept::Kept;

#[test]
fn a_store_is_another_one_once_no_controller_runs_on_it() {
    let mut kept = Kept::new();
    let tenant = kept.file("tenant.yaml", "{kind: Tenant, metadata: {name: shop}, spec: {}}");
    kept.zovn(&["apply", "-f", &tenant]);
    let data = kept.data();
    let restored = ["controller", "restored", "--json", "--data", data.to_str().unwrap()];
    let refused = kept.run(&restored);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(1) && said.contains("another process has"), "{said}");
    kept.end();
    let said: Value = serde_json::from_str(&kept.zovn(&restored)).unwrap();
    assert_eq!(said["revision"], 1);
    let again: Value = serde_json::from_str(&kept.zovn(&restored)).unwrap();
    assert_eq!(again["before"], said["store"]);
    assert_ne!(again["store"], said["store"]);
    // Where there is no store, none is made.
    let empty = kept.folder().join("empty");
    fs::create_dir(&empty).unwrap();
    kept.ends(1, &["controller", "restored", "--data", empty.to_str().unwrap()]);
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
}
