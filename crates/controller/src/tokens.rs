//! Tokens: who asks, by a word that only they know; and names of certificates, by a key that only
//! they have.
//!
//! ```text
//! Authorization: Bearer zovn_NAME_SECRET     FOLDER/tokens.json: name, role, SHA-256, end
//! a certificate whose subjectAltName is NAME       the same file: name, role
//! ```
//!
//! A secret has 256 random bits, so a plain digest of it tells nothing. The file is written by
//! `zovn controller token` and `zovn controller certificate`, beside a controller that runs: that
//! one reads it again whenever it has changed. What is not in it is not admitted, so a file that is
//! lost or cannot be read admits nobody. A name is a token's or a certificate's: who has written
//! something is told by it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::fs::{self, File};
use std::future::pending;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use logical::objects::Name;
use rustix::fs::{Uid, fchown};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::access::{Principal, Role};
use crate::audit::record_grant;
use crate::certificate::Shown;
use crate::identity::{hex, random, since_1970};

/// The file, in the controller's folder.
const FILE: &str = "tokens.json";

/// What a token begins with, for those who look for secrets in texts.
const MARK: &str = "zovn";

/// The most bytes of a token: its mark, a name, 64 digits, two signs between them.
const LONGEST: usize = 4 + 63 + 64 + 2;

/// What is said of a certificate that is nobody's, or of several.
const NOBODYS: &str = "the certificate is for no name that is known here: have the operator add it by `zovn controller certificate add NAME`";
const SEVERAL: &str =
    "the certificate is for several names that are known here: show one that is for one of them";

/// How often the file is looked at. So long a token counts after it was revoked.
const PERIOD: Duration = Duration::from_secs(1);

/// A token, without its secret; or a name that certificates are for.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Token {
    /// Who has it.
    #[serde(flatten)]
    pub role: Role,
    #[serde(flatten)]
    proof: Proof,
    /// When it was made, in milliseconds since 1970. A tenant that was made later is another.
    created_ms: u64,
    /// Until when it counts, in seconds since 1970. Absent: as long as the certificate does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
}

/// How who has a name proves it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Proof {
    /// By a secret: its SHA-256, in hexadecimal digits.
    SecretSha256(String),
    /// By a certificate that is for the name. A random number tells this entry from another of the
    /// same name.
    Certificate(String),
}

/// By what somebody is known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Means {
    /// A token.
    Token,
    /// A certificate.
    Certificate,
}

impl Means {
    /// The command by which somebody is known no more, without the name.
    fn undo(self) -> &'static str {
        match self {
            Self::Token => "zovn controller token revoke",
            Self::Certificate => "zovn controller certificate remove",
        }
    }
}

impl fmt::Display for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token => "token",
            Self::Certificate => "certificate",
        })
    }
}

impl Proof {
    /// What no other has.
    fn unique(&self) -> &str {
        let (Self::SecretSha256(unique) | Self::Certificate(unique)) = self;
        unique
    }
}

impl Token {
    /// By what who has this name is known.
    pub fn means(&self) -> Means {
        match self.proof {
            Proof::SecretSha256(_) => Means::Token,
            Proof::Certificate(_) => Means::Certificate,
        }
    }

    /// Whether its end, if it has one, is still to come.
    fn lasts(&self, now: SystemTime) -> bool {
        self.expires.is_none_or(|it| since_1970(now).as_secs() < it)
    }

    /// Who has it.
    fn principal(&self, name: &Name) -> Principal {
        Principal {
            expires: self.expires,
            proof: Some(self.proof.unique().to_owned()),
            since_ms: self.created_ms,
            ..Principal::new(name.as_str(), self.role.clone())
        }
    }
}

/// Tokens and certificates, by name.
pub type Table = BTreeMap<Name, Token>;

/// Why the tokens of a folder cannot be had or changed.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("cannot read {}: have this user own the controller's folder", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// The file has something else.
    #[error("{} is no file of tokens: remove it, and make tokens anew", .0.display())]
    NoTokens(PathBuf, #[source] serde_json::Error),
    /// The file cannot be written.
    #[error("cannot write {}: have this user own the controller's folder", .0.display())]
    Write(PathBuf, #[source] io::Error),
    /// The name is taken.
    #[error(
        "there is a {0} `{1}` already: take another name, or end it by `{undo} {1}`",
        undo = .0.undo()
    )]
    Known(Means, Name),
    /// There is none.
    #[error("there is no {0} `{1}`")]
    Unknown(Means, Name),
    /// No certificate can be for it.
    #[error("no certificate can be for `{0}`: take a name of the DNS, which is no number")]
    NoName(Name),
    /// It was done, and cannot be recorded.
    #[error(
        "cannot record what was done to {0} `{1}`: make room on the disk, and end it by `{undo} {1}`",
        undo = .0.undo()
    )]
    Unrecorded(Means, Name, #[source] io::Error),
}

/// The tokens of a folder.
///
/// # Errors
///
/// [`TokenError`]
pub fn list(folder: &Path) -> Result<Table, TokenError> {
    let path = folder.join(FILE);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Table::new()),
        Err(error) => return Err(TokenError::Read(path, error)),
    };
    serde_json::from_slice(&text).map_err(|error| TokenError::NoTokens(path, error))
}

/// Makes a token that counts for so long. Its text is nowhere else.
///
/// # Errors
///
/// [`TokenError`]
pub fn create(
    folder: &Path,
    name: &Name,
    role: Role,
    lasts: Duration,
    now: SystemTime,
) -> Result<String, TokenError> {
    let secret = hex(&random::<32>());
    let now = since_1970(now);
    let expires = Some(now.saturating_add(lasts).as_secs());
    let created_ms = now.as_millis() as u64;
    let proof = Proof::SecretSha256(sha256(&secret));
    add(folder, name, Token { role, proof, created_ms, expires })?;
    Ok(format!("{MARK}_{name}_{secret}"))
}

/// Has certificates that are for a name admit who shows them, for as long as each of them counts.
///
/// # Errors
///
/// [`TokenError`]
pub fn certify(folder: &Path, name: &Name, role: Role, now: SystemTime) -> Result<(), TokenError> {
    if !tls::can_be_for(name.as_str()) {
        return Err(TokenError::NoName(name.clone()));
    }
    let created_ms = since_1970(now).as_millis() as u64;
    let proof = Proof::Certificate(hex(&random::<16>()));
    add(folder, name, Token { role, proof, created_ms, expires: None })
}

fn add(folder: &Path, name: &Name, token: Token) -> Result<(), TokenError> {
    let (means, grants) = (token.means(), token.role.clone());
    change(folder, |table| match table.get(name) {
        Some(known) => Err(TokenError::Known(known.means(), name.clone())),
        None => {
            table.insert(name.clone(), token);
            Ok(())
        }
    })?;
    record(folder, "create", means, name, &grants)
}

/// Has a token count no more.
///
/// # Errors
///
/// [`TokenError`]
pub fn revoke(folder: &Path, name: &Name) -> Result<(), TokenError> {
    remove(folder, Means::Token, name)
}

/// Has certificates that are for a name admit nobody any more.
///
/// # Errors
///
/// [`TokenError`]
pub fn decertify(folder: &Path, name: &Name) -> Result<(), TokenError> {
    remove(folder, Means::Certificate, name)
}

fn remove(folder: &Path, means: Means, name: &Name) -> Result<(), TokenError> {
    let removed = change(folder, |table| {
        let is_there = table.get(name).is_some_and(|it| it.means() == means);
        let removed = if is_there { table.remove(name) } else { None };
        removed.ok_or_else(|| TokenError::Unknown(means, name.clone()))
    })?;
    record(folder, "revoke", means, name, &removed.role)
}

fn record(
    folder: &Path,
    action: &str,
    means: Means,
    name: &Name,
    grants: &Role,
) -> Result<(), TokenError> {
    let object = match means {
        Means::Token => format!("Token/{name}"),
        Means::Certificate => format!("Certificate/{name}"),
    };
    let recorded = record_grant(folder, action, &object, grants);
    recorded.map_err(|error| TokenError::Unrecorded(means, name.clone(), error))
}

/// Changes the file: whole, or not at all, and one after another. The controller's user can read
/// it, whoever changes it.
fn change<T>(
    folder: &Path,
    change: impl FnOnce(&mut Table) -> Result<T, TokenError>,
) -> Result<T, TokenError> {
    let path = folder.join(FILE);
    let error = |error| TokenError::Write(path.clone(), error);
    store::make_private(folder).map_err(error)?;
    let lock = File::open(folder).map_err(error)?;
    lock.lock().map_err(error)?;
    let mut table = list(folder)?;
    let changed = change(&mut table)?;
    // Files of this kind are their owner's alone: root makes one for the folder's.
    let mut file = NamedTempFile::new_in(folder).map_err(error)?;
    let owner = lock.metadata().map_err(error)?.uid();
    fchown(&file, Some(Uid::from_raw(owner)), None).map_err(|it| error(it.into()))?;
    serde_json::to_writer_pretty(&mut file, &table).map_err(|it| error(it.into()))?;
    file.flush().and_then(|()| file.as_file().sync_all()).map_err(error)?;
    file.persist(&path).map_err(|it| error(it.error))?;
    lock.sync_all().map_err(error)?;
    Ok(changed)
}

fn sha256(secret: &str) -> String {
    hex(digest(&SHA256, secret.as_bytes()).as_ref())
}

/// The tokens that a controller admits.
#[derive(Debug)]
pub struct Tokens {
    folder: PathBuf,
    table: watch::Sender<Arc<Table>>,
}

impl Tokens {
    /// Those of a folder.
    ///
    /// # Errors
    ///
    /// [`TokenError`]
    pub fn open(folder: &Path) -> Result<Self, TokenError> {
        let table = watch::Sender::new(Arc::new(list(folder)?));
        Ok(Self { folder: folder.into(), table })
    }

    /// Whether nobody has one.
    pub fn is_empty(&self) -> bool {
        self.table.borrow().is_empty()
    }

    /// Reads them again.
    ///
    /// # Errors
    ///
    /// [`TokenError`]: nobody is admitted. One of them may have been revoked.
    pub fn reload(&self) -> Result<(), TokenError> {
        let read = list(&self.folder);
        let (table, read) = match read {
            Ok(table) => (table, Ok(())),
            Err(error) => (Table::new(), Err(error)),
        };
        self.table.send_if_modified(|old| {
            let is_other = **old != table;
            if is_other {
                *old = Arc::new(table);
            }
            is_other
        });
        read
    }

    /// Reads them again whenever they change.
    pub async fn follow(&self) -> Infallible {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = None;
        loop {
            ticks.tick().await;
            let failed = self.reload().err().map(|error| error.to_string());
            if let Some(error) = failed.as_ref().filter(|it| told.as_ref() != Some(*it)) {
                tracing::error!(error, "tokens cannot be read: nobody is admitted");
            }
            told = failed;
        }
    }

    /// Whose token a text is, if it counts now. Whether a secret is right takes as long to say as
    /// that it is wrong.
    pub fn admit(&self, text: &str, now: SystemTime) -> Option<Principal> {
        let mut words = Some(text).filter(|it| it.len() <= LONGEST)?.split('_');
        let (mark, name, secret) = (words.next()?, words.next()?, words.next()?);
        if mark != MARK || words.next().is_some() {
            return None;
        }
        let name: Name = name.parse().ok()?;
        let table = Arc::clone(&self.table.borrow());
        let token = table.get(&name)?;
        let Proof::SecretSha256(digest) = &token.proof else { return None };
        verify_slices_are_equal(sha256(secret).as_bytes(), digest.as_bytes()).ok()?;
        let counts = token.expires.is_some() && token.lasts(now);
        counts.then(|| token.principal(&name))
    }

    /// Who shows a certificate that is trusted, by the name that it is for, if that counts now.
    pub fn recognize(
        &self,
        shown: &Arc<Shown>,
        now: SystemTime,
    ) -> Result<Principal, &'static str> {
        let table = Arc::clone(&self.table.borrow());
        let counts = |it: &Token| it.means() == Means::Certificate && it.lasts(now);
        let names = table.iter().filter(|(_, it)| counts(it)).map(|(name, _)| name.as_str());
        let own = shown.chain().first();
        let known = own.map(|it| tls::names_of(it, names)).unwrap_or_default();
        match known.as_slice() {
            [name] => {
                let found = table.iter().find(|(it, _)| it.as_str() == *name);
                let (name, token) = found.ok_or(NOBODYS)?;
                let certificate = Some(Arc::clone(shown));
                Ok(Principal { certificate, ..token.principal(name) })
            }
            [] => Err(NOBODYS),
            [..] => Err(SEVERAL),
        }
    }

    /// Whether the token of somebody who was admitted still counts, or the name of their
    /// certificate is still there.
    pub fn counts(&self, principal: &Principal, now: SystemTime) -> bool {
        let is_over = principal.expires.is_some_and(|it| it <= since_1970(now).as_secs());
        !is_over && has(&self.table.borrow(), principal)
    }

    /// Waits until somebody's token does not count any more: it expires, or it is revoked, or made
    /// anew.
    pub async fn until_gone(&self, principal: &Principal) {
        let end = async {
            let Some(end) = principal.expires.map(Duration::from_secs) else {
                return pending().await;
            };
            sleep(end.saturating_sub(since_1970(SystemTime::now()))).await;
        };
        let mut tables = self.table.subscribe();
        tokio::select! {
            () = end => {}
            _ = tables.wait_for(|table| !has(table, principal)) => {}
        }
    }
}

/// Whether somebody's token is there; another of its name is another.
fn has(table: &Table, principal: &Principal) -> bool {
    let name: Option<Name> = principal.name.parse().ok();
    let token = name.and_then(|it| table.get(&it));
    token.is_some_and(|it| Some(it.proof.unique()) == principal.proof.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn name(name: &str) -> Name {
        name.parse().unwrap()
    }

    #[test]
    fn a_token_counts_until_it_expires_or_is_revoked() {
        let (folder, now) = (tempfile::tempdir().unwrap(), SystemTime::now());
        let role = Role::TenantAdmin { tenant: name("shop") };
        let text = create(folder.path(), &name("alice"), role.clone(), HOUR, now).unwrap();
        let tokens = Tokens::open(folder.path()).unwrap();
        let admitted = tokens.admit(&text, now).unwrap();
        assert_eq!((admitted.name.as_str(), &admitted.role), ("alice", &role));
        assert_eq!(tokens.admit(&text, now + HOUR), None);
        let known = create(folder.path(), &name("alice"), Role::Admin, HOUR, now);
        assert!(matches!(known, Err(TokenError::Known(Means::Token, _))));
        revoke(folder.path(), &name("alice")).unwrap();
        tokens.reload().unwrap();
        assert_eq!(tokens.admit(&text, now), None);
        assert!(matches!(
            revoke(folder.path(), &name("alice")),
            Err(TokenError::Unknown(Means::Token, _))
        ));
        // Another of the same name is another.
        let other = create(folder.path(), &name("alice"), role, HOUR, now).unwrap();
        tokens.reload().unwrap();
        assert_eq!(tokens.admit(&text, now), None);
        assert!(tokens.admit(&other, now).is_some());
    }

    #[test]
    fn who_makes_and_revokes_tokens_is_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let role = Role::TenantAdmin { tenant: name("shop") };
        let text = create(folder.path(), &name("a"), role, HOUR, SystemTime::now()).unwrap();
        revoke(folder.path(), &name("a")).unwrap();
        let lines = fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
        assert!(!lines.contains(text.rsplit('_').next().unwrap()));
        let lines = lines.lines().map(serde_json::from_str::<serde_json::Value>);
        let told: Vec<_> = lines
            .map(|line| line.unwrap())
            .map(|it| (it["action"].clone(), it["object"].clone(), it["grants"]["tenant"].clone()))
            .collect();
        let of = |action: &str| (action.into(), "Token/a".into(), "shop".into());
        assert_eq!(told, [of("create"), of("revoke")]);
    }

    #[test]
    fn a_name_is_a_tokens_or_a_certificates() {
        let (folder, now) = (tempfile::tempdir().unwrap(), SystemTime::now());
        let (folder, both) = (folder.path(), [name("alice"), name("bob")]);
        let role = Role::TenantViewer { tenant: name("shop") };
        let text = create(folder, &both[0], Role::Admin, HOUR, now).unwrap();
        certify(folder, &both[1], role.clone(), now).unwrap();
        let taken = certify(folder, &both[0], Role::Admin, now).unwrap_err().to_string();
        assert!(taken.starts_with("there is a token `alice` already"), "{taken}");
        assert!(taken.contains("`zovn controller token revoke alice`"), "{taken}");
        let taken = create(folder, &both[1], Role::Admin, HOUR, now).unwrap_err().to_string();
        assert!(taken.starts_with("there is a certificate `bob` already"), "{taken}");
        assert!(taken.contains("`zovn controller certificate remove bob`"), "{taken}");
        // Neither is taken for the other, and both are read as they were written.
        let tokens = Tokens::open(folder).unwrap();
        assert!(tokens.admit(&text, now).is_some());
        assert_eq!(tokens.admit(&text.replace("alice", "bob"), now), None);
        let table = list(folder).unwrap();
        assert_eq!((table[&both[1]].means(), &table[&both[1]].role), (Means::Certificate, &role));
        revoke(folder, &both[1]).unwrap_err();
        decertify(folder, &both[0]).unwrap_err();
        decertify(folder, &both[1]).unwrap();
        assert_eq!(list(folder).unwrap().len(), 1);
        certify(folder, &name("7"), Role::Admin, now).unwrap_err();
    }

    #[test]
    fn a_text_that_is_nearly_a_token_is_none() {
        let (folder, now) = (tempfile::tempdir().unwrap(), SystemTime::now());
        let text = create(folder.path(), &name("a"), Role::Admin, HOUR, now).unwrap();
        let tokens = Tokens::open(folder.path()).unwrap();
        let (short, long) = (&text[..text.len() - 1], format!("{text}0"));
        let upper = text.to_uppercase();
        let much = format!("{text}_{}", "0".repeat(1 << 20));
        let other_name = text.replace("_a_", "_b_");
        let of_path = text.replace("_a_", "_../a_");
        for wrong in [short, &long, &upper, &much, &other_name, &of_path, "", "_", "__", "zovn_a_"]
        {
            assert_eq!(tokens.admit(wrong, now), None, "{wrong:.100}");
        }
        assert!(tokens.admit(&text, now).is_some());
    }

    #[test]
    fn the_file_has_no_secret_and_is_its_owners() {
        use std::os::unix::fs::PermissionsExt;
        let (folder, now) = (tempfile::tempdir().unwrap(), SystemTime::now());
        let text = create(folder.path(), &name("a"), Role::Admin, HOUR, now).unwrap();
        let (path, secret) = (folder.path().join(FILE), text.rsplit('_').next().unwrap());
        assert!(!fs::read_to_string(&path).unwrap().contains(secret));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_is_lost_or_cannot_be_read_admits_nobody() {
        let (folder, now) = (tempfile::tempdir().unwrap(), SystemTime::now());
        let text = create(folder.path(), &name("a"), Role::Admin, HOUR, now).unwrap();
        let path = folder.path().join(FILE);
        let whole = fs::read(&path).unwrap();
        let tokens = Tokens::open(folder.path()).unwrap();
        let somebody = tokens.admit(&text, now).unwrap();
        fs::write(&path, "{").unwrap();
        assert!(matches!(tokens.reload(), Err(TokenError::NoTokens(..))));
        assert_eq!(tokens.admit(&text, now), None);
        assert!(!tokens.counts(&somebody, now));
        fs::write(&path, whole).unwrap();
        tokens.reload().unwrap();
        assert!(tokens.counts(&somebody, now) && !tokens.counts(&somebody, now + HOUR));
        fs::remove_file(&path).unwrap();
        tokens.reload().unwrap();
        assert_eq!(tokens.admit(&text, now), None);
        // A folder is no file that can be read.
        fs::create_dir(&path).unwrap();
        assert!(matches!(tokens.reload(), Err(TokenError::Read(..))));
        assert_eq!(tokens.admit(&text, now), None);
    }

    #[test]
    fn the_file_is_the_folders_owners_whoever_changes_it() {
        let folder = tempfile::tempdir().unwrap();
        // Only root can give a folder away; anybody else owns it.
        let owner = fs::metadata(folder.path()).unwrap().uid();
        let owner = if owner == 0 { 65_534 } else { owner };
        std::os::unix::fs::chown(folder.path(), Some(owner), None).unwrap();
        create(folder.path(), &name("a"), Role::Admin, HOUR, SystemTime::now()).unwrap();
        assert_eq!(fs::metadata(folder.path().join(FILE)).unwrap().uid(), owner);
        let new = folder.path().join("new");
        create(&new, &name("a"), Role::Admin, HOUR, SystemTime::now()).unwrap();
        assert_eq!(fs::metadata(new).unwrap().mode() & 0o777, 0o700);
    }
}
