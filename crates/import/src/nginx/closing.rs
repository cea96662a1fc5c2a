//! The fate of directives that are not read: some close the place that they stand in, the others are reported.
//!
//! Must never: take a directive that no list has for harmless.

use super::harmless_directives;
use super::tree::Statement;
use crate::fate::Fate;
use crate::finding::Findings;
use crate::words::Words;

/// Directives that authenticate clients. Without them a place would be open; `satisfy any` counts them.
const LOGINS: &[(Words, &str)] = &[
    (
        Words("auth_jwt auth_jwt_require"),
        "write `jwt` into `authenticate` (`docs/http/access.md`)",
    ),
    (
        Words("auth_digest auth_pam auth_ldap auth_gss auth_oidc auth_require auth_saml"),
        "`authenticate` supports passwords (`basic`) and an authentication service (`forward`)",
    ),
    (
        Words("js_access access_by_lua access_by_lua_block access_by_lua_file"),
        CHECK_AS_SCRIPT,
    ),
];

const CHECK_AS_SCRIPT: &str =
    "write the check as a script (`docs/http/scripting.md`), or as conditions of a `match`";

/// Directives that refuse requests, or answer them in place of the files of a folder. Without them, a place would be open.
const CLOSING: &[(Words, &str)] = &[
    (
        Words("secure_link_secret"),
        "write the check as `signed_link` of `authenticate` (`docs/http/access.md`)",
    ),
    (
        Words(
            "perl js_content rewrite_by_lua rewrite_by_lua_block rewrite_by_lua_file server_rewrite_by_lua_block
            server_rewrite_by_lua_file precontent_by_lua_block precontent_by_lua_file content_by_lua
            content_by_lua_block content_by_lua_file",
        ),
        CHECK_AS_SCRIPT,
    ),
    (
        Words("modsecurity ModSecurityEnabled SecRulesEnabled waf"),
        "keep the web application firewall in front; remove this directive from the source to import the site without it",
    ),
    (
        Words(
            "proxy_pass_request_headers fastcgi_pass_request_headers uwsgi_pass_request_headers
            scgi_pass_request_headers more_clear_input_headers more_set_input_headers",
        ),
        "`request_headers` of an action sets and removes header fields that clients send",
    ),
    (
        Words("proxy_ssl_crl grpc_ssl_crl uwsgi_ssl_crl"),
        "certificate revocation lists are not supported: verify the servers in another way",
    ),
    (
        Words(
            "memcached_pass redis_pass redis2_pass passenger_enabled passenger_app_root api echo echo_exec
            echo_location empty_gif f4f hls internal_redirect postgres_pass rds_json slowfs_cache ssi
            upload_pass xslt_stylesheet",
        ),
        "use an application here; for the state of the server, `\"pass\": \"metrics\"` (`docs/operate/metrics.md`)",
    ),
];

/// The way in which a directive that is not carried over closes the place that it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// It authenticates clients: `satisfy any` admits clients with an allowed address all the same.
    Login,
    /// It refuses clients even if other directives admit them.
    Always,
}

/// Returns how a directive closes the place that it stands in, the problem, and the cure; `None` for directives that
/// close nothing.
///
/// A directive in no list of this file may be a check of any module: it closes its place, too.
pub(super) fn closes(statement: &Statement) -> Option<(Closing, &'static str, &'static str)> {
    let name = statement.name();
    if let Some(value) = closed_by(name) {
        let is_said = match name {
            // These close where they are switched off.
            name if name.ends_with("_pass_request_headers") => statement.argument(0) == "off",
            _ => statement.argument(0) != "off",
        };
        return is_said.then_some(value);
    }
    let is_off = statement.arguments() == ["off"];
    (!is_off && !harmless_directives::is_known(name)).then_some((
        Closing::Always,
        "this directive is unknown and may restrict access: requests that it applies to get 403",
        "if it does not, remove it from the source and import again",
    ))
}

/// The fate of a directive that closes places, wherever it does.
fn closed_by(name: &str) -> Option<(Closing, &'static str, &'static str)> {
    let find = |table: &'static [(Words, &'static str)]| {
        let found = table.iter().find(|(names, _)| names.contains(name));
        found.map(|(_, hint)| *hint)
    };
    let problem = "Tutti has no equivalent: requests that it applies to get 403";
    let login = find(LOGINS).map(|hint| (Closing::Login, problem, hint));
    login.or_else(|| find(CLOSING).map(|hint| (Closing::Always, problem, hint)))
}

/// The fate of a directive in a block, for the table of all directives.
pub(crate) fn fate(name: &str, block: &str) -> Fate {
    if block == "mail" || name == "mail" {
        return Fate::lost(harmless_directives::cure("mail"));
    }
    if name == "stream" {
        return Fate::carried();
    }
    if matches!(block, "stream" | "zone_sync") {
        return super::stream_fates::fate(name);
    }
    if block == "upstream" {
        return super::outcomes::of_upstream(name);
    }
    if let Some((_, _, hint)) = closed_by(name) {
        return Fate::closed(hint);
    }
    if let Some(why) = harmless_directives::needless(name) {
        return Fate::harmless(why);
    }
    if harmless_directives::is_read(name) {
        return super::outcomes::of_read(name, block);
    }
    match harmless_directives::is_known(name) {
        true => Fate::lost(harmless_directives::cure(name)),
        false => Fate::closed(
            "if it does not restrict access, remove it from the source and import again",
        ),
    }
}

/// Reports the fate of a directive that is not read. Those that close their place are reported where they do ([`closes`]).
pub(super) fn report(statement: &Statement, findings: &mut Findings) {
    if closes(statement).is_none() {
        report_open(statement, findings);
    }
}

/// Reports the fate of a directive that is not read, at a place to which no request comes.
fn report_open(statement: &Statement, findings: &mut Findings) {
    let name = statement.name();
    if harmless_directives::is_read(name) {
        return;
    }
    if let Some(hint) = harmless_directives::lost_value(name, statement.argument(0)) {
        let problem = format!("`{}` has no equivalent", statement.argument(0));
        findings.lost(&statement.place, name, &problem, hint);
        return;
    }
    if harmless_directives::needless(name).is_some() {
        return;
    }
    // `off` is the behaviour here anyway, but bodies are passed on.
    let is_off = statement.argument(0) == "off" && !name.ends_with("_pass_request_body");
    if closed_by(name).is_some() || is_off {
        return;
    }
    findings.lost(
        &statement.place,
        name,
        "the importer does not translate it",
        harmless_directives::cure(name),
    );
}

/// [`report`] for each of a block.
pub(super) fn report_all(statements: &[Statement], findings: &mut Findings) {
    for statement in statements {
        report(statement, findings);
    }
}

/// Reports directives outside of `http`.
pub(super) fn report_main(statements: &[Statement], findings: &mut Findings) {
    for statement in statements {
        report_open(statement, findings);
    }
}
