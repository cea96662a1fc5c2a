//! Certificate bundles that come and go, in turn with changes of the configuration.
//!
//! An `impl` block of the service's [`Inner`]. What must never happen: a bundle in force that is not stored, or the other way round.

use std::sync::Arc;
use std::time::SystemTime;

use tutti_config::{Diagnostics, Pointer};
use tutti_control::CertificateError;
use tutti_tls::Bundle;

use super::certificates;
use super::service::{Inner, fault};
use crate::protocol::ToMain;

impl Inner {
    /// Stores a bundle and puts it in force where the configuration names it: prepare, store, commit, as for any change. Connections
    /// go on with what they began with.
    pub(super) async fn store_certificate(
        &self,
        name: String,
        pem: Vec<u8>,
    ) -> Result<Vec<String>, CertificateError> {
        let bundle = Bundle::parse(&pem, SystemTime::now())
            .map_err(|error| CertificateError::Invalid(error.to_string()))?;
        let bundle = Arc::new(bundle);
        let _alone = self.changing.lock().await;
        self.must_not_be_frozen()
            .map_err(CertificateError::Failed)?;
        let config = self.config.load_full();
        let certificates = self.certificates.load().with(&name, Arc::clone(&bundle));
        let prepared = if certificates::places(&config, &name).is_empty() {
            None
        } else {
            let prepared = self.prepare_running(&config, &certificates);
            Some(prepared.map_err(CertificateError::Failed)?)
        };
        let pem = String::from_utf8_lossy(&pem).into_owned();
        let store = |id| ToMain::StoreCertificate {
            id,
            name: name.clone(),
            pem: pem.clone(),
        };
        self.have_done(&store, "store").await?;
        certificates::warn(&name, &bundle, &self.log);
        self.certificates.store(Arc::new(certificates));
        if let Some(prepared) = prepared {
            tokio::spawn(self.server.commit(prepared).end());
        }
        Ok(bundle.warnings().to_vec())
    }

    pub(super) async fn delete_certificate(&self, name: String) -> Result<(), CertificateError> {
        let _alone = self.changing.lock().await;
        self.must_not_be_frozen()
            .map_err(CertificateError::Failed)?;
        let certificates = self.certificates.load();
        if certificates.get(&name).is_none() {
            return Err(CertificateError::Unknown);
        }
        let places = certificates::places(&self.config.load(), &name);
        if !places.is_empty() {
            return Err(CertificateError::Used(places));
        }
        let remove = |id| ToMain::RemoveCertificate {
            id,
            name: name.clone(),
        };
        self.have_done(&remove, "delete").await?;
        self.certificates
            .store(Arc::new(certificates.without(&name)));
        Ok(())
    }

    async fn have_done(
        &self,
        make: &(dyn Fn(u64) -> ToMain + Sync),
        what: &str,
    ) -> Result<(), CertificateError> {
        let done = self.link.request(make, Vec::new()).await;
        done.map(drop).map_err(|refused| {
            let message = format!("cannot {what} the certificate bundle: {}", refused.message);
            let fault = fault(Pointer::default(), message, refused.hint);
            CertificateError::Failed(Diagnostics::one(fault))
        })
    }
}
