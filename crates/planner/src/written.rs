//! Models of traces, written as a file that a plan is read with.

use std::fmt::Write;

use demand::Model;
use figures::{Unit, si};
use units::Rate;

use crate::fitted::{Fitted, taken};
use crate::hours::Period;

/// Fits as a file of models, which a plan can be given together with its own file: of each trace
/// one for each of these classes of hours, or the only one if there are none. Reasons not to trust
/// them are comments, and so are `remarks` about all of them.
pub fn models_file(fits: &[Vec<Fitted>], periods: &[Period], remarks: &[String]) -> String {
    let mut text = String::new();
    for it in remarks {
        let _ = writeln!(text, "# {it}");
    }
    if !periods.is_empty() {
        let hours = periods.iter().map(|it| format!("{}: {}", quoted(&it.name), it.hours_a_week));
        let _ = writeln!(text, "periods: {{{}}}", hours.collect::<Vec<_>>().join(", "));
    }
    text += "models:\n";
    for of_trace in fits {
        let first = &of_trace[0];
        if periods.is_empty() {
            reasons(&mut text, "  ", first);
        }
        for taken in taken(first.frame, first.sends) {
            let _ = writeln!(text, "  # {taken}");
        }
        // JSON's words in quotes are YAML's, whatever the file is called.
        let _ = writeln!(text, "  {}:", quoted(&first.name));
        if periods.is_empty() {
            written(&mut text, "    ", &first.fit.careful());
        } else {
            text += "    periods:\n";
        }
        for (period, it) in periods.iter().zip(of_trace) {
            reasons(&mut text, "      ", it);
            let _ = writeln!(text, "      {}:", quoted(&period.name));
            written(&mut text, "        ", &it.fit.careful());
        }
        if let Some(frame) = first.frame {
            let _ = writeln!(text, "    frame: {frame}b");
        }
        if let Some(sends) = first.sends {
            let _ = writeln!(text, "    sends: {sends}");
        }
    }
    text
}

/// What a fit is of, and why not to trust it.
fn reasons(text: &mut String, indent: &str, it: &Fitted) {
    let mean = |rate| si(rate, Unit::BITS_PER_SEC);
    let (value, high) = (mean(it.fit.mean.value), mean(it.fit.mean.high));
    let (samples, step) = (it.samples, it.step);
    let _ = writeln!(text, "{indent}# {samples} samples of {step}; mean {value}, at most {high}");
    for doubt in it.doubts() {
        let _ = writeln!(text, "{indent}# {doubt}");
    }
}

fn written(text: &mut String, indent: &str, model: &Model) {
    let word = |rate: u64| Rate::from_bits_per_sec(rate).map_or("0".into(), |it| it.to_string());
    if let [state] = model.states() {
        let _ = writeln!(text, "{indent}rate: {}", word(state.rate));
        return;
    }
    let states = 0..model.states().len();
    let rates: Vec<_> = model.states().iter().map(|it| word(it.rate)).collect();
    let hold: Vec<_> = model.states().iter().map(|it| it.hold.to_string()).collect();
    let _ = writeln!(text, "{indent}rates: [{}]", rates.join(", "));
    let _ = writeln!(text, "{indent}hold: [{}]\n{indent}jump:", hold.join(", "));
    for from in states.clone() {
        let row: Vec<_> = states.clone().map(|to| model.jump(from, to).to_string()).collect();
        let _ = writeln!(text, "{indent}  - [{}]", row.join(", "));
    }
}

/// A word in double quotes.
pub(crate) fn quoted(word: &str) -> String {
    let mut text = String::from('"');
    for it in word.chars() {
        match it {
            '"' | '\\' => text.extend(['\\', it]),
            it if it.is_control() => {
                let _ = write!(text, "\\u{:04x}", u32::from(it));
            }
            it => text.push(it),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::{Path, PathBuf};

    use demand::FitSettings;

    use crate::fitted::fit_trace;
    use crate::{Columns, Plan};

    /// A machine that is at 80 Mbit/s for 5 of 20 samples, in frames of 640 bytes.
    fn trace(folder: &Path) -> PathBuf {
        let mut text = "time,sent_bytes,sent_packets\n".to_owned();
        let mut bytes = 0u64;
        for row in 0..2000u64 {
            let _ = writeln!(text, "{row},{bytes},{}", bytes / 640);
            bytes += if row % 20 < 5 { 10_000_000 } else { 0 };
        }
        let path = folder.join("d\"b.csv");
        fs::write(&path, text).unwrap();
        path
    }

    /// Two classes of hours.
    fn periods() -> [Period; 2] {
        [("busy", 40), ("rest", 128)].map(|(name, hours_a_week)| Period {
            name: name.into(),
            weekdays: Vec::new(),
            weekends: Vec::new(),
            hours_a_week,
            unseen_hours: 0,
            utc_offset_minutes: 0,
            times_mean: 1.0,
            together: None,
        })
    }

    #[test]
    fn a_fit_is_written_as_a_plan_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = trace(folder.path());
        let settings = FitSettings::default();
        let fitted = fit_trace(&path, &Columns::default(), &settings).unwrap();
        let told = fitted.told();
        assert_eq!((told.samples, told.peak, told.sends), (1999, 80_000_000, Some(1.0)));
        assert_eq!(told.frame, Some(640));
        assert!(told.doubts.iter().any(|it| it.contains("independent samples")), "{told:?}");
        assert!(!told.doubts.iter().any(|it| it.contains("taken to ")), "{told:?}");

        let text = models_file(&[vec![fitted.clone()]], &[], &["of January".into()])
            + "goal: {epsilon: 0.001}\n";
        assert!(text.starts_with("# of January\nmodels:\n"), "{text}");
        let plan = Plan::of_text(Path::new("m.yaml"), &text).unwrap();
        assert_eq!((plan.models.len(), plan.models[0].name.as_str()), (1, "d\"b"));
        assert_eq!((plan.models[0].it.frame, plan.models[0].it.sends), (640, 1.0));
        let (read, careful) = (&plan.models[0].it.models[0], fitted.fit.careful());
        assert_eq!(read.states(), careful.states());
        let apart = read.shares().iter().zip(careful.shares()).map(|(a, b)| (a - b).abs());
        assert!(apart.fold(0.0, f64::max) < 1e-12);

        // Of two classes of hours, here with the same fit.
        let text = models_file(&[vec![fitted.clone(); 2]], &periods(), &[]);
        let text = text + "goal: {epsilon: 0.001}\n";
        let plan = Plan::of_text(Path::new("m.yaml"), &text).unwrap();
        let hours: Vec<_> = plan.periods.iter().map(|it| (it.name.as_str(), it.it)).collect();
        assert_eq!(hours, [("busy", 40), ("rest", 128)]);
        let models = &plan.models[0].it.models;
        assert!(models.len() == 2 && models.iter().all(|it| it.states() == careful.states()));
        assert_eq!((plan.models[0].it.frame, plan.models[0].it.sends), (640, 1.0));

        // A plan that names the trace has the same model.
        let text = "goal: {epsilon: 0.001}\nmodels:\n  db: {trace: 'd\"b.csv'}\n";
        let plan = Plan::of_text(&folder.path().join("p.yaml"), text).unwrap();
        assert_eq!(plan.models[0].it.models[0], careful);
        assert_eq!((plan.models[0].it.frame, plan.models[0].it.sends), (640, 1.0));
    }

    #[test]
    fn what_a_trace_does_not_say_is_told_and_may_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = trace(folder.path());
        let columns = Columns { rate: Some("sent_bytes".into()), ..Columns::default() };
        let fitted = fit_trace(&path, &columns, &FitSettings::default()).unwrap();
        let doubts = fitted.told().doubts;
        let is_taken = |doubts: &[String]| {
            ["frames are taken to have 1500 bytes", "half of the traffic is taken to be sent"]
                .map(|taken| doubts.iter().any(|it| it.starts_with(taken)))
        };
        assert_eq!(is_taken(&doubts), [true; 2], "{doubts:?}");
        // Once for each trace, whatever its classes of hours.
        for periods in [&[][..], &periods()] {
            let fits = vec![fitted.clone(); periods.len().max(1)];
            let text = models_file(&[fits], periods, &[]);
            assert!(!text.contains("frame: ") && !text.contains("sends: "), "{text}");
            assert_eq!(
                text.matches("\n  # frames are taken to have 1500 bytes").count(),
                1,
                "{text}"
            );
        }

        let plan = |model: &str| {
            let text = format!("goal: {{epsilon: 0.001}}\nmodels:\n  db: {{{model}}}\n");
            let plan = Plan::of_text(&folder.path().join("p.yaml"), &text).unwrap();
            let load = &plan.models[0].it;
            (load.frame, load.sends, is_taken(&load.doubts()))
        };
        assert_eq!(plan("trace: 'd\"b.csv'"), (640, 1.0, [false; 2]));
        let rate = "trace: 'd\"b.csv', columns: {rate: sent_bytes}";
        assert_eq!(plan(rate), (1500, 0.5, [true; 2]));
        assert_eq!(plan(&format!("{rate}, frame: 64b")), (64, 0.5, [false, true]));
        // What a plan writes counts, whatever its trace says.
        assert_eq!(plan("trace: 'd\"b.csv', frame: 64b, sends: 0"), (64, 0.0, [false; 2]));
        assert_eq!(plan("rate: 1mbit"), (1500, 0.5, [true; 2]));
    }
}
