//! The renewal time that an authority suggests.

use instant_acme::{CertificateIdentifier, Error};
use tutti_protocol::{AccountPlan, CertificatePlan};

use crate::documents::Issued;
use crate::failure::OrderError;
use crate::http::Authority;
use crate::scheduler::{Inner, unix_time};
use crate::shared::Work;
use crate::{accounts, schedule};

/// Time for which the absence of a suggestion is remembered, in seconds.
const NO_ADVICE: i64 = 86_400;

/// Time until the authority is asked again after a failure.
const ADVICE_AGAIN: i64 = 3600;

impl Inner {
    /// Asks the authority when a certificate should be renewed (RFC 9773).
    pub(crate) async fn ask_advice(
        &self,
        bundle: &str,
        wanted: &CertificatePlan,
        account: &AccountPlan,
    ) {
        let mut document = self.document(bundle, wanted, account);
        let Some(issued) = &mut document.issued else {
            return;
        };
        let now = unix_time();
        match self.advice(bundle, wanted, account, issued).await {
            Ok(Some((advised, holds))) => {
                issued.advised = Some(advised);
                issued.ask_at = now.saturating_add(holds);
            }
            Ok(None) => issued.ask_at = now.saturating_add(NO_ADVICE),
            // The former suggestion stays valid.
            Err(_) => issued.ask_at = now.saturating_add(ADVICE_AGAIN),
        }
        self.keep_or_note(bundle, &document, (Work::Advice, ADVICE_AGAIN))
            .await;
    }

    async fn advice(
        &self,
        bundle: &str,
        wanted: &CertificatePlan,
        plan: &AccountPlan,
        issued: &Issued,
    ) -> Result<Option<(i64, i64)>, OrderError> {
        let Some((authority, serial)) = &issued.id else {
            return Ok(None);
        };
        let id = CertificateIdentifier {
            authority_key_identifier: authority.as_str().into(),
            serial: serial.as_str().into(),
        };
        let authority = Authority::new(plan.roots.as_deref())?;
        let account = accounts::open(&self.documents, &wanted.account, plan, &authority).await?;
        match account.renewal_info(&id).await {
            Ok((info, delay)) => {
                let window = info.suggested_window;
                let (start, end) = (window.start.unix_timestamp(), window.end.unix_timestamp());
                let at = schedule::advised(start, end, bundle);
                Ok(Some((at, schedule::advice_holds(delay))))
            }
            Err(Error::Unsupported(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
