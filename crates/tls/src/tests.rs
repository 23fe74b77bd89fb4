//! Both ends over a connection in memory, with certificates that are signed here.

use std::fs;
use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use crate::sign::Authority;
use crate::{Chain, Client, Own, Protocol, Server, TlsError, is_for, names_of, shown};

/// What both ends say of a connection: the client's certificate, and whether words get through.
async fn meet(server: &Server, client: &Client) -> Result<Option<Chain>, TlsError> {
    let (one, other) = duplex(4096);
    let (accepted, connected) =
        tokio::join!(server.accept(one), client.connect(other, Protocol::Http2));
    let (mut accepted, mut connected) = (accepted?, connected?);
    connected.write_all(b"hello").await.unwrap();
    connected.flush().await.unwrap();
    let mut heard = [0; 5];
    accepted.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"hello");
    Ok(shown(&accepted))
}

fn server(own: Own, clients: Option<&Path>) -> Server {
    Server::open(own, clients.map(Into::into), Protocol::Http2).unwrap()
}

#[tokio::test]
async fn ends_that_trust_each_other_meet_and_no_others() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let (host, ca) = (ours.sign("h1.example"), ours.path("ca"));
    let server = server(ours.sign("127.0.0.1"), Some(&ca));
    assert_eq!(meet(&server, &ours.client("127.0.0.1", None)).await.unwrap(), None);
    let certified = meet(&server, &ours.client("127.0.0.1", Some(host))).await.unwrap();
    let certified = certified.expect("the client has one");
    assert!(server.trusts(&certified) && !server.trusts(&[]));
    let certified = &certified[0];
    assert!(is_for(certified, "h1.example"));
    assert_eq!(names_of(certified, ["h2", "h1.example", ""]), ["h1.example"]);
    assert!(["h2.example", "", "*", "example"].iter().all(|name| !is_for(certified, name)));
    for stranger in [
        ours.client("127.0.0.2", None),
        theirs.client("127.0.0.1", None),
        ours.client("127.0.0.1", Some(theirs.sign("h1.example"))),
        ours.client("127.0.0.1", Some(ours.sign_expired("h3.example"))),
    ] {
        meet(&server, &stranger).await.unwrap_err();
    }
}

#[tokio::test]
async fn who_signs_no_more_is_not_trusted_any_more() {
    let (ours, others) = (Authority::new(), Authority::new());
    let (host, ca) = (ours.sign("h1.example"), ours.path("ca"));
    let server = server(ours.sign("127.0.0.1"), Some(&ca));
    let client = ours.client("127.0.0.1", Some(host));
    let certified = meet(&server, &client).await.unwrap().expect("the client has one");
    assert!(server.trusts(&certified));
    server.look();
    assert_eq!(server.version(), 0);
    let own = fs::read(&ca).unwrap();
    fs::copy(others.path("ca"), &ca).unwrap();
    server.look();
    assert_eq!(server.version(), 1);
    assert!(!server.trusts(&certified));
    // The client trusts the server still.
    fs::write(ours.path("kept"), own).unwrap();
    let client = Client { authorities: ours.path("kept"), ..client };
    meet(&server, &client).await.unwrap_err();
}

#[tokio::test]
async fn a_certificate_that_is_renewed_is_used_without_a_new_start() {
    let ours = Authority::new();
    let own = ours.sign("one.example");
    let server = server(own.clone(), None);
    let other = ours.sign("other.example");
    fs::copy(&other.certificate, &own.certificate).unwrap();
    server.look();
    // Its key is not there yet: what was read before stays.
    meet(&server, &ours.client("one.example", None)).await.unwrap();
    fs::copy(&other.key, &own.key).unwrap();
    server.look();
    meet(&server, &ours.client("other.example", None)).await.unwrap();
    meet(&server, &ours.client("one.example", None)).await.unwrap_err();
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let ours = Authority::new();
    let own = ours.sign("one.example");
    let without = |certificate: &Path, key: &Path| {
        let own = Own { certificate: certificate.into(), key: key.into() };
        Server::open(own, None, Protocol::Http1).unwrap_err().to_string()
    };
    let other = ours.sign("other.example");
    fs::write(ours.path("empty"), "").unwrap();
    for (error, problem) in [
        (without(&ours.path("none"), &own.key), "cannot read"),
        (without(&ours.path("empty"), &own.key), "empty has no certificate"),
        (without(&own.certificate, &ours.path("empty")), "empty has no private key"),
        (without(&own.certificate, &other.key), "one.example cannot be used"),
    ] {
        assert!(error.contains(problem), "{error}");
    }
}
