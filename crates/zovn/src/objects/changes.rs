//! What a declaration, or a deletion, would change of the objects that a controller keeps, object
//! by object.
//!
//! ```text
//! dry run ─▶ which objects, as of a revision ─▶ each as the controller has it ─┐
//! files ─▶ each as it is declared ─────────────────────────────────────────────┴─▶ lines that differ
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use api::{RemoteClient, RemoteError};
use logical::objects::Identity;
use serde::Serialize;
use serde_json::Value;
use similar::TextDiff;

use super::applied::{Applied, AppliedObject};
use super::declaration::Declaration;
use super::delete::delete;
use super::said::{Failure, plain, refusable};
use super::{word, yaml};

/// How often is begun anew because somebody else has changed what is looked at.
const ATTEMPTS: usize = 5;

/// How long the least difference of two texts is looked for. After that it is a longer one.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a declaration, or a deletion, would change.
#[derive(Debug, Serialize)]
pub struct Changes {
    /// The revision that it was compared with.
    revision: u64,
    /// The objects that would be others.
    objects: Vec<Change>,
}

/// What would become of an object.
#[derive(Debug, Serialize)]
struct Change {
    object: String,
    change: String,
    /// As it is declared now. Absent: it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Value>,
    /// As it would be. Absent: it would be gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Value>,
}

impl Changes {
    /// Asks a controller what files would change.
    pub fn of(declaration: &Declaration<'_>, client: &RemoteClient) -> Result<Self, Failure> {
        let declared = declaration.objects()?;
        Self::by(client, &declared, || declaration.apply(client, true, None))
    }

    /// Asks a controller what would go with the object at a path: all of its owner that needs it.
    pub fn of_deletion(path: &str, client: &RemoteClient) -> Result<Self, Failure> {
        Self::by(client, &BTreeMap::new(), || delete(client, path, true, true, None))
    }

    /// By what a dry run answers.
    fn by(
        client: &RemoteClient,
        declared: &BTreeMap<Identity, Value>,
        dry_run: impl Fn() -> Result<Applied, Failure>,
    ) -> Result<Self, Failure> {
        for _ in 0..ATTEMPTS {
            let applied = dry_run()?;
            let changed = applied.objects.into_iter().filter(AppliedObject::is_change);
            let objects = changed.map(|it| Change::of(it, applied.revision, declared, client));
            if let Some(objects) = objects.collect::<Result<_, _>>()? {
                return Ok(Self { revision: applied.revision, objects });
            }
        }
        Err("others change these objects faster than they are read: ask again".into())
    }

    /// Whether there are none.
    pub fn are_none(&self) -> bool {
        self.objects.is_empty()
    }

    /// As a unified diff of the objects' fields.
    pub fn diff(&self) -> String {
        self.objects.iter().map(Change::diff).collect()
    }
}

impl Change {
    /// `None`: the object has changed since that revision.
    fn of(
        AppliedObject { object, change }: AppliedObject,
        revision: u64,
        declared: &BTreeMap<Identity, Value>,
        client: &RemoteClient,
    ) -> Result<Option<Self>, Failure> {
        let identity: Identity = object.parse()?;
        let before = match change.as_str() {
            "created" => None,
            _ => match client.object(&word::path(&identity)?) {
                Ok((_, it)) if it["metadata"]["revision"].as_u64() <= Some(revision) => Some(it),
                Ok(_) => return Ok(None),
                Err(RemoteError::Refused(it)) if it.status == 404 => return Ok(None),
                Err(error) => refusable(Err(error))?,
            },
        };
        let after = match change.as_str() {
            "deleted" => None,
            _ => Some(declared.get(&identity).cloned().ok_or_else(|| {
                format!("this zovn does not understand what the controller does of {object}")
            })?),
        };
        let [before, after] = [before, after].map(|it| it.map(yaml::declared));
        Ok(Some(Self { object, change, before, after }))
    }

    /// The lines that differ, with three before and behind them.
    fn diff(&self) -> String {
        let texts = [&self.before, &self.after].map(|it| it.as_ref().map(yaml::text));
        let name = plain(&self.object);
        let head = |text: &Option<String>| match text {
            Some(_) => name.as_str(),
            None => "/dev/null",
        };
        let [old, new] = [0, 1].map(|it| texts[it].as_deref().unwrap_or_default());
        let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(old, new);
        diff.unified_diff().header(head(&texts[0]), head(&texts[1])).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn port(name: &str, addresses: &[&str]) -> Value {
        json!({"kind": "LogicalPort", "metadata": {"name": name}, "spec": {"addresses": addresses}})
    }

    #[test]
    fn what_differs_has_its_line() {
        let change = |before: Option<Value>, after: Option<Value>| Change {
            object: "LogicalPort/a/x".into(),
            change: String::new(),
            before,
            after,
        };
        let changed =
            change(Some(port("x", &["10.0.0.1"])), Some(port("x", &["10.0.0.1", "10.0.0.2"])));
        assert_eq!(
            changed.diff(),
            "\
--- LogicalPort/a/x
+++ LogicalPort/a/x
@@ -4,3 +4,4 @@
 spec:
   addresses:
     - 10.0.0.1
+    - 10.0.0.2
"
        );
        let gone = change(Some(json!({"kind": "Tenant"})), None);
        let lines = "--- LogicalPort/a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-kind: Tenant\n";
        assert_eq!(gone.diff(), lines);
    }

    #[test]
    fn large_objects_that_differ_everywhere_are_told_in_time() {
        let large = |from: u32| {
            let members: Vec<_> = (from..from + 100_000).map(|it| it.to_string()).collect();
            Some(json!({ "members": members }))
        };
        let (object, change) = (String::new(), String::new());
        let change = Change { object, change, before: large(1_000_000), after: large(2_000_000) };
        assert_eq!(change.diff().lines().filter(|it| it.starts_with("+ ")).count(), 100_000);
    }
}
