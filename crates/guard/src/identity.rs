//! An `authenticate` of the configuration, with its state.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tutti_config::model::Authenticate;

use crate::key_set::KeySet;
use crate::passwords::{Accounts, Htpasswd, read_htpasswd};
use crate::signed_link;
use crate::token::{VerificationKeys, Verifier};

/// One `authenticate`.
#[derive(Debug)]
pub struct Identity {
    /// Its configuration.
    pub model: Authenticate,
    /// Its state.
    pub state: IdentityState,
}

/// The state of an `authenticate`.
#[derive(Debug)]
pub enum IdentityState {
    /// Names and passwords; empty until the file has been read.
    Basic(ArcSwapOption<Accounts>),
    /// Signed tokens.
    Jwt(Box<Verifier>, Arc<KeySet>),
    /// None: a service decides.
    Forward,
    /// The secret of links; empty until the file has been read.
    SignedLink(ArcSwapOption<Vec<u8>>),
}

impl Identity {
    /// Without any content yet.
    pub fn new(model: &Authenticate) -> Self {
        let state = match model {
            Authenticate::Basic(basic) => {
                let accounts = ArcSwapOption::empty();
                if basic.file.is_none() {
                    accounts.store(Some(Arc::new(Accounts::new(basic.users.clone()))));
                }
                IdentityState::Basic(accounts)
            }
            Authenticate::Jwt(jwt) => {
                IdentityState::Jwt(Box::new(Verifier::new(jwt)), Arc::default())
            }
            Authenticate::Forward(_) => IdentityState::Forward,
            Authenticate::SignedLink(link) => {
                let secret = link.options.secret.clone().unwrap_or_default();
                let is_known = link.file.is_none();
                IdentityState::SignedLink(ArcSwapOption::new(
                    is_known.then(|| Arc::new(secret.into_bytes())),
                ))
            }
        };
        Self {
            model: model.clone(),
            state,
        }
    }

    /// True if it has the same configuration, so that its state is kept.
    pub fn is(&self, model: &Authenticate) -> bool {
        self.model == *model
    }

    /// True if both ask one service for the same, though they may be at two places of the configuration.
    pub(crate) fn asks_the_same(&self, other: &Self) -> bool {
        let (Authenticate::Forward(this), Authenticate::Forward(other)) =
            (&self.model, &other.model)
        else {
            return false;
        };
        let (asked, as_other) = (&this.question, &other.question);
        asked.pass == as_other.pass && asked.uri == as_other.uri && this.uri == other.uri
    }

    /// The file that it needs.
    pub fn file(&self) -> Option<&Path> {
        self.model.file().map(|file| file.path.as_path())
    }

    /// Replaces the content of its file. Returns the numbers of the lines with a weak hash.
    pub fn take(&self, content: &[u8]) -> Result<Vec<usize>, String> {
        match (&self.model, &self.state) {
            (Authenticate::Basic(basic), IdentityState::Basic(accounts)) => {
                let Htpasswd {
                    mut users,
                    weak_lines,
                } = read_htpasswd(content)?;
                users.extend(basic.users.clone());
                accounts.store(Some(Arc::new(Accounts::new(users))));
                return Ok(weak_lines);
            }
            (Authenticate::Jwt(jwt), IdentityState::Jwt(_, keys)) => {
                keys.put(VerificationKeys::read(content, jwt)?);
            }
            (Authenticate::SignedLink(link), IdentityState::SignedLink(secret)) => {
                secret.store(Some(Arc::new(signed_link::read_secret(content, link)?)));
            }
            _ => {}
        }
        Ok(Vec::new())
    }
}
