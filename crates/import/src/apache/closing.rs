//! The fate of directives that are not read: some close their section, the others are reported.
//!
//! Must never: take a directive that no list has for harmless.

use super::grammar::Directive;
use super::harmless_directives;
use crate::fate::Fate;
use crate::finding::Findings;
use crate::words::Words;

/// Directives that refuse requests, or answer them in place of files: the names, and the cure.
const CLOSING: &[(Words, &str)] = &[
    (
        Words("sslrequire"),
        "write it as a `match` with a script (`docs/http/scripting.md`)",
    ),
    (
        Words(
            "luahookaccesschecker luahookauthchecker luahookfixups luahookmaptostorage luahooktranslatename
            luamaphandler luaquickhandler perlaccesshandler perlauthenhandler perlauthzhandler perlfixuphandler
            perlheaderparserhandler perltranshandler perlmaptostoragehandler",
        ),
        "write the check as a script (`docs/http/scripting.md`), or as conditions of a `match`",
    ),
    (
        Words("secruleengine securityengine"),
        "keep the web application firewall in front; remove this directive from the source to import the site without it",
    ),
    (
        Words(
            "virtualdocumentroot virtualdocumentrootip virtualscriptalias virtualscriptaliasip",
        ),
        "`share` may have `$host` in it (`docs/reference/variables.md`)",
    ),
    (
        Words(
            "jkmount jkmountfile jkautoalias passengerenabled passengerapproot passengerbaseuri railsbaseuri
            rackbaseuri wsgihandlerscript",
        ),
        "make it an application, or let Apache serve it behind a `proxy`",
    ),
];

/// True for a directive that closes its section: it refuses requests in a way that Tutti does not have, answers in place of files, or is in
/// no list of this file and may be a check of any module.
pub(super) fn closes(directive: &Directive) -> bool {
    let key = directive.key.as_str();
    if key == REFUSES {
        return true;
    }
    if directive.block.is_some() || matches!(directive.word(0).as_str(), "off" | "none") {
        return false;
    }
    if key == "rewriteoptions" {
        let mut words = directive.arguments.iter();
        return words.any(|word| word.to_ascii_lowercase().starts_with("inherit"));
    }
    if key == "setoutputfilter" {
        return directive
            .argument(0)
            .to_ascii_uppercase()
            .contains("INCLUDES");
    }
    closing(key).is_some() || !harmless_directives::is_known(key)
}

/// True for a directive that admits or refuses clients.
pub(super) fn is_of_access(directive: &Directive) -> bool {
    let is_order = matches!(
        directive.key.as_str(),
        "order" | "allow" | "deny" | "satisfy"
    );
    is_order || is_require(directive) || closes(directive)
}

/// True for a requirement that clients must meet.
pub(super) fn is_require(directive: &Directive) -> bool {
    matches!(
        directive.key.as_str(),
        "require" | "requireany" | "requireall" | "requirenone"
    )
}

/// The key of a directive that refuses all requests that its section is about. No file has it: other directives are made of it.
pub(super) const REFUSES: &str = "(refuses)";

fn closing(key: &str) -> Option<&'static str> {
    let found = CLOSING.iter().find(|(names, _)| names.contains(key));
    found.map(|(_, hint)| *hint)
}

/// Sections and their like: the parts of the grammar that the reader itself understands.
const GRAMMAR: Words = Words(
    "virtualhost directory directorymatch files filesmatch location locationmatch proxy limit limitexcept include
    includeoptional define undefine ifmodule ifdefine ifversion iffile ifdirective ifsection macro undefmacro use
    loadmodule serverroot",
);

/// The fate of a directive in lower case, for the table of all directives.
pub(crate) fn fate(key: &str) -> Fate {
    if GRAMMAR.contains(key) {
        return Fate::carried();
    }
    if let Some(hint) = closing(key) {
        return Fate::closed(hint);
    }
    if matches!(key, "if" | "elseif" | "else") {
        return Fate::different(
            "conditions that JavaScript cannot express are lost: of their section, only denials are kept",
        );
    }
    if key == "proxymatch" {
        return Fate::lost("write its contents as a step with a `match`");
    }
    let known = harmless_directives::fate(key);
    known.unwrap_or(Fate::closed(
        "if it does not restrict access, remove it from the source and import again",
    ))
}

/// Reports what is not read, in all sections.
pub(super) fn report_all(directives: &[Directive], findings: &mut Findings) {
    for directive in directives {
        report_all(directive.inner(), findings);
        report(directive, findings);
    }
}

fn report(directive: &Directive, findings: &mut Findings) {
    let key = directive.key.as_str();
    let place = &directive.place;
    match key {
        "virtualhost" | "directory" | "directorymatch" | "files" | "filesmatch" | "location"
        | "locationmatch" | "proxy" | "limit" | "limitexcept" => return,
        // Their conditions are read with the sections.
        "if" | "elseif" | "else" if directive.block.is_some() => return,
        "proxymatch" if directive.block.is_some() => {
            let hint = "write its contents as a step with a `match`";
            findings.lost(place, &format!("<{}>", directive.name), "its condition is not carried over: only denials inside it are kept, and apply to all requests", hint);
            return;
        }
        "userdir" if directive.word(0) == "disabled" && directive.arguments.len() == 1 => return,
        "options" => return options(directive, findings),
        _ => {}
    }
    if closes(directive) {
        let (problem, hint) = match (closing(key), key) {
            (Some(hint), _) => (
                "Tutti has no equivalent: requests that it applies to get 403",
                hint,
            ),
            (None, "rewriteoptions") => (
                "rules are not inherited: requests here get 403",
                "write the inherited rules into this section",
            ),
            (None, "setoutputfilter") => (
                "server-side includes are not supported: requests here get 403, so that their source is not served",
                "use an application to assemble pages",
            ),
            (None, _) => (
                "this directive is unknown and may restrict access: requests that it applies to get 403",
                "if it does not, remove it from the source and import again",
            ),
        };
        findings.lost(place, &directive.name, problem, hint);
        return;
    }
    if harmless_directives::is_settled(key) {
        return;
    }
    let (problem, hint) = harmless_directives::lost(key);
    findings.lost(place, &directive.name, problem, hint);
}

fn options(directive: &Directive, findings: &mut Findings) {
    let has = |word: &str| {
        directive.arguments.iter().any(|argument| {
            argument.trim_start_matches('+').eq_ignore_ascii_case(word)
                && !argument.starts_with('-')
        })
    };
    let lost = |findings: &mut Findings, what: &str, problem: &str, hint: &str| {
        findings.lost(
            &directive.place,
            &format!("{} {what}", directive.name),
            problem,
            hint,
        )
    };
    if has("MultiViews") {
        lost(
            findings,
            "MultiViews",
            "files are found only by their full name",
            "write their full names",
        );
    }
    if has("SymLinksIfOwnerMatch") {
        lost(
            findings,
            "SymLinksIfOwnerMatch",
            "the owners of links cannot be compared: no links are followed here",
            "remove `follow_symlinks` if only people you trust can create links there",
        );
    }
    if has("Includes") || has("IncludesNOEXEC") {
        lost(
            findings,
            "Includes",
            "server-side includes are not supported",
            "use an application to assemble pages",
        );
    }
}
