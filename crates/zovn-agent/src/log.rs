//! What programs that run until they are told to stop log, and how.

use std::env;
use std::error::Error;
use std::io::{self, IsTerminal};

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// Flags of the log.
#[derive(clap::Args)]
pub struct LogArgs {
    /// What is logged to stderr, as `RUST_LOG` would say it: `warn`, `info,agent=debug`.
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// How it is logged.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl LogArgs {
    /// Begins to log.
    ///
    /// # Errors
    ///
    /// The filter is none.
    pub fn start(self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let filter = self.log.or_else(|| env::var("RUST_LOG").ok());
        let filter = filter.unwrap_or_else(|| "info".into());
        let filter = EnvFilter::try_new(&filter)
            .map_err(|error| format!("`{filter}` is no log filter: {error}"))?;
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
        match self.log_format {
            LogFormat::Text => log.with_ansi(io::stderr().is_terminal()).init(),
            LogFormat::Json => log.json().init(),
        }
        Ok(())
    }
}
