//! Guards: everything that applies before an action.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tutti_document::Pointer;
use tutti_options::password::PasswordHash;

use super::destination::Pass;
use super::written_at::WrittenAt;
use crate::pattern::Patterns;
use crate::table::{
    BasicOptions, CorsOptions, ForwardOptions, JwksOptions, JwtAlgorithm, JwtOptions, LimitOptions,
    Rate, SignedLinkOptions,
};
use crate::template::Template;

/// All guards of one action. A request that passes several actions must pass the guards of all.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    /// Where the action was written.
    pub pointer: Pointer,
    /// Limits, in the order they were written.
    pub limits: Vec<Arc<Limit>>,
    /// Other origins whose pages may read responses.
    pub cors: Option<Cors>,
    /// The clients to admit.
    pub authenticate: Option<Authenticate>,
}

impl Guard {
    /// Returns the subrequest that it needs.
    pub fn question(&self) -> Option<&AuthRequest> {
        match self.authenticate.as_ref()? {
            Authenticate::Basic(_) | Authenticate::SignedLink(_) => None,
            Authenticate::Forward(forward) => Some(&forward.question),
            Authenticate::Jwt(jwt) => match &jwt.keys {
                KeySource::Fetched(question, _) => Some(question),
                KeySource::File(_) => None,
            },
        }
    }

    /// Returns the file that it needs.
    pub fn file(&self) -> Option<&GuardFile> {
        self.authenticate.as_ref().and_then(Authenticate::file)
    }

    /// Returns the names of the fields that report the user to applications.
    pub fn fields(&self) -> Vec<&str> {
        match &self.authenticate {
            None | Some(Authenticate::SignedLink(_)) => Vec::new(),
            Some(Authenticate::Basic(basic)) => {
                basic.options.field.as_deref().into_iter().collect()
            }
            Some(Authenticate::Forward(forward)) => {
                forward.copy.iter().map(|(name, _)| name.as_str()).collect()
            }
            Some(Authenticate::Jwt(jwt)) => {
                jwt.fields.iter().map(|(name, _)| name.as_str()).collect()
            }
        }
    }
}

/// The way of authentication.
#[derive(Clone, Debug, PartialEq)]
pub enum Authenticate {
    /// By name and password.
    Basic(Arc<Basic>),
    /// By a signed token.
    Jwt(Arc<Jwt>),
    /// By an authentication service.
    Forward(Arc<ForwardAuth>),
    /// By a signed link.
    SignedLink(Arc<SignedLink>),
}

impl Authenticate {
    /// Returns the file that it needs.
    pub fn file(&self) -> Option<&GuardFile> {
        match self {
            Authenticate::Basic(basic) => basic.file.as_ref(),
            Authenticate::Forward(_) => None,
            Authenticate::Jwt(jwt) => match &jwt.keys {
                KeySource::Fetched(..) => None,
                KeySource::File(file) => Some(file),
            },
            Authenticate::SignedLink(link) => link.file.as_ref(),
        }
    }

    /// True if it tells who the client is, so that responses are the client's own.
    pub fn names_client(&self) -> bool {
        !matches!(self, Authenticate::SignedLink(_))
    }
}

/// A file of secrets, which main opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardFile {
    /// Where it was written.
    pub pointer: WrittenAt,
    /// Absolute.
    pub path: PathBuf,
}

/// Names and passwords.
#[derive(Clone, Debug, PartialEq)]
pub struct Basic {
    /// By name.
    pub users: BTreeMap<String, PasswordHash>,
    /// A file with more of them.
    pub file: Option<GuardFile>,
    /// The remaining options.
    pub options: BasicOptions,
}

/// Signed tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Jwt {
    /// At least one, of one family.
    pub algorithms: Vec<JwtAlgorithm>,
    /// The source of the keys.
    pub keys: KeySource,
    /// `aud` must contain one of them; empty: not checked.
    pub audience: Vec<String>,
    /// Names of fields, and the claims that are their values.
    pub fields: Vec<(String, String)>,
    /// The remaining options.
    pub options: JwtOptions,
}

/// The source of keys.
#[derive(Clone, Debug, PartialEq)]
pub enum KeySource {
    /// In a file.
    File(GuardFile),
    /// Fetched by a request.
    Fetched(AuthRequest, JwksOptions),
}

/// An authentication service.
#[derive(Clone, Debug, PartialEq)]
pub struct ForwardAuth {
    /// The subrequest.
    pub question: AuthRequest,
    /// Path and query of the subrequest, if they have variables.
    pub uri: Option<Template>,
    /// Fields to set in the subrequest; `None` removes one.
    pub headers: Vec<(String, Option<Template>)>,
    /// Fields for the application, and those of the response that give their values.
    pub copy: Vec<(String, String)>,
    /// The remaining options.
    pub options: ForwardOptions,
}

/// The shortest secret for `hmac-sha256`, in bytes: as long as the digest (RFC 2104 §3).
pub const LEAST_LINK_SECRET: usize = 32;

/// Links that the site signs.
#[derive(Clone, Debug, PartialEq)]
pub struct SignedLink {
    /// A file with the secret.
    pub file: Option<GuardFile>,
    /// Where the signature is.
    pub signature: Template,
    /// Where the expiry time is; `None`: links do not expire.
    pub expires: Option<Template>,
    /// The signed text; `None`: the path, and the expiry time.
    pub text: Option<Template>,
    /// The remaining options.
    pub options: SignedLinkOptions,
}

/// A request that the server makes to itself before it proceeds with another.
#[derive(Clone, Debug, PartialEq)]
pub struct AuthRequest {
    /// Where it was written.
    pub pointer: WrittenAt,
    /// The destination.
    pub pass: Pass,
    /// Path and query.
    pub uri: String,
    /// Time until the response is complete.
    pub timeout: Duration,
}

/// A limit on requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Where it was written.
    pub pointer: WrittenAt,
    /// Its name; `None` for an inline limit of an action.
    pub name: Option<String>,
    /// `None`: the client's address.
    pub key: Option<Template>,
    /// Requests per time.
    pub rate: Option<Rate>,
    /// The remaining options.
    pub options: LimitOptions,
}

/// Other origins whose pages may read responses.
#[derive(Clone, Debug, PartialEq)]
pub struct Cors {
    /// `None`: all origins.
    pub origins: Option<Patterns>,
    /// The remaining options.
    pub options: CorsOptions,
}
