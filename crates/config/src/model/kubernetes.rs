//! `settings.kubernetes`.

use crate::table::KubernetesOptions;

/// How the API server of Kubernetes is reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kubernetes {
    /// Its name or address, and port; `None`: the environment has it.
    pub server: Option<(String, u16)>,
    /// The files that it needs.
    pub options: KubernetesOptions,
}
