//! Servers as listeners see them, and the certificates that they ask their clients for.

use serde_json::{Map, Value, json};

use super::site::Compiler;
use super::tree::Statement;
use crate::finding::SourceLocation;

/// A `listen` of a server.
#[derive(Clone, Debug)]
pub(super) struct Listen {
    pub(super) address: String,
    pub(super) is_tls: bool,
    pub(super) is_quic: bool,
    pub(super) is_default: bool,
    /// `ipv6only=off`.
    pub(super) has_ipv4: bool,
    pub(super) proxy_protocol: bool,
    pub(super) place: SourceLocation,
}

/// A server as listeners see it.
pub(super) struct Host<'s> {
    pub(super) statement: &'s Statement,
    pub(super) destination: String,
    pub(super) listens: Vec<Listen>,
}

/// A server at one address, and where its requests go from there.
pub(super) struct Entry<'h, 's> {
    pub(super) host: &'h Host<'s>,
    pub(super) listen: &'h Listen,
    pub(super) destination: String,
}

impl Compiler<'_> {
    /// Certificates of clients. A listener has one setting for all its servers, and each server checks the certificate
    /// that came.
    pub(super) fn client_certificates(
        &mut self,
        here: &mut [Entry<'_, '_>],
        http: &[Statement],
        tls: &mut Map<String, Value>,
    ) {
        let asked: Vec<Verify> = here.iter().map(|one| self.verify(one.host, http)).collect();
        let known =
            |verify: &&Verify| matches!(verify.how, How::Required | How::Optional | How::Reported);
        let authorities = asked.iter().find(known).map(|one| one.authorities.clone());
        let holds = |verify: &Verify| {
            verify.how == How::Required && Some(&verify.authorities) == authorities.as_ref()
        };
        let is_required = asked.iter().all(holds);
        let reports = asked.iter().any(|one| one.how == How::Reported);
        if let Some(authorities) = &authorities {
            tls.insert(
                "client_ca".to_owned(),
                crate::output::one_or_many(authorities.clone()),
            );
            if !is_required {
                tls.insert("client_verify".to_owned(), "optional".into());
            }
            // nginx answers such clients with 400.
            let failure = if reports { "report" } else { "page" };
            tls.insert("client_failure".to_owned(), failure.into());
        }
        for (one, verify) in here.iter_mut().zip(&asked) {
            let is_same = Some(&verify.authorities) == authorities.as_ref();
            if rejects_handshakes(one.host, http) {
                one.destination = self.refusal();
                continue;
            }
            match verify.how {
                How::Off => {}
                How::Required if is_required => {}
                How::Reported if is_same => {}
                How::Optional if is_same => {
                    if reports {
                        const FAILED: &str =
                            "`${(vars.tls_client_verify ?? '').startsWith('FAILED') ? 1 : ''}`";
                        one.destination = self.refused_if(FAILED, &one.destination);
                    }
                }
                How::Required if is_same => {
                    const MISSING: &str = "`${vars.tls_client_verify === 'SUCCESS' ? '' : 1}`";
                    one.destination = self.refused_if(MISSING, &one.destination);
                    if let Some(place) = &verify.place {
                        let problem = "a listener requests certificates from all clients or from none: it requests them for its other servers, too";
                        let hint = "use a separate listener for this server";
                        self.findings
                            .note(place, "ssl_verify_client", problem, hint);
                    }
                }
                How::Required | How::Optional | How::Reported | How::Unknown => {
                    one.destination = self.refusal();
                    if let Some(place) =
                        verify.place.as_ref().filter(|_| verify.how != How::Unknown)
                    {
                        let problem = "a listener has one set of CA certificates for clients, and this server has another: it responds 403 there";
                        let hint = "use a separate listener for this server";
                        self.findings
                            .lost(place, "ssl_verify_client", problem, hint);
                    }
                }
            }
        }
    }

    /// The certificates that a server asks its clients for.
    fn verify(&mut self, host: &Host<'_>, http: &[Statement]) -> Verify {
        let find = |name: &'static str| inherited(name, host.statement.inner(), http).next();
        let mut verify = Verify {
            how: How::Off,
            authorities: Vec::new(),
            place: None,
        };
        let Some(asks) = find("ssl_verify_client").filter(|asks| asks.argument(0) != "off") else {
            return verify;
        };
        verify.place = Some(asks.place.clone());
        for name in ["ssl_client_certificate", "ssl_trusted_certificate"] {
            if let Some(authority) = find(name) {
                verify.authorities.push(self.beside(authority.argument(0)));
            }
        }
        let mut unchecked = ["ssl_crl", "ssl_ocsp"].into_iter().filter_map(find);
        let unchecked = unchecked.rfind(|one| one.argument(0) != "off");
        if let Some(unchecked) = unchecked {
            let problem =
                "revoked certificates would be accepted: the server responds 403 over TLS";
            let hint = "authenticate clients in another way (`docs/http/access.md`)";
            self.findings
                .lost(&unchecked.place, unchecked.name(), problem, hint);
            verify.how = How::Unknown;
        } else if verify.authorities.is_empty() && asks.argument(0) == "optional_no_ca" {
            let problem = "certificates are requested only if they can be verified: this server does not request them";
            let hint = "name the CA certificates in `tls.client_ca` of the listener";
            self.findings.lost(&asks.place, asks.name(), problem, hint);
        } else if verify.authorities.is_empty() {
            let problem = "it has no `ssl_client_certificate`: the server responds 403 over TLS";
            let hint = "name the CA certificates in `tls.client_ca` of the listener";
            self.findings.lost(&asks.place, asks.name(), problem, hint);
            verify.how = How::Unknown;
        } else {
            verify.how = match asks.argument(0) {
                "optional" => How::Optional,
                "optional_no_ca" => How::Reported,
                _ => How::Required,
            };
        }
        verify
    }

    /// A destination that answers 400 if a condition holds, and otherwise leads to another one.
    fn refused_if(&mut self, condition: &str, destination: &str) -> String {
        let steps = vec![
            json!({"match": {"if": condition}, "action": {"return": 400}}),
            json!({"action": {"pass": destination}}),
        ];
        self.out.add_route("with-certificate", steps)
    }

    /// A destination that answers 403.
    pub(super) fn refusal(&mut self) -> String {
        let steps = Value::from(vec![json!({"action": {"return": 403}})]);
        let mut routes = self.out.routes.iter();
        match routes.find(|(_, known)| **known == steps) {
            Some((name, _)) => format!("routes/{name}"),
            None => {
                let name = self.out.route_name("refused");
                self.out.routes.insert(name.clone(), steps);
                format!("routes/{name}")
            }
        }
    }
}

/// Certificates that a server asks its clients for.
struct Verify {
    how: How,
    authorities: Vec<String>,
    place: Option<SourceLocation>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Off,
    Optional,
    Required,
    /// Requests with an invalid one are served, too, and a variable has the reason.
    Reported,
    /// In a way that cannot be carried over.
    Unknown,
}

/// The directives of a name in a server, or else those around it.
pub(super) fn inherited<'s>(
    name: &'static str,
    server: &'s [Statement],
    http: &'s [Statement],
) -> impl Iterator<Item = &'s Statement> {
    let has = |block: &[Statement]| block.iter().any(|statement| statement.name() == name);
    let block = if has(server) { server } else { http };
    block.iter().filter(move |one| one.name() == name)
}

/// `ssl_reject_handshake`: a server that has no name of its own.
pub(super) fn rejects_handshakes(host: &Host<'_>, http: &[Statement]) -> bool {
    let mut rejects = inherited("ssl_reject_handshake", host.statement.inner(), http);
    rejects.next().is_some_and(|one| one.argument(0) == "on")
}
