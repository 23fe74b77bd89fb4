//! Experiment 1, told.

use crate::loss::{Loss, Report};
use crate::page::{Axis, Bars, Chart, Unit, count, percent, si};
use crate::{Environment, is_lossless};

use super::{Readable, Rows, many, repeated, unbalanced};

impl Readable for Report {
    fn title(&self) -> String {
        format!("Loss: {} into one receiver", many(self.config.senders.into(), "sender"))
    }

    fn conditions(&self) -> String {
        let config = &self.config;
        let pace = match config.receiver_rate {
            Some(rate) => format!("takes {} frames a second", count(rate as u64)),
            None => "reads as fast as it can".into(),
        };
        format!(
            "{} B frames as fast as each sender can for {}, {}; the receiving program {pace}.",
            config.size,
            config.duration,
            many(config.rounds.into(), "round"),
        )
    }

    fn rows(&self) -> Rows {
        let mut rows = Rows::new([
            "switch",
            "sent",
            "lost",
            "of sent",
            "mostly at",
            "received",
            "senders waited",
            "fairness",
        ]);
        for loss in &self.results {
            rows.row([
                loss.switch.to_string(),
                count(loss.sent),
                count(loss.lost),
                percent(loss.loss_ratio),
                mostly_at(loss),
                loss.rx_gbps.map_or("–".into(), |gbps| si(gbps * 1e9, Unit::BITS_PER_SEC)),
                percent(loss.sender_blocked),
                loss.fairness.map_or("–".into(), |index| format!("{index:.3}")),
            ]);
        }
        rows
    }

    fn remarks(&self) -> Vec<String> {
        vec![
            "“Senders waited” is the share of their time in sendto: back-pressure as a program feels it. Fairness is \
             Jain's index of the worst second."
                .into(),
        ]
    }

    fn charts(&self) -> Vec<Chart> {
        let lost =
            Bars::new("Lost, of what was sent", Axis::linear("lost", Unit::SHARE).reach(1.0))
                .horizontal();
        let lost = self
            .results
            .iter()
            .fold(lost, |bars, loss| bars.bar(loss.switch.to_string(), loss.loss_ratio));
        let points = self
            .results
            .first()
            .map_or(Vec::new(), |loss| loss.lost_at.points().map(|(point, _)| point).into());
        let places = Bars::new("Where frames were lost", Axis::log10("lost", Unit::FRAMES))
            .groups("point", points);
        let places = self.results.iter().fold(places, |bars, loss| {
            bars.series(loss.switch.to_string(), loss.lost_at.points().map(|(_, lost)| lost as f64))
        });
        vec![lost.into(), places.into()]
    }

    fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for loss in self.results.iter().filter(|loss| is_lossless(loss.switch)) {
            if loss.lost > 0 {
                broken.push(format!(
                    "{} lost {}, mostly at {}.",
                    loss.switch,
                    many(loss.lost, "frame"),
                    mostly_at(loss)
                ));
            }
        }
        broken
            .extend(self.results.iter().filter_map(|loss| repeated(loss.switch, loss.duplicates)));
        broken
            .extend(self.results.iter().filter_map(|loss| unbalanced(loss.switch, loss.balanced)));
        broken.extend(self.results.iter().filter(|loss| loss.received == 0).map(|loss| {
            format!("nothing arrived through {}: that is no measurement.", loss.switch)
        }));
        broken
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }
}

fn mostly_at(loss: &Loss) -> String {
    let most = loss.lost_at.points().into_iter().max_by_key(|(_, lost)| *lost);
    most.filter(|(_, lost)| *lost > 0).map_or("–".into(), |(point, _)| point.into())
}
