//! `settings.limit_stores`.

use std::path::Path;

use tutti_document::Pointer;

use crate::table::{LimitStoreOptions, ValkeyOptions, ValkeyTlsOptions};

/// A store that limits are counted in.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitStore {
    /// Where it was written.
    pub pointer: Pointer,
    /// Its name.
    pub name: String,
    /// Where it is.
    pub address: ValkeyAddress,
    /// Who we are there.
    pub valkey: ValkeyOptions,
    /// How it is reached over TLS.
    pub tls: ValkeyTlsOptions,
    /// How long a request waits for it, and the beginning of all keys.
    pub options: LimitStoreOptions,
}

/// A place where a Valkey is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValkeyAddress {
    /// It speaks TLS.
    pub is_secure: bool,
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The number of the database.
    pub database: u32,
}

impl LimitStore {
    /// The files that it needs.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let tls = &self.tls;
        let files = [
            &self.valkey.password_file,
            &tls.ca,
            &tls.certificate,
            &tls.key,
        ];
        files.into_iter().filter_map(|file| file.as_deref())
    }
}
