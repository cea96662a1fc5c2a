//! Accounts with authorities.
//!
//! The key of an account is stored before the account is registered, so that a process that is interrupted in between
//! registers the same account again. An account with an external binding is registered with a key of its own, which is
//! stored right afterwards.

use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use instant_acme::{Account, AccountBuilder, ExternalAccountKey, Key, NewAccount};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tutti_protocol::AccountPlan;

use crate::documents::{AccountDocument, Documents};
use crate::failure::OrderError;
use crate::fleet::Unclaimed;
use crate::http::Authority;

/// Pause between two checks whether another node has registered the account, and their number.
const LOOK: Duration = Duration::from_millis(300);
const LOOKS: u32 = 100;

/// Returns the account of this name, and registers it if there is none yet: one node does so for all nodes of a fleet.
pub(crate) async fn open(
    documents: &Documents,
    name: &str,
    plan: &AccountPlan,
    authority: &Authority,
) -> Result<Account, OrderError> {
    let Some(fleet) = &documents.fleet else {
        return open_alone(documents, name, plan, authority).await;
    };
    let is_there = || {
        let document = documents.account(name);
        document.url.is_some()
            && document.directory == plan.directory
            && document.contact == plan.contact
    };
    if is_there() {
        return open_alone(documents, name, plan, authority).await;
    }
    let _turn = fleet.accounts.lock().await;
    let mut looks = 0;
    while !is_there() {
        match documents.claim_account(name).await {
            Ok(()) => {
                let opened = open_claimed(documents, name, plan, authority).await;
                documents.release_account(name).await;
                return opened;
            }
            Err(Unclaimed::Busy(_)) if looks < LOOKS => {
                looks += 1;
                tokio::time::sleep(LOOK).await;
            }
            Err(unclaimed) => return Err(unclaimed.into()),
        }
    }
    open_alone(documents, name, plan, authority).await
}

/// Opens the account of a fleet, which this node has claimed.
async fn open_claimed(
    documents: &Documents,
    name: &str,
    plan: &AccountPlan,
    authority: &Authority,
) -> Result<Account, OrderError> {
    let former = documents.former_account(name);
    if let Some(former) = former.filter(|former| former.directory == plan.directory) {
        documents.keep_account(name, &former).await?;
    }
    open_alone(documents, name, plan, authority).await
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

fn pkcs8(document: &AccountDocument) -> Result<PrivatePkcs8KeyDer<'static>, OrderError> {
    let bytes = BASE64URL_NOPAD.decode(document.key.as_bytes());
    let bytes = bytes.map_err(|_| OrderError::new("the key of the account cannot be read"))?;
    Ok(PrivatePkcs8KeyDer::from(bytes))
}
