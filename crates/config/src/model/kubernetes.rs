//! `settings.kubernetes`.

use crate::table::KubernetesOptions;

/// How to reach the Kubernetes API server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kubernetes {
    /// Its name or address, and port; `None`: from the environment.
    pub server: Option<(String, u16)>,
    /// The files that it needs.
    pub options: KubernetesOptions,
}
