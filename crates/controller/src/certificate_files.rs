//! Certificates that the configuration names by file: main reads them, and they are stored like uploaded ones, under
//! their path.
//!
//! So a router, an upgrade and a start have them even if the files have been deleted since. An `impl` block of the
//! service's [`Inner`]. Must never happen: that a file with a fault replaces a certificate that works.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tutti_config::model::CertificateFile;
use tutti_config::{Diagnostic, Diagnostics};
use tutti_control::StoreError;
use tutti_log::Level;
use tutti_protocol::{Change, FromController, StoreKind};
use tutti_tls::Bundle;
use tutti_unprivileged::certificates::{self, Certificates};

use super::line::fetch;
use super::service::{ControllerService, Inner};

/// Interval between checks of the files, so that renewing a certificate needs no notification.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Ends the first line of every key in PEM.
const PRIVATE_KEY: &str = "PRIVATE KEY-----";

/// The content of the files of one certificate.
pub(super) struct Read {
    name: String,
    text: String,
    bundle: Arc<Bundle>,
}

/// Returns the texts by the names under which they are stored.
pub(super) fn texts(read: &[Read]) -> BTreeMap<String, String> {
    let all = read.iter();
    all.map(|read| (read.name.clone(), read.text.clone()))
        .collect()
}

impl Inner {
    /// Reads the current content of these files.
    pub(super) async fn read_certificates(
        &self,
        named: &[CertificateFile],
    ) -> Result<Vec<Read>, Diagnostics> {
        let mut all = Vec::new();
        let mut faults = Vec::new();
        for named in named {
            match self.read_certificate(named).await {
                Ok(read) => all.push(read),
                Err(message) => {
                    faults.push(Diagnostic::apply(named.pointer.clone(), message));
                }
            }
        }
        if faults.is_empty() {
            Ok(all)
        } else {
            Err(Diagnostics(faults))
        }
    }

    async fn read_certificate(&self, named: &CertificateFile) -> Result<Read, String> {
        let make = |id| FromController::ReadCertificate {
            id,
            file: named.file.clone(),
            key: named.key.clone(),
        };
        let text = fetch(&self.link, &make).await?.unwrap_or_default();
        let name = named.name();
        let text = String::from_utf8_lossy(&text).into_owned();
        if named.key.is_none() && !text.contains(PRIVATE_KEY) {
            return Err(format!(
                "`{name}` has no private key; hint: name the key's file, {{\"file\": \"{name}\", \"key\": \"…\"}}"
            ));
        }
        let bundle = Bundle::parse(text.as_bytes(), SystemTime::now());
        let bundle = bundle.map_err(|error| format!("`{name}`: {error}"))?;
        Ok(Read {
            name,
            text,
            bundle: Arc::new(bundle),
        })
    }

    /// Puts these in force, and returns the names of those that were not. The caller must hold `changing`.
    pub(super) async fn keep_certificates(
        &self,
        read: Vec<Read>,
    ) -> Result<Vec<String>, Diagnostics> {
        let mut changed = Vec::new();
        for Read { name, text, bundle } in read {
            let known = self.certificates.load().get(&name);
            if known.is_some_and(|known| known.is_same(&bundle)) {
                continue;
            }
            let kept = self.keep_bundle(name.clone(), text, bundle).await;
            kept.map_err(|error| match error {
                StoreError::Failed(faults) => faults,
                StoreError::Invalid(fault) => Diagnostics::one(*fault),
                StoreError::Unknown | StoreError::Used(_) => Diagnostics::default(),
            })?;
            changed.push(name);
        }
        Ok(changed)
    }

    /// Forgets files that the configuration in force no longer names. The caller must hold `changing`.
    pub(super) async fn forget_certificates(&self) {
        let config = self.config.load_full();
        let all = self.certificates.load_full();
        let unused = all.names().filter(|name| {
            CertificateFile::is_named_by(name) && certificates::places(&config, name).is_empty()
        });
        for name in unused {
            let without = self.certificates.load().without(name);
            let change = Change::Discard {
                store: StoreKind::Certificates,
                name: name.to_owned(),
            };
            let modules = self.js_modules.load_full();
            let changed = self.change_stored(change, &without, &modules).await;
            if changed.is_ok() {
                self.certificates.store(Arc::new(without));
            }
        }
    }

    /// Reads the files that the configuration in force names again.
    ///
    /// # Errors
    /// One cannot be used; the others are in force.
    async fn renew_certificates(&self) -> Result<(), Diagnostics> {
        let _alone = self.changing.lock().await;
        let config = self.config.load_full();
        let mut faults = Diagnostics::default();
        for named in &config.certificate_files {
            if let Err(found) = self.renew_from_file(named).await {
                faults.0.extend(found.0);
            }
        }
        if faults.0.is_empty() {
            Ok(())
        } else {
            Err(faults)
        }
    }

    /// Reads the files of one certificate again. The caller must hold `changing`.
    pub(super) async fn renew_from_file(&self, named: &CertificateFile) -> Result<(), Diagnostics> {
        let read = self.read_certificates(std::slice::from_ref(named)).await?;
        for name in self.keep_certificates(read).await? {
            let message = format!("the certificate `{name}` was renewed from its file");
            self.log.line(Level::Notice, &message);
        }
        Ok(())
    }
}

impl ControllerService {
    /// Main stores these before anything is served.
    pub(super) fn adopt(&self, read: &[Read]) {
        let mut certificates = Certificates::clone(&self.0.certificates.load());
        for Read { name, bundle, .. } in read {
            certificates = certificates.with(name, Arc::clone(bundle));
            certificates::warn(name, bundle, &self.0.log);
        }
        self.0.certificates.store(Arc::new(certificates));
    }

    /// Checks the files again.
    pub(super) async fn renew_certificates(&self) -> Result<(), Diagnostics> {
        self.0.renew_certificates().await
    }

    /// Checks the files periodically as long as the controller runs. A certificate and its key are often replaced one
    /// after the other: a fault is reported only if it persists at the second check.
    pub(super) async fn watch_certificates(self) {
        let (mut seen, mut reported) = (String::new(), String::new());
        loop {
            let takes_changes = self.0.must_take_changes().is_ok();
            if takes_changes && !self.0.config.load().certificate_files.is_empty() {
                let fault = match self.renew_certificates().await {
                    Ok(()) => String::new(),
                    Err(faults) => {
                        let details: Vec<String> =
                            faults.0.iter().map(Diagnostic::detail).collect();
                        details.join("; ")
                    }
                };
                if fault.is_empty() {
                    reported.clear();
                } else if fault == seen && fault != reported {
                    let message = format!(
                        "a certificate cannot be renewed from its file, and the former one stays in use: {fault}"
                    );
                    self.0.log.line(Level::Alert, &message);
                    reported.clone_from(&fault);
                }
                seen = fault;
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }
}
