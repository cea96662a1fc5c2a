//! A source: a store from which the configuration is taken.

use std::collections::BTreeMap;
use std::net::IpAddr;

use tutti_options::source::EtcdMember;

use crate::table::{EtcdOptions, EtcdTlsOptions, SourceOptions};

/// `settings.source`, or the value of `--source`.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its address for other nodes; `None`: the one from which it reaches the store.
    pub address: Option<IpAddr>,
    /// The members of the etcd cluster.
    pub members: Vec<EtcdMember>,
    /// Texts and paths of the etcd options.
    pub etcd: EtcdOptions,
    /// TLS with members.
    pub tls: EtcdTlsOptions,
    /// The remaining options.
    pub options: SourceOptions,
}
