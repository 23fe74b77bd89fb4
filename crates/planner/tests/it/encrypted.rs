//! Schedulers that ask by TLS, and show who they are.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use planner::serve::Encryption;
use serde_json::{Value, json};
use tls::sign::Authority;
use tls::{Client, Protocol};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::desk::{PLAN, Server};

const ASKED: &str = r#"{"spec": {"flavor": {"vcpus": 1, "memory_mb": 1}}, "hosts": ["n1", "n4"]}"#;

/// A connection over which one asks.
struct Asker(SendRequest<Full<Bytes>>);

impl Asker {
    async fn over<S>(stream: S) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        // It ends with its sender.
        drop(tokio::spawn(connection));
        Self(sender)
    }

    /// `None`: the server, or the client, does not want the other.
    async fn connect(address: SocketAddr, client: &Client) -> Option<Self> {
        let stream = TcpStream::connect(address).await.unwrap();
        let stream = client.connect(stream, Protocol::Http1).await.ok()?;
        Some(Self::over(stream).await)
    }

    /// The status and the body of an answer, if there is one.
    async fn ask(&mut self) -> Option<(u16, Value)> {
        let request = Request::post("/v1/plan/hosts").header(header::HOST, "a");
        let request = request.body(Full::new(Bytes::from(ASKED))).unwrap();
        let answer = self.0.send_request(request).await.ok()?;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.ok()?.to_bytes();
        Some((status, serde_json::from_slice(&body).unwrap()))
    }
}

#[tokio::test]
async fn questions_come_encrypted_and_the_certificate_may_be_renewed() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let own = ours.sign("one.example");
    let encryption = Encryption { own: own.clone(), clients: None };
    let server = Server::encrypted(PLAN, encryption);
    let (one, other) = (ours.client("one.example", None), ours.client("other.example", None));
    let mut asker = Asker::connect(server.address, &one).await.unwrap();
    let (status, answer) = asker.ask().await.unwrap();
    assert_eq!((status, &answer["hosts"]), (200, &json!(["n4"])), "{answer}");
    for stranger in [&other, &theirs.client("one.example", None)] {
        assert!(Asker::connect(server.address, stranger).await.is_none());
    }
    let plain = TcpStream::connect(server.address).await.unwrap();
    assert!(Asker::over(plain).await.ask().await.is_none());

    let renewed = ours.sign("other.example");
    fs::copy(&renewed.certificate, &own.certificate).unwrap();
    fs::copy(&renewed.key, &own.key).unwrap();
    while Asker::connect(server.address, &other).await.is_none() {
        sleep(Duration::from_millis(20)).await;
    }
    assert!(Asker::connect(server.address, &one).await.is_none());
    // Who has connected before is answered on.
    assert_eq!(asker.ask().await.unwrap().0, 200);
}

#[tokio::test]
async fn clients_show_certificates_as_long_as_these_count() {
    let (ours, others) = (Authority::new(), Authority::new());
    let clients = ours.path("clients");
    fs::copy(ours.path("ca"), &clients).unwrap();
    let encryption = Encryption { own: ours.sign("127.0.0.1"), clients: Some(clients.clone()) };
    let server = Server::encrypted(PLAN, encryption);
    let client = |own| ours.client("127.0.0.1", own);

    let mut nobody = Asker::connect(server.address, &client(None)).await.unwrap();
    let (status, answer) = nobody.ask().await.unwrap();
    let detail = answer["detail"].as_str().unwrap();
    assert!(status == 403 && detail.contains("the client shows no certificate"), "{answer}");
    // It keeps no connection with that.
    assert_eq!(nobody.ask().await, None);
    // One of another authority is refused before anything is asked.
    let stranger = client(Some(others.sign("scheduler.example")));
    if let Some(mut stranger) = Asker::connect(server.address, &stranger).await {
        assert_eq!(stranger.ask().await, None);
    }
    let known = client(Some(ours.sign("scheduler.example")));
    let mut known = Asker::connect(server.address, &known).await.unwrap();
    assert_eq!(known.ask().await.unwrap().0, 200);

    // The authority signs no more: open connections are not answered either.
    fs::copy(others.path("ca"), &clients).unwrap();
    let mut status = 200;
    while status == 200 {
        sleep(Duration::from_millis(20)).await;
        status = known.ask().await.unwrap().0;
    }
    assert_eq!(status, 403);
    assert_eq!(known.ask().await, None);
}
