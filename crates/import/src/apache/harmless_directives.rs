//! Directives that refuse no request: another file of this folder reads them, they need nothing here, or they are lost.

use crate::fate::Fate;
use crate::words::Words;

/// Directives that are read elsewhere.
const READ: Words = Words(
    "removehandler removetype addhandler addoutputfilter addoutputfilterbytype addtype adddefaultcharset alias
    aliasmatch allow allowmethods allowoverride allowoverridelist authmerging accessfilename balancermember customlog
    deflatecompressionlevel deny directoryindex documentroot errordocument expiresactive expiresbytype expiresdefault
    fallbackresource group header indexignore indexignorereset keepalive keepalivetimeout limitrequestbody listen
    logformat maxclients maxrequestworkers options order php_admin_flag php_admin_value php_flag php_value phpinidir
    proxyaddheaders proxypass proxypassmatch proxypassreverse proxypreservehost proxyset proxytimeout redirect
    redirectmatch redirectpermanent redirecttemp remoteipheader remoteipinternalproxy remoteiptrustedproxy
    requestheader require requireall requireany requirenone rewritebase rewritecond rewriteengine rewriteoptions
    rewriterule scriptalias scriptaliasmatch serveralias servername servertokens setenv sethandler setoutputfilter
    sslcacertificatefile sslcarevocationcheck sslocspenable sslcertificatechainfile sslcertificatefile
    sslcertificatekeyfile sslciphersuite sslengine sslprotocol sslproxyverify sslsessiontickets sslrequiressl
    sslverifyclient timeout transferlog user wsgicallableobject wsgidaemonprocess wsgiprocessgroup wsgipythonhome
    wsgipythonpath wsgiscriptalias wsgiscriptaliasmatch authtype authname authuserfile authgroupfile
    authbasicprovider authdigestprovider authdigestdomain authbasicauthoritative authzowner sslproxycacertificatefile
    addcharset forcetype browsermatch browsermatchnocase setenvif setenvifexpr setenvifnocase unsetenv rewritemap
    satisfy allowencodedslashes proxyerroroverride proxypassreversecookiedomain proxypassreversecookiepath substitute limitrequestline
    limitrequestfieldsize",
);

/// Directives for which nothing has to be written: Tutti behaves so anyway, or they are about parts that do not exist; with the reason.
const NOTHING: &[(Words, &str)] = &[
    (
        Words(
            "addalt addaltbyencoding addaltbytype adddescription addicon addiconbyencoding
            addiconbytype addlanguage defaulticon defaultlanguage forcelanguagepriority headername indexheadinsert
            indexoptions indexorderdefault indexstylesheet languagepriority readmename removecharset removeencoding
            removelanguage mimemagicfile typesconfig",
        ),
        "it changes how folder listings look, or labels files; `Options Indexes` is reported where a listing looks different",
    ),
    (Words("traceenable"), "Tutti refuses TRACE with 405"),
    (
        Words("substitutemaxlinelength substituteinheritbefore filtertrace filterprotocol"),
        "Tutti does not need this setting of rules, filters or scripts",
    ),
    (
        Words(
            "acceptfilter acceptmutex coredumpdirectory defaultruntimedir enablemmap enablesendfile errorlog
            errorlogformat extendedstatus gracefulshutdowntimeout hostnamelookups listenbacklog lockfile loglevel
            maxconnectionsperchild maxkeepaliverequests maxmemfree maxrangeoverlaps maxranges maxrequestsperchild
            maxsparethreads maxspareservers minsparethreads minspareservers mutex namevirtualhost pidfile proxystatus
            receivebuffersize requestreadtimeout scoreboardfile sendbuffersize serveradmin serverlimit serversignature
            startservers threadlimit threadsperchild threadstacksize unlisten usecanonicalname
            usecanonicalphysicalport contentdigest asyncrequestworkerfactor",
        ),
        "it is about Apache's own processes, files and logs",
    ),
    (
        Words(
            "proxybadheader proxyiobuffersize proxymaxforwards proxyreceivebuffersize proxyvia
            proxyrequests proxyfcgibackendtype proxypassinherit proxyhctemplate sslproxyengine",
        ),
        "Tutti treats all upstream servers the same way",
    ),
    (
        Words(
            "sslcompression sslhonorcipherorder sslinsecurerenegotiation sslmutex
            ssloptions sslpassphrasedialog sslrandomseed sslsessioncache sslsessioncachetimeout
            sslstrictsnivhostcheck sslusestapling sslstaplingcache sslstaplingrespondertimeout
            sslstaplingreturnrespondererrors sslproxyprotocol sslproxyciphersuite protocols protocolshonororder
            h2direct h2upgrade h2push h2maxsessionstreams h2windowsize h2minworkers h2maxworkers h2moderntlsonly
            h2serializeheaders h2streammaxmemsize",
        ),
        "it is for old browsers, or for TLS and HTTP/2, where Tutti has safe values of its own",
    ),
    (
        Words(
            "sslproxycheckpeername sslproxycheckpeercn sslproxycheckpeerexpire",
        ),
        "Tutti always checks that the certificate of an upstream server is for its name",
    ),
    (
        Words(
            "rewritelog rewriteloglevel filterdeclare filterchain filterprovider deflatebuffersize deflatefilternote
            deflatememlevel deflatewindowsize brotlicompressionquality brotlicompressionwindow wsgiapplicationgroup
            wsgirestrictembedded wsgipassauthorization wsgisocketprefix wsgiverboselevel wsgilazyinitialization
            acceptpathinfo fileetag mergeslashes regexdefaultoptions passenv xbithack
            ssiendtag ssistarttag scriptsock scriptlog",
        ),
        "Tutti does not need this setting of rules, filters or scripts",
    ),
];

/// Directives that are lost for a reason of their own: the names, the problem, the cure.
const LOST: &[(Words, &str, &str)] = &[
    (
        Words("directoryslash"),
        "requests for folders without a trailing slash are redirected to add it",
        "write a step with `found` before the share",
    ),
    (
        Words("remoteipproxyprotocol remoteipproxyprotocolexceptions remoteipproxiesheader"),
        "trusted proxies are an option of each listener",
        "see `forwarded` and `proxy_protocol` in `docs/reference/options.md`",
    ),
    (
        Words("addencoding"),
        "files get no `Content-Encoding` by their extension",
        "name the type of the files in `settings.http.static.mime_types`, or set the field with `response_headers`",
    ),
    (
        Words("checkspelling checkcaseonly"),
        "misspelt names are not corrected",
        "write redirects for the names that clients request",
    ),
    (
        Words("serverpath"),
        "hosts are distinguished by name",
        "leave it out",
    ),
    (
        Words("userdir"),
        "user folders are not supported",
        "write a step with `share`, as a script (`docs/http/scripting.md`)",
    ),
    (
        Words("cacheenable cacheroot cachedisable cachelock"),
        "its rules are not carried over",
        "`cache` of an action stores responses, in memory and on disk (`docs/http/cache.md`)",
    ),
    (
        Words("multiviewsmatch"),
        "files are found only by their full name",
        "write their full names",
    ),
    (
        Words("defaulttype"),
        "types depend on file name extensions",
        "write `mime_types` or `default_type` into the action (`docs/http/delivery.md`)",
    ),
    (
        Words("proxyremote proxyblock"),
        "Tutti is not a forward proxy",
        "run one beside it",
    ),
];

/// Beginnings of the names of directives that refuse nothing; those of modules that only change what is answered, or are set up.
const FAMILIES: Words = Words(
    "action anonymous auth balancer buffer cache cgi charset chroot cookie crypto dav dbd deflate
    dos dtrace dumpio error example expires ext fastcgi fcgid filter flush forensiclog geoip gprofdir h2 heartbeat
    httpprotocoloptions identitycheck imap index isapi jklog jkoptions jkrequest jkshm jkstrip jkwatchdog jkworker
    keptbodysize ldap limit log lua maxmind md meta mmap modmime nwssl ocsp passenger perl phpini php_ privileges
    protocol proxy qualifyredirect rails ratelimit readbuffer reflector remoteip rewrite rlimit script sec
    seerequesttail session ssi ssl stricthost substitute suexec syslog thread transform userdir vhostu watchdog wsgi
    xml2 qs_srv qs_conn qs_loc qs_event assignuserid serverroot gnutls nss brotli mod_gzip addinputfilter
    setinputfilter addmoduleinfo aliaspreservepath redirectrelative registerhttpmethod inputsed outputsed directory
    loadfile win32 securelisten errorlog unixd mpm",
);

/// Beginnings of names within [`FAMILIES`] that may refuse after all.
const DOUBTFUL: Words = Words("qs_deny authnzexternal luahook perl_access");

/// True for a directive that refuses nothing, or that another file of this folder reads.
pub(super) fn is_known(key: &str) -> bool {
    is_settled(key)
        || LOST.iter().any(|(names, _, _)| names.contains(key))
        || FAMILIES.begin(key) && !DOUBTFUL.begin(key)
}

/// True for a directive that needs no report: it is read elsewhere, or nothing has to be written for it.
pub(super) fn is_settled(key: &str) -> bool {
    READ.contains(key) || needless(key).is_some()
}

/// The reason why nothing is written for a directive that needs nothing here.
pub(super) fn needless(key: &str) -> Option<&'static str> {
    let found = NOTHING.iter().find(|(names, _)| names.contains(key));
    found.map(|(_, why)| *why)
}

/// The problem with a directive that is lost, and the cure.
pub(super) fn lost(key: &str) -> (&'static str, &'static str) {
    let found = LOST.iter().find(|(names, _, _)| names.contains(key));
    found.map_or(
        (
            "the importer does not translate it",
            "see `docs/reference/options.md`; if it belongs to a module that Tutti does not need, remove it",
        ),
        |(_, problem, hint)| (*problem, *hint),
    )
}

/// The fate of a directive, for the table of all directives.
pub(super) fn fate(key: &str) -> Option<Fate> {
    Some(if READ.contains(key) {
        Fate::carried()
    } else if let Some(why) = needless(key) {
        Fate::harmless(why)
    } else if is_known(key) {
        let (_, hint) = lost(key);
        Fate::lost(hint)
    } else {
        return None;
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directive_has_one_fate() {
        let lost = LOST.iter().flat_map(|(names, _, _)| names.iter());
        let nothing = NOTHING.iter().flat_map(|(names, _)| names.iter());
        let mut all: Vec<&str> = READ.iter().chain(nothing).chain(lost).collect();
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
