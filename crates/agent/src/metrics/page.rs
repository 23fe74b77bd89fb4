//! Writes metric families and their samples in the OpenMetrics format.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Unit;

/// A sample's labels.
pub type Labels = Vec<(&'static str, String)>;

/// A count for each possible reason, beginning at 0, so that the first refusal is an increase.
pub fn reasons<const N: usize>(
    labels: Labels,
    all: [&'static str; N],
    counts: &BTreeMap<String, u64>,
) -> impl Iterator<Item = (Labels, u64)> {
    all.into_iter().map(move |reason| {
        let mut labels = labels.clone();
        labels.push(("reason", reason.to_owned()));
        (labels, counts.get(reason).copied().unwrap_or(0))
    })
}

/// Writes families of samples. A family without samples is left out.
pub struct Page<'a>(pub DescriptorEncoder<'a>);

impl Page<'_> {
    /// Writes a family of counters.
    pub fn counter(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        samples: impl IntoIterator<Item = (Labels, impl EncodeCounterValue)>,
    ) -> fmt::Result {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        let mut family =
            self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
        for (labels, value) in samples {
            family
                .encode_family(&labels)?
                .encode_counter(&value, None::<&Exemplar<Labels, u64>>)?;
        }
        Ok(())
    }

    /// Writes a family of gauges.
    pub fn gauge(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        samples: impl IntoIterator<Item = (Labels, impl EncodeGaugeValue)>,
    ) -> fmt::Result {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        let mut family = self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        for (labels, value) in samples {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }
}
