//! Restrictions other than logins and addresses: methods, TLS, certificates of clients. Each becomes a section that
//! refuses.

use super::closing::REFUSES;
use super::grammar::Directive;
use super::section::Section;

/// True where a client has shown no valid certificate.
const WITHOUT_CERTIFICATE: &str = "vars.tls_client_verify !== 'SUCCESS'";

/// True where a request is not encrypted.
const WITHOUT_TLS: &str = "!vars.tls_protocol";

/// The sections that refuse what the restrictions of one refuse.
pub(super) fn sections(section: &Section) -> Vec<Section> {
    let mut all = Vec::new();
    for directive in &section.directives {
        let mut refusing = section.clone();
        match directive.key.as_str() {
            "allowmethods" if directive.word(0) != "reset" => {
                // Both methods of `<Limit>` and these cannot be said in one step: all of it is refused.
                if refusing.methods.is_none() {
                    refusing.methods = Some((false, directive.arguments.clone()));
                }
            }
            "sslrequiressl" => refusing.test = Some(both(section, WITHOUT_TLS)),
            "sslverifyclient" if directive.word(0) == "require" && !is_of_host(section) => {
                refusing.test = Some(both(section, WITHOUT_CERTIFICATE));
            }
            _ => continue,
        }
        refusing.directives = vec![Directive {
            place: directive.place.clone(),
            name: directive.name.clone(),
            key: REFUSES.to_owned(),
            arguments: Vec::new(),
            raw: String::new(),
            block: None,
        }];
        all.push(refusing);
    }
    all
}

/// A test, with that of the section.
fn both(section: &Section, test: &str) -> String {
    match &section.test {
        Some(around) => format!("({around}) && {test}"),
        None => test.to_owned(),
    }
}

/// True for what stands outside of all sections, of which the listeners take care.
fn is_of_host(section: &Section) -> bool {
    section.stage == super::section::Stage::Server
}

/// True if a part of a host asks its clients for certificates.
pub(super) fn asks_for_certificates(sections: &[Section]) -> bool {
    let asks =
        |directive: &Directive| directive.is("sslverifyclient") && directive.word(0) != "none";
    let mut parts = sections.iter().filter(|section| !is_of_host(section));
    parts.any(|section| section.directives.iter().any(asks))
}
