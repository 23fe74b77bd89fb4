//! `zovn plan serve`: schedulers ask which hosts take a machine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use planner::Plan;
use planner::serve::{Encryption, Options, serve};
use tls::Own;
use zovn_agent::LogArgs;

use super::files::complain;
use crate::ending::{Outcome, USAGE};

/// Answer schedulers over HTTP: which hosts take a machine, and why others do not.
///
/// Kubernetes asks as an extender (`/k8s/filter`, `/k8s/prioritize`), OpenStack Nova by
/// packaging/nova/zovn_nova.py (`/v1/plan/hosts`), Prometheus reads `/metrics`. SIGHUP has the
/// files read again. With a certificate of its own all is encrypted (TLS 1.3). Requests of other
/// hosts are taken if clients show certificates, too (`--clients-ca`), or by `--open` or `--plain`.
#[derive(clap::Args)]
pub struct Args {
    /// The plan's file, with what runs now in `placement` and who may say what in `serve`.
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    file: PathBuf,
    /// More of the plan, as fitted models or a placement. May be given several times.
    #[arg(long, value_name = "FILE")]
    with: Vec<PathBuf>,
    /// Where requests are taken. Without `--clients-ca`, `--open` or `--plain`, an address of this
    /// host only.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8899")]
    listen: SocketAddr,
    /// The planner's certificate, as PEM: requests and answers are encrypted.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// The certificate's private key, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Those who sign clients' certificates, as PEM: whoever has none may not ask.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    clients_ca: Option<PathBuf>,
    /// Take requests of other hosts although clients show no certificate: whoever reaches the
    /// address may ask, and have machines be assumed that nobody places.
    #[arg(long, requires = "tls_certificate", conflicts_with = "clients_ca")]
    open: bool,
    /// Take requests of other hosts, too, although nothing is encrypted: whoever reaches the
    /// address may ask.
    #[arg(long, conflicts_with = "tls_certificate")]
    plain: bool,
    #[command(flatten)]
    log: LogArgs,
}

/// Serves.
pub fn run(args: Args) -> Outcome {
    let Args { file, with, listen, tls_certificate, tls_key, clients_ca, open, plain, log } = args;
    let paths: Vec<PathBuf> = std::iter::once(file).chain(with).collect();
    let plan = match Plan::load(&paths) {
        Ok(plan) => plan,
        Err(planner::PlanError::Faults(faults)) => {
            complain(&faults)?;
            return Ok(ExitCode::from(USAGE));
        }
        Err(error) => return Err(error.into()),
    };
    let own = tls_certificate.zip(tls_key).map(|(certificate, key)| Own { certificate, key });
    let encryption = own.map(|own| Encryption { own, clients: clients_ca });
    log.start()?;
    let options = Options { listen, encryption, is_open: open || plain };
    serve(plan, options, move || Plan::load(&paths))?;
    Ok(ExitCode::SUCCESS)
}
