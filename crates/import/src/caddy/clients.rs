//! Options of all sites, and certificates of clients (`client_auth`).

use serde_json::json;

use super::Caddy;
use super::tree::Directive;
use crate::output::one_or_many;

impl Caddy<'_> {
    /// Takes an option of all sites that matters for access control; false if it is another one.
    pub(super) fn option_of_all(&mut self, option: &Directive) -> bool {
        match option.name() {
            "default_bind" => self.default_bind = Some(option.argument(0).to_owned()),
            "servers" => {
                for inner in option.inner() {
                    if inner.name() == "protocols" {
                        self.has_http3 = inner.arguments().iter().any(|word| word == "h3");
                        continue;
                    }
                    let hint = "the options of a listener are in `docs/reference/options.md`";
                    self.findings.lost(
                        &inner.place,
                        inner.name(),
                        "the importer does not translate it",
                        hint,
                    );
                }
            }
            "http_port" => option.argument(0).clone_into(&mut self.ports.0),
            "https_port" => option.argument(0).clone_into(&mut self.ports.1),
            "local_certs" => self.certificates.are_local = true,
            "order" => {
                let name = option.argument(0).to_owned();
                let other = option.argument(2);
                self.order.retain(|known| *known != name);
                let position = self.order.iter().position(|known| known == other);
                let at = match (option.argument(1), position) {
                    ("last", _) => self.order.len(),
                    ("before", Some(at)) => at,
                    ("after", Some(at)) => at + 1,
                    _ => 0,
                };
                self.order.insert(at, name);
            }
            _ => return false,
        }
        true
    }

    /// Returns the destination for clients whose certificates a site checks. A listener has one setting for all its clients, and each site
    /// checks the certificate that came.
    pub(super) fn with_client(
        &mut self,
        tls: &Directive,
        listen: &str,
        destination: String,
    ) -> String {
        for option in tls.inner().iter().filter(|one| one.name() != "client_auth") {
            let hint = "see the options of `tls` in `docs/http/tls.md`";
            self.findings
                .lost(&option.place, option.name(), "it is not carried over", hint);
        }
        let Some(asks) = tls.inner().iter().find(|one| one.name() == "client_auth") else {
            return destination;
        };
        let refuse = |caddy: &mut Self, problem: &str| {
            let problem = format!("{problem}: the site responds 403 to all requests");
            let hint = "name files with CA certificates in `tls.client_ca` of the listener";
            caddy
                .findings
                .lost(&asks.place, "client_auth", &problem, hint);
            let steps = vec![json!({"action": {"return": 403}})];
            caddy.out.add_route("refused", steps)
        };
        let Some((authorities, is_required)) = read(asks) else {
            return refuse(
                self,
                "it requests client certificates in a way that Tutti does not support",
            );
        };
        let authorities = one_or_many(authorities);
        let options = self.out.listeners.get_mut(listen);
        let options = options.and_then(|listener| listener.get_mut("tls")?.as_object_mut());
        let Some(options) = options else {
            return refuse(self, "its listener does not use TLS");
        };
        let known = options
            .entry("client_ca")
            .or_insert_with(|| authorities.clone());
        if *known != authorities {
            return refuse(
                self,
                "another site of its listener has other CA certificates",
            );
        }
        options.insert("client_verify".to_owned(), "optional".into());
        if !is_required {
            return destination;
        }
        let test = "`${vars.tls_client_verify === 'SUCCESS' ? '' : 1}`";
        let steps = vec![
            json!({"match": {"if": test}, "action": {"return": 403}}),
            json!({"action": {"pass": destination}}),
        ];
        self.out.add_route("with-certificate", steps)
    }
}

/// The files of the authorities, and whether a certificate is required; `None` for what cannot be carried over.
fn read(asks: &Directive) -> Option<(Vec<String>, bool)> {
    let mut files: Vec<String> = Vec::new();
    let mut is_required = true;
    for option in asks.inner() {
        match (option.name(), option.argument(0)) {
            ("mode", "require_and_verify") => {}
            ("mode", "verify_if_given") => is_required = false,
            ("trusted_ca_cert_file", _) => files.extend_from_slice(option.arguments()),
            ("trust_pool", "file") => {
                files.extend_from_slice(option.arguments().get(1..)?);
                for inner in option.inner() {
                    match inner.name() {
                        "pem_file" => files.extend_from_slice(inner.arguments()),
                        _ => return None,
                    }
                }
            }
            _ => return None,
        }
    }
    let is_path = |file: &String| file.starts_with('/');
    (!files.is_empty() && files.iter().all(is_path)).then_some((files, is_required))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::SourceLocation;

    fn directive(words: &[&str], block: Vec<Directive>) -> Directive {
        Directive {
            place: SourceLocation {
                file: "".into(),
                line: 1,
            },
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            block: Some(block),
        }
    }

    #[test]
    fn what_is_not_known_is_not_read() {
        let asks = |inner: &[&[&str]]| {
            let block = inner.iter().map(|words| directive(words, Vec::new()));
            read(&directive(&["client_auth"], block.collect()))
        };
        let file = ["trusted_ca_cert_file", "/ca.pem"];
        let files = vec!["/ca.pem".to_owned()];
        assert_eq!(asks(&[&file]), Some((files.clone(), true)));
        assert_eq!(
            asks(&[&["mode", "verify_if_given"], &file]),
            Some((files, false))
        );
        assert_eq!(asks(&[&["mode", "request"], &file]), None);
        assert_eq!(asks(&[&["mode", "require_and_verify"]]), None);
        assert_eq!(asks(&[&["verifier", "leaf"], &file]), None);
    }
}
