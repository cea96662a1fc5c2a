//! TLS of listeners and with upstreams: bundles that must exist, commands, ticket keys.

use std::path::PathBuf;

use data_encoding::BASE64;
use tutti_document::{Diagnostic, Pointer, TreeNode, Value, shorten};

use super::builder::Builder;
use super::reader::{Reader, each};
use super::stored::Store;
use crate::model::{
    AcmeCertificate, Authority, AuthorityFile, CertificateFile, StoredName, TicketKey, Tickets,
    Tls, TlsClients, TlsSession, UpstreamTls,
};
use crate::openssl::{self, Settings};
use crate::table::{
    CertificateSourceOptions, ClientFailure, ClientVerify, TlsOptions, TlsSessionOptions,
    UpstreamOptions, UpstreamTlsOptions,
};

/// Lengths of a ticket key, as documented for Unit.
const KEY_BYTES: [usize; 2] = [48, 80];

impl<'d> Builder<'d> {
    /// `tls` of a listener or of the dashboard.
    pub(super) fn tls(&mut self, reader: Reader<'d>) -> Tls {
        let certificates = match reader.get(&TlsOptions::certificate) {
            Some((node, pointer)) => self.bundles(node, &pointer),
            None => Vec::new(),
        };
        let settings = self.commands(reader.get(&TlsOptions::conf_commands));
        let session = self.session(&reader, settings.tickets);
        let options: TlsOptions = reader.read();
        let clients = reader
            .get(&TlsOptions::client_ca)
            .map(|(node, pointer)| TlsClients {
                authorities: self.authorities(node, &pointer),
                is_required: options.client_verify == ClientVerify::Required,
                failure: options.client_failure,
            });
        if options.client_failure == ClientFailure::Report
            && options.client_verify == ClientVerify::Required
            && let Some((node, pointer)) = reader.get(&TlsOptions::client_failure)
        {
            let message =
                "`report` serves clients without a certificate, which `client_verify` requires";
            let diagnostic = Diagnostic::new(pointer, message);
            let hint = "write `\"client_verify\": \"optional\"` too";
            self.faults.value(diagnostic.suggest(hint), node);
        }
        Tls {
            pointer: reader.pointer,
            certificates,
            protocol: settings.protocol,
            session,
            clients,
            on_demand: self.on_demand.take(),
        }
    }

    /// Builds `tls` of an upstream or of `proxy_options`, whatever its value is, with all defaults if it is not an
    /// object. `origin` is the place that enables TLS if there is no `tls`.
    pub(super) fn upstream_tls(&mut self, options: &Reader<'d>, origin: &Pointer) -> UpstreamTls {
        let reader = options.inner_or_nothing(&UpstreamOptions::tls);
        let written: UpstreamTlsOptions = reader.read();
        let settings = self.commands(reader.get(&UpstreamTlsOptions::conf_commands));
        let authorities = reader
            .get(&UpstreamTlsOptions::ca)
            .map(|(node, pointer)| self.authorities(node, &pointer));
        if !written.verify {
            let message = "`ca` has no effect with `\"verify\": false`";
            self.refuse(&reader, &UpstreamTlsOptions::ca, message);
        }
        let certificate = reader
            .get(&UpstreamTlsOptions::certificate)
            .and_then(|(node, pointer)| self.certificate(node, pointer));
        let named = certificate.as_ref();
        let is_automatic = named.is_some_and(|name| AcmeCertificate::is_named_by(&name.name));
        if let Some((node, pointer)) = reader.get(&UpstreamTlsOptions::certificate)
            && node.as_str().is_none()
            && (self.on_demand.take().is_some() || is_automatic)
        {
            let message = "a certificate from `acme` is a server certificate: other servers do not accept it as a client certificate";
            self.wrong(node, pointer, message);
        }
        UpstreamTls {
            authorities,
            certificate,
            protocol: settings.protocol,
            resumes: settings.tickets != Some(false),
            pointer: match options.get(&UpstreamOptions::tls) {
                Some((_, pointer)) => pointer.into(),
                None => origin.clone().into(),
            },
            options: written,
        }
    }

    /// Reads names of bundles, and absolute paths of files.
    fn authorities(&mut self, node: &'d TreeNode, pointer: &Pointer) -> Vec<Authority> {
        self.must_name_one(node, pointer);
        let mut authorities = Vec::new();
        for (node, pointer) in each(node, pointer) {
            let Some(name) = node.as_str() else {
                continue;
            };
            authorities.push(if name.starts_with('/') {
                let path = PathBuf::from(name);
                Authority::File(AuthorityFile {
                    pointer: pointer.into(),
                    path,
                })
            } else {
                Authority::Bundle(self.bundle(name, node, pointer))
            });
        }
        authorities
    }

    fn must_name_one(&mut self, node: &'d TreeNode, pointer: &Pointer) {
        let names_none = node.elements().is_empty() && !matches!(node.value, Value::Object(_));
        if names_none && node.as_str().is_none() && !self.faults.has(node) {
            let diagnostic = Diagnostic::new(pointer.clone(), "no certificate bundle is named");
            self.faults.value(diagnostic, node);
        }
    }

    fn bundle(&mut self, name: &str, node: &'d TreeNode, pointer: Pointer) -> StoredName {
        self.stored_one(name, node, pointer, &Store::CERTIFICATES)
    }

    /// Reads certificates to present: names of bundles, each of which must have been stored, and files.
    fn bundles(&mut self, node: &'d TreeNode, pointer: &Pointer) -> Vec<StoredName> {
        self.must_name_one(node, pointer);
        let named = each(node, pointer).into_iter();
        named
            .filter_map(|(node, pointer)| self.certificate(node, pointer))
            .collect()
    }

    /// Reads the name of a bundle; the name of files is their path.
    fn certificate(&mut self, node: &'d TreeNode, pointer: Pointer) -> Option<StoredName> {
        let named = match node.as_str() {
            Some(name) if !CertificateFile::is_named_by(name) => {
                return Some(self.bundle(name, node, pointer));
            }
            Some(path) => CertificateFile {
                file: PathBuf::from(path),
                key: None,
                pointer,
            },
            None => {
                let reader = Reader::new(node, pointer.clone());
                if reader.has(&CertificateSourceOptions::acme) {
                    return self.acme_certificate(&reader);
                }
                let path = |option| reader.text(option).map(PathBuf::from);
                let Some(file) = path(&CertificateSourceOptions::file) else {
                    if !self.faults.has(node) && !reader.has(&CertificateSourceOptions::file) {
                        let message = "neither `file` nor `acme` is set";
                        self.wrong(node, pointer, message);
                    }
                    return None;
                };
                CertificateFile {
                    file,
                    key: path(&CertificateSourceOptions::key),
                    pointer,
                }
            }
        };
        for path in std::iter::once(&named.file).chain(&named.key) {
            let path = path.display().to_string();
            if !CertificateFile::is_named_by(&path) {
                let message = format!(
                    "the path `{}` of a certificate's file does not begin with `/`, or with `./` for one relative to the files of `--config`",
                    shorten(&path)
                );
                self.wrong(node, named.pointer.clone(), message);
            }
        }
        let stored = StoredName {
            pointer: named.pointer.clone().into(),
            name: named.name(),
        };
        let mut known = self.certificate_files.iter();
        match known.find(|known| known.file == named.file) {
            None => self.certificate_files.push(named),
            Some(known) if known.key == named.key => {}
            Some(known) => {
                let message = format!(
                    "`{}` has another key at `{}`: a certificate has one",
                    shorten(&stored.name),
                    known.pointer.as_str()
                );
                self.wrong(node, named.pointer, message);
            }
        }
        Some(stored)
    }

    fn commands(&mut self, given: Option<(&'d TreeNode, Pointer)>) -> Settings {
        let mut settings = Settings::default();
        let Some((node, pointer)) = given else {
            return settings;
        };
        for member in node.members() {
            let Some(value) = member.node.as_str() else {
                continue;
            };
            let Err(refusal) = openssl::command(&member.name, value, &mut settings) else {
                continue;
            };
            let mut diagnostic = Diagnostic::new(pointer.child(&member.name), refusal.message);
            diagnostic.expected = refusal.expected;
            diagnostic.suggestion = refusal.suggestion;
            if refusal.is_name {
                self.faults.name(diagnostic, member);
            } else {
                self.faults.value(diagnostic, &member.node);
            }
        }
        settings
    }

    /// Builds `session`; a setting for tickets in `conf_commands` takes precedence only if it forbids them, or if
    /// nothing else is set.
    fn session(&mut self, tls: &Reader<'d>, commanded: Option<bool>) -> TlsSession {
        let reader = tls.inner_or_nothing(&TlsOptions::session);
        let options: TlsSessionOptions = reader.read();
        let tickets = match reader.get(&TlsSessionOptions::tickets) {
            Some((node, pointer)) => self.tickets(node, &pointer),
            None if commanded == Some(true) => Tickets::Random,
            None => Tickets::Off,
        };
        TlsSession {
            options,
            tickets: if commanded == Some(false) {
                Tickets::Off
            } else {
                tickets
            },
        }
    }

    fn tickets(&mut self, node: &'d TreeNode, pointer: &Pointer) -> Tickets {
        if matches!(node.value, Value::Bool(true)) {
            return Tickets::Random;
        }
        // Documented: an empty array means the same as `false`.
        if node.as_str().is_none() && node.elements().is_empty() {
            return Tickets::Off;
        }
        let mut keys = Vec::new();
        for (node, pointer) in each(node, pointer) {
            let Some(text) = node.as_str() else {
                continue;
            };
            // openssl-rand(1) breaks its lines.
            let text: String = text.split_ascii_whitespace().collect();
            let message = match BASE64.decode(text.as_bytes()) {
                Ok(key) if KEY_BYTES.contains(&key.len()) => {
                    keys.push(TicketKey(key));
                    continue;
                }
                Ok(key) => format!("the key is {} bytes long", key.len()),
                Err(_) => "the key is not Base64".to_owned(),
            };
            let diagnostic = Diagnostic::new(pointer, message)
                .expect("48 or 80 bytes in Base64")
                .suggest("create one with `openssl rand -base64 48`");
            self.faults.value(diagnostic, node);
        }
        Tickets::Keys(keys)
    }
}
