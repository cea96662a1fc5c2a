//! A source: a store that the configuration comes from.

use std::collections::BTreeMap;
use std::net::IpAddr;

use tutti_options::source::EtcdMember;

use crate::table::{EtcdOptions, EtcdTlsOptions, SourceOptions};

/// `settings.source`, or what `--source` says.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Where other nodes reach it; `None`: where it comes from to the store.
    pub address: Option<IpAddr>,
    /// The members of the etcd.
    pub members: Vec<EtcdMember>,
    /// Texts and paths of the etcd.
    pub etcd: EtcdOptions,
    /// How members are reached over TLS.
    pub tls: EtcdTlsOptions,
    /// The rest of it.
    pub options: SourceOptions,
}
