//! `tutti fleet cert`: certificates for all nodes of a fleet.
//!
//! They are encrypted and decrypted on the user's machine: the store never has a key, and keys are not printed.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Subcommand;
use serde_json::{Value, json};
use tutti_fleet_store::etcd::LONGEST_TEXT;
use tutti_fleet_store::keys::{CERTIFICATES, CHAINS, LOCKS, STATE};
use tutti_fleet_store::seal::{SealingKeys, new_key};
use tutti_fleet_store::store::{Entries, StoreEntry};
use tutti_options::source::is_certificate_name;
use tutti_options::visible;
use tutti_tls::Bundle;

use super::arguments::OutputArguments;
use super::store_access::{Fleet, StoreArguments, failed};
use crate::input::read;
use crate::report::{CommandError, say};
use crate::style;

/// The name of an automatic certificate's document begins with this, after the digest of its authority.
const DOCUMENT: &str = ".certificate-";

/// Maximum checks of a certificate that a node is working on, and the pause between them.
const LOOKS: u32 = 60;
const LOOK: Duration = Duration::from_millis(500);

/// Attempts if another client writes at the same moment.
const ATTEMPTS: usize = 10;

#[derive(Subcommand)]
pub(super) enum CertificateCommand {
    /// List the certificates with their expiry dates and host names
    List {
        #[command(flatten)]
        output: OutputArguments,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Give all nodes a certificate with its chain and key, or replace one
    Put {
        /// Name, as used in `tls` of a listener
        name: String,
        /// PEM files: the certificate, its chain and its key, in one file or several (`-`: standard input)
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Remove a certificate from all nodes that do not use it; a new automatic one is ordered if it is in use
    Delete {
        /// Name of the certificate
        name: String,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Encrypt everything again with the first key of the secret file, so that the others can be removed
    Rekey {
        #[command(flatten)]
        store: StoreArguments,
    },
}

pub(super) async fn run(command: &CertificateCommand) -> Result<ExitCode, CommandError> {
    match command {
        CertificateCommand::List { output, store } => list(&Fleet::new(store)?, output.json).await,
        CertificateCommand::Put { name, files, store } => {
            put(&Fleet::new(store)?, name, files).await
        }
        CertificateCommand::Delete { name, store } => delete(&Fleet::new(store)?, name).await,
        CertificateCommand::Rekey { store } => rekey(&Fleet::new(store)?).await,
    }
}

/// `tutti fleet secret`.
pub(super) fn secret() -> Result<ExitCode, CommandError> {
    say(&new_key().map_err(|error| CommandError::new(error.to_string()))?);
    Ok(ExitCode::SUCCESS)
}

/// Reads the keys of the secret file.
fn keys(fleet: &Fleet) -> Result<SealingKeys, CommandError> {
    let Some(file) = &fleet.secret_file else {
        return Err(CommandError::new("the key of the fleet is not configured").hint(
            "`--secret-file FILE`, in the environment `TUTTI_FLEET_SECRET_FILE`, or `secret_file` of the source; `tutti fleet secret` prints a new key",
        ));
    };
    let text = tutti_main::read_secret_file(file);
    let text = text.map_err(|error| CommandError::new(error.to_string()))?;
    SealingKeys::read(&text).map_err(|reason| {
        CommandError::new(format!("the secret file `{}`: {reason}", file.display()))
    })
}

fn check_name(name: &str) -> Result<(), CommandError> {
    match is_certificate_name(name) {
        true => Ok(()),
        false => Err(CommandError::new(format!(
            "`{name}` is not a valid name for a certificate of a fleet"
        ))
        .hint("up to 80 characters without `/`; `acme:` is for automatic ones")),
    }
}

fn parse(pem: &[u8]) -> Result<Bundle, CommandError> {
    Bundle::parse(pem, SystemTime::now()).map_err(|error| CommandError::new(error.to_string()))
}

async fn put(fleet: &Fleet, name: &str, files: &[PathBuf]) -> Result<ExitCode, CommandError> {
    check_name(name)?;
    let keys = keys(fleet)?;
    let mut pem = Vec::new();
    for file in files {
        let (_, bytes) = read(file)?;
        pem.extend_from_slice(&bytes);
        // Makes the next file begin on its own line.
        if !pem.ends_with(b"\n") {
            pem.push(b'\n');
        }
    }
    let bundle = parse(&pem)?;
    for warning in bundle.warnings() {
        say(&format!("{} {warning}", style::place("warning:")));
    }
    let key = format!("{CERTIFICATES}{name}");
    let sealed = keys.seal(&key, &String::from_utf8_lossy(&pem));
    let sealed = sealed.map_err(|error| CommandError::new(error.to_string()))?;
    if sealed.len() > LONGEST_TEXT {
        return Err(CommandError::new("this is too large for a store"));
    }
    // An existing certificate is replaced.
    let wanted = [(key, Some(sealed))];
    fleet.store.swap(&[], &wanted).await.map_err(failed)?;
    say(&format!(
        "{} {name} is stored, encrypted with the key `{}`; the nodes apply it",
        style::good("done:"),
        keys.id()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Returns the names of automatic certificates whose documents are below a prefix, with the keys of these documents.
fn automatic<'e>(entries: &'e Entries, prefix: &str) -> Vec<(&'e str, &'e str)> {
    let names = entries.keys().filter_map(|key| {
        let (_, name) = key.strip_prefix(prefix)?.split_once(DOCUMENT)?;
        Some((name, key.as_str()))
    });
    names.collect()
}

async fn list(fleet: &Fleet, is_json: bool) -> Result<ExitCode, CommandError> {
    let keys = keys(fleet)?;
    let mut stored = fleet.store.list(CERTIFICATES).await.map_err(failed)?;
    let by_hand = stored.keys().filter_map(|key| {
        let name = key.strip_prefix(CERTIFICATES)?;
        Some((name.to_owned(), key.clone()))
    });
    let mut all: Vec<(String, String)> = by_hand.collect();
    let chains = fleet.store.list(CHAINS).await.map_err(failed)?;
    let automatic = automatic(&chains, CHAINS).into_iter();
    all.extend(automatic.map(|(name, key)| (name.to_owned(), key.to_owned())));
    stored.extend(chains);
    let described = all.iter().map(|(name, key)| {
        let sealed = stored.get(key).map_or("", String::as_str);
        let opened = keys.open(key, sealed).map_err(|error| error.to_string());
        let bundle = opened.and_then(|pem| {
            let parsed = Bundle::parse(pem.as_bytes(), SystemTime::now());
            parsed.map_err(|error| error.to_string())
        });
        (name, keys.is_current(sealed), bundle)
    });
    let mut found = serde_json::Map::new();
    let width = all.iter().map(|(name, _)| name.chars().count()).max();
    let width = width.unwrap_or(0);
    if all.is_empty() && !is_json {
        say(&style::quiet("no certificates"));
    }
    for (name, is_current, bundle) in described {
        let shown = style::strong(&format!("{:width$}", visible(name)));
        match (bundle, is_json) {
            (Ok(bundle), true) => {
                let value = json!({
                    "until": bundle.expiry(),
                    "names": bundle.all_names(),
                    "first_key": is_current,
                });
                found.insert(name.clone(), value);
            }
            (Ok(bundle), false) => {
                let until = bundle.description().pointer("/chain/0/validity/until");
                let until = until.and_then(Value::as_str).unwrap_or("unknown");
                let names = bundle.all_names().join(", ");
                say(&format!("{shown}  until {until}  {}", visible(&names)));
            }
            (Err(error), true) => drop(found.insert(name.clone(), json!({"error": error}))),
            (Err(error), false) => say(&format!("{shown}  {}", style::bad(&visible(&error)))),
        }
    }
    if is_json {
        say(&Value::from(found).to_string());
    }
    Ok(ExitCode::SUCCESS)
}

async fn delete(fleet: &Fleet, name: &str) -> Result<ExitCode, CommandError> {
    let mut keys: Vec<String> = Vec::new();
    let mut locks: Vec<StoreEntry> = Vec::new();
    for prefix in [CHAINS, STATE] {
        let names = fleet.store.names(prefix).await.map_err(failed)?;
        for key in names {
            let document = key.strip_prefix(prefix).unwrap_or_default();
            let is_it = document
                .split_once(DOCUMENT)
                .is_some_and(|(_, one)| one == name);
            if is_it {
                locks.push((format!("{LOCKS}{document}"), None));
                keys.push(key);
            }
        }
    }
    let own = format!("{CERTIFICATES}{name}");
    let own_names = fleet.store.names(&own).await.map_err(failed)?;
    keys.extend(own_names.into_iter().filter(|key| *key == own));
    if keys.is_empty() {
        return Err(
            CommandError::new(format!("the fleet has no certificate `{name}`"))
                .hint("`tutti fleet cert list` lists them"),
        );
    }
    locks.dedup();
    let wanted: Vec<StoreEntry> = keys.into_iter().map(|key| (key, None)).collect();
    // Waits until no node is working on it, which would store it again.
    for _ in 0..LOOKS {
        let deleted = fleet.store.swap(&locks, &wanted).await;
        if deleted.map_err(failed)? {
            say(&format!("{} {name} is removed", style::good("done:")));
            return Ok(ExitCode::SUCCESS);
        }
        tokio::time::sleep(LOOK).await;
    }
    Err(CommandError::new(format!("a node is working on `{name}`"))
        .hint("try again in a moment, or look at `tutti status` of the nodes"))
}

async fn rekey(fleet: &Fleet) -> Result<ExitCode, CommandError> {
    let keys = keys(fleet)?;
    let mut count = 0;
    for prefix in [CERTIFICATES, CHAINS, STATE] {
        for key in fleet.store.names(prefix).await.map_err(failed)? {
            count += usize::from(rekey_one(fleet, &keys, &key).await?);
        }
    }
    say(&format!(
        "{} {count} encrypted again; everything is encrypted with the key `{}`",
        style::good("done:"),
        keys.id()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Encrypts one certificate again, unless it already uses the first key, or has been deleted.
async fn rekey_one(fleet: &Fleet, keys: &SealingKeys, key: &str) -> Result<bool, CommandError> {
    for _ in 0..ATTEMPTS {
        let before = fleet.store.list(key).await.map_err(failed)?.remove(key);
        let Some(before) = before.filter(|before| !keys.is_current(before)) else {
            return Ok(false);
        };
        let with_key = |error| CommandError::new(format!("`{key}`: {error}"));
        let text = keys.open(key, &before).map_err(with_key)?;
        let sealed = keys.seal(key, &text).map_err(with_key)?;
        let expected = [(key.to_owned(), Some(before))];
        let wanted = [(key.to_owned(), Some(sealed))];
        let swapped = fleet.store.swap(&expected, &wanted).await;
        if swapped.map_err(failed)? {
            return Ok(true);
        }
    }
    Err(CommandError::new(format!(
        "`{key}` is being changed by others; try again in a moment"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_automatic_certificates_are_behind_their_authority() {
        let key = |name: &str| (format!("{CHAINS}0123456789abcdef.{name}"), String::new());
        let entries = Entries::from([key("certificate-acme:le:a.example.com"), key("account-le")]);
        let names: Vec<_> = automatic(&entries, CHAINS)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["acme:le:a.example.com"]);
    }

    #[test]
    fn names_of_others_are_refused() {
        assert!(check_name("site").is_ok());
        for name in ["", "acme:le:a", "/etc/a.pem", "a/b", "a\nb"] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
