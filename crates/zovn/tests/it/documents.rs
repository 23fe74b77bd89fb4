//! The documents hold together: links lead somewhere, indexes are complete, the alert rules are
//! valid, and comments are as wide as code.
//!
//! Markdown is read as far as links need it: code is left out, headings give anchors as GitHub
//! makes them, and links are `[text](target)`. Links to other sites are not followed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    normal(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
}

/// The path without `.` and `..`, by its text alone.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

/// The files below a folder with this extension. Build outputs and hidden folders are left out.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The lines of a document that are no code, with their numbers from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut is_fenced = false;
    (1..).zip(text.lines()).filter_map(move |(number, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        (!is_fence && !is_fenced).then(|| (number, line.to_owned()))
    })
}

/// The line without what is between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// The targets of the links in a line.
fn links(line: &str) -> Vec<String> {
    let line = without_code(line);
    line.match_indices("](")
        .filter_map(|(at, _)| line[at + 2..].split_once(')'))
        .map(|(target, _)| target.to_owned())
        .collect()
}

/// A heading's text, if the line is one: what is shown of it.
fn heading(line: &str) -> Option<String> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    if !(1..=6).contains(&level) || !text.starts_with(' ') {
        return None;
    }
    let mut shown = text.trim().replace('`', "");
    while let Some((start, end)) =
        shown.find("](").and_then(|at| Some((at, at + shown[at..].find(')')?)))
    {
        shown.replace_range(start..=end, "");
    }
    Some(shown.replace('[', ""))
}

/// The anchors of a document's headings: lower case, no punctuation, hyphens for blanks, and a
/// number behind those that occur again.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen = BTreeMap::<String, usize>::new();
    let anchor = |heading: String| {
        let kept = |c: char| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        };
        let anchor: String = heading.to_lowercase().chars().filter_map(kept).collect();
        let times = seen.entry(anchor.clone()).or_default();
        *times += 1;
        if *times == 1 { anchor } else { format!("{anchor}-{}", *times - 1) }
    };
    prose(text).filter_map(|(_, line)| heading(&line)).map(anchor).collect()
}

/// Why a link does not lead anywhere, if it does not.
fn complaint(document: &Path, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file =
        if file.is_empty() { document.into() } else { normal(&document.parent()?.join(file)) };
    if !file.starts_with(root()) {
        return Some("leaves the project".into());
    }
    if !file.exists() {
        return Some("there is no such file".into());
    }
    if anchor.is_empty() {
        return None;
    }
    let text = fs::read_to_string(&file).ok()?;
    (!anchors(&text).contains(anchor)).then(|| "there is no such heading".into())
}

#[test]
fn every_link_leads_somewhere() {
    let mut complaints = Vec::new();
    let mut checked = 0;
    for document in files(&root(), "md") {
        let text = fs::read_to_string(&document).unwrap();
        // A link's text may go over the end of a line, its target may not.
        for (number, line) in prose(&text) {
            for target in links(&line) {
                checked += 1;
                let place = document.strip_prefix(root()).unwrap().display();
                complaints.extend(
                    complaint(&document, &target)
                        .map(|why| format!("{place}:{number}: {target}: {why}")),
                );
            }
        }
    }
    assert!(checked > 100, "only {checked} links were found");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn anchors_are_made_as_github_makes_them() {
    let text = "# A `b` and C!\n## Same\n```\n# not this\n```\n## Same\n## [a link](x.md), µs_2";
    let expected = ["a-b-and-c", "same", "same-1", "a-link-µs_2"].map(String::from);
    assert_eq!(anchors(text), BTreeSet::from(expected));
}

#[test]
fn a_link_to_nothing_is_found() {
    let readme = root().join("README.md");
    assert!(complaint(&readme, "docs/README.md#documents").is_none());
    assert!(complaint(&readme, "docs/README.md#no-such-heading").is_some());
    assert!(complaint(&readme, "docs/no-such-file.md").is_some());
    assert!(complaint(&readme, "../elsewhere.md").is_some());
    assert_eq!(links("see [a](b.md), `[c](d.md)`"), ["b.md"]);
}

/// The files that a document's links lead to.
fn linked(document: &Path) -> BTreeSet<PathBuf> {
    let text = fs::read_to_string(document).unwrap();
    let folder = document.parent().unwrap();
    prose(&text)
        .flat_map(|(_, line)| links(&line))
        .map(|target| normal(&folder.join(target.split('#').next().unwrap())))
        .collect()
}

#[test]
fn every_document_is_in_the_index() {
    let folder = root().join("docs");
    let listed = linked(&folder.join("README.md"));
    for document in files(&folder, "md") {
        // Decisions have an index of their own.
        let is_expected =
            document != folder.join("README.md") && !document.starts_with(folder.join("decisions"));
        assert!(
            !is_expected || listed.contains(&document),
            "docs/README.md has no line for {}",
            document.display()
        );
    }
}

#[test]
fn decisions_are_numbered_without_gaps_and_indexed() {
    let folder = root().join("docs/decisions");
    let index = folder.join("README.md");
    let listed = linked(&index);
    let decisions = files(&folder, "md").into_iter().filter(|document| *document != index);
    for (number, document) in (1..).zip(decisions) {
        let name = document.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with(&format!("{number:04}-")), "{name} is the {number}th decision");
        let title = fs::read_to_string(&document).unwrap();
        assert!(title.starts_with(&format!("# {number}. ")), "{name} begins with another number");
        assert!(listed.contains(&document), "docs/decisions/README.md has no line for {name}");
    }
}

#[test]
fn prometheus_accepts_the_alert_rules_and_they_do_what_they_say() {
    let folder = root().join("packaging");
    if !needs::program("promtool", "prometheus") {
        return;
    }
    for arguments in
        [["check", "rules", "zovn-alerts.yml"], ["test", "rules", "zovn-alerts.test.yml"]]
    {
        let run = Command::new("promtool").args(arguments).current_dir(&folder).output().unwrap();
        let said = [run.stdout, run.stderr]
            .map(|said| String::from_utf8_lossy(&said).into_owned())
            .concat();
        assert!(run.status.success(), "promtool {}: {said}", arguments.join(" "));
    }
}

#[test]
fn every_alert_is_tested_and_explained() {
    let rules = fs::read_to_string(root().join("packaging/zovn-alerts.yml")).unwrap();
    let tests = fs::read_to_string(root().join("packaging/zovn-alerts.test.yml")).unwrap();
    let page = fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let alerts: Vec<_> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(!alerts.is_empty());
    for alert in alerts {
        assert!(
            tests.contains(&format!("alertname: {alert}\n        exp_alerts")),
            "nothing lets {alert} fire"
        );
        assert!(
            page.contains(&format!("`{alert}`")),
            "docs/operations.md does not explain {alert}"
        );
    }
}

/// Comments have at most 100 columns, as rustfmt gives code. Drawings and tables may be wider.
#[test]
fn comments_have_at_most_100_columns() {
    let comment = |line: &str| {
        let text = line.trim_start().strip_prefix("//").unwrap_or_default();
        text.trim_start_matches(['/', '!']).to_owned()
    };
    let mut wide = Vec::new();
    for file in files(&root().join("crates"), "rs") {
        let text = fs::read_to_string(&file).unwrap();
        let lines: Vec<_> = text.lines().collect();
        let comments: Vec<_> = lines.iter().map(|line| comment(line)).collect();
        for (number, comment) in prose(&comments.join("\n")) {
            let is_table = comment.trim_start().starts_with('|');
            if !comment.is_empty() && !is_table && lines[number - 1].chars().count() > 100 {
                wide.push(format!("{}:{number}", file.display()));
            }
        }
    }
    assert!(wide.is_empty(), "these comments are wider than 100 columns: {wide:#?}");
}
