//! Who is let in: those that a token or a certificate names, agents that prove which node they are,
//! or everybody.
//!
//! ```text
//! Authorization ─────────────▶ token ─────────┐
//!   none: TLS ─▶ certificate ─▶ its one name ─┴▶ tokens.json ─▶ Principal
//! ```

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::http::{HeaderMap, header};
use logical::objects::Name;
use southbound::{Admit, Credentials};
use tls::Server;
use tokio::time::sleep;

use crate::access::{Principal, Role};
use crate::certificate::Shown;
use crate::problem::Refusal;
use crate::tokens::Tokens;

/// What is said of a token that is none.
const NO_TOKEN: &str = "this is no token that counts: it is misspelt, has expired, or was revoked";

/// What is said of a certificate that was trusted when its connection began.
const NO_CERTIFICATE: &str =
    "the certificate has expired, or its signer is not trusted any more: connect with another";

/// What is said to who says nothing, or says it twice.
const SAY: &str = "say who you are, once: `Authorization: Bearer TOKEN`";
const SAY_OR_SHOW: &str = "say who you are, once: `Authorization: Bearer TOKEN`, or connect with a certificate that the controller's `--clients-ca` has signed";

/// How often a certificate is looked at again while somebody watches or waits.
const PERIOD: Duration = Duration::from_secs(5);

/// Whom a controller answers.
#[derive(Debug)]
pub enum Door {
    /// Everybody, as the operator.
    Open,
    /// Those who are known here.
    Known {
        /// By which they are.
        tokens: Tokens,
        /// The end that asks for certificates, if who asks may have one instead of a token.
        clients: Option<Arc<Server>>,
    },
}

impl Door {
    /// Who asks, by these headers, or else by the certificate of the connection. A token is said
    /// with each request, so it counts before what the connection has; one that does not count is
    /// refused, whatever certificate there is.
    pub(crate) fn admit(
        &self,
        headers: &HeaderMap,
        shown: Option<&Arc<Shown>>,
    ) -> Result<Principal, Refusal> {
        let Self::Known { tokens, clients } = self else {
            return Ok(Principal::new("anybody", Role::Admin));
        };
        let mut said = headers.get_all(header::AUTHORIZATION).iter();
        // Of several, somebody before us may have looked at another.
        match (said.next(), said.next(), shown, clients) {
            (Some(one), None, ..) => {
                let admitted = one.to_str().ok().and_then(|it| bearer(tokens, it));
                admitted.ok_or_else(|| Refusal::unauthenticated(NO_TOKEN))
            }
            (None, None, Some(shown), Some(clients)) => match shown.is_trusted(clients) {
                true => {
                    let known = tokens.recognize(shown, SystemTime::now());
                    known.map_err(Refusal::unauthenticated)
                }
                false => Err(Refusal::unauthenticated(NO_CERTIFICATE)),
            },
            (.., None) => Err(Refusal::unauthenticated(SAY)),
            (.., Some(_)) => Err(Refusal::unauthenticated(SAY_OR_SHOW)),
        }
    }

    /// Whether somebody who was let in would be so now.
    pub fn admits(&self, principal: &Principal) -> bool {
        match self {
            Self::Open => true,
            Self::Known { tokens, clients } => {
                tokens.counts(principal, SystemTime::now()) && trusts(clients.as_deref(), principal)
            }
        }
    }

    /// Learns of tokens that come and go.
    pub async fn follow(&self) -> Infallible {
        match self {
            Self::Open => pending().await,
            Self::Known { tokens, .. } => tokens.follow().await,
        }
    }

    /// Waits until somebody would not be let in any more.
    pub async fn until_gone(&self, principal: &Principal) {
        match self {
            Self::Open => pending().await,
            Self::Known { tokens, clients } => tokio::select! {
                () = tokens.until_gone(principal) => {}
                () = until_distrusted(clients.as_deref(), principal) => {}
            },
        }
    }
}

/// Whether the certificate of somebody who was let in by one is to be trusted now.
fn trusts(clients: Option<&Server>, principal: &Principal) -> bool {
    let shown = principal.certificate.as_ref();
    shown.is_none_or(|shown| clients.is_some_and(|it| shown.is_trusted(it)))
}

/// Waits until it is not any more. Of who has none, for ever.
async fn until_distrusted(clients: Option<&Server>, principal: &Principal) {
    if principal.certificate.is_none() {
        return pending().await;
    }
    while trusts(clients, principal) {
        sleep(PERIOD).await;
    }
}

/// Whose token an `Authorization` has.
fn bearer(tokens: &Tokens, authorization: &str) -> Option<Principal> {
    let (scheme, text) = authorization.split_once(' ')?;
    let is_bearer = scheme.eq_ignore_ascii_case("bearer");
    tokens.admit(text.trim(), SystemTime::now()).filter(|_| is_bearer)
}

/// Which agents a controller tells what to execute.
#[derive(Debug)]
pub enum Nodes {
    /// Each is the node that it says.
    Open,
    /// Those that prove which node they are: by a token of it, or by a certificate.
    Proven(Arc<Door>),
}

impl Nodes {
    /// The tokens by which agents are known. `None`: they are not asked.
    fn tokens(&self) -> Option<&Tokens> {
        match self {
            Self::Open => None,
            Self::Proven(door) => match &**door {
                Door::Open => None,
                Door::Known { tokens, .. } => Some(tokens),
            },
        }
    }
}

/// The node that somebody is by a token.
fn node_of(tokens: &Tokens, authorization: &str) -> Result<Name, String> {
    match bearer(tokens, authorization).map(|it| it.role) {
        Some(Role::Node { node }) => Ok(node),
        Some(_) => Err("the agent's token is not of role `node`".into()),
        None => Err(NO_TOKEN.into()),
    }
}

impl Admit for Nodes {
    fn know(&self, shown: &Credentials) -> Result<(), String> {
        match (self.tokens(), &shown.authorization) {
            (None, _) => Ok(()),
            (Some(_), _) if shown.certificate.is_some() => Ok(()),
            (Some(tokens), Some(authorization)) => node_of(tokens, authorization).map(drop),
            (Some(_), None) => Err("the agent shows neither a token nor a certificate".into()),
        }
    }

    fn admit(&self, node: &str, shown: &Credentials) -> Result<(), String> {
        let Some(tokens) = self.tokens() else { return Ok(()) };
        // Of several spellings of a name in a certificate one is a node's.
        let node: Name = node.parse().map_err(|_| format!("no node is called `{node}`"))?;
        if shown.certificate.as_ref().is_some_and(|it| tls::is_for(it, node.as_str())) {
            return Ok(());
        }
        let Some(authorization) = &shown.authorization else {
            return Err(format!(
                "the agent of `{node}` shows neither a token nor a certificate of it"
            ));
        };
        match node_of(tokens, authorization)? {
            own if own == node => Ok(()),
            own => Err(format!("the agent of `{node}` shows a token of `{own}`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::create;

    #[test]
    fn an_agent_is_admitted_as_the_node_of_its_token_and_as_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let name = |it: &str| it.parse().unwrap();
        let token = |who: &str, role| {
            let hour = Duration::from_secs(3600);
            create(folder.path(), &name(who), role, hour, SystemTime::now()).unwrap()
        };
        let one = token("one", Role::Node { node: name("h1") });
        let admin = token("me", Role::Admin);
        let tokens = Tokens::open(folder.path()).unwrap();
        let door = Arc::new(Door::Known { tokens, clients: None });
        let admit = |nodes: &Nodes, node: &str, said: Option<&str>| {
            let authorization = said.map(ToOwned::to_owned);
            nodes.admit(node, &Credentials { authorization, certificate: None })
        };
        let nodes = Nodes::Proven(door);
        let bearer = format!("Bearer {one}");
        assert_eq!(admit(&nodes, "h1", Some(&bearer)), Ok(()));
        let know = |authorization: Option<&String>| {
            nodes.know(&Credentials { authorization: authorization.cloned(), certificate: None })
        };
        assert_eq!(know(Some(&bearer)), Ok(()));
        know(Some(&format!("Bearer {admin}"))).unwrap_err();
        know(None).unwrap_err();
        for (node, said, problem) in [
            ("h2", Some(bearer.as_str()), "the agent of `h2` shows a token of `h1`"),
            ("H1", Some(bearer.as_str()), "no node is called"),
            ("h1", Some(&*format!("Bearer {admin}")), "not of role `node`"),
            ("h1", Some(&*format!("Basic {one}")), "no token that counts"),
            ("h1", Some("Bearer"), "no token that counts"),
            ("h1", None, "neither a token"),
        ] {
            let refused = admit(&nodes, node, said).unwrap_err();
            assert!(refused.contains(problem), "{refused}");
        }
        for open in [Nodes::Open, Nodes::Proven(Arc::new(Door::Open))] {
            assert_eq!(admit(&open, "h1", None), Ok(()));
        }
    }
}
