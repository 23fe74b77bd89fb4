//! The end that connects.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls::version::TLS13;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use crate::Protocol;
use crate::files::{Own, TlsError, authorities, provider};

/// An encrypted connection to somebody.
pub type ClientStream<S> = tokio_rustls::client::TlsStream<S>;

/// Who connects, by its files.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Client {
    /// Those who sign the other end's certificate.
    pub authorities: PathBuf,
    /// The name or the address that the other end's certificate is for.
    pub name: String,
    /// What proves who one is, if the other end asks.
    pub own: Option<Own>,
}

impl Client {
    /// Makes a connection an encrypted one, with the files as they are now.
    ///
    /// # Errors
    ///
    /// The files cannot be used, or the other end is not who it is to be.
    pub async fn connect<S>(
        &self,
        stream: S,
        protocol: Protocol,
    ) -> Result<ClientStream<S>, TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = ServerName::try_from(self.name.clone());
        let name = name.map_err(|_| TlsError::Name(self.name.clone()))?;
        let connector = TlsConnector::from(self.config(protocol)?);
        connector.connect(name, stream).await.map_err(TlsError::Handshake)
    }

    /// Whether the files can be used, as they are now.
    ///
    /// # Errors
    ///
    /// They cannot be read, or are no certificates and keys.
    pub fn check(&self) -> Result<(), TlsError> {
        self.config(Protocol::Http1).map(drop)
    }

    fn config(&self, protocol: Protocol) -> Result<Arc<ClientConfig>, TlsError> {
        let roots = authorities(&self.authorities)?;
        let builder = ClientConfig::builder_with_provider(provider());
        let unusable = |error| TlsError::Unusable(self.authorities.clone(), error);
        let builder = builder.with_protocol_versions(&[&TLS13]).map_err(unusable)?;
        let builder = builder.with_root_certificates(roots);
        let mut config = match &self.own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let (chain, key) = own.read()?;
                let unusable = |error| TlsError::Unusable(own.certificate.clone(), error);
                builder.with_client_auth_cert(chain, key).map_err(unusable)?
            }
        };
        config.alpn_protocols = protocol.names();
        Ok(Arc::new(config))
    }
}
