//! Certificates and keys, in files.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;

/// Why there is no encrypted connection.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: have it be there, for this user to read", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// A file has no certificates.
    #[error("{} has no certificate: write it as PEM, the end's own first", .0.display())]
    NoCertificate(PathBuf),
    /// A file has no key.
    #[error("{} has no private key: write it as PEM, not encrypted", .0.display())]
    NoKey(PathBuf),
    /// A file has what is neither.
    #[error("{} is no PEM file", .0.display())]
    NoPem(PathBuf, #[source] pem::Error),
    /// A certificate cannot be used.
    #[error("{} cannot be used: make a certificate of version 3 for the key beside it", .0.display())]
    Unusable(PathBuf, #[source] rustls::Error),
    /// A name is none that a certificate could have.
    #[error("`{0}` is neither a name of the DNS nor an address")]
    Name(String),
    /// Both ends do not agree.
    #[error(
        "no encrypted connection: the other end has another certificate, or does not speak TLS 1.3"
    )]
    Handshake(#[source] io::Error),
}

/// Files that prove who one is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Own {
    /// The certificate, and those between it and who is trusted.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Own {
    /// What the files have.
    pub(crate) fn read(&self) -> Result<Pair, TlsError> {
        let chain = certificates(&self.certificate)?;
        let key = match PrivateKeyDer::from_pem_slice(&read(&self.key)?) {
            Ok(key) => key,
            Err(pem::Error::NoItemsFound) => return Err(TlsError::NoKey(self.key.clone())),
            Err(error) => return Err(TlsError::NoPem(self.key.clone(), error)),
        };
        Ok((chain, key))
    }
}

/// A certificate, with those that it leads by; and its key.
pub(crate) type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// The certificates of a file: one at least.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let all = all.map_err(|error| TlsError::NoPem(path.into(), error))?;
    if all.is_empty() {
        return Err(TlsError::NoCertificate(path.into()));
    }
    Ok(all)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|error| TlsError::Read(path.into(), error))
}

/// Who may sign certificates, by a file.
pub(crate) fn authorities(path: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for one in certificates(path)? {
        roots.add(one).map_err(|error| TlsError::Unusable(path.into(), error))?;
    }
    Ok(Arc::new(roots))
}

/// The algorithms.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// What tells one version of a file from another. `None`: there is none that can be read.
pub(crate) type Stamp = Option<(u64, u64, i64, i64)>;

pub(crate) fn stamp(path: &Path) -> Stamp {
    let data = fs::metadata(path).ok()?;
    Some((data.ino(), data.size(), data.mtime(), data.mtime_nsec()))
}

/// Whether a certificate is for a name, as one of its `subjectAltName`s says (RFC 6125). Who has
/// signed it is another question.
pub fn is_for(certificate: &CertificateDer<'_>, name: &str) -> bool {
    !names_of(certificate, [name]).is_empty()
}

/// Those of these names that a certificate is for, as [`is_for`] says of each.
pub fn names_of<'n>(
    certificate: &CertificateDer<'_>,
    names: impl IntoIterator<Item = &'n str>,
) -> Vec<&'n str> {
    let Ok(parsed) = ParsedCertificate::try_from(certificate) else { return Vec::new() };
    let is_for = |name: &&str| {
        let name = ServerName::try_from(*name);
        name.is_ok_and(|it| verify_server_name(&parsed, &it).is_ok())
    };
    names.into_iter().filter(is_for).collect()
}

/// Whether a certificate can be for a name at all.
pub fn can_be_for(name: &str) -> bool {
    ServerName::try_from(name).is_ok()
}
