//! No input makes a reader panic, or hang.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tutti_import::{ForeignServer, Sources, import};

/// One text, under whatever name it is asked for.
struct Everywhere(Vec<u8>);

impl Sources for Everywhere {
    fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
        Ok(self.0.clone())
    }

    fn names_in(&self, _: &Path) -> Vec<String> {
        vec!["a".to_owned(), "b.conf".to_owned()]
    }
}

const KINDS: [ForeignServer; 7] = [
    ForeignServer::Nginx,
    ForeignServer::Apache,
    ForeignServer::Fpm,
    ForeignServer::Uwsgi,
    ForeignServer::Caddy,
    ForeignServer::Gunicorn,
    ForeignServer::Puma,
];

fn read(bytes: &[u8]) {
    for kind in KINDS {
        for name in ["/x/a.conf", "/x/a.yaml", "/x/a.json", "/x/a.xml"] {
            let done = import(kind, &[PathBuf::from(name)], &Everywhere(bytes.to_vec()));
            // Whatever is lost, a server accepts the rest.
            if let Ok(imported) = done {
                let text = imported.configuration.to_string();
                let refused = tutti_ctl::accepted(&text).err();
                assert!(refused.is_none(), "{kind:?} {name}: {refused:?}\n{text}");
            }
        }
    }
}

/// Words that the readers look for, so that arbitrary texts get beyond the first line.
const WORDS: &[&str] = &[
    "server",
    "location",
    "=",
    "~",
    "~*",
    "^~",
    "/",
    "/a/",
    "{",
    "}",
    ";",
    "\n",
    " ",
    "if",
    "($a",
    "$request_method",
    ")",
    "-f",
    "!-e",
    "$request_filename",
    "return",
    "301",
    "rewrite",
    "^(.*)$",
    "/$1",
    "last",
    "break",
    "set",
    "$x",
    "try_files",
    "$uri",
    "$uri/",
    "@a",
    "=404",
    "root",
    "/srv",
    "alias",
    "index",
    "index.php",
    "fastcgi_pass",
    "unix:/x",
    "proxy_pass",
    "http://a/b",
    "upstream",
    "map",
    "default",
    "include",
    "b.conf",
    "*",
    "listen",
    "80",
    "[::]:80",
    "ssl",
    "<VirtualHost",
    "*:80>",
    "</VirtualHost>",
    "<Directory",
    "<Location",
    "<IfModule",
    ">",
    "RewriteRule",
    "RewriteCond",
    "%{REQUEST_FILENAME}",
    "[L]",
    "ProxyPass",
    "Require",
    "all",
    "denied",
    "DocumentRoot",
    "Alias",
    "\\",
    "/srv",
    "AllowOverride",
    "All",
    "RewriteEngine",
    "On",
    "!-f",
    "!-d",
    "^(.*)$",
    "\n</Directory>\n",
    "\n</IfModule>\n",
    "<FilesMatch",
    "\n</FilesMatch>\n",
    "<Macro a $x>\n",
    "</Macro>\n",
    "Use a",
    "Define a",
    "${a}",
    "SetHandler",
    "application/x-httpd-php",
    "WSGIScriptAlias",
    "FallbackResource",
    "Header set",
    "[uwsgi]",
    "module",
    "a:b",
    "http",
    ":80",
    "static-map",
    "/s=/t",
    "processes",
    "4",
    "bind",
    "'0.0.0.0:80'",
    "workers",
    "threads 1, 2",
    "port",
    "ENV.fetch('PORT')",
    "[",
    "]",
    "'",
    "\"",
    "\"\"\"",
    "#",
    "import",
    "handle",
    "handle_path",
    "php_fastcgi",
    "reverse_proxy",
    "file_server",
    "respond",
    "@m",
    "path",
    "*.php",
    "header",
    "redir",
    "encode",
    "gzip",
    "example.com",
    "<uwsgi>",
    "</uwsgi>",
    "$",
    "${",
    "%",
    "é",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        read(&bytes);
    }

    #[test]
    fn words_in_any_order(words in proptest::collection::vec((proptest::sample::select(WORDS), any::<bool>()), 0..80)) {
        let mut text = String::new();
        for (word, space) in words {
            text.push_str(word);
            if space {
                text.push(' ');
            }
        }
        read(text.as_bytes());
    }
}

#[test]
fn depth_is_bounded() {
    for opening in [
        "a {",
        "<Directory /a>\n",
        "[",
        "{",
        "(",
        "a = [",
        "<a>",
        "location ~ a {",
        "<If x>\n",
        "handle {\n",
        "x = {'a': ",
        "if (",
    ] {
        read(opening.repeat(2_000).as_bytes());
    }
}

#[test]
fn a_file_in_every_folder_is_bounded() {
    // Each folder has two folders and the same file in it, without end.
    read(b"DocumentRoot /srv\n<Directory /srv>\nAllowOverride All\nRequire all denied\n</Directory>\n");
}

#[test]
fn rewrites_behind_rewrites_take_no_time_that_doubles() {
    for line in [
        "rewrite ^/a /b;\n",
        "if (-f $request_filename) { break; }\n",
        "rewrite /a /b\n",
        "try_files a b\n",
        "RewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^a b\n",
        "RewriteCond %{DOCUMENT_ROOT}/a -f\nRewriteRule ^(.*)$ /$1/b\n",
        "handle /a {\n",
    ] {
        let many = line.repeat(300);
        read(format!("server {{ location / {{ {many} }} }}").as_bytes());
        read(format!("http://a {{\n{many}}}").as_bytes());
        let some = line.repeat(60);
        read(
            format!("DocumentRoot /srv\n<Directory /srv>\nRewriteEngine On\n{some}</Directory>")
                .as_bytes(),
        );
    }
}
