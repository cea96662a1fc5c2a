//! Automatic certificates: accounts, and the required names.

use std::collections::{BTreeMap, BTreeSet};

use data_encoding::BASE64URL_NOPAD;
use tutti_document::{Diagnostic, Pointer, TreeNode, shorten, suggest};
use tutti_options::acme_names::{INTERNAL, Proof, check, is_mail_address, is_web_address};
use tutti_options::table::Opt;

use super::builder::Builder;
use super::reader::{Reader, each, strings};
use crate::model::{AcmeAccount, AcmeCertificate, Eab, StoredName, TlsOnDemand};
use crate::table::{
    AcmeOptions, CertificateSourceOptions, ChallengeWord, EabOptions, NameserverOptions,
    OnDemandOptions, RootOptions, SettingsOptions,
};

/// Maximum names of one certificate, as for Let's Encrypt.
const MOST_NAMES: usize = 100;

impl<'d> Builder<'d> {
    /// `settings.acme`.
    pub(super) fn acme_accounts(
        &mut self,
        given: Option<(&'d TreeNode, Pointer)>,
    ) -> BTreeMap<String, AcmeAccount> {
        let Some((node, pointer)) = given else {
            return BTreeMap::new();
        };
        let members = node.members().iter();
        members
            .map(|member| {
                let reader = Reader::new(&member.node, pointer.child(&member.name));
                let name = member.name.to_string();
                (name, self.acme_account(&reader))
            })
            .collect()
    }

    fn acme_account(&mut self, reader: &Reader<'d>) -> AcmeAccount {
        let options: AcmeOptions = reader.read();
        if options.directory == INTERNAL {
            self.check_internal(reader);
        } else if !options.directory.starts_with("https://")
            && let Some((node, pointer)) = reader.get(&AcmeOptions::directory)
        {
            let fault = Diagnostic::new(pointer, "an authority must be reached over HTTPS")
                .expect("a URL that begins with `https://`, or `internal`");
            self.faults.value(fault, node);
        }
        if let Some((node, pointer)) = reader.get(&AcmeOptions::contact) {
            for (node, pointer) in each(node, &pointer) {
                if !node.as_str().is_none_or(is_mail_address) {
                    let fault = Diagnostic::new(pointer, "this is not a mail address")
                        .expect("an address like `admin@example.com`");
                    self.faults.value(fault, node);
                }
            }
        }
        for option in [&AcmeOptions::hook, &AcmeOptions::roots] {
            self.must_be_absolute(reader, option);
        }
        let nameserver = reader.inner(&AcmeOptions::rfc2136);
        self.check_records(reader, &options);
        let eab = reader.inner(&AcmeOptions::eab);
        AcmeAccount {
            eab: eab.and_then(|eab| self.eab(&eab)),
            nameserver: nameserver.map(|inner| self.nameserver(&inner)),
            on_demand: reader
                .inner(&AcmeOptions::on_demand)
                .map(|inner| self.on_demand(&inner)),
            options,
        }
    }

    /// Refuses the options about an authority that is reached over the network.
    fn check_internal(&mut self, reader: &Reader<'d>) {
        for option in [
            &AcmeOptions::contact,
            &AcmeOptions::eab,
            &AcmeOptions::profile,
            &AcmeOptions::challenge,
            &AcmeOptions::roots,
        ] {
            let name = option.name;
            let message = format!("`{name}` has no effect with `\"directory\": \"internal\"`");
            self.refuse(reader, option, &message);
        }
    }

    /// Checks the options that add the records of `dns-01` to the DNS.
    fn check_records(&mut self, reader: &Reader<'d>, options: &AcmeOptions) {
        let ways = [&AcmeOptions::hook, &AcmeOptions::rfc2136];
        let given = ways.map(|way| reader.has(way));
        if options.challenge != ChallengeWord::Dns {
            for way in ways {
                let message = format!(
                    "`{}` has no effect without `\"challenge\": \"dns-01\"`",
                    way.name
                );
                self.refuse(reader, way, &message);
            }
        } else if given == [true, true] {
            let message = "a record is added to the DNS by a `hook` or by `rfc2136`, not by both";
            self.refuse(reader, &AcmeOptions::hook, message);
        } else if let (Some((node, pointer)), [false, false]) =
            (reader.get(&AcmeOptions::challenge), given)
        {
            let message = "`dns-01` needs a `hook`, the program that adds the record to the DNS, or `rfc2136`, a name server that accepts updates";
            self.wrong(node, pointer, message);
        }
    }

    fn nameserver(&mut self, reader: &Reader<'d>) -> NameserverOptions {
        self.must_be_absolute(reader, &NameserverOptions::secret_file);
        reader.read()
    }

    fn on_demand(&mut self, reader: &Reader<'d>) -> OnDemandOptions {
        if let Some((node, pointer)) = reader.get(&OnDemandOptions::ask)
            && !node.as_str().is_none_or(is_web_address)
        {
            let fault = Diagnostic::new(pointer, "this is not a usable URL").expect(
                "a URL that begins with `http://` or `https://`, without `#`, user and spaces",
            );
            self.faults.value(fault, node);
        }
        reader.read()
    }

    pub(super) fn must_be_absolute(&mut self, reader: &Reader<'d>, option: &Opt) {
        if let Some((node, pointer)) = reader.get(option)
            && !node.as_str().is_none_or(|path| path.starts_with('/'))
        {
            self.wrong(node, pointer, "the path does not begin with `/`");
        }
    }

    fn eab(&mut self, reader: &Reader<'d>) -> Option<Eab> {
        let options: EabOptions = reader.read();
        let (node, pointer) = reader.get(&EabOptions::hmac_key)?;
        let key = options.hmac_key.trim_end_matches('=');
        let key = BASE64URL_NOPAD.decode(key.as_bytes()).unwrap_or_default();
        if key.is_empty() {
            self.wrong(node, pointer, "the key is empty or not in URL-safe Base64");
            return None;
        }
        Some(Eab {
            kid: options.kid,
            key,
        })
    }

    /// Builds `{"acme": …}` instead of a certificate.
    pub(super) fn acme_certificate(&mut self, reader: &Reader<'d>) -> Option<StoredName> {
        if reader.has(&CertificateSourceOptions::file) {
            let message = "a certificate comes from a `file` or from `acme`, not from both";
            self.refuse(reader, &CertificateSourceOptions::file, message);
        }
        let account = reader.text(&CertificateSourceOptions::acme)?;
        let found = self.acme_options(account, reader);
        if reader.read::<CertificateSourceOptions>().on_demand {
            self.names_on_demand(account, reader, found.as_ref());
            return None;
        }
        let options = found.map(|found| found.read::<AcmeOptions>());
        let proof = options.map(|options| match options.challenge {
            _ if options.directory == INTERNAL => Proof::Internal,
            ChallengeWord::Dns => Proof::Record,
            ChallengeWord::Http | ChallengeWord::TlsAlpn => Proof::Connection,
        });
        let Some((node, pointer)) = reader.get(&CertificateSourceOptions::names) else {
            let message = "`acme` needs `names`, the names that the certificate is for";
            self.wrong(reader.node, reader.pointer.clone(), message);
            return None;
        };
        let names = strings(node);
        if names.is_empty() || names.len() > MOST_NAMES {
            let message = format!("a certificate is for 1 to {MOST_NAMES} names");
            self.wrong(node, pointer, message);
            return None;
        }
        for (node, pointer) in each(node, &pointer) {
            let Some(name) = node.as_str() else { continue };
            if let Err(reason) = check(name, proof) {
                let message = format!("`{}` {reason}", shorten(name));
                self.wrong(node, pointer, message);
            }
        }
        let names: BTreeSet<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        let certificate = AcmeCertificate {
            pointer: reader.pointer.clone(),
            account: account.to_owned(),
            names: names.into_iter().collect(),
        };
        let stored = StoredName {
            pointer: reader.pointer.clone().into(),
            name: certificate.bundle(),
        };
        let mut known = self.acme_certificates.iter();
        if !known.any(|known| known.bundle() == stored.name) {
            self.acme_certificates.push(certificate);
        }
        Some(stored)
    }

    /// Builds certificates for the names that clients ask for.
    fn names_on_demand(&mut self, account: &str, reader: &Reader<'d>, found: Option<&Reader<'d>>) {
        let message = "a certificate is for these `names` or for those that clients ask for, not for both: write two";
        self.refuse(reader, &CertificateSourceOptions::names, message);
        let Some(found) = found else { return };
        let place = reader.place(&CertificateSourceOptions::on_demand);
        let Some(options) = found.inner(&AcmeOptions::on_demand) else {
            let message = format!(
                "the account `{}` has no `on_demand` with an `ask`, the URL that decides which names may have a certificate",
                shorten(account)
            );
            return self.wrong(reader.node, place, message);
        };
        if self.on_demand.is_some() {
            let message = "only one account gets certificates on demand for a listener";
            return self.wrong(reader.node, place, message);
        }
        self.on_demand = Some(TlsOnDemand {
            account: account.to_owned(),
            timeout: options.read::<OnDemandOptions>().timeout,
        });
    }

    /// Returns the options of this account, which must exist.
    fn acme_options(&mut self, account: &str, reader: &Reader<'d>) -> Option<Reader<'d>> {
        let settings = self.root.child(RootOptions::settings.name);
        let accounts = settings.and_then(|node| node.child(SettingsOptions::acme.name));
        let members = accounts.map(TreeNode::members).unwrap_or_default();
        if let Some(found) = members.iter().find(|member| *member.name == *account) {
            return Some(Reader::new(&found.node, Pointer::root()));
        }
        let (node, pointer) = reader.get(&CertificateSourceOptions::acme)?;
        let message = format!(
            "there is no account `{}` in `settings/acme`",
            shorten(account)
        );
        let names = members.iter().map(|member| &*member.name);
        let hint = match suggest::nearest(account, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`{\"letsencrypt\": {}}` creates an account with Let's Encrypt".to_owned(),
        };
        self.faults
            .value(Diagnostic::new(pointer, message).suggest(hint), node);
        None
    }
}
