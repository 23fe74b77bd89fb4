//! Connections that are encrypted, between ends that prove who they are: TLS 1.3 (RFC 8446) alone.
//!
//! Certificates and keys are PEM files (RFC 7468). Whoever listens reads them again when they have
//! changed, and whoever connects reads them each time: no end has to start anew for a certificate
//! that is renewed.

#![forbid(unsafe_code)]

mod client;
mod files;
mod server;
#[cfg(any(test, feature = "sign"))]
pub mod sign;
#[cfg(test)]
mod tests;

pub use client::{Client, ClientStream};
pub use files::{Own, TlsError, can_be_for, is_for, names_of};
pub use rustls::pki_types::CertificateDer;
pub use server::{Chain, Server, ServerStream, shown};

/// What is spoken over a connection (RFC 7301).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, as gRPC needs it.
    Http2,
}

impl Protocol {
    fn names(self) -> Vec<Vec<u8>> {
        let name: &[u8] = match self {
            Self::Http1 => b"http/1.1",
            Self::Http2 => b"h2",
        };
        vec![name.to_vec()]
    }
}
