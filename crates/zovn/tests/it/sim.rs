//! `zovn sim` as a user meets it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

fn sim(arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Command::new(env!("CARGO_BIN_EXE_zovn"))
        .arg("sim")
        .args(arguments)
        .current_dir(root)
        .output()
        .unwrap()
}

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name)
}

#[test]
fn every_shipped_scenario_can_be_simulated() {
    for entry in std::fs::read_dir(shipped("")).unwrap() {
        let path = entry.unwrap().path();
        let output = sim(&["check", path.to_str().unwrap()]);
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{path:?}");
        assert!(said.starts_with(path.file_stem().unwrap().to_str().unwrap()), "{said}");
    }
}

#[test]
fn a_shipped_scenario_is_told_at_a_glance() {
    let output = sim(&["check", "scenarios/zovn-fig12.toml"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    for fact in [
        "zovn-fig12",
        "256, with links of 2.560 Tb/s",
        "768: 1 hla, 1 mla, 1 worker",
        "16 tor",
        "36",
        "LL, LZ, ZL, ZZ",
    ] {
        assert!(said.contains(fact), "{fact} is missing in\n{said}");
    }
    let output = sim(&["check", "scenarios/zovn-fig12.toml", "--json"]);
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (object["summary"]["cells"].as_u64(), object["summary"]["vms"].as_u64()),
        (Some(36), Some(768))
    );
    assert_eq!(object["faults"], Value::Array(Vec::new()));
}

#[test]
fn a_mistake_has_a_place_and_exit_code_2_and_a_missing_file_1() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wrong.toml");
    std::fs::write(
        &file,
        "version = 1\nname = \"wrong\"\n[topology]\nkind = \"star\"\nserver = 3\n",
    )
    .unwrap();
    let file = file.to_str().unwrap();
    let output = sim(&["check", file]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("wrong.toml, line 5, column 1: `topology.server`"), "{said}");
    assert!(said.contains("did you mean `servers`?"), "{said}");
    let output = sim(&["check", file, "--json"]);
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((object["faults"][0]["line"].as_u64(), output.status.code()), (Some(5), Some(2)));

    for arguments in [&["check", "/nowhere.toml"][..], &["check", "/nowhere.toml", "--json"]] {
        let output = sim(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{said}");
        assert!(said.starts_with("zovn: cannot read /nowhere.toml: "), "{said}");
    }
}

#[test]
fn each_mistake_has_a_line_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wrong.toml");
    let right = std::fs::read_to_string(shipped("incast.toml")).unwrap();
    std::fs::write(&file, right.replace("servers = 33", "servers = 0").replace("60s", "0s"))
        .unwrap();
    let output = sim(&["check", file.to_str().unwrap()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 2), "{said}");
    assert!(
        said.lines().all(|line| line.starts_with(&format!("zovn: {}, line ", file.display()))),
        "{said}"
    );
}

#[test]
fn a_run_says_the_same_bytes_whatever_the_number_of_threads() {
    let run = |threads: &str| {
        sim(&["run", "scenarios/incast.toml", "--seed", "7", "--threads", threads, "--json"])
    };
    let [one, two] = ["1", "2"].map(run);
    assert_eq!(one.status.code(), Some(0), "{}", String::from_utf8_lossy(&one.stderr));
    assert_eq!(String::from_utf8(one.stdout.clone()), String::from_utf8(two.stdout));
    let object: Value = serde_json::from_slice(&one.stdout).unwrap();
    let results = object["results"].as_array().unwrap();
    assert_eq!(
        (object["experiment"].as_str(), object["config"]["seed"].as_u64()),
        (Some("sim"), Some(7))
    );
    let lost = |result: &Value| result["classes"]["default"]["lost_physical"].as_u64().unwrap();
    assert!(lost(&results[0]) > 0 && lost(&results[1]) == 0, "{results:?}");
    assert!(results.iter().all(|result| result["queries"] == 100 && result["ending"] == "done"));
}

#[test]
fn a_run_prints_a_line_each_and_a_deadlock_is_exit_code_1() {
    let output = sim(&["run", "scenarios/pfc-deadlock.toml"]);
    let (table, said) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        table.contains("topology.routing=clockwise") && table.contains("topology.routing=line"),
        "{table}"
    );
    assert!(said.contains("a deadlock: switch") && said.contains("wait for each other"), "{said}");
}

#[test]
fn a_bench_tells_how_fast_it_is() {
    let output = sim(&["bench", "--queries", "5", "--rounds", "1", "--json"]);
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    let figures = &object["results"][0];
    for name in ["packet_hops_per_cpu_s", "events_per_cpu_s", "rss_bytes"] {
        assert!(figures[name].as_f64().unwrap() > 1000.0, "{name}: {figures}");
    }
    assert_eq!((output.status.code(), figures["queries"].as_u64()), (Some(0), Some(5)));
}

#[test]
fn linux_is_asked_for_huge_pages_for_what_is_simulated() {
    if !Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
        return;
    }
    let mut bench = Command::new(env!("CARGO_BIN_EXE_zovn"));
    // The C library would ask as well if it were told to.
    let bench =
        bench.args(["sim", "bench", "--queries", "1000000000"]).env_remove("GLIBC_TUNABLES");
    let mut bench = bench.spawn().unwrap();
    let smaps =
        || std::fs::read_to_string(format!("/proc/{}/smaps", bench.id())).unwrap_or_default();
    // `hg`: whoever has mapped it has asked.
    let asked = || smaps().lines().any(|it| it.starts_with("VmFlags:") && it.contains(" hg"));
    let late = Instant::now() + Duration::from_secs(30);
    let mut seen = false;
    while !seen && Instant::now() < late {
        std::thread::sleep(Duration::from_millis(10));
        seen = asked();
    }
    let ended = bench.try_wait();
    // It can be interrupted, too.
    Command::new("kill").args(["-INT", &bench.id().to_string()]).status().unwrap();
    assert_eq!(bench.wait().unwrap().code(), Some(130));
    assert!(seen, "{ended:?}");
}

/// Four small cells.
const SWEEP: &str = "version = 1\nname = \"small\"\n[run]\nduration = \"200ms\"\n[topology]\nkind = \"star\"\nservers = 5\n\
    [fabric]\nbuffer = { kind = \"per-output\", bytes = \"60kb\" }\n\
    [workload.burst]\nkind = \"incast\"\nsenders = \"vm@1-4\"\nreceiver = \"vm@0\"\nbytes = \"50kb\"\nrounds = 20\n\
    [workload.other]\nkind = \"flows\"\nsizes = \"10kb\"\nload = 0.01\nstop = \"5ms\"\n\
    [sweep]\nnetwork = [\n\
    { name = \"lossy\", flow_control.virtual = \"lossy\", flow_control.physical = \"lossy\" },\n\
    { name = \"lossless\" },\n]\ntcp.control = [\"reno\", \"cubic\"]\n";

/// A folder with a scenario in it, and a name for results.
fn sweeper(scenario: &str) -> (tempfile::TempDir, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, out) = (path("scenario.toml"), path("out"));
    std::fs::write(&file, scenario).unwrap();
    (folder, file, out)
}

/// Every file of a folder with its bytes.
fn files(folder: &str) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .map(|path| {
            (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(&path).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn shards_together_and_a_sweep_that_goes_on_write_what_one_go_writes() {
    let (_folder, file, out) = sweeper(SWEEP);
    let sweep = |out: &str, more: &[&str]| {
        let output = sim(&[&["sweep", &file, "--out", out, "--csv", "--json"], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (said, _) = sweep(&out, &[]);
    let whole = files(&out);
    assert_eq!(
        whole.len(),
        1 + 4 * 3,
        "{:?}",
        whole.iter().map(|(name, _)| name).collect::<Vec<_>>()
    );
    let run = sim(&["run", &file, "--json"]);
    assert_eq!(said, String::from_utf8(run.stdout).unwrap(), "a sweep tells what a run tells");

    let shards = format!("{out}-shards");
    for shard in ["2/3", "1/3", "3/3"] {
        sweep(&shards, &["--shard", shard, "--threads", "1"]);
    }
    assert!(files(&shards) == whole);

    // Another seed is another sweep.
    let seeded = format!("{out}-seeded");
    let (told, _) = sweep(&seeded, &["--seed", "7"]);
    let run = sim(&["run", &file, "--json", "--seed", "7"]);
    assert_eq!(told, String::from_utf8(run.stdout).unwrap());
    assert_ne!(told, said);
    assert_eq!(sim(&["sweep", &file, "--out", &out, "--seed", "7"]).status.code(), Some(1));

    // What was lost is made again, and nothing else is run; half a cell is no cell.
    for name in ["cell-000001.json", "cell-000002.parquet"] {
        std::fs::remove_file(Path::new(&out).join(name)).unwrap();
    }
    let (again, progress) = sweep(&out, &[]);
    assert!(progress.starts_with("2 of 4 cells are in "), "{progress}");
    assert_eq!((progress.lines().count(), again), (3, said));
    assert!(files(&out) == whole);
}

#[test]
fn a_sweep_that_is_killed_keeps_what_is_done_and_goes_on() {
    let many = SWEEP.replace("[sweep]", "[sweep]\nrepeat = 10");
    let (_folder, file, out) = sweeper(&many);
    let one_go = format!("{out}-one-go");
    assert_eq!(sim(&["sweep", &file, "--out", &one_go]).status.code(), Some(0));
    let child = begun(&["sweep", &file, "--out", &out, "--threads", "1"]);
    end(child, rustix::process::Signal::KILL);
    let visible =
        || files(&out).into_iter().filter(|(name, _)| !name.starts_with('.')).collect::<Vec<_>>();
    assert!(visible().iter().all(|file| files(&one_go).contains(file)), "what is there is whole");
    assert_eq!(sim(&["sweep", &file, "--out", &out]).status.code(), Some(0));
    assert!(visible() == files(&one_go));
}

#[test]
fn an_interrupted_sweep_is_exit_code_130_and_a_cell_that_was_stopped_is_not_there() {
    let output = "[output]\npcapng = \"server0-switch0\"\nsamples = \"10us\"\n[sweep]";
    let (_folder, file, out) = sweeper(&endless().replace("[sweep]", output));
    let child = begun(&["sweep", &file, "--out", &out, "--threads", "1", "--json"]);
    let output = end(child, rustix::process::Signal::INT);
    assert_eq!(output.status.code(), Some(130));
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["results"].as_array().unwrap().len(), 1, "{object}");
    assert_eq!(object["partial"], true);
    let names: Vec<String> = files(&out).into_iter().map(|(name, _)| name).collect();
    let cell =
        ["json", "parquet", "pcapng", "samples.parquet"].map(|it| format!("cell-000000.{it}"));
    assert_eq!(names, [&cell[..], &["sweep.json".to_owned()]].concat(), "nothing else is left");
}

#[test]
fn a_link_is_captured_into_a_file_for_each_cell_and_into_a_sweeps_folder() {
    let wanted = SWEEP.replace("[sweep]", "[output]\npcapng = \"server0-switch0\"\n[sweep]");
    let (folder, file, out) = sweeper(&wanted);
    let trace = folder.path().join("a.trace.pcapng");
    let asked =
        ["run", &file, "--pcapng", "server1-switch0", "--pcapng-out", trace.to_str().unwrap()];
    assert_eq!(sim(&asked).status.code(), Some(0));
    assert_eq!(sim(&["sweep", &file, "--out", &out]).status.code(), Some(0));
    for cell in 0..4 {
        let files = [
            folder.path().join(format!("a.trace-{cell:06}.pcapng")),
            Path::new(&out).join(format!("cell-{cell:06}.pcapng")),
        ];
        for (file, name) in files.iter().zip(["server1-switch0", "server0-switch0"]) {
            let bytes = std::fs::read(file).unwrap();
            assert_eq!(bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a], "{file:?}");
            assert!(
                bytes.len() > 10_000
                    && bytes.windows(name.len()).any(|some| some == name.as_bytes())
            );
        }
    }
    // Half a cell is no cell, and it is the same bytes again.
    let whole = files(&out);
    std::fs::remove_file(Path::new(&out).join("cell-000002.pcapng")).unwrap();
    assert_eq!(sim(&["sweep", &file, "--out", &out]).status.code(), Some(0));
    assert!(files(&out) == whole);

    let output = sim(&["run", &file, "--pcapng", "server9-switch0"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("there is no link `server9-switch0`: links join server and switch"),
        "{said}"
    );
    let output = sim(&[
        "run",
        &file,
        "--pcapng",
        "server1-switch0",
        "--pcapng-out",
        "/nowhere/trace.pcapng",
    ]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("zovn: cannot write /nowhere/trace-"), "{said}");
}

#[test]
fn an_interrupted_run_tells_what_it_has_and_that_there_would_be_more() {
    let (folder, file, _) = sweeper(&endless());
    let trace = folder.path().join("trace.pcapng");
    let asked =
        ["run", &file, "--threads", "1", "--json", "--pcapng", "server0-switch0", "--pcapng-out"];
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let second = folder.path().join("trace-000001.pcapng");
        let _ = std::fs::remove_file(&second);
        let child = begun(&[&asked[..], &[trace.to_str().unwrap()]].concat());
        while !second.exists() {
            std::thread::yield_now();
        }
        let output = end(child, signal);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(130), "{said}");
        let object: Value = serde_json::from_slice(&output.stdout).unwrap();
        let results = object["results"].as_array().unwrap();
        let endings: Vec<_> = results.iter().map(|it| it["ending"].as_str().unwrap()).collect();
        assert_eq!(
            (object["partial"].as_bool(), endings),
            (Some(true), vec!["done", "stopped"]),
            "{said}"
        );
        assert!(
            said.contains("it was stopped before its end")
                && said.contains("1 of 4 cells are done"),
            "{said}"
        );
        // The file is whole: it ends with the length of its last block, which begins so much
        // before.
        let bytes = std::fs::read(second).unwrap();
        let word = |at: usize| u32::from_be_bytes(*bytes[at..].first_chunk().unwrap()) as usize;
        let last = word(bytes.len() - 4);
        assert_eq!((word(bytes.len() - last), word(bytes.len() - last + 4)), (6, last));
    }
}

/// Cells of which every second one never ends.
fn endless() -> String {
    SWEEP
        .replace("duration = \"200ms\"\n", "")
        .replace("rounds = 20", "rounds = 1000000000")
        .replace("tcp.control = [\"reno\", \"cubic\"]", "run.duration = [\"10ms\", \"1000000s\"]")
}

/// A command whose first cell is done.
fn begun(arguments: &[&str]) -> std::process::Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_zovn"))
        .arg("sim")
        .args(arguments)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut first).unwrap();
    assert!(first.contains("queries in"), "{first}");
    child
}

fn end(child: std::process::Child, signal: rustix::process::Signal) -> Output {
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_sweep_has_exit_code_1_for_a_complaint_each_time_and_for_a_folder_of_another() {
    let (_folder, file, out) = sweeper(SWEEP);
    for _ in 0..2 {
        let output = sim(&["sweep", "scenarios/pfc-deadlock.toml", "--out", &out]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("a deadlock: switch"), "{said}");
    }
    let output = sim(&["sweep", &file, "--out", &out]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{said}");
    assert!(
        said.contains("is of another sweep") && said.contains("write into another folder"),
        "{said}"
    );
    for arguments in [&["sweep", &file, "--out", &out, "--shard", "3/2"][..], &["sweep", &file]] {
        assert_eq!(sim(arguments).status.code(), Some(2));
    }
}

#[test]
fn a_report_has_every_cell_and_fetches_nothing() {
    let three = SWEEP.replace("[sweep]\n", "[sweep]\nrepeat = 2\n")
        + "load = [{ name = \"none\", workload.other.load = 0.0 }, { name = \"some\", workload.other.load = 0.02 }]\n";
    let (_folder, file, out) = sweeper(&three);
    let page = format!("{out}.html");
    assert_eq!(sim(&["sweep", &file, "--out", &out]).status.code(), Some(0));
    let output = sim(&["report", &out, "--html", &page, "--json"]);
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    let lines = object["results"].as_array().unwrap();
    assert_eq!((lines.len(), object["missing"].as_array().unwrap().len()), (8, 0));
    for line in lines {
        assert_eq!(
            (line["cells"].as_u64(), line["samples"].as_u64()),
            (Some(2), Some(40)),
            "{line}"
        );
        assert_eq!(
            line["gain"].as_f64() == Some(1.0),
            line["values"]["network"] == "lossy",
            "{line}"
        );
        assert_eq!(line["lost_physical"] == 0, line["values"]["network"] == "lossless", "{line}");
    }

    let html = std::fs::read_to_string(&page).unwrap();
    // A chart of means and one of distributions for each load.
    assert_eq!(html.matches("<svg ").count(), 4);
    for cell in 0..16 {
        let text = std::fs::read(format!("{out}/cell-{cell:06}.json")).unwrap();
        let cell: Value = serde_json::from_slice(&text).unwrap();
        assert!(html.contains(cell["result"]["name"].as_str().unwrap()));
    }
    let fetches = ["http://", "https://", "<script", "src=", "@import", "url("];
    let bare = html.replace("http://www.w3.org/2000/svg", "");
    assert!(fetches.iter().all(|word| !bare.contains(word)));

    let table = String::from_utf8(sim(&["report", &out]).stdout).unwrap();
    assert!(table.starts_with("small\n\n") && table.lines().count() == 2 + 1 + 8, "{table}");
}

#[test]
fn a_report_maps_queues_and_pauses_where_they_were_looked_at() {
    let long = SWEEP.replace("50kb", "200kb").replace("200ms", "20s");
    let looked = long.replace("[sweep]", "[output]\nsamples = \"20us\"\n[sweep]\nrepeat = 2");
    let (_folder, file, out) = sweeper(&looked);
    let page = format!("{out}.html");
    assert_eq!(sim(&["sweep", &file, "--out", &out, "--csv"]).status.code(), Some(0));
    assert_eq!(sim(&["report", &out, "--html", &page]).status.code(), Some(0));
    let html = std::fs::read_to_string(&page).unwrap();
    // Of each combination the first repetition, in which frames waited at the switch; the lossless
    // ones were paused.
    let maps = |what: &str| html.matches(&format!("<figcaption>{what}, ")).count();
    assert_eq!((maps("Queues"), maps("Pauses")), (4, 2));
    assert!(html.contains(">switch0-server0<") && html.contains(">server1-switch0<"));
    assert!(html.len() < 1 << 20, "{} bytes", html.len());

    // Who sweeps again without looking has everything; the page of such a folder has no maps.
    std::fs::write(&file, SWEEP.replace("[sweep]", "[sweep]\nrepeat = 2")).unwrap();
    let other = format!("{out}-other");
    assert_eq!(sim(&["sweep", &file, "--out", &other]).status.code(), Some(0));
    assert_eq!(sim(&["report", &other, "--html", &page]).status.code(), Some(0));
    assert!(!std::fs::read_to_string(&page).unwrap().contains("Queues and pauses"));
}

#[test]
fn a_report_says_what_is_missing_and_refuses_what_does_not_belong_together() {
    let (_folder, file, out) = sweeper(SWEEP);
    let page = format!("{out}.html");
    assert_eq!(sim(&["sweep", &file, "--out", &out, "--shard", "1/2"]).status.code(), Some(0));
    let output = sim(&["report", &out, "--html", &page]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let missing = [
        "cell 1 (network=lossy, tcp.control=cubic)",
        "cell 3 (network=lossless, tcp.control=cubic)",
    ];
    let html = std::fs::read_to_string(&page).unwrap();
    for name in missing {
        assert!(
            said.contains(&format!("zovn: {name} is missing")) && html.contains(name),
            "{said}"
        );
    }

    std::fs::write(&file, SWEEP.replace("50kb", "40kb")).unwrap();
    let other = format!("{out}-other");
    assert_eq!(sim(&["sweep", &file, "--out", &other, "--shard", "2/2"]).status.code(), Some(0));
    let cell = "cell-000001.json";
    std::fs::copy(Path::new(&other).join(cell), Path::new(&out).join(cell)).unwrap();
    let output = sim(&["report", &out]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{said}");
    assert!(said.contains(cell) && said.contains("is of another sweep"), "{said}");
    let said = String::from_utf8(sim(&["report", "/nowhere"]).stderr).unwrap();
    assert_eq!(said, "zovn: /nowhere has no results of a sweep: there is no sweep.json in it\n");
}
