//! The fate of each directive: another file of this folder reads it, it needs nothing here, or it is lost.

use super::grammar::Directive;
use tutti_import_common::finding::Findings;

/// Directives that are read elsewhere.
const READ: &[&str] = &[
    "removehandler",
    "removetype",
    "addhandler",
    "addoutputfilter",
    "addoutputfilterbytype",
    "addtype",
    "adddefaultcharset",
    "alias",
    "aliasmatch",
    "allow",
    "allowoverride",
    "authmerging",
    "accessfilename",
    "balancermember",
    "customlog",
    "deflatecompressionlevel",
    "deny",
    "directoryindex",
    "documentroot",
    "errordocument",
    "expiresactive",
    "expiresbytype",
    "expiresdefault",
    "fallbackresource",
    "group",
    "header",
    "indexignore",
    "indexignorereset",
    "keepalive",
    "keepalivetimeout",
    "limitrequestbody",
    "listen",
    "logformat",
    "maxclients",
    "maxrequestworkers",
    "options",
    "order",
    "php_admin_flag",
    "php_admin_value",
    "php_flag",
    "php_value",
    "phpinidir",
    "proxyaddheaders",
    "proxypass",
    "proxypassmatch",
    "proxypassreverse",
    "proxypreservehost",
    "proxyset",
    "proxytimeout",
    "redirect",
    "redirectmatch",
    "redirectpermanent",
    "redirecttemp",
    "requestheader",
    "require",
    "requireall",
    "requireany",
    "requirenone",
    "rewritebase",
    "rewritecond",
    "rewriteengine",
    "rewriterule",
    "scriptalias",
    "scriptaliasmatch",
    "serveralias",
    "servername",
    "servertokens",
    "setenv",
    "sethandler",
    "setoutputfilter",
    "sslcacertificatefile",
    "sslcertificatechainfile",
    "sslcertificatefile",
    "sslcertificatekeyfile",
    "sslciphersuite",
    "sslengine",
    "sslprotocol",
    "sslproxyverify",
    "sslsessiontickets",
    "sslverifyclient",
    "timeout",
    "transferlog",
    "user",
    "wsgicallableobject",
    "wsgidaemonprocess",
    "wsgiprocessgroup",
    "wsgipythonhome",
    "wsgipythonpath",
    "wsgiscriptalias",
    "wsgiscriptaliasmatch",
];

/// Directives for which nothing has to be written: what they say is so, or is about parts that are not there.
const NOTHING: &[&str] = &[
    // Lists of folders, which are told with `Options`, and languages.
    "addalt",
    "addaltbyencoding",
    "addaltbytype",
    "addcharset",
    "adddescription",
    "addencoding",
    "addicon",
    "addiconbyencoding",
    "addiconbytype",
    "addlanguage",
    "defaulticon",
    "defaultlanguage",
    "forcelanguagepriority",
    "headername",
    "indexheadinsert",
    "indexoptions",
    "indexorderdefault",
    "indexstylesheet",
    "languagepriority",
    "readmename",
    "removecharset",
    "removeencoding",
    "removelanguage",
    "mimemagicfile",
    "typesconfig",
    "traceenable",
    // Processes, files and logs of Apache itself.
    "acceptfilter",
    "acceptmutex",
    "coredumpdirectory",
    "defaultruntimedir",
    "enablemmap",
    "enablesendfile",
    "errorlog",
    "errorlogformat",
    "extendedstatus",
    "gracefulshutdowntimeout",
    "hostnamelookups",
    "listenbacklog",
    "lockfile",
    "loglevel",
    "maxconnectionsperchild",
    "maxkeepaliverequests",
    "maxmemfree",
    "maxrangeoverlaps",
    "maxranges",
    "maxrequestsperchild",
    "maxsparethreads",
    "maxspareservers",
    "minsparethreads",
    "minspareservers",
    "mutex",
    "namevirtualhost",
    "pidfile",
    "proxystatus",
    "receivebuffersize",
    "requestreadtimeout",
    "scoreboardfile",
    "sendbuffersize",
    "serveradmin",
    "serverlimit",
    "serversignature",
    "startservers",
    "threadlimit",
    "threadsperchild",
    "threadstacksize",
    "unlisten",
    "usecanonicalname",
    "usecanonicalphysicalport",
    "contentdigest",
    "asyncrequestworkerfactor",
    "proxybadheader",
    "proxyiobuffersize",
    "proxymaxforwards",
    "proxyreceivebuffersize",
    "proxyvia",
    "proxyerroroverride",
    "proxyrequests",
    "proxyfcgibackendtype",
    "proxypassinherit",
    "proxyhctemplate",
    // Old browsers, and what TLS has by itself.
    "browsermatch",
    "browsermatchnocase",
    "sslcompression",
    "sslhonorcipherorder",
    "sslinsecurerenegotiation",
    "sslmutex",
    "ssloptions",
    "sslpassphrasedialog",
    "sslrandomseed",
    "sslsessioncache",
    "sslsessioncachetimeout",
    "sslstrictsnivhostcheck",
    "sslusestapling",
    "sslstaplingcache",
    "sslstaplingrespondertimeout",
    "sslstaplingreturnrespondererrors",
    "sslproxyengine",
    "sslproxycheckpeername",
    "sslproxycheckpeercn",
    "sslproxycheckpeerexpire",
    "sslproxycacertificatefile",
    "sslproxyprotocol",
    "sslproxyciphersuite",
    "protocols",
    "protocolshonororder",
    "h2direct",
    "h2upgrade",
    "h2push",
    "h2maxsessionstreams",
    "h2windowsize",
    "h2minworkers",
    "h2maxworkers",
    "h2moderntlsonly",
    "h2serializeheaders",
    "h2streammaxmemsize",
    // How rules and filters are looked at.
    "rewriteoptions",
    "rewritelog",
    "rewriteloglevel",
    "filterdeclare",
    "filterchain",
    "filterprovider",
    "deflatebuffersize",
    "deflatefilternote",
    "deflatememlevel",
    "deflatewindowsize",
    "brotlicompressionquality",
    "brotlicompressionwindow",
    "wsgiapplicationgroup",
    "wsgirestrictembedded",
    "wsgipassauthorization",
    "wsgisocketprefix",
    "wsgiverboselevel",
    "wsgilazyinitialization",
    "acceptpathinfo",
    "fileetag",
    "checkspelling",
    "checkcaseonly",
    "mergeslashes",
    "regexdefaultoptions",
    "authtype",
    "authname",
    "authuserfile",
    "authgroupfile",
    "authbasicprovider",
    "authdigestprovider",
    "authdigestdomain",
    "authbasicauthoritative",
    "authzowner",
    "passenv",
    "xbithack",
    "ssiendtag",
    "ssistarttag",
    "scriptsock",
    "scriptlog",
];

/// Directives that are lost for a reason of their own: the names, the problem, the cure.
const LOST: &[(&[&str], &str, &str)] = &[
    (
        &["directoryslash"],
        "folders without a slash at their end are redirected to those with one",
        "write a step with `found` before the share",
    ),
    (
        &["satisfy"],
        "who has the right address must still fulfil all of the rest",
        "write a step with `source` before the others",
    ),
    (
        &["setenvif", "setenvifnocase", "unsetenv"],
        "variables that depend on the request are not there",
        "`match` and `vars` look at the request itself (`docs/scripting.md`)",
    ),
    (
        &[
            "remoteipheader",
            "remoteipinternalproxy",
            "remoteiptrustedproxy",
            "remoteipproxyprotocol",
        ],
        "whom to believe is an option of each listener",
        "see `forwarded` and `proxy_protocol` in `docs/reference.md`",
    ),
    (
        &["rewritemap"],
        "maps of rewriting are not there",
        "write it as a script (`docs/scripting.md`)",
    ),
    (
        &["serverpath"],
        "hosts are told apart by their name",
        "leave it out",
    ),
    (
        &["userdir"],
        "folders of users are not looked for",
        "write a step with `share`, as a script (`docs/scripting.md`)",
    ),
    (
        &["cacheenable", "cacheroot", "cachedisable", "cachelock"],
        "answers are not kept",
        "put a cache in front",
    ),
    (
        &["multiviewsmatch"],
        "files are found by their whole name",
        "name them in full",
    ),
    (
        &["forcetype", "defaulttype"],
        "types are by the ending of a name",
        "name endings in `settings.http.static.mime_types`",
    ),
    (
        &["proxyremote", "proxyblock"],
        "Tutti is no proxy for clients",
        "run one beside it",
    ),
    (
        &["vhost", "virtualdocumentroot", "virtualscriptalias"],
        "a folder that depends on the host is not carried over",
        "`share` may have `$host` in it (`docs/variables.md`)",
    ),
];

/// Tells what nobody reads, in all sections.
pub(super) fn tell_all(directives: &[Directive], findings: &mut Findings) {
    for directive in directives {
        tell_all(directive.inner(), findings);
        tell(directive, findings);
    }
}

fn tell(directive: &Directive, findings: &mut Findings) {
    let key = directive.key.as_str();
    let place = &directive.place;
    match key {
        "virtualhost" | "directory" | "directorymatch" | "files" | "filesmatch" | "location"
        | "locationmatch" | "proxy" | "limit" | "limitexcept" => return,
        "if" | "elseif" | "else" | "proxymatch" if directive.block.is_some() => {
            let hint = "write what is in it as a step with a `match`";
            findings.lost(place, &format!("<{}>", directive.name), "its condition is not carried over: of what is in it only what refuses holds, for everybody", hint);
            return;
        }
        "options" => return options(directive, findings),
        _ => {}
    }
    if READ.contains(&key) || NOTHING.contains(&key) {
        return;
    }
    match LOST.iter().find(|(names, _, _)| names.contains(&key)) {
        Some((_, problem, hint)) => findings.lost(place, &directive.name, problem, hint),
        None => findings.lost(place, &directive.name, "there is no option for it", "see `docs/reference.md`; if it is about a module that Tutti has no need of, leave it out"),
    }
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
            "files are found by their whole name",
            "name them in full",
        );
    }
    if has("SymLinksIfOwnerMatch") {
        lost(
            findings,
            "SymLinksIfOwnerMatch",
            "nobody looks for the owner of a link: none is followed here",
            "take `follow_symlinks` out if only people you trust can make links there",
        );
    }
    if has("Includes") || has("IncludesNOEXEC") {
        lost(
            findings,
            "Includes",
            "there are no server-side includes",
            "let an application put pages together",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directive_has_one_fate() {
        let lost = LOST.iter().flat_map(|(names, _, _)| names.iter());
        let mut all: Vec<&str> = READ.iter().chain(NOTHING).chain(lost).copied().collect();
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
