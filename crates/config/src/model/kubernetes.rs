//! `settings.kubernetes`.

use crate::table::KubernetesOptions;

/// Access to the Kubernetes API server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kubernetes {
    /// Its name or address, and port; `None`: from the environment.
    pub server: Option<(String, u16)>,
    /// The files that it needs.
    pub options: KubernetesOptions,
}
