//! Restrictions other than logins and addresses: methods, TLS, certificates of clients. Each becomes a section that
//! refuses.

use super::closing::{self, REFUSES};
use super::grammar::Directive;
use super::rule::{Rule, rules_of};
use super::section::{Extent, Folder, Mapping, Section, Stage};
use super::site::Site;
use crate::finding::Findings;
use crate::words::Words;

/// True where a client has shown no valid certificate.
const WITHOUT_CERTIFICATE: &str = "vars.tls_client_verify !== 'SUCCESS'";

/// True where a request is not encrypted.
const WITHOUT_TLS: &str = "!vars.tls_protocol";

/// The sections that refuse what the restrictions of one refuse.
pub(super) fn sections(section: &Section) -> Vec<Section> {
    let mut all = Vec::new();
    let unread = unread_rules(section).map(|rule| rule.directive.place);
    for directive in &section.directives {
        let mut refusing = section.clone();
        match directive.key.as_str() {
            "allowmethods" if directive.word(0) != "reset" => {
                refusing.other_methods = Some(directive.arguments.clone());
            }
            "sslrequiressl" => refusing.test = Some(both(section, WITHOUT_TLS)),
            "sslverifyclient" if directive.word(0) == "require" && !is_of_host(section) => {
                refusing.test = Some(both(section, WITHOUT_CERTIFICATE));
            }
            "rewriterule" if unread.as_ref() == Some(&directive.place) => {}
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

/// The first rule of a section whose rules are not carried over: it is not one folder or path with all below it. What the rules refuse, or
/// lead elsewhere, must not be served.
fn unread_rules(section: &Section) -> Option<Rule> {
    let is_conditional = section.expression.is_some() || section.is_unknown;
    let is_read = section.stage == Stage::Server || section.is_part() && !is_conditional;
    let (is_on, list) = rules_of(section).filter(|_| !is_read)?;
    // A section around it may have the switch.
    let is_on = is_on.unwrap_or(true);
    list.into_iter().find(|rule| is_on && rule.acts())
}

/// Reports rules in a section whose rules are not carried over.
pub(super) fn report_rules(section: &Section, findings: &mut Findings) {
    if let Some(rule) = unread_rules(section) {
        let problem = "rules are carried over from one folder or path only: requests that this section applies to get 403";
        let hint = "write the rules into the `<Directory>` of the site, and name its files or paths in their patterns";
        let directive = &rule.directive;
        findings.lost(&directive.place, &directive.name, problem, hint);
    }
}

/// Reports the index of a section that is not one folder or path with all below it: it is not carried over.
pub(super) fn report_index(section: &Section, findings: &mut Findings) {
    const INDEX: Words = Words("directoryindex directoryslash fallbackresource");
    if is_of_host(section) || section.is_part() {
        return;
    }
    let mut directives = section.directives.iter();
    if let Some(directive) = directives.find(|one| INDEX.contains(&one.key)) {
        let problem = "it is carried over from one folder or path only: here, the index of the folder around applies";
        let hint = "write it into a `<Directory>` for each folder, then import again";
        findings.lost(&directive.place, &directive.name, problem, hint);
    }
}

/// Reports access control of a section with wildcards for folders: files with such names have it, too. In Apache, those that an index, a rule
/// or a page for an error leads to have not, and missing ones have not either.
pub(super) fn report_names(section: &Section, site: &Site, findings: &mut Findings) {
    if !matches!(section.folder, Some(Folder::Match(_)))
        || !section.controls_access()
        || section.only_refuses()
        || section.file.is_some()
    {
        return;
    }
    let differs = |mapping: &Mapping| {
        let place = |extent| section.place(mapping, extent);
        place(Extent::Wide) != place(Extent::Narrow)
    };
    let mut directives = section.directives.iter();
    if let Some(directive) = directives.find(|one| closing::is_of_access(one))
        && site.mappings.iter().any(differs)
    {
        let problem = "sections with wildcards admit clients to folders, and refuse them for folders and files: requests for files of such names may get 403";
        let hint =
            "write it into a `<Directory>` for each folder, or into `<Files>`, then import again";
        findings.lost(&directive.place, &directive.name, problem, hint);
    }
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
