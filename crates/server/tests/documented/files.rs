//! Shares, their restrictions, fallbacks and header fields.

use super::{DocumentedCase, asked};

pub(super) const FILES: &[DocumentedCase] = &[
    asked(
        "variables-host-share",
        &[
            ("GET /found.html Host: test", "200 test/found.html"),
            ("GET /found.html Host: storage", "200 storage/found.html"),
            ("GET /common.html", "200 storage/common.html"),
            ("GET /none", "404"),
        ],
    ),
    asked(
        "variables-cookie-share",
        &[
            ("GET /any Cookie: app_session=one", "200 data/one"),
            ("GET /any Cookie: app_session=two", "404"),
        ],
    ),
    asked(
        "variables-index",
        &[
            ("GET /", "200 data/index.htm"),
            ("GET /page.html", "200 data/page.html"),
        ],
    ),
    asked(
        "response-headers",
        &[
            (
                "GET /a.css ? Cache-Control CDN-Cache-Control",
                "200 static/a.css | Cache-Control: max-age=60, s-maxage=120 | CDN-Cache-Control: max-age=600",
            ),
            ("GET /none ? Cache-Control", "404 | Cache-Control: -"),
        ],
    ),
    asked(
        "practice-single-page",
        &[
            ("GET /app.js", "200 dist/app.js"),
            ("GET /orders/7", "200 dist/index.html"),
        ],
    ),
    asked(
        "response-headers-rules",
        &[
            // Only the last action counts, with its path.
            (
                "GET /more/x ? X-First X-Last",
                "200 | X-First: - | X-Last: /last",
            ),
            ("GET /gone ? X-Last", "404 | X-Last: -"),
            ("GET /moved ? X-Length", "302 > /b | X-Length: 0"),
            (
                "GET /a.css ? ETag Content-Type",
                "200 static/a.css | ETag: - | Content-Type: text/css;charset=iso-8859-1",
            ),
        ],
    ),
    asked(
        "share",
        &[
            ("GET /a.css", "200 static/a.css"),
            ("GET /none", "404"),
            ("GET /assets", "301 > /assets/"),
        ],
    ),
    asked(
        "share-array",
        &[
            ("GET /found.html", "200 test/found.html"),
            ("GET /none.html", "200 error_pages/not_found.html"),
        ],
    ),
    asked(
        "share-index",
        &[(
            "GET / ? Content-Type",
            "200 static/default.html | Content-Type: text/html",
        )],
    ),
    asked(
        "share-types",
        &[
            ("GET /a.txt", "200 data/static/a.txt"),
            ("GET /a.3gpp", "200 data/static/a.3gpp"),
            ("GET /a.3gpp2", "200 data/static/a.3gpp2"),
            ("GET /a.css", "403"),
            ("GET /a.js", "403"),
            ("GET /a.png", "403"),
        ],
    ),
    asked(
        "share-types-fallback",
        &[
            (
                "GET /a.png ? Cache-Control",
                "200 data/static/a.png | Cache-Control: max-age=1209600",
            ),
            (
                "GET /a.pdf ? Cache-Control",
                "200 data/static/a.pdf | Cache-Control: -",
            ),
        ],
    ),
    asked(
        "share-known-types",
        &[
            ("GET /a.txt", "200 data/known-types-only/a.txt"),
            ("GET /a.unheard", "403"),
        ],
    ),
    // "If a share path specifies only the directory name, Unit doesn't apply MIME filtering."
    asked(
        "share-types-of-folder",
        &[("GET /", "200 folder/index.html")],
    ),
    asked(
        "share-chroot",
        &[
            ("GET /page.html", "200 data/page.html"),
            ("GET /log", "200 data/var/log/app.log"),
            ("GET /relative", "200 data/var/log/app.log"),
        ],
    ),
    asked(
        "share-chroot-outside",
        &[
            ("GET /index.xml", "403"),
            ("GET /data/page.html", "200 data/page.html"),
        ],
    ),
    asked(
        "share-links",
        &[
            ("GET /index.html Host: real", "200 real/static/index.html"),
            ("GET /symlink Host: real", "403"),
            ("GET /index.html Host: linked", "403"),
        ],
    ),
    asked(
        "share-links-chroot",
        &[
            ("GET /index.html Host: linked", "200 real/static/index.html"),
            ("GET /symlink Host: linked", "403"),
        ],
    ),
    asked(
        "share-chroot-variable",
        &[
            ("GET /index.html Host: linked", "200 real/static/index.html"),
            ("GET /symlink Host: linked", "200 real/static/index.html"),
        ],
    ),
    asked(
        "share-links-chroot-only",
        &[
            ("GET /index.html Host: linked", "200 real/static/index.html"),
            ("GET /symlink Host: linked", "403"),
        ],
    ),
    asked(
        "share-links-only",
        &[("GET /index.html Host: linked", "403")],
    ),
    asked(
        "fallback-nested",
        &[
            ("GET /a.txt", "200 data/static/a.txt"),
            ("GET /cached", "200 cache/cached"),
            ("GET /none", "410"),
            ("POST /a.txt", "410"),
        ],
    ),
    asked(
        "fallback-images",
        &[
            ("GET /a.png", "200 php-app/assets/files/a.png"),
            ("GET /a.css", "410"),
            ("GET /none.png", "410"),
            ("GET /page", "404"),
        ],
    ),
    asked(
        "settings-mime-types",
        &[
            (
                "GET /a.c ? Content-Type",
                "200 code/a.c | Content-Type: text/x-code",
            ),
            (
                "GET /a.txt ? Content-Type",
                "200 code/a.txt | Content-Type: text/plain",
            ),
            (
                "GET /Makefile ? Content-Type",
                "200 code/Makefile | Content-Type: text/x-make",
            ),
        ],
    ),
    asked(
        "compression",
        &[
            (
                "HEAD /large.css Accept-Encoding: deflate ? Content-Encoding",
                "200 | Content-Encoding: deflate",
            ),
            (
                "HEAD /large.css Accept-Encoding: zstd ? Content-Encoding",
                "200 | Content-Encoding: zstd",
            ),
            (
                "HEAD /large.css Accept-Encoding: gzip ? Content-Encoding",
                "200 | Content-Encoding: gzip",
            ),
            (
                "HEAD /large.css Accept-Encoding: br ? Content-Encoding",
                "200 | Content-Encoding: br",
            ),
            // Shorter than `min_length`.
            (
                "HEAD /a.css Accept-Encoding: gzip ? Content-Encoding",
                "200 | Content-Encoding: -",
            ),
            (
                "HEAD /a.css Accept-Encoding: br ? Content-Encoding",
                "200 | Content-Encoding: -",
            ),
            (
                "HEAD /assets/cat.jpg Accept-Encoding: zstd ? Content-Encoding",
                "200 | Content-Encoding: -",
            ),
        ],
    ),
];
