//! Distributions by name: of sizes in bytes and of gaps in nanoseconds.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use units::Rng;

use crate::Cdf;

/// A distribution of values from 0 up, in the unit of its mean.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Always this value.
    Fixed(f64),
    /// The gaps of a Poisson process.
    Exponential {
        /// The mean.
        mean: f64,
    },
    /// A value whose logarithm is normal: heavier bursts and longer pauses than Poisson's.
    LogNormal {
        /// The mean of the value itself, not of its logarithm.
        mean: f64,
        /// The standard deviation of the logarithm.
        sigma: f64,
    },
    /// By points.
    Cdf(Cdf),
}

impl Distribution {
    /// The mean.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed(value) => *value,
            Self::Exponential { mean } | Self::LogNormal { mean, .. } => *mean,
            Self::Cdf(cdf) => cdf.mean(),
        }
    }

    /// One value.
    pub fn sample(&self, rng: &mut Rng) -> f64 {
        match self {
            Self::Fixed(value) => *value,
            Self::Exponential { mean } => -mean * libm::log(above_zero(rng)),
            Self::LogNormal { mean, sigma } => {
                // E[exp(σ z)] = exp(σ²/2): taking half of σ² away leaves the mean where the caller
                // put it.
                mean * libm::exp(sigma * normal(rng) - sigma * sigma / 2.0)
            }
            Self::Cdf(cdf) => cdf.sample(rng),
        }
    }

    /// One value rounded up to a whole number, at least 1: a flow carries something, a clock moves
    /// on.
    pub fn sample_whole(&self, rng: &mut Rng) -> u64 {
        // A value beyond 2^64 becomes 2^64 - 1: `as` saturates.
        (libm::ceil(self.sample(rng)) as u64).max(1)
    }
}

/// Published flow sizes, in bytes.
///
/// No numeric distribution of gaps between flows is published with them: pair them with a Poisson
/// or log-normal gap or a file of one's own.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Known {
    /// Web search: DCTCP (Alizadeh et al., SIGCOMM 2010), as in HPCC's
    /// `WebSearch_distribution.txt`. Mean 1.71 MB.
    WebSearch,
    /// Data mining: VL2 (Greenberg et al., SIGCOMM 2009), as in TrafficGenerator's `VL2_CDF.txt`.
    /// Mean 12.7 MB.
    DataMining,
    /// Hadoop at Facebook (Roy et al., SIGCOMM 2015), as in HPCC's `FbHdp_distribution.txt`. Mean
    /// 120 KB.
    Hadoop,
    /// Storage at Alibaba in 2019, HPCC's `AliStorage2019.txt`. Mean 41 KB.
    Storage,
}

impl Known {
    /// All of them, in the order in which they are documented.
    pub const ALL: [Self; 4] = [Self::WebSearch, Self::DataMining, Self::Hadoop, Self::Storage];

    /// The word for it on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WebSearch => "web-search",
            Self::DataMining => "data-mining",
            Self::Hadoop => "hadoop",
            Self::Storage => "storage",
        }
    }

    /// Its points: bytes and cumulative probability.
    pub const fn points(self) -> &'static [(f64, f64)] {
        match self {
            Self::WebSearch => WEB_SEARCH,
            Self::DataMining => DATA_MINING,
            Self::Hadoop => HADOOP,
            Self::Storage => STORAGE,
        }
    }

    /// The distribution itself.
    pub fn cdf(self) -> Cdf {
        Cdf::new(self.points())
            .expect("the published points rise to 1, which a test checks for all of them")
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is none of [`Known`]'s.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "`{0}` is no known distribution of flow sizes: write web-search, data-mining, hadoop or storage"
)]
pub struct UnknownDistribution(pub String);

impl FromStr for Known {
    type Err = UnknownDistribution;

    fn from_str(text: &str) -> Result<Self, UnknownDistribution> {
        Self::ALL
            .into_iter()
            .find(|known| known.name() == text)
            .ok_or_else(|| UnknownDistribution(text.into()))
    }
}

/// A number in (0, 1], whose logarithm is finite.
fn above_zero(rng: &mut Rng) -> f64 {
    1.0 - rng.unit_f64()
}

/// A standard normal number (Box and Muller 1958; its twin is not kept, so that a sample costs two
/// draws always).
fn normal(rng: &mut Rng) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(above_zero(rng)));
    radius * libm::cos(2.0 * core::f64::consts::PI * rng.unit_f64())
}

const WEB_SEARCH: &[(f64, f64)] = &[
    (10e3, 0.15),
    (20e3, 0.2),
    (30e3, 0.3),
    (50e3, 0.4),
    (80e3, 0.53),
    (200e3, 0.6),
    (1e6, 0.7),
    (2e6, 0.8),
    (5e6, 0.9),
    (10e6, 0.97),
    (30e6, 1.0),
];

const DATA_MINING: &[(f64, f64)] = &[
    (180.0, 0.1),
    (216.0, 0.2),
    (560.0, 0.3),
    (900.0, 0.4),
    (1100.0, 0.5),
    (1870.0, 0.6),
    (3160.0, 0.7),
    (10e3, 0.8),
    (400e3, 0.9),
    (3.16e6, 0.95),
    (100e6, 0.98),
    (1e9, 1.0),
];

const HADOOP: &[(f64, f64)] = &[
    (100.0, 0.01),
    (200.0, 0.02),
    (300.0, 0.05),
    (350.0, 0.15),
    (400.0, 0.2),
    (500.0, 0.3),
    (600.0, 0.4),
    (700.0, 0.5),
    (1e3, 0.6),
    (2e3, 0.67),
    (7e3, 0.7),
    (30e3, 0.72),
    (50e3, 0.82),
    (80e3, 0.87),
    (120e3, 0.9),
    (300e3, 0.95),
    (1e6, 0.975),
    (2e6, 0.99),
    (10e6, 1.0),
];

const STORAGE: &[(f64, f64)] = &[
    (4e3, 0.2293),
    (8e3, 0.6921),
    (16e3, 0.8061),
    (32e3, 0.9047),
    (64e3, 0.9353),
    (128e3, 0.9677),
    (256e3, 0.9753),
    (2e6, 1.0),
];

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn the_published_sizes_have_their_published_means() {
        let means = [1.711e6, 12.66e6, 120e3, 41e3];
        for (known, mean) in Known::ALL.into_iter().zip(means) {
            let exact = known.cdf().mean();
            assert!((exact / mean - 1.0).abs() < 0.02, "{known}: {exact}");
            assert_eq!(known.to_string().parse(), Ok(known));
        }
        assert!("websearch".parse::<Known>().is_err());
    }

    #[test]
    fn samples_have_the_mean_that_was_asked_for() {
        let gaps = [
            Distribution::Fixed(300.0),
            Distribution::Exponential { mean: 300.0 },
            Distribution::LogNormal { mean: 300.0, sigma: 1.0 },
            Distribution::Cdf(Cdf::new(&[(600.0, 1.0)]).unwrap()),
        ];
        for gap in gaps {
            let mut rng = Rng::new(3);
            let sampled = (0..100_000).map(|_| gap.sample(&mut rng)).sum::<f64>() / 100_000.0;
            assert!((sampled / gap.mean() - 1.0).abs() < 0.03, "{gap:?}: {sampled}");
        }
    }

    #[test]
    fn a_whole_sample_is_never_nothing() {
        let mut rng = Rng::new(1);
        assert_eq!(Distribution::Fixed(0.0).sample_whole(&mut rng), 1);
        assert_eq!(Distribution::Fixed(1.2).sample_whole(&mut rng), 2);
    }

    #[test]
    fn a_seed_replays_its_flows() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            let sizes = Distribution::Cdf(Known::WebSearch.cdf());
            [(); 5].map(|()| sizes.sample_whole(&mut rng))
        };
        assert_eq!(draw(9), draw(9));
        assert_ne!(draw(9), draw(10));
    }
}
