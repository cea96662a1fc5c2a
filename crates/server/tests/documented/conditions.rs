//! Requests that are matched, rewritten, computed and answered without a file.

use super::{DocumentedCase, asked};

pub(super) const CONDITIONS: &[DocumentedCase] = &[
    asked(
        "routes-array",
        &[("GET /there", "204"), ("GET /nowhere", "404")],
    ),
    asked(
        "routes-named",
        &[("GET /next", "204"), ("GET /else", "404")],
    ),
    asked("pass-encoded", &[("GET /", "204")]),
    asked(
        "match-arguments-both",
        &[
            ("GET /?key1=4861&key2=a4f3", "200"),
            ("GET /?key2=a4f3&key1=4861", "200"),
            ("GET /?key1=4861", "404"),
            ("GET /?key1=4861&key2=other", "404"),
            ("GET /?KEY1=4861&key2=a4f3", "404"),
        ],
    ),
    asked(
        "match-arguments-any-value",
        &[("GET /?key=4861&key=a4f3", "200"), ("GET /?other=1", "404")],
    ),
    asked(
        "match-arguments-every-occurrence",
        &[
            ("GET /?key=4861&key=a4f3", "404"),
            ("GET /?key=a1&key=a4f3", "200"),
        ],
    ),
    asked(
        "match-query",
        &[
            ("GET /?utf8", "200"),
            ("GET /?utf16", "200"),
            ("GET /?UTF8", "404"),
            ("GET /?utf8&utf16", "404"),
            ("GET /", "404"),
        ],
    ),
    asked(
        "match-resolution",
        &[
            ("GET /pattern3", "200"),
            ("GET /pattern1", "404"),
            ("GET /pattern3pattern2", "404"),
            ("GET /other", "404"),
        ],
    ),
    asked(
        "match-all-of-an-object",
        &[
            ("GET /?arg1=pattern&arg2=pattern", "200"),
            ("GET /?arg1=pattern", "404"),
            ("GET /?arg1=pattern&arg2=other", "404"),
        ],
    ),
    asked(
        "match-any-of-an-array",
        &[
            ("GET /?arg1=pattern", "200"),
            ("GET /?arg2=pattern", "200"),
            ("GET /?arg1=pattern&arg2=pattern", "200"),
            ("GET /?arg1=other", "404"),
        ],
    ),
    asked(
        "match-all-kinds",
        &[
            (
                "GET /uri?arg1=one&arg2=1 Host: host.example | Cookie: cookie1=a | header1: 1",
                "200",
            ),
            (
                "GET /uri?arg1=one&arg2=1 Host: host.example | Cookie: x=y; cookie2=b | Header2: 2 | Header3: 3",
                "200",
            ),
            (
                "PUT /uri?arg1=one&arg2=1 Host: host.example | Cookie: cookie1=a | header1: 1",
                "404",
            ),
            (
                "GET /uri?arg1=one&arg2=1 Host: another | Cookie: cookie1=a | header1: 1",
                "404",
            ),
            (
                "GET /uri/not?arg1=one&arg2=1 Host: host.example | Cookie: cookie1=a | header1: 1",
                "404",
            ),
            (
                "GET /uri?arg1=one&arg2=two Host: host.example | Cookie: cookie1=a | header1: 1",
                "404",
            ),
            (
                "GET /uri?arg1=one Host: host.example | Cookie: cookie1=a | header1: 1",
                "404",
            ),
            (
                "GET /uri?arg1=one&arg2=1 Host: host.example | Cookie: cookie1=b | header1: 1",
                "404",
            ),
            (
                "GET /uri?arg1=one&arg2=1 Host: host.example | Cookie: cookie1=a | header2: 2",
                "404",
            ),
        ],
    ),
    asked(
        "match-arguments-not",
        &[
            ("GET /?mode=strict&access=read", "200"),
            ("GET /?mode=strict&access=full", "404"),
            // "Any access argument other than": there must be one.
            ("GET /?mode=strict", "404"),
        ],
    ),
    asked(
        "match-headers",
        &[
            (
                "GET / Accept-Encoding: br, gzip | User-Agent: Mozilla/5.0 (X11)",
                "200",
            ),
            (
                "GET / accept-encoding: GZIP | user-agent: mozilla/5.0",
                "200",
            ),
            ("GET / User-Agent: curl/8.5", "200"),
            ("GET / User-Agent: Mozilla/5.0", "404"),
            ("GET / Accept-Encoding: gzip", "404"),
        ],
    ),
    asked(
        "match-single-bytes",
        &[
            ("GET /?word=%C3%96l", "200"),
            ("GET /?word=a%C3%85", "200"),
            ("GET /?word=oil", "404"),
        ],
    ),
    asked(
        "match-masked",
        &[
            ("GET /?~fuzzy%20word%20search", "200"),
            ("GET /?~fuzzy+word+search", "200"),
            ("GET /?%7Efuzzy%20word%20search", "200"),
            ("GET /?fuzzy%20word%20search", "404"),
        ],
    ),
    asked(
        "match-special-masked",
        &[
            ("GET /a*b", "200"),
            ("GET /a%2Ab", "200"),
            ("GET /axb", "404"),
            ("GET /%25", "200"),
            ("GET /!~", "200"),
        ],
    ),
    asked(
        "match-wildcards",
        &[
            ("GET /How%20is%20that%20to%20you", "200"),
            ("GET /How%20is%20that%20to%20me", "404"),
        ],
    ),
    asked(
        "match-regex",
        &[
            ("GET / X-Version: 10.2.3.4", "200"),
            ("GET / X-Version: v1.2.3.4", "404"),
            ("GET /", "404"),
        ],
    ),
    asked(
        "match-php-files",
        &[
            ("GET /data/www/a/b.php", "200"),
            ("GET /data/www/b.php/info", "200"),
            ("GET /data/www/b.phps", "404"),
            ("GET /data/b.php", "404"),
        ],
    ),
    asked(
        "match-subdomains",
        &[
            ("GET / Host: www.example.com", "200"),
            ("GET / Host: WWW.Example.COM.:8080", "200"),
            ("GET / Host: example.com", "404"),
            ("GET / Host: www.example.com.evil.org", "404"),
        ],
    ),
    asked(
        "match-admin-php",
        &[
            ("GET /admin/users/list.php", "200"),
            ("GET /admin/./users//list.php", "200"),
            ("GET /admin/list.php", "404"),
            ("GET /admin/users/../list.php", "404"),
        ],
    ),
    asked(
        "match-host-except",
        &[
            ("GET / Host: eu-1.example.com", "200"),
            ("GET / Host: eu-5.example.com", "404"),
            ("GET / Host: us-1.example.com", "404"),
        ],
    ),
    asked(
        "match-methods-except",
        &[
            ("GET /", "404"),
            ("HEAD /", "404"),
            ("POST /", "200"),
            ("DELETE /", "200"),
        ],
    ),
    asked(
        "match-not-containing",
        &[
            ("GET /apis", "200"),
            ("GET /v1/api/users", "404"),
            ("GET /v1/%61pi/users", "404"),
        ],
    ),
    asked(
        "match-not-dates",
        &[
            ("GET /articles/about", "200"),
            ("GET /articles/2024-01-31", "404"),
            ("GET /other", "404"),
        ],
    ),
    asked("match-scheme", &[("GET /", "404")]),
    asked(
        "match-cookies",
        &[
            ("GET / Cookie: session=1", "200"),
            ("GET / Cookie: a=b; session=", "200"),
            ("GET / Cookie: Session=1", "404"),
        ],
    ),
    asked(
        "variables-method",
        &[
            ("GET /", "201"),
            ("PUT /", "202"),
            ("POST /", "203"),
            ("HEAD /", "404"),
        ],
    ),
    asked(
        "variables-request-uri",
        &[
            (
                "GET /a%20b?c=%20d Host: Example.com:8080",
                "301 > https://example.com/a%20b?c=%20d",
            ),
            (
                "GET /a/./b/../c//d?x=/../y",
                "301 > https://test/a/c/d?x=/../y",
            ),
            ("GET /a/%2e%2E/%C3%96/?", "400"),
            ("GET /a//%C3%96/?", "301 > https://test/a/%C3%96/?"),
        ],
    ),
    asked(
        "variables-all",
        &[
            (
                "GET /p%20q?Color=Red&Color=Blue Cookie: sessionId=s1 | accept-encoding: gzip | Referer: r | User-Agent: u",
                "307 > /arg=Blue&cookie=s1&h=gzip&h2=gzip&h3=gzip&ref=r&ua=u&host=test&m=GET&ip=127.0.0.1&uri=/p%20q&d=$x",
            ),
            (
                "GET /?color=Red",
                "307 > /arg=&cookie=&h=&h2=&h3=&ref=&ua=&host=test&m=GET&ip=127.0.0.1&uri=/&d=$x",
            ),
        ],
    ),
    asked(
        "return",
        &[("GET /admin_console/x", "403"), ("GET /", "404")],
    ),
    asked(
        "return-redirect",
        &[("GET /a?b", "301 > https://www.example.com")],
    ),
    asked("return-allow-deny", &[("GET /", "403")]),
    asked(
        "return-codes",
        &[("GET /0", "0"), ("GET /999", "999"), ("GET /", "599")],
    ),
    asked(
        "rewrite-into-routes",
        &[
            // Issue 10: `$request_uri` stays what the client sent.
            ("GET /a%20b?c=d", "302 > /a%20b?c=d"),
            ("GET /", "302 > /"),
        ],
    ),
    asked("rewrite-loop", &[("GET /", "500")]),
    asked("settings-unsafe-fields", &[("GET / x_a: 1", "200")]),
    asked("settings-safe-fields", &[("GET / x_a: 1", "404")]),
    asked(
        "settings-http",
        &[
            ("GET / ? Server", "200 | Server: Tutti"),
            ("PUT / Content-Length: 9", "413"),
        ],
    ),
    asked(
        "forwarded-patterns",
        &[("GET / X-Forwarded-For: 203.0.113.7", "302 > /203.0.113.7")],
    ),
    asked(
        "forwarded-patterns-negated",
        &[("GET / X-Forwarded-For: 203.0.113.7", "302 > /127.0.0.1")],
    ),
    asked(
        "forwarded-protocol",
        &[
            ("GET / X-Forwarded-Proto: https", "204"),
            ("GET / X-Forwarded-Proto: on", "204"),
            ("GET / X-Forwarded-Proto: http", "302 > /127.0.0.1"),
            ("GET / X-Forwarded-For: 203.0.113.7", "302 > /127.0.0.1"),
        ],
    ),
    asked(
        "forwarded-client-ip",
        &[(
            "GET / X-Forwarded-For: 192.0.2.18 | X-Forwarded-For: 203.0.113.195, 198.51.100.178",
            "302 > /198.51.100.178",
        )],
    ),
    asked(
        "forwarded-client-ip-recursive",
        &[
            (
                "GET / X-Forwarded-For: 192.0.2.18 | X-Forwarded-For: 203.0.113.195, 198.51.100.178",
                "302 > /203.0.113.195",
            ),
            (
                "GET / X-Forwarded-For: 192.0.2.18 | X-Forwarded-For: 198.51.100.1 198.51.100.178",
                "302 > /192.0.2.18",
            ),
        ],
    ),
    asked(
        "forwarded-older-form",
        &[(
            "GET / X-Forwarded-For: 192.0.2.18 | X-Forwarded-For: 203.0.113.195, 198.51.100.178",
            "302 > /203.0.113.195",
        )],
    ),
    // No server listens there.
    asked(
        "proxy",
        &[
            ("GET /ipv4/", "502"),
            ("GET /unix/", "502"),
            ("GET /", "404"),
        ],
    ),
];
