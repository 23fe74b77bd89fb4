//! Certificates for tests and measurements: an authority of its own signs them.

use std::fs;
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use tempfile::TempDir;

use crate::{Client, Own};

/// Who signs certificates into a folder.
#[derive(Debug)]
pub struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new one.
    ///
    /// # Panics
    ///
    /// There is no room for its files.
    #[expect(clippy::new_without_default, reason = "each is another")]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key can be made");
        let own = params.self_signed(&key).expect("it signs itself");
        fs::write(folder.path().join("ca"), own.pem()).expect("a file can be written");
        Self { folder, issuer: Issuer::new(params, key) }
    }

    /// A file of the folder; `ca` is the authority's own certificate.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Signs for a name, and says which files that made.
    ///
    /// # Panics
    ///
    /// No certificate has such a name.
    pub fn sign(&self, name: &str) -> Own {
        self.sign_all(name, &[name])
    }

    /// Signs for several names, into a file of this name.
    ///
    /// # Panics
    ///
    /// No certificate has such names.
    pub fn sign_all(&self, file: &str, names: &[&str]) -> Own {
        let names: Vec<_> = names.iter().map(|it| (*it).to_owned()).collect();
        self.write(file, &CertificateParams::new(names).expect("a certificate has the names"))
    }

    /// Signs for a name what has expired long ago.
    ///
    /// # Panics
    ///
    /// No certificate has such a name.
    pub fn sign_expired(&self, name: &str) -> Own {
        let params = CertificateParams::new([name.to_owned()]);
        let mut params = params.expect("a certificate has the name");
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
        self.write(name, &params)
    }

    /// Signs for a name that the certificate's subject has, too. OpenSSL takes a certificate whose
    /// subject is its issuer's for one that has signed itself.
    ///
    /// # Panics
    ///
    /// No certificate has such a name.
    pub fn sign_subject(&self, name: &str) -> Own {
        let params = CertificateParams::new([name.to_owned()]);
        let mut params = params.expect("a certificate has the name");
        params.distinguished_name.push(DnType::CommonName, name);
        self.write(name, &params)
    }

    fn write(&self, name: &str, params: &CertificateParams) -> Own {
        let key = KeyPair::generate().expect("a key can be made");
        let signed = params.signed_by(&key, &self.issuer).expect("it is signed");
        let own = Own { certificate: self.path(name), key: self.path(&format!("{name}.key")) };
        fs::write(&own.certificate, signed.pem()).expect("a file can be written");
        fs::write(&own.key, key.serialize_pem()).expect("a file can be written");
        own
    }

    /// Who connects to somebody of this name, and trusts the authority.
    pub fn client(&self, name: &str, own: Option<Own>) -> Client {
        Client { authorities: self.path("ca"), name: name.into(), own }
    }
}
