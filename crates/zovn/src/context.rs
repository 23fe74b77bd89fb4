//! `zovn context`: which controllers there are, and as whom they are asked.
//!
//! ```text
//! --context NAME, ZOVN_CONTEXT, or `zovn context use` ─▶ contexts.toml ─▶ RemoteClient
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use api::{Remote, RemoteClient};
use clap::Subcommand;
use logical::objects::Name;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use tls::Own;

use crate::completion::by;
use crate::ending::{Outcome, show};
use crate::table::{headed, text};

const EXAMPLES: &str = "\
Examples:
  zovn context set prod --server https://controller.example:6640 --ca ca.pem --token-file me.token
  zovn context set shop --server https://controller.example:6640 --ca ca.pem --token-file alice.token --tenant shop
  zovn context set prod --server https://controller.example:6640 --ca ca.pem --certificate me.pem --key me.key
  zovn context use shop                      commands ask this one from now on
  zovn context list                          all of them
  zovn whoami --context prod                 another one, this once

They are in ~/.config/zovn/contexts.toml, with the paths of tokens and keys, not with them.";

/// Name controllers, and say as whom they are asked.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Name a controller, in the place of what had the name. The first is used.
    Set(SetArgs),
    /// Have commands ask this one.
    Use(NameArgs),
    /// Show all of them.
    List(ListArgs),
    /// Forget one.
    Remove(NameArgs),
}

#[derive(clap::Args)]
struct SetArgs {
    /// Its name.
    name: String,
    /// Where the controller takes requests: `https://NAME:PORT`, or `http://` on this host.
    #[arg(long, value_name = "URL")]
    server: String,
    /// Those who sign the controller's certificate, as PEM.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The name in that certificate, if it is not the server's.
    #[arg(long, value_name = "NAME", requires = "ca")]
    server_name: Option<String>,
    /// A file with a token, as `zovn controller token create` prints it.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A certificate that one of the controller's `--clients-ca` has signed, as PEM. With a token,
    /// too, the token says who asks.
    #[arg(long, value_name = "FILE", requires_all = ["key", "ca"])]
    certificate: Option<PathBuf>,
    /// The certificate's private key, as PEM.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// The tenant whose objects are meant where none is said.
    #[arg(long, value_name = "NAME")]
    tenant: Option<Name>,
}

#[derive(clap::Args)]
struct NameArgs {
    /// Its name.
    #[arg(add = by(names))]
    name: String,
}

#[derive(clap::Args)]
struct ListArgs {
    /// Print them as JSON.
    #[arg(long)]
    json: bool,
}

/// Which context a command uses.
#[derive(Clone, clap::Args)]
pub struct ContextArgs {
    /// Ask the controller of this context; if nothing is said, of the one that the environment's
    /// ZOVN_CONTEXT names, or else `zovn context use`.
    #[arg(long, value_name = "NAME", id = "context", add = by(names))]
    context: Option<String>,
}

/// Why there is no context.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// Nobody knows where it would be.
    #[error("cannot tell where contexts are: set HOME, or XDG_CONFIG_HOME")]
    Homeless,
    /// The file cannot be read or written.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file has something else.
    #[error("{} has no contexts: mend it, or remove it", path.display())]
    Text {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        source: toml::de::Error,
    },
    /// There is none of this name.
    #[error("there is no context `{0}`: `zovn context list` shows them")]
    Unknown(String),
    /// None is said.
    #[error("no controller is said: name one by `zovn context set NAME --server URL`")]
    None,
    /// A token cannot be read.
    #[error("cannot read the token of context `{name}` in {}: {source}", path.display())]
    Token {
        /// The context.
        name: String,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A controller, and who asks it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Context {
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<Name>,
}

/// What the file has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contexts {
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<String>,
    #[serde(default)]
    contexts: BTreeMap<String, Context>,
}

impl Context {
    /// How connections are encrypted, if they are.
    fn tls(&self) -> Option<tls::Client> {
        let Self { server, ca, server_name, certificate, key, .. } = self.clone();
        let own = certificate.zip(key).map(|(certificate, key)| Own { certificate, key });
        let name = server_name.unwrap_or_else(|| host(&server).to_owned());
        ca.map(|authorities| tls::Client { authorities, name, own })
    }

    /// The controller, with the files as they are now.
    fn asking(&self, name: &str) -> Result<Asking, Box<dyn std::error::Error + Send + Sync>> {
        let tls = self.tls();
        let Self { server, token_file, tenant, .. } = self.clone();
        let token = token_file.map(|path| match fs::read_to_string(&path) {
            Ok(text) => Ok(text.trim().to_owned()),
            Err(source) => Err(ContextError::Token { name: name.into(), path, source }),
        });
        let client = RemoteClient::new(Remote { server, tls, token: token.transpose()? })?;
        Ok(Asking { client, tenant })
    }
}

impl Contexts {
    fn read(path: &Path) -> Result<Self, ContextError> {
        match fs::read_to_string(path) {
            Ok(text) => toml::from_str(&text)
                .map_err(|source| ContextError::Text { path: path.into(), source }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(ContextError::File { path: path.into(), source }),
        }
    }

    /// Writes all, or nothing.
    fn write(&self, path: &Path) -> Result<(), ContextError> {
        let wrong = |source| ContextError::File { path: path.into(), source };
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(wrong)?;
        let text = toml::to_string(self).map_err(|error| wrong(io::Error::other(error)))?;
        let mut file = NamedTempFile::new_in(folder).map_err(wrong)?;
        file.write_all(text.as_bytes()).map_err(wrong)?;
        file.persist(path).map_err(|error| wrong(error.error))?;
        Ok(())
    }

    fn known(&self, name: &str) -> Result<&Context, ContextError> {
        self.contexts.get(name).ok_or_else(|| ContextError::Unknown(name.into()))
    }
}

/// Where contexts are.
fn place() -> Result<PathBuf, ContextError> {
    let of = |variable| std::env::var_os(variable).filter(|it| !it.is_empty()).map(PathBuf::from);
    let folder = of("XDG_CONFIG_HOME").or_else(|| Some(of("HOME")?.join(".config")));
    Ok(folder.ok_or(ContextError::Homeless)?.join("zovn/contexts.toml"))
}

/// The names of contexts, as a shell completes them.
fn names(_: &str) -> Option<Vec<String>> {
    Some(Contexts::read(&place().ok()?).ok()?.contexts.into_keys().collect())
}

/// A controller that is asked.
pub struct Asking {
    /// Its client.
    pub client: RemoteClient,
    /// The tenant that is meant where none is said.
    pub tenant: Option<Name>,
}

impl ContextArgs {
    /// The context of this name, or what is meant where none is said.
    pub const fn named(context: Option<String>) -> Self {
        Self { context }
    }

    /// Whether a context is said here.
    pub const fn is_said(&self) -> bool {
        self.context.is_some()
    }

    /// The controller that is said. `None`: none is.
    pub fn find(&self) -> Result<Option<Asking>, Box<dyn std::error::Error + Send + Sync>> {
        let variable = || std::env::var("ZOVN_CONTEXT").ok().filter(|it| !it.is_empty());
        let said = self.context.clone().or_else(variable);
        let all = match place() {
            Ok(path) => Contexts::read(&path)?,
            Err(_) if said.is_none() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let Some(name) = said.as_ref().or(all.current.as_ref()) else { return Ok(None) };
        Ok(Some(all.known(name)?.asking(name)?))
    }

    /// The controller that is said.
    pub fn asking(&self) -> Result<Asking, Box<dyn std::error::Error + Send + Sync>> {
        self.find()?.ok_or_else(|| ContextError::None.into())
    }
}

impl SetArgs {
    /// What is said, with its name. Commands run anywhere, so each file is named from the root.
    fn context(self) -> io::Result<(String, Context)> {
        let whole = |path: Option<PathBuf>| path.map(std::path::absolute).transpose();
        let context = Context {
            server: self.server,
            ca: whole(self.ca)?,
            server_name: self.server_name,
            token_file: whole(self.token_file)?,
            certificate: whole(self.certificate)?,
            key: whole(self.key)?,
            tenant: self.tenant,
        };
        Ok((self.name, context))
    }
}

/// The host of an address.
fn host(server: &str) -> &str {
    let authority = server.split_once("://").map_or(server, |(_, rest)| rest);
    let authority = authority.split('/').next().unwrap_or_default();
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    host.trim_matches(['[', ']'])
}

/// Changes, or shows, which controllers there are.
pub fn run(args: Args) -> Outcome {
    let path = place()?;
    let mut all = Contexts::read(&path)?;
    match args.command {
        Command::Set(args) => {
            let (name, context) = args.context()?;
            // What no command could use is refused at once.
            context.asking(&name)?;
            context.tls().map_or(Ok(()), |it| it.check())?;
            all.contexts.insert(name.clone(), context);
            all.current.get_or_insert(name);
            all.write(&path)?;
        }
        Command::Use(NameArgs { name }) => {
            all.known(&name)?;
            all.current = Some(name);
            all.write(&path)?;
        }
        Command::Remove(NameArgs { name }) => {
            all.known(&name)?;
            all.contexts.remove(&name);
            all.current.take_if(|it| *it == name);
            all.write(&path)?;
        }
        Command::List(ListArgs { json }) => show(&all, json, || table(&all))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn table(all: &Contexts) -> String {
    let mut table = headed(["", "context", "server", "tenant", "token", "certificate"]);
    for (name, it) in &all.contexts {
        let mark = if all.current.as_ref() == Some(name) { "*" } else { "" };
        let tenant = it.tenant.as_ref().map_or("–", Name::as_str);
        let path = |it: &Option<PathBuf>| match it {
            Some(path) => path.display().to_string(),
            None => "–".into(),
        };
        let (token, certificate) = (path(&it.token_file), path(&it.certificate));
        table.add_row([mark, name, &it.server, tenant, &token, &certificate]);
    }
    text(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_host_is_found() {
        for (server, expected) in [
            ("https://controller.example:6640", "controller.example"),
            ("https://192.0.2.9:6640/", "192.0.2.9"),
            ("https://[2001:db8::1]:6640", "2001:db8::1"),
        ] {
            assert_eq!(host(server), expected);
        }
    }

    #[test]
    fn contexts_are_read_as_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("zovn/contexts.toml");
        assert_eq!(Contexts::read(&path).unwrap(), Contexts::default());
        let context = Context {
            server: "https://a:1".into(),
            ca: Some("/ca".into()),
            server_name: None,
            token_file: Some("/token".into()),
            certificate: Some("/me.pem".into()),
            key: Some("/me.key".into()),
            tenant: "shop".parse().ok(),
        };
        let contexts = BTreeMap::from([("prod".to_owned(), context)]);
        let all = Contexts { current: Some("prod".into()), contexts };
        all.write(&path).unwrap();
        assert_eq!(Contexts::read(&path).unwrap(), all);
        fs::write(&path, "current = 7").unwrap();
        let error = Contexts::read(&path).unwrap_err().to_string();
        assert!(error.ends_with("contexts.toml has no contexts: mend it, or remove it"), "{error}");
    }
}
