//! The store of a fleet: how to reach it, and its contents.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use tutti_config::Format;
use tutti_config::model::Source;
use tutti_fleet_store::etcd::EtcdStore;
use tutti_fleet_store::etcd_client::{ClusterOptions, EtcdEndpoint, EtcdTls};
use tutti_fleet_store::records::{DocumentVersion, NodeReport, Rollout, digest, read_all};
use tutti_fleet_store::store::{Entries, FleetStore, FleetStoreError, StoreEntry};
use tutti_fleet_store::{keys, patience};
use tutti_options::{visible, visible_value};

use crate::excerpt;
use crate::report::CommandError;

/// The arguments for access to the store of a fleet.
#[derive(Args, Clone)]
pub(super) struct StoreArguments {
    /// The store: `etcd://HOST:PORT,HOST:PORT/PREFIX` (`etcds://` with TLS), or a file with the contents of `settings.source`
    #[arg(long, value_name = "URL_OR_FILE", env = "TUTTI_SOURCE")]
    source: Option<String>,

    /// Members of the etcd cluster, `https://HOST:PORT` or `http://HOST:PORT`, separated by commas; instead of --source
    #[arg(
        long,
        value_name = "URLS",
        value_delimiter = ',',
        env = "TUTTI_FLEET_ENDPOINTS"
    )]
    endpoints: Vec<String>,

    /// Prefix of all keys [default: `/tutti/`]
    #[arg(long, value_name = "PREFIX", env = "TUTTI_FLEET_PREFIX")]
    prefix: Option<String>,

    /// etcd user
    #[arg(
        long,
        value_name = "NAME",
        requires = "password_file",
        env = "TUTTI_FLEET_USER"
    )]
    user: Option<String>,

    /// File with the user's password, which no other user may be able to read
    #[arg(long, value_name = "FILE", env = "TUTTI_FLEET_PASSWORD_FILE")]
    password_file: Option<PathBuf>,

    /// PEM file with the CA certificates to verify members with, instead of the system's
    #[arg(long, value_name = "FILE", env = "TUTTI_FLEET_CA")]
    ca: Option<PathBuf>,

    /// PEM file with the client certificate
    #[arg(
        long,
        value_name = "FILE",
        requires = "key",
        env = "TUTTI_FLEET_CERTIFICATE"
    )]
    certificate: Option<PathBuf>,

    /// PEM file with its key
    #[arg(
        long,
        value_name = "FILE",
        requires = "certificate",
        env = "TUTTI_FLEET_KEY"
    )]
    key: Option<PathBuf>,

    /// File with the keys that encrypt the fleet's certificates, which no other user may be able to read
    #[arg(long, value_name = "FILE", env = "TUTTI_FLEET_SECRET_FILE")]
    secret_file: Option<PathBuf>,
}

impl StoreArguments {
    /// Returns the source that the arguments describe; single arguments take precedence over `--source`.
    fn source(&self) -> Result<Source, CommandError> {
        // An empty environment variable counts as unset.
        let given = self.source.as_ref().filter(|source| !source.is_empty());
        let mut source = match (given, self.endpoints.is_empty()) {
            (_, false) => {
                let endpoints = serde_json::json!({"etcd": {"endpoints": self.endpoints}});
                read("--endpoints", &endpoints.to_string(), Format::Json)?
            }
            (Some(url), true) if tutti_config::source::is_url(url) => {
                let source = tutti_config::source::of_url(url);
                source.map_err(|faults| {
                    excerpt::shown(format!("`{url}` is not a source"), &faults, &[])
                })?
            }
            (Some(file), true) => {
                let text = text_of(Path::new(file))?;
                read(file, &text, Format::of_file(file).unwrap_or_default())?
            }
            (None, true) => {
                return Err(CommandError::new("the fleet's store is not configured").hint(
                    "`--source etcd://HOST:PORT` or `--source FILE`, in the environment `TUTTI_SOURCE`",
                ));
            }
        };
        let etcd = &mut source.etcd;
        if let Some(prefix) = &self.prefix {
            prefix.clone_into(&mut etcd.prefix);
        }
        let tls = &mut source.tls;
        for (given, place) in [
            (&self.ca, &mut tls.ca),
            (&self.certificate, &mut tls.certificate),
            (&self.key, &mut tls.key),
            (&self.password_file, &mut etcd.password_file),
        ] {
            if given.is_some() {
                place.clone_from(given);
            }
        }
        if self.secret_file.is_some() {
            let file = &mut source.options.secret_file;
            file.clone_from(&self.secret_file);
        }
        if self.user.is_some() {
            etcd.user.clone_from(&self.user);
        }
        Ok(source)
    }
}

fn read(name: &str, text: &str, format: Format) -> Result<Source, CommandError> {
    let source = tutti_config::source::of_text(text.as_bytes(), format);
    source.map_err(|faults| {
        excerpt::shown(
            format!("`{name}` is not a source"),
            &faults,
            &[(name, text.as_bytes())],
        )
    })
}

fn text_of(path: &Path) -> Result<String, CommandError> {
    let read = std::fs::read_to_string(path);
    read.map_err(|error| CommandError::new(format!("cannot read `{}`: {error}", path.display())))
}

/// The fleet, as seen in its store.
pub(super) struct Fleet {
    pub(super) store: Arc<dyn FleetStore>,
    /// The file with the keys of its certificates.
    pub(super) secret_file: Option<PathBuf>,
}

/// Heads and answers at one moment.
pub(super) struct Seen {
    pub(super) heads: BTreeMap<String, Rollout>,
    /// The heads as text, for comparison.
    pub(super) texts: Entries,
    pub(super) answers: BTreeMap<String, NodeReport>,
}

impl Seen {
    /// Returns a head as it is in the store. Only this may be written back: [`Seen::heads`] are for a terminal.
    pub(super) fn stored_head(&self, selector: &str) -> Option<Rollout> {
        let text = self.texts.get(&keys::head(selector))?;
        serde_json::from_str(text).ok()
    }
}

pub(super) fn failed(error: FleetStoreError) -> CommandError {
    let failure = CommandError::new(format!("the fleet's store: {error}"));
    match error.is_final {
        true => failure,
        // Either nothing answers there, or no member that can continue.
        false => failure.hint(
            "is etcd running there, and can this machine reach it? Nodes continue to serve without it",
        ),
    }
}

/// Returns texts of other users and of nodes without control characters; unreadable ones are skipped.
pub(super) fn visible_entries(entries: &Entries) -> Entries {
    let entries = entries.iter().filter_map(|(name, text)| {
        let value = visible_value(serde_json::from_str(text).ok()?);
        Some((visible(name), value.to_string()))
    });
    entries.collect()
}

impl Fleet {
    pub(super) fn new(arguments: &StoreArguments) -> Result<Fleet, CommandError> {
        let source = arguments.source()?;
        let members = source.members.iter();
        let endpoints = members.map(|member| EtcdEndpoint {
            is_secure: member.is_secure,
            host: member.host.clone(),
            port: member.port,
        });
        let password = source.etcd.password_file.as_deref();
        let password = password.map(tutti_main::read_password).transpose();
        let password = password.map_err(|error| CommandError::new(error.to_string()))?;
        let text = |path: &Option<PathBuf>| path.as_deref().map(text_of).transpose();
        let options = ClusterOptions {
            endpoints: endpoints.collect(),
            tls: EtcdTls {
                ca: text(&source.tls.ca)?,
                identity: text(&source.tls.certificate)?.zip(text(&source.tls.key)?),
                server_name: source.tls.server_name.clone(),
            },
            user: source.etcd.user.clone().zip(password),
            patience: patience(),
        };
        // A command holds no lease.
        let store = Arc::new(EtcdStore::new(options, &source.etcd.prefix, patience()));
        Ok(Fleet {
            store: Arc::new(store),
            secret_file: source.options.secret_file,
        })
    }

    pub(super) async fn look(&self) -> Result<Seen, CommandError> {
        let texts = self.store.list(keys::HEADS).await.map_err(failed)?;
        Ok(Seen {
            heads: read_all(&visible_entries(&texts), keys::HEADS),
            answers: self.answers().await?,
            texts,
        })
    }

    pub(super) async fn answers(&self) -> Result<BTreeMap<String, NodeReport>, CommandError> {
        let entries = self.store.list(keys::NODES).await.map_err(failed)?;
        Ok(read_all(&visible_entries(&entries), keys::NODES))
    }

    /// Returns the highest number below a prefix, of documents or roll-outs; 0 if there are none.
    pub(super) async fn last(&self, prefix: &str) -> Result<u64, CommandError> {
        let names = self.store.names(prefix).await.map_err(failed)?;
        let numbers = names.iter().filter_map(|name| keys::number(name));
        Ok(numbers.max().unwrap_or_default())
    }

    /// Returns the text of a generation.
    pub(super) async fn document(&self, generation: u64) -> Result<String, CommandError> {
        let key = keys::document(generation);
        let mut found = self.store.list(&key).await.map_err(failed)?;
        found.remove(&key).ok_or_else(|| {
            CommandError::new(format!("generation {generation} is no longer stored"))
                .hint("`tutti fleet log` lists the available ones")
        })
    }

    pub(super) async fn version(&self, generation: u64) -> Result<DocumentVersion, CommandError> {
        let text = self.document(generation).await?;
        Ok(DocumentVersion {
            generation,
            digest: digest(&text),
        })
    }

    /// Replaces a head if it has not changed, together with the record of its roll-out; false: it has changed.
    pub(super) async fn swap(
        &self,
        before: Option<&str>,
        head: &Rollout,
        more: &[StoreEntry],
    ) -> Result<bool, FleetStoreError> {
        let place = keys::head(&head.selector);
        let text = head.to_text();
        let mut expected = vec![(place.clone(), before.map(str::to_owned))];
        // New names must not exist yet.
        expected.extend(more.iter().map(|(name, _)| (name.clone(), None)));
        let mut wanted = vec![
            (place, Some(text.clone())),
            (keys::roll_out(head.number), Some(text)),
        ];
        wanted.extend(more.iter().filter(|(_, text)| text.is_some()).cloned());
        self.store.swap(&expected, &wanted).await
    }
}

/// The caller, as shown to others: `anna@laptop`.
pub(super) fn caller() -> String {
    let user = tutti_sys::credentials::current_user();
    let user = tutti_sys::credentials::user_name(user).unwrap_or_else(|| user.to_string());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{user}@{}", host.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_others_have_no_control_characters() {
        let head = Rollout {
            id: "1".to_owned(),
            number: 7,
            selector: keys::ALL.to_owned(),
            version: None,
            former: None,
            state: tutti_fleet_store::records::RolloutState::Done,
            waves: Vec::new(),
            wave: 0,
            nodes: vec!["a\x1b]0;b\x07".to_owned()],
            by: "anna\x1b[2J@laptop".to_owned(),
            time: u64::MAX,
            comment: None,
            reason: Some("line\nline".to_owned()),
        };
        let entries = Entries::from([
            (keys::head(keys::ALL), head.to_text()),
            (keys::head("a=b"), "unreadable".to_owned()),
        ]);
        let read: BTreeMap<String, Rollout> = read_all(&visible_entries(&entries), keys::HEADS);
        let expected = Rollout {
            nodes: vec!["a·]0;b·".to_owned()],
            by: "anna·[2J@laptop".to_owned(),
            reason: Some("line line".to_owned()),
            ..head.clone()
        };
        assert_eq!(read, BTreeMap::from([(keys::ALL.to_owned(), expected)]));
        let seen = Seen {
            heads: read,
            texts: entries,
            answers: BTreeMap::new(),
        };
        assert_eq!(seen.stored_head(keys::ALL), Some(head));
    }
}
