//! Guards: everything that stands before an action.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tutti_document::Pointer;
use tutti_options::password::PasswordHash;

use super::destination::Pass;

use crate::pattern::Patterns;
use crate::table::{
    BasicOptions, CorsOptions, ForwardOptions, JwksOptions, JwtAlgorithm, JwtOptions, LimitOptions,
    Rate,
};
use crate::template::Template;

/// Everything that stands before one action. A request that passes several actions meets them all.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    /// Where the action was written.
    pub pointer: Pointer,
    /// Bounds, in the order they were written.
    pub limits: Vec<Arc<Limit>>,
    /// Which pages may read the answers.
    pub cors: Option<Cors>,
    /// Who is let in.
    pub authenticate: Option<Authenticate>,
}

impl Guard {
    /// The question to somebody else that it needs an answer to.
    pub fn question(&self) -> Option<&AuthRequest> {
        match self.authenticate.as_ref()? {
            Authenticate::Basic(_) => None,
            Authenticate::Forward(forward) => Some(&forward.question),
            Authenticate::Jwt(jwt) => match &jwt.keys {
                KeySource::Fetched(question, _) => Some(question),
                KeySource::File(_) => None,
            },
        }
    }

    /// The file that it needs.
    pub fn file(&self) -> Option<&GuardFile> {
        match self.authenticate.as_ref()? {
            Authenticate::Basic(basic) => basic.file.as_ref(),
            Authenticate::Forward(_) => None,
            Authenticate::Jwt(jwt) => match &jwt.keys {
                KeySource::Fetched(..) => None,
                KeySource::File(file) => Some(file),
            },
        }
    }

    /// The names of the fields that it tells applications.
    pub fn fields(&self) -> Vec<&str> {
        match &self.authenticate {
            None => Vec::new(),
            Some(Authenticate::Basic(basic)) => {
                basic.options.field.as_deref().into_iter().collect()
            }
            Some(Authenticate::Forward(forward)) => {
                forward.options.copy.iter().map(String::as_str).collect()
            }
            Some(Authenticate::Jwt(jwt)) => {
                jwt.fields.iter().map(|(name, _)| name.as_str()).collect()
            }
        }
    }
}

/// How somebody is let in.
#[derive(Clone, Debug, PartialEq)]
pub enum Authenticate {
    /// By name and password.
    Basic(Arc<Basic>),
    /// By a signed token.
    Jwt(Arc<Jwt>),
    /// By the word of somebody else.
    Forward(Arc<ForwardAuth>),
}

/// A file of secrets: main opens it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardFile {
    /// Where it was written.
    pub pointer: Pointer,
    /// From `/` on.
    pub path: PathBuf,
}

/// Names and passwords.
#[derive(Clone, Debug, PartialEq)]
pub struct Basic {
    /// By name.
    pub users: BTreeMap<String, PasswordHash>,
    /// More of them.
    pub file: Option<GuardFile>,
    /// The rest of it.
    pub options: BasicOptions,
}

/// Signed tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Jwt {
    /// At least one, of one family.
    pub algorithms: Vec<JwtAlgorithm>,
    /// Where the keys are.
    pub keys: KeySource,
    /// One of them must be in `aud`; empty: not looked at.
    pub audience: Vec<String>,
    /// Names of fields, and the claims that they tell.
    pub fields: Vec<(String, String)>,
    /// The rest of it.
    pub options: JwtOptions,
}

/// Where keys are.
#[derive(Clone, Debug, PartialEq)]
pub enum KeySource {
    /// In a file.
    File(GuardFile),
    /// They are asked for.
    Fetched(AuthRequest, JwksOptions),
}

/// The word of somebody else.
#[derive(Clone, Debug, PartialEq)]
pub struct ForwardAuth {
    /// The question.
    pub question: AuthRequest,
    /// The rest of it.
    pub options: ForwardOptions,
}

/// A request that the server makes to itself before it goes on with another.
#[derive(Clone, Debug, PartialEq)]
pub struct AuthRequest {
    /// Where it was written.
    pub pointer: Pointer,
    /// Who is asked.
    pub pass: Pass,
    /// Path and query.
    pub uri: String,
    /// Time for the whole answer.
    pub timeout: Duration,
}

/// A bound on requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Where it was written.
    pub pointer: Pointer,
    /// Its name; `None` of one that stands in an action.
    pub name: Option<String>,
    /// `None`: the client's address.
    pub key: Option<Template>,
    /// Requests in a time.
    pub rate: Option<Rate>,
    /// The rest of it.
    pub options: LimitOptions,
}

/// Which pages of other origins may read answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Cors {
    /// `None`: those of all.
    pub origins: Option<Patterns>,
    /// The rest of it.
    pub options: CorsOptions,
}
