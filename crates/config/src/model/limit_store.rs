//! `settings.limit_stores`.

use std::path::Path;

use tutti_document::Pointer;

use crate::table::{LimitStoreOptions, ValkeyOptions, ValkeyTlsOptions};

/// A store that counts limits.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitStore {
    /// Where it was written.
    pub pointer: Pointer,
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: ValkeyAddress,
    /// The credentials.
    pub valkey: ValkeyOptions,
    /// TLS options.
    pub tls: ValkeyTlsOptions,
    /// The timeout, and the prefix of all keys.
    pub options: LimitStoreOptions,
}

/// The address of a Valkey server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValkeyAddress {
    /// It uses TLS.
    pub is_secure: bool,
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The number of the database.
    pub database: u32,
}

impl LimitStore {
    /// Returns the files that it needs.
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
