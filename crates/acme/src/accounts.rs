//! Accounts with authorities.
//!
//! The key of an account is stored before the account is registered, so that a process that is interrupted in between
//! registers the same account again. An account with an external binding is registered with a key of its own, which is
//! stored right afterwards.

use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use instant_acme::{Account, AccountBuilder, ExternalAccountKey, Key, NewAccount};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::sync::MutexGuard;
use tutti_protocol::AccountPlan;

use crate::documents::{AccountDocument, Documents};
use crate::failure::OrderError;
use crate::fleet::Unclaimed;
use crate::http::Authority;

/// Pause between two checks whether another node has registered the account, and their number.
const LOOK: Duration = Duration::from_millis(300);
const LOOKS: u32 = 100;

/// Returns the account of this name, and registers it if there is none yet.
pub(crate) async fn open(
    documents: &Documents,
    name: &str,
    plan: &AccountPlan,
    authority: &Authority,
) -> Result<Account, OrderError> {
    let is_there = || {
        let document = documents.account(name);
        document.url.is_some()
            && document.directory == plan.directory
            && document.contact == plan.contact
    };
    let claim = claim(documents, (name, &plan.directory), is_there).await?;
    let opened = open_alone(documents, name, plan, authority).await;
    if claim.is_some() {
        documents.release_account(name).await;
    }
    opened
}

/// Waits until an account is there, or may be created here: one node does so for all nodes of a fleet, and must release it afterwards.
pub(crate) async fn claim<'d>(
    documents: &'d Documents,
    (name, directory): (&str, &str),
    is_there: impl Fn() -> bool,
) -> Result<Option<MutexGuard<'d, ()>>, OrderError> {
    let Some(fleet) = &documents.fleet else {
        return Ok(None);
    };
    if is_there() {
        return Ok(None);
    }
    let turn = fleet.accounts.lock().await;
    let mut looks = 0;
    while !is_there() {
        match documents.claim_account(name).await {
            Ok(()) => {
                let former = documents.former_account(name);
                if let Some(former) = former.filter(|former| former.directory == directory)
                    && let Err(error) = documents.keep_account(name, &former).await
                {
                    documents.release_account(name).await;
                    return Err(error);
                }
                return Ok(Some(turn));
            }
            Err(Unclaimed::Busy(_)) if looks < LOOKS => {
                looks += 1;
                tokio::time::sleep(LOOK).await;
            }
            Err(unclaimed) => return Err(unclaimed.into()),
        }
    }
    Ok(None)
}

async fn open_alone(
    documents: &Documents,
    name: &str,
    plan: &AccountPlan,
    authority: &Authority,
) -> Result<Account, OrderError> {
    let builder = Account::builder_with_http(Box::new(authority.clone()));
    let mut document = documents.account(name);
    if document.directory != plan.directory {
        document = AccountDocument {
            directory: plan.directory.clone(),
            ..AccountDocument::default()
        };
    }
    if let Some(url) = document.url.clone() {
        let account = builder.from_parts(url, pkcs8(&document)?, plan.directory.clone());
        let account = account.await?;
        if document.contact != plan.contact {
            write_to(&account, plan).await?;
            document.contact.clone_from(&plan.contact);
            documents.keep_account(name, &document).await?;
        }
        return Ok(account);
    }
    let (account, contact) = match &plan.eab {
        Some(eab) => bound(builder, plan, eab, &mut document).await?,
        None => {
            if document.key.is_empty() {
                let (_, key) = Key::generate_pkcs8()?;
                document.key = BASE64URL_NOPAD.encode(key.secret_pkcs8_der());
                documents.keep_account(name, &document).await?;
            }
            let key = (
                Key::from_pkcs8_der(pkcs8(&document)?)?,
                PrivateKeyDer::Pkcs8(pkcs8(&document)?),
            );
            let account = builder.create_from_key(key, plan.directory.clone());
            (account.await?.0, Vec::new())
        }
    };
    document.url = Some(account.id().to_owned());
    document.contact = contact;
    documents.keep_account(name, &document).await?;
    if document.contact != plan.contact {
        write_to(&account, plan).await?;
        document.contact.clone_from(&plan.contact);
        documents.keep_account(name, &document).await?;
    }
    Ok(account)
}

/// Forgets that the account is registered, but keeps its key.
pub(crate) async fn forget(documents: &Documents, name: &str) -> Result<(), OrderError> {
    let _turn = match &documents.fleet {
        Some(fleet) => Some(fleet.accounts.lock().await),
        None => None,
    };
    documents.claim_account(name).await?;
    let mut document = documents.account(name);
    document.url = None;
    let kept = documents.keep_account(name, &document).await;
    documents.release_account(name).await;
    kept
}

async fn bound(
    builder: AccountBuilder,
    plan: &AccountPlan,
    (kid, key): &(String, Vec<u8>),
    document: &mut AccountDocument,
) -> Result<(Account, Vec<String>), OrderError> {
    let contact = addresses(plan);
    let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
    let new = NewAccount {
        contact: &contact,
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let binding = ExternalAccountKey::new(kid.clone(), key);
    let made = builder.create(&new, plan.directory.clone(), Some(&binding));
    let (account, credentials) = made.await?;
    document.key = BASE64URL_NOPAD.encode(credentials.private_key().secret_pkcs8_der());
    Ok((account, plan.contact.clone()))
}

async fn write_to(account: &Account, plan: &AccountPlan) -> Result<(), OrderError> {
    let contact = addresses(plan);
    let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
    Ok(account.update_contacts(&contact).await?)
}

fn addresses(plan: &AccountPlan) -> Vec<String> {
    let contact = plan.contact.iter();
    contact.map(|address| format!("mailto:{address}")).collect()
}

pub(crate) fn pkcs8(document: &AccountDocument) -> Result<PrivatePkcs8KeyDer<'static>, OrderError> {
    let bytes = BASE64URL_NOPAD.decode(document.key.as_bytes());
    let bytes = bytes.map_err(|_| OrderError::new("the key of the account cannot be read"))?;
    Ok(PrivatePkcs8KeyDer::from(bytes))
}
