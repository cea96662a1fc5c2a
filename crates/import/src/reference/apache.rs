//! The directives of Apache httpd's own modules, of mod_wsgi, mod_php, mod_fcgid and mod_security, in lower case (httpd.apache.org, "Directive Index").

use crate::words::Words;

/// Modules, and their directives.
pub(crate) const DIRECTIVES: &[(&str, Words)] = &[
    (
        "core",
        Words(
            "
            acceptfilter acceptpathinfo accessfilename adddefaultcharset allowencodedslashes allowoverride
            allowoverridelist cgipassauth cgivar contentdigest coredumpdirectory defaultruntimedir defaulttype
            define directory directorymatch documentroot else elseif enablemmap enablesendfile error
            errordocument errorlog errorlogformat extendedstatus fileetag files filesmatch flushmaxpipelined
            flushmaxthreshold forcetype hostnamelookups httpprotocoloptions if ifdefine ifdirective iffile
            ifmodule ifsection include includeoptional limit limitexcept limitinternalrecursion
            limitrequestbody limitrequestfields limitrequestfieldsize limitrequestline limitxmlrequestbody
            location locationmatch loglevel maxconnectionsperchild maxmemfree maxrangeoverlaps
            maxrangereversals maxranges maxrequestsperchild mergeslashes mergetrailers mutex namevirtualhost
            options pidfile port protocol protocols protocolshonororder qualifyredirecturl readbuffersize
            regexdefaultoptions registerhttpmethod rlimitcpu rlimitmem rlimitnproc scoreboardfile
            seerequesttail serveradmin serveralias servername serverpath serverroot serversignature
            servertokens sethandler setinputfilter setoutputfilter stricthostcheck threadstacksize timeout
            traceenable undefine usecanonicalname usecanonicalphysicalport virtualhost
            ",
        ),
    ),
    (
        "mpm",
        Words(
            "
            asyncrequestworkerfactor gracefulshutdowntimeout listen listenbacklog listencoresbucketsratio
            listentcpdeferaccept maxclients maxrequestworkers maxsparethreads minsparethreads
            receivebuffersize sendbuffersize serverlimit startservers threadlimit threadsperchild
            ",
        ),
    ),
    (
        "http_core",
        Words(
            "
            keepalive keepalivetimeout maxkeepaliverequests
            ",
        ),
    ),
    (
        "mod_access_compat",
        Words(
            "
            allow deny order satisfy
            ",
        ),
    ),
    (
        "mod_actions",
        Words(
            "
            action script
            ",
        ),
    ),
    (
        "mod_alias",
        Words(
            "
            alias aliasmatch aliaspreservepath redirect redirectmatch redirectpermanent redirectrelative
            redirecttemp scriptalias scriptaliasmatch
            ",
        ),
    ),
    (
        "mod_allowmethods",
        Words(
            "
            allowmethods
            ",
        ),
    ),
    (
        "mod_auth_basic",
        Words(
            "
            authbasicauthoritative authbasicfake authbasicprovider authbasicusedigestalgorithm
            ",
        ),
    ),
    (
        "mod_auth_digest",
        Words(
            "
            authdigestalgorithm authdigestdomain authdigestnccheck authdigestnoncelifetime authdigestprovider
            authdigestqop authdigestshmemsize
            ",
        ),
    ),
    (
        "mod_auth_form",
        Words(
            "
            authformauthoritative authformbody authformdisablenostore authformfakebasicauth authformlocation
            authformloginrequiredlocation authformloginsuccesslocation authformlogoutlocation authformmethod
            authformmimetype authformpassword authformprovider authformsitepassphrase authformsize
            authformusername
            ",
        ),
    ),
    (
        "mod_authn_anon",
        Words(
            "
            anonymous anonymous_logemail anonymous_mustgiveemail anonymous_nouserid anonymous_verifyemail
            ",
        ),
    ),
    (
        "mod_authn_core",
        Words(
            "
            authname authnprovideralias authtype
            ",
        ),
    ),
    (
        "mod_authn_dbd",
        Words(
            "
            authdbduserpwquery authdbduserrealmquery
            ",
        ),
    ),
    (
        "mod_authn_dbm",
        Words(
            "
            authdbmtype authdbmuserfile
            ",
        ),
    ),
    (
        "mod_authn_file",
        Words(
            "
            authuserfile
            ",
        ),
    ),
    (
        "mod_authn_socache",
        Words(
            "
            authncachecontext authncacheenable authncacheprovidefor authncachesocache authncachetimeout
            ",
        ),
    ),
    (
        "mod_authnz_fcgi",
        Words(
            "
            authnzfcgicheckauthnprovider authnzfcgidefineprovider
            ",
        ),
    ),
    (
        "mod_authnz_ldap",
        Words(
            "
            authldapauthorizeprefix authldapbindauthoritative authldapbinddn authldapbindpassword
            authldapcharsetconfig authldapcompareasuser authldapcomparednonserver authldapdereferencealiases
            authldapgroupattribute authldapgroupattributeisdn authldapinitialbindasuser
            authldapinitialbindpattern authldapmaxsubgroupdepth authldapremoteuserattribute
            authldapremoteuserisdn authldapsearchasuser authldapsubgroupattribute authldapsubgroupclass
            authldapurl
            ",
        ),
    ),
    (
        "mod_authz_core",
        Words(
            "
            authmerging authzprovideralias authzsendforbiddenonfailure require requireall requireany
            requirenone
            ",
        ),
    ),
    (
        "mod_authz_dbd",
        Words(
            "
            authzdbdlogintoreferer authzdbdquery authzdbdredirectquery
            ",
        ),
    ),
    (
        "mod_authz_dbm",
        Words(
            "
            authdbmgroupfile authzdbmtype
            ",
        ),
    ),
    (
        "mod_authz_groupfile",
        Words(
            "
            authgroupfile
            ",
        ),
    ),
    (
        "mod_autoindex",
        Words(
            "
            addalt addaltbyencoding addaltbytype adddescription addicon addiconbyencoding addiconbytype
            defaulticon fancyindexing headername indexheadinsert indexignore indexignorereset indexoptions
            indexorderdefault indexstylesheet readmename
            ",
        ),
    ),
    (
        "mod_brotli",
        Words(
            "
            brotlialteretag brotlicompressionmaxinputblock brotlicompressionquality brotlicompressionwindow
            brotlifilternote
            ",
        ),
    ),
    (
        "mod_buffer",
        Words(
            "
            buffersize
            ",
        ),
    ),
    (
        "mod_cache",
        Words(
            "
            cachedefaultexpire cachedetailheader cachedisable cacheenable cacheheader cacheignorecachecontrol
            cacheignoreheaders cacheignorenolastmod cacheignorequerystring cacheignoreurlsessionidentifiers
            cachekeybaseurl cachelastmodifiedfactor cachelock cachelockmaxage cachelockpath cachemaxexpire
            cacheminexpire cachequickhandler cachestaleonerror cachestoreexpired cachestorenostore
            cachestoreprivate
            ",
        ),
    ),
    (
        "mod_cache_disk",
        Words(
            "
            cachedirlength cachedirlevels cachemaxfilesize cacheminfilesize cachereadsize cachereadtime
            cacheroot
            ",
        ),
    ),
    (
        "mod_cache_socache",
        Words(
            "
            cachesocache cachesocachemaxsize cachesocachemaxtime cachesocachemintime cachesocachereadsize
            cachesocachereadtime
            ",
        ),
    ),
    (
        "mod_cern_meta",
        Words(
            "
            metadir metafiles metasuffix
            ",
        ),
    ),
    (
        "mod_cgi",
        Words(
            "
            cgiscripttimeout scriptlog scriptlogbuffer scriptloglength
            ",
        ),
    ),
    (
        "mod_cgid",
        Words(
            "
            cgidscripttimeout scriptsock
            ",
        ),
    ),
    (
        "mod_charset_lite",
        Words(
            "
            charsetdefault charsetoptions charsetsourceenc
            ",
        ),
    ),
    (
        "mod_dav",
        Words(
            "
            dav davbasepath davdepthinfinity davlockdiscovery davmintimeout
            ",
        ),
    ),
    (
        "mod_dav_fs",
        Words(
            "
            davlockdb
            ",
        ),
    ),
    (
        "mod_dav_lock",
        Words(
            "
            davgenericlockdb
            ",
        ),
    ),
    (
        "mod_dbd",
        Words(
            "
            dbdexptime dbdinitsql dbdkeep dbdmax dbdmin dbdparams dbdpersist dbdpreparesql dbdriver
            ",
        ),
    ),
    (
        "mod_deflate",
        Words(
            "
            deflatealteretag deflatebuffersize deflatecompressionlevel deflatefilternote
            deflateinflatelimitrequestbody deflateinflateratioburst deflateinflateratiolimit deflatememlevel
            deflatewindowsize
            ",
        ),
    ),
    (
        "mod_dir",
        Words(
            "
            directorycheckhandler directoryindex directoryindexredirect directoryslash fallbackresource
            ",
        ),
    ),
    (
        "mod_dumpio",
        Words(
            "
            dumpioinput dumpiooutput
            ",
        ),
    ),
    (
        "mod_env",
        Words(
            "
            passenv setenv unsetenv
            ",
        ),
    ),
    (
        "mod_expires",
        Words(
            "
            expiresactive expiresbytype expiresdefault
            ",
        ),
    ),
    (
        "mod_ext_filter",
        Words(
            "
            extfilterdefine extfilteroptions
            ",
        ),
    ),
    (
        "mod_fcgid",
        Words(
            "
            fcgidaccesschecker fcgidaccesscheckerauthoritative fcgidauthenticator
            fcgidauthenticatorauthoritative fcgidauthorizer fcgidauthorizerauthoritative fcgidbusyscaninterval
            fcgidbusytimeout fcgidcmdoptions fcgidconnecttimeout fcgiderrorscaninterval fcgidfixpathinfo
            fcgididlescaninterval fcgididletimeout fcgidinitialenv fcgidiotimeout fcgidipcdir
            fcgidmaxprocesses fcgidmaxprocessesperclass fcgidmaxrequestinmem fcgidmaxrequestlen
            fcgidmaxrequestsperprocess fcgidminprocessesperclass fcgidoutputbuffersize fcgidpassheader
            fcgidprocesslifetime fcgidprocesstablefile fcgidspawnscore fcgidspawnscoreuplimit
            fcgidterminationscore fcgidtimescore fcgidwrapper fcgidzombiescaninterval
            ",
        ),
    ),
    (
        "mod_file_cache",
        Words(
            "
            cachefile mmapfile
            ",
        ),
    ),
    (
        "mod_filter",
        Words(
            "
            addoutputfilterbytype filterchain filterdeclare filterprotocol filterprovider filtertrace
            ",
        ),
    ),
    (
        "mod_headers",
        Words(
            "
            header requestheader
            ",
        ),
    ),
    (
        "mod_http2",
        Words(
            "
            h2copyfiles h2direct h2earlyhint h2earlyhints h2maxdataframelen h2maxheaderblocklen
            h2maxsessionstreams h2maxstreamerrors h2maxworkeridleseconds h2maxworkers h2minworkers
            h2moderntlsonly h2outputbuffering h2padding h2proxyrequests h2push h2pushdiarysize h2pushpriority
            h2pushresource h2serializeheaders h2sessionextrafiles h2streammaxmemsize h2streamtimeout
            h2tlscooldownsecs h2tlswarmupsize h2upgrade h2websockets h2windowsize
            ",
        ),
    ),
    (
        "mod_ident",
        Words(
            "
            identitycheck identitychecktimeout
            ",
        ),
    ),
    (
        "mod_imagemap",
        Words(
            "
            imapbase imapdefault imapmenu
            ",
        ),
    ),
    (
        "mod_include",
        Words(
            "
            ssiendtag ssierrormsg ssietag ssilastmodified ssilegacyexprparser ssistarttag ssitimeformat
            ssiundefinedecho xbithack
            ",
        ),
    ),
    (
        "mod_info",
        Words(
            "
            addmoduleinfo
            ",
        ),
    ),
    (
        "mod_log_config",
        Words(
            "
            bufferedlogs customlog globallog logformat transferlog
            ",
        ),
    ),
    (
        "mod_log_debug",
        Words(
            "
            logmessage
            ",
        ),
    ),
    (
        "mod_log_forensic",
        Words(
            "
            forensiclog
            ",
        ),
    ),
    (
        "mod_logio",
        Words(
            "
            logiotrackttfb
            ",
        ),
    ),
    (
        "mod_lua",
        Words(
            "
            lua_____bytecodehack luaauthzprovider luacodecache luahookaccesschecker luahookauthchecker
            luahookcheckuserid luahookfixups luahookinsertfilter luahooklog luahookmaptostorage
            luahookpretranslatename luahooktranslatename luahooktypechecker luainherit luainputfilter
            luamaphandler luaoutputfilter luapackagecpath luapackagepath luaquickhandler luaroot luascope
            ",
        ),
    ),
    (
        "mod_macro",
        Words(
            "
            macro macroignorebadnesting macroignoreemptyargs undefmacro use
            ",
        ),
    ),
    (
        "mod_md",
        Words(
            "
            mdactivationdelay mdbaseserver mdcacertificatefile mdcachallenges mdcertificateagreement
            mdcertificateauthority mdcertificatecheck mdcertificatefile mdcertificatekeyfile
            mdcertificateprotocol mdcertificatestatus mdchallengedns01 mdchallengedns01version mdcheckinterval
            mdcontactemail mddrivemode mdexternalaccountbinding mdhttpproxy mdhttpproxycacertificatefile
            mdinitialdelay mdmatchnames mdmember mdmembers mdmessagecmd mdmuststaple mdnotifycmd mdomain
            mdomainset mdportmap mdprivatekeys mdprofile mdprofilemandatory mdrenewmode mdrenewviaari
            mdrenewwindow mdrequirehttps mdretrydelay mdretryfailover mdserverstatus mdstapleothers mdstapling
            mdstaplingkeepresponse mdstaplingrenewwindow mdstoredir mdstorelocks mdwarnwindow
            ",
        ),
    ),
    (
        "mod_mime",
        Words(
            "
            addcharset addencoding addhandler addinputfilter addlanguage addoutputfilter addtype
            defaultlanguage modmimeusepathinfo multiviewsmatch removecharset removeencoding removehandler
            removeinputfilter removelanguage removeoutputfilter removetype typesconfig
            ",
        ),
    ),
    (
        "mod_mime_magic",
        Words(
            "
            mimemagicfile
            ",
        ),
    ),
    (
        "mod_mpm",
        Words(
            "
            maxspareservers minspareservers
            ",
        ),
    ),
    (
        "mod_negotiation",
        Words(
            "
            cachenegotiateddocs forcelanguagepriority languagepriority
            ",
        ),
    ),
    (
        "mod_php",
        Words(
            "
            php_admin_flag php_admin_value php_flag php_value phpinidir
            ",
        ),
    ),
    (
        "mod_proxy",
        Words(
            "
            balancergrowth balancerinherit balancermember balancerpersist noproxy proxy proxy100continue
            proxyaddheaders proxybadheader proxyblock proxydomain proxyerroroverride proxyiobuffersize
            proxymatch proxymaxforwards proxypass proxypassinherit proxypassinterpolateenv proxypassmatch
            proxypassreverse proxypassreversecookiedomain proxypassreversecookiepath proxypreservehost
            proxyreceivebuffersize proxyremote proxyremotematch proxyrequests proxyset proxysourceaddress
            proxystatus proxytimeout proxyvia
            ",
        ),
    ),
    (
        "mod_proxy_connect",
        Words(
            "
            allowconnect
            ",
        ),
    ),
    (
        "mod_proxy_express",
        Words(
            "
            proxyexpressdbmfile proxyexpressdbmtype proxyexpressenable
            ",
        ),
    ),
    (
        "mod_proxy_fcgi",
        Words(
            "
            proxyfcgibackendtype proxyfcgisetenvif
            ",
        ),
    ),
    (
        "mod_proxy_ftp",
        Words(
            "
            proxyftpdircharset proxyftpescapewildcards proxyftplistonwildcard
            ",
        ),
    ),
    (
        "mod_proxy_hcheck",
        Words(
            "
            proxyhcexpr proxyhctemplate proxyhctpsize
            ",
        ),
    ),
    (
        "mod_proxy_html",
        Words(
            "
            proxyhtmlbufsize proxyhtmlcharsetout proxyhtmldoctype proxyhtmlenable proxyhtmlevents
            proxyhtmlextended proxyhtmlfixups proxyhtmlinterp proxyhtmllinks proxyhtmlmeta
            proxyhtmlstripcomments proxyhtmlurlmap
            ",
        ),
    ),
    (
        "mod_proxy_scgi",
        Words(
            "
            proxyscgiinternalredirect proxyscgisendfile
            ",
        ),
    ),
    (
        "mod_proxy_wstunnel",
        Words(
            "
            proxywebsocketfallbacktoproxyhttp
            ",
        ),
    ),
    (
        "mod_reflector",
        Words(
            "
            reflectorheader
            ",
        ),
    ),
    (
        "mod_remoteip",
        Words(
            "
            remoteipheader remoteipinternalproxy remoteipinternalproxylist remoteipproxiesheader
            remoteipproxyprotocol remoteipproxyprotocolexceptions remoteiptrustedproxy
            remoteiptrustedproxylist
            ",
        ),
    ),
    (
        "mod_reqtimeout",
        Words(
            "
            requestreadtimeout
            ",
        ),
    ),
    (
        "mod_request",
        Words(
            "
            keptbodysize
            ",
        ),
    ),
    (
        "mod_rewrite",
        Words(
            "
            rewritebase rewritecond rewriteengine rewritemap rewriteoptions rewriterule
            ",
        ),
    ),
    (
        "mod_security2",
        Words(
            "
            secaction secauditlog secdatadir secrequestbodyaccess secrule secruleengine
            ",
        ),
    ),
    (
        "mod_sed",
        Words(
            "
            inputsed outputsed
            ",
        ),
    ),
    (
        "mod_session",
        Words(
            "
            session sessionenv sessionexclude sessionexpiryupdateinterval sessionheader sessioninclude
            sessionmaxage
            ",
        ),
    ),
    (
        "mod_session_cookie",
        Words(
            "
            sessioncookiename sessioncookiename2 sessioncookieremove
            ",
        ),
    ),
    (
        "mod_session_crypto",
        Words(
            "
            sessioncryptocipher sessioncryptodriver sessioncryptopassphrase sessioncryptopassphrasefile
            ",
        ),
    ),
    (
        "mod_session_dbd",
        Words(
            "
            sessiondbdcookiename sessiondbdcookiename2 sessiondbdcookieremove sessiondbddeletelabel
            sessiondbdinsertlabel sessiondbdperuser sessiondbdselectlabel sessiondbdupdatelabel
            ",
        ),
    ),
    (
        "mod_setenvif",
        Words(
            "
            browsermatch browsermatchnocase setenvif setenvifexpr setenvifnocase
            ",
        ),
    ),
    (
        "mod_so",
        Words(
            "
            loadfile loadmodule
            ",
        ),
    ),
    (
        "mod_socache_memcache",
        Words(
            "
            memcacheconnttl
            ",
        ),
    ),
    (
        "mod_socache_redis",
        Words(
            "
            redisconnpoolttl redistimeout
            ",
        ),
    ),
    (
        "mod_speling",
        Words(
            "
            checkbasenamematch checkcaseonly checkspelling
            ",
        ),
    ),
    (
        "mod_ssl",
        Words(
            "
            sslcacertificatefile sslcacertificatepath sslcadnrequestfile sslcadnrequestpath
            sslcarevocationcheck sslcarevocationfile sslcarevocationpath sslcertificatechainfile
            sslcertificatefile sslcertificatekeyfile sslciphersuite sslcompression sslcryptodevice sslengine
            sslfips sslhonorcipherorder sslinsecurerenegotiation ssllog sslloglevel sslocspdefaultresponder
            sslocspenable sslocspnoverify sslocspoverrideresponder sslocspproxyurl
            sslocsprespondercertificatefile sslocsprespondertimeout sslocspresponsemaxage
            sslocspresponsetimeskew sslocspuserequestnonce sslopensslconfcmd ssloptions sslpassphrasedialog
            sslprotocol sslproxycacertificatefile sslproxycacertificatepath sslproxycarevocationcheck
            sslproxycarevocationfile sslproxycarevocationpath sslproxycheckpeercn sslproxycheckpeerexpire
            sslproxycheckpeername sslproxyciphersuite sslproxyengine sslproxymachinecertificatechainfile
            sslproxymachinecertificatefile sslproxymachinecertificatepath sslproxyprotocol sslproxyverify
            sslproxyverifydepth sslrandomseed sslrenegbuffersize sslrequire sslrequiressl sslsessioncache
            sslsessioncachetimeout sslsessionticketkeyfile sslsessiontickets sslsrpunknownuserseed
            sslsrpverifierfile sslstaplingcache sslstaplingerrorcachetimeout sslstaplingfaketrylater
            sslstaplingforceurl sslstaplingrespondertimeout sslstaplingresponsemaxage
            sslstaplingresponsetimeskew sslstaplingreturnrespondererrors sslstaplingstandardcachetimeout
            sslstrictsnivhostcheck sslusername sslusestapling sslverifyclient sslverifydepth sslvhostsnipolicy
            ",
        ),
    ),
    (
        "mod_substitute",
        Words(
            "
            substitute substituteinheritbefore substitutemaxlinelength
            ",
        ),
    ),
    (
        "mod_suexec",
        Words(
            "
            suexecusergroup
            ",
        ),
    ),
    (
        "mod_unixd",
        Words(
            "
            chrootdir group suexec user
            ",
        ),
    ),
    (
        "mod_userdir",
        Words(
            "
            userdir
            ",
        ),
    ),
    (
        "mod_usertrack",
        Words(
            "
            cookiedomain cookieexpires cookiehttponly cookiename cookiesamesite cookiesecure cookiestyle
            cookietracking
            ",
        ),
    ),
    (
        "mod_version",
        Words(
            "
            ifversion
            ",
        ),
    ),
    (
        "mod_vhost_alias",
        Words(
            "
            virtualdocumentroot virtualdocumentrootip virtualscriptalias virtualscriptaliasip
            ",
        ),
    ),
    (
        "mod_watchdog",
        Words(
            "
            watchdoginterval
            ",
        ),
    ),
    (
        "mod_wsgi",
        Words(
            "
            wsgiacceptmutex wsgiaccessscript wsgiapplicationgroup wsgiauthgroupscript wsgiauthuserscript
            wsgicallableobject wsgicasesensitivity wsgichunkedrequest wsgidaemonprocess wsgidestroyinterpreter
            wsgidispatchscript wsgidontwritebytecode wsgienablesendfile wsgierroroverride
            wsgigroupauthoritative wsgihandlerscript wsgiignoreactivity wsgiimportscript
            wsgilazyinitialization wsgimapheadtoget wsginewrelicconfigfile wsginewrelicenvironment
            wsgipassapacherequest wsgipassauthorization wsgiprocessgroup wsgipythoneggs wsgipythonhashseed
            wsgipythonhome wsgipythonoptimize wsgipythonpath wsgipythonwarnings wsgirestrictembedded
            wsgirestrictprocess wsgirestrictsignal wsgirestrictstdin wsgirestrictstdout wsgiscriptalias
            wsgiscriptaliasmatch wsgiscriptreloading wsgiservermetrics wsgisocketprefix wsgisocketrotation
            wsgitrustedproxies wsgitrustedproxyheaders wsgiverbosedebugging
            ",
        ),
    ),
    (
        "mod_xml2enc",
        Words(
            "
            xml2encalias xml2encdefault xml2startparse
            ",
        ),
    ),
    (
        "util_ldap",
        Words(
            "
            ldapcacheentries ldapcachettl ldapconnectionpoolttl ldapconnectiontimeout ldaplibrarydebug
            ldapopcacheentries ldapopcachettl ldapreferralhoplimit ldapreferrals ldapretries ldapretrydelay
            ldapsharedcachefile ldapsharedcachesize ldaptimeout ldaptrustedclientcert ldaptrustedglobalcert
            ldaptrustedmode ldapverifyservercert
            ",
        ),
    ),
];
