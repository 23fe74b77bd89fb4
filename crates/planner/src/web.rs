//! Asks others over plain HTTP, with a bound on how long and how much.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Where somebody is asked: `http://host:port/path`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Address {
    /// Host and port.
    authority: String,
    /// What stands before each path, without a slash at its end.
    prefix: String,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        if word.starts_with("https:") {
            return Err("HTTPS is not spoken here: name a proxy on this host by http://".into());
        }
        let rest = word.strip_prefix("http://").unwrap_or(word);
        let (authority, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.rsplit_once(':') {
            // An IPv6 address without a port ends with its bracket.
            Some((host, port)) if !port.ends_with(']') => (host, port.parse::<u16>().ok()),
            _ => (authority, Some(80)),
        };
        let is_plain = |it: &str| it.bytes().all(|byte| byte.is_ascii_graphic());
        let Some(port) = port.filter(|_| !host.is_empty() && is_plain(rest)) else {
            return Err(format!("`{word}` is no address: write it as http://192.0.2.1:9090"));
        };
        let prefix = prefix.trim_end_matches('/').to_owned();
        Ok(Self { authority: format!("{host}:{port}"), prefix })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.prefix)
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// Nobody is there.
    #[error("cannot reach {address}: see that it listens there")]
    Unreachable {
        /// Where.
        address: Address,
        /// Why.
        source: std::io::Error,
    },
    /// It breaks off, or says too much.
    #[error("{address} does not answer with a page of at most {limit} bytes")]
    Broken {
        /// Where.
        address: Address,
        /// The longest page.
        limit: usize,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It takes too long.
    #[error("{address} does not answer within {} s", patience.as_secs())]
    Late {
        /// Where.
        address: Address,
        /// How long is waited.
        patience: Duration,
    },
}

/// The answer to a request of a path, with what stands behind it.
pub async fn get(
    address: &Address,
    path: &str,
    limit: usize,
    patience: Duration,
) -> Result<(StatusCode, Bytes), WebError> {
    let late = |_| WebError::Late { address: address.clone(), patience };
    timeout(patience, ask(address, path, limit)).await.map_err(late)?
}

async fn ask(address: &Address, path: &str, limit: usize) -> Result<(StatusCode, Bytes), WebError> {
    let broken = |source: Box<dyn std::error::Error + Send + Sync>| WebError::Broken {
        address: address.clone(),
        limit,
        source,
    };
    let stream = TcpStream::connect(&address.authority)
        .await
        .map_err(|source| WebError::Unreachable { address: address.clone(), source })?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|it| broken(it.into()))?;
    let request = Request::get(format!("{}{path}", address.prefix))
        .header(header::HOST, &address.authority)
        .body(Empty::<Bytes>::new())
        .map_err(|it| broken(it.into()))?;
    let exchange = async {
        let answer = sender.send_request(request).await.map_err(|it| broken(it.into()))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), limit).collect().await.map_err(broken)?;
        Ok((status, body.to_bytes()))
    };
    tokio::pin!(connection);
    tokio::pin!(exchange);
    // A connection that ends early leaves what it has read; the exchange knows whether it is whole.
    tokio::select! {
        answer = &mut exchange => answer,
        _ = &mut connection => exchange.await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_host_port_and_prefix() {
        let read = |word: &str| word.parse::<Address>().map(|it| it.to_string());
        assert_eq!(read("http://p.example:9090/"), Ok("http://p.example:9090".into()));
        assert_eq!(read("[::1]:9/a/b"), Ok("http://[::1]:9/a/b".into()));
        assert_eq!(read("http://[::1]"), Ok("http://[::1]:80".into()));
        for word in ["", "http://", ":9", "a:b", "a:70000", "a b:1", "a:1/\r\nx"] {
            assert!(read(word).unwrap_err().contains("is no address"), "{word}");
        }
        assert!(read("https://a").unwrap_err().contains("HTTPS is not spoken here"));
    }
}
