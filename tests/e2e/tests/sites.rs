//! The configurations of `docs/start/sites.md`, as they stand there: their pages come, and no client gets sources, hidden files, or what
//! visitors have uploaded as a script.

use std::process::Command;

use serde_json::{Value, json};
use tutti_e2e::documents::examples;
use tutti_e2e::tls::certificate;
use tutti_testkit::{Server, ServerOptions, free_port};

const PAGE: &str = include_str!("../../../docs/start/sites.md");

/// Prints what a script has to know of its place.
const SCRIPT: &str =
    "<?php echo basename(__FILE__), ' ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['REQUEST_URI'];";

/// A server with the first configuration under a heading of the page, `/srv` and `/usr/share` being folders of its own.
fn serve(heading: &str, files: &[(&str, &str)]) -> Server {
    let server = Server::start(&ServerOptions::default());
    for (name, content) in files {
        server.write(name, content);
    }
    let config = configuration(&server, heading);
    let answer = server.call("PUT", "/config", &config);
    // No warning either: what is shown to people must be right by the server's own judgement.
    assert_eq!(
        answer.json(),
        json!({"success": "Reconfiguration done."}),
        "{heading}: {}",
        server.log()
    );
    server
}

/// `*:80` is the server's own port then.
fn configuration(server: &Server, heading: &str) -> Value {
    let (_, section) = PAGE
        .split_once(&format!("\n## {heading}\n"))
        .unwrap_or_else(|| panic!("no heading {heading}"));
    let folder = server.folder().display();
    let text = examples(section, "json")
        .remove(0)
        .replace("/srv/", &format!("{folder}/srv/"))
        .replace("/usr/share/", &format!("{folder}/usr/share/"))
        .replace("\"*:80\"", &format!("\"{}\"", server.address()));
    serde_json::from_str(&text).unwrap()
}

fn assert_texts(server: &Server, expected: &[(&str, &str)]) {
    for (path, text) in expected {
        let reply = server.get(path);
        assert_eq!(reply.text(), *text, "{path}; log:\n{}", server.log());
        assert_eq!(reply.status, 200, "{path}");
    }
}

/// No response has the text `secret`, whatever the status.
fn assert_hidden(server: &Server, paths: &[&str]) {
    for path in paths {
        let reply = server.get(path);
        assert!(!reply.text().contains("secret"), "{path}: {}", reply.text());
        assert!(!reply.text().contains("<?php"), "{path}: {}", reply.text());
    }
}

#[test]
fn https_and_nothing_else() {
    let server = Server::start(&ServerOptions::default());
    let pem = certificate(&server);
    server.write("srv/site/index.html", "hello");
    server.write("srv/site/.env", "secret");
    let port = free_port();
    let mut config = configuration(&server, "HTTPS only");
    let listeners = config["listeners"].as_object_mut().unwrap();
    let secure = listeners.remove("*:443").unwrap();
    listeners.insert(format!("127.0.0.1:{port}"), secure);
    server.put("/config", &config);
    let moved = server.get("/a?b=c");
    assert_eq!(moved.status, 301);
    let location = moved.field("Location").unwrap().to_owned();
    assert!(
        location.starts_with("https://") && location.ends_with("/a?b=c"),
        "{location}"
    );
    let curl = |path: &str| {
        let mut command = Command::new("curl");
        command.args(["-sSi", "--cacert"]).arg(&pem);
        command.arg(format!("https://127.0.0.1:{port}{path}"));
        String::from_utf8(command.output().unwrap().stdout)
            .unwrap()
            .to_lowercase()
    };
    let page = curl("/");
    assert!(page.ends_with("hello"), "{page}");
    assert!(page.contains("cache-control: max-age=300"), "{page}");
    for answer in [page, curl("/nothing"), curl("/.env")] {
        assert!(!answer.contains("secret"), "{answer}");
        assert!(
            answer.contains("strict-transport-security: max-age=31536000"),
            "{answer}"
        );
    }
}

#[test]
fn files_and_php() {
    let server = serve(
        "Files and PHP",
        &[
            ("srv/site/index.php", SCRIPT),
            ("srv/site/sub/index.php", SCRIPT),
            ("srv/site/style.css", "body {}"),
            ("srv/site/empty/style.css", "body {}"),
            ("srv/site/config.php", "<?php $password = 'secret';"),
            ("srv/site/config.php~", "secret"),
            ("srv/site/.git/config", "secret"),
            ("srv/site/.well-known/security.txt", "contact"),
        ],
    );
    assert_texts(
        &server,
        &[
            ("/", "index.php /index.php /"),
            ("/style.css", "body {}"),
            ("/sub/index.php", "index.php /sub/index.php /sub/index.php"),
            ("/sub/", "index.php /sub/index.php /sub/"),
            ("/empty/", "index.php /index.php /empty/"),
            ("/news/42?a=b", "index.php /index.php /news/42?a=b"),
            ("/.well-known/security.txt", "contact"),
        ],
    );
    assert_hidden(
        &server,
        &[
            "/config.php",
            "/config.php~",
            "/.git/config",
            "/config%2ephp",
            "/config.php/",
            "//config.php",
        ],
    );
}

#[test]
fn wordpress() {
    let server = serve(
        "WordPress",
        &[
            ("srv/wordpress/index.php", SCRIPT),
            ("srv/wordpress/wp-login.php", SCRIPT),
            ("srv/wordpress/wp-admin/index.php", SCRIPT),
            ("srv/wordpress/wp-admin/css/a.css", "a {}"),
            ("srv/wordpress/wp-config.php", "<?php echo 'secret';"),
            ("srv/wordpress/wp-config.php.bak", "secret"),
            ("srv/wordpress/.htaccess", "secret"),
            ("srv/wordpress/wp-content/uploads/cat.jpg", "a cat"),
            (
                "srv/wordpress/wp-content/uploads/evil.php",
                "<?php echo 'sec', 'ret';",
            ),
        ],
    );
    assert_texts(
        &server,
        &[
            ("/", "index.php /index.php /"),
            ("/2026/11/hello/", "index.php /index.php /2026/11/hello/"),
            (
                "/wp-login.php?a=b",
                "wp-login.php /wp-login.php /wp-login.php?a=b",
            ),
            ("/wp-admin/", "index.php /wp-admin/index.php /wp-admin/"),
            ("/wp-admin/css/a.css", "a {}"),
            ("/wp-content/uploads/cat.jpg", "a cat"),
        ],
    );
    assert_hidden(
        &server,
        &[
            "/wp-config.php",
            "/wp-config.php.bak",
            "/.htaccess",
            "/wp-content/uploads/evil.php",
            "/wp-content/uploads/evil.php/x",
            "/wp-content/uploads/evil.php/",
            "/wp-content//uploads/./evil.php",
            "/wp-content/uploads/evil%2ephp",
        ],
    );
}

#[test]
fn laravel() {
    let server = serve(
        "Laravel, Symfony, CodeIgniter",
        &[
            (
                "srv/laravel/public/index.php",
                "<?php echo getenv('APP_ENV'), ' ', $_SERVER['REQUEST_URI'];",
            ),
            ("srv/laravel/public/robots.txt", "User-agent: *"),
            ("srv/laravel/public/other.php", "<?php echo 'secret';"),
            ("srv/laravel/.env", "secret"),
        ],
    );
    assert_texts(
        &server,
        &[
            ("/", "production /"),
            ("/users/5", "production /users/5"),
            ("/index.php/users", "production /index.php/users"),
            ("/robots.txt", "User-agent: *"),
        ],
    );
    assert_hidden(
        &server,
        &["/.env", "/../.env", "/other.php", "/%2e%2e/.env"],
    );
}

#[test]
fn django() {
    let server = serve(
        "Django",
        &[
            ("srv/django/mysite/__init__.py", ""),
            (
                "srv/django/mysite/wsgi.py",
                "import os\ndef application(environ, start):\n    start('200 OK', [])\n    return [(os.environ['DJANGO_SETTINGS_MODULE'] + ' ' + environ['PATH_INFO']).encode()]\n",
            ),
            ("srv/django/static/site.css", "body {}"),
            ("srv/django/static/.hidden", "secret"),
            ("srv/django/media/page.html", "uploaded"),
        ],
    );
    assert_texts(
        &server,
        &[
            ("/", "mysite.settings /"),
            ("/admin/", "mysite.settings /admin/"),
            ("/static/site.css", "body {}"),
            ("/media/page.html", "uploaded"),
            ("/mysite/wsgi.py", "mysite.settings /mysite/wsgi.py"),
        ],
    );
    let upload = server.get("/media/page.html");
    assert_eq!(upload.field("X-Content-Type-Options"), Some("nosniff"));
    assert_hidden(&server, &["/static/.hidden", "/static/../mysite/wsgi.py"]);
}

#[test]
fn rails() {
    let server = serve(
        "Rails, and other front controllers in Ruby",
        &[
            (
                "srv/rails/config.ru",
                "run ->(env) { [200, {}, [\"#{ENV.fetch('RAILS_ENV')} #{env['PATH_INFO']}\"]] }\n",
            ),
            ("srv/rails/public/robots.txt", "User-agent: *"),
            ("srv/rails/public/assets/app.css", "body {}"),
            ("srv/rails/public/.env", "secret"),
        ],
    );
    assert_texts(
        &server,
        &[
            ("/", "production /"),
            ("/posts/5", "production /posts/5"),
            ("/robots.txt", "User-agent: *"),
            ("/assets/app.css", "body {}"),
        ],
    );
    let asset = server.get("/assets/app.css");
    assert_eq!(
        asset.field("Cache-Control"),
        Some("public, max-age=31536000, immutable")
    );
    assert_eq!(server.get("/assets/none.css").status, 404);
    assert_hidden(&server, &["/.env", "/../config.ru"]);
}

#[test]
fn a_package_at_a_prefix() {
    let server = serve(
        "A package at a prefix",
        &[
            ("usr/share/shop/public/index.php", SCRIPT),
            ("usr/share/shop/public/js/shop.js", "shop()"),
            ("usr/share/shop/public/secret.php", "<?php echo 'secret';"),
            ("srv/site/index.html", "the site"),
        ],
    );
    assert_texts(
        &server,
        &[
            ("/", "the site"),
            ("/shop/", "index.php /shop/index.php /shop/"),
            ("/shop/cart?a=b", "index.php /shop/index.php /shop/cart?a=b"),
            ("/shop/js/shop.js", "shop()"),
        ],
    );
    assert_hidden(&server, &["/shop/secret.php", "/shop/.git/config"]);
    let folder = server.get("/shop");
    assert_eq!(
        (folder.status, folder.field("Location")),
        (301, Some("/shop/"))
    );
    assert_eq!(server.get("/shopping").status, 404);
}
