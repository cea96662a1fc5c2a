//! `settings.kubernetes`.

use std::path::PathBuf;

use crate::table::KubernetesOptions;

/// How the API server of Kubernetes is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubernetes {
    /// Its name or address, and port; `None`: the environment has it.
    pub server: Option<(String, u16)>,
    /// The file with the certificates that vouch for it.
    pub ca: PathBuf,
    /// The file with the token that says who we are.
    pub token_file: PathBuf,
}

impl Default for Kubernetes {
    fn default() -> Self {
        let options = KubernetesOptions::default();
        Kubernetes {
            server: None,
            ca: options.ca,
            token_file: options.token_file,
        }
    }
}
