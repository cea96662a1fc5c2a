//! The configurations that people begin with, as the pages and the demo have them: what is served, and what no client gets
//! (issue 10, 1.10: the first one handed out the sources).

use serde_json::{Value, json};
use tutti_e2e::documents::{examples, json_examples};
use tutti_e2e::fpm::Fpm;
use tutti_testkit::{Server, ServerOptions, skip};

const FIRST_SITE: &str = include_str!("../../../docs/start/first-site.md");
const DEMO: &str = include_str!("../../../packaging/demo");
const PHP: &str = include_str!("../../../docs/languages/php.md");
const FASTCGI: &str = include_str!("../../../docs/proxy/fastcgi.md");

/// A server, and a site in it with everything that should not be seen.
fn site() -> Server {
    let server = Server::start(&ServerOptions::default());
    server.write(
        "site/index.php",
        "<?php echo 'It works: ', $_SERVER['REQUEST_URI'];",
    );
    server.write("site/config.php", "<?php $password = 'secret';");
    for name in ["config.php.bak", ".env", ".git/config", "sub/.htpasswd"] {
        server.write(&format!("site/{name}"), "secret");
    }
    server.write("site/style.css", "body {}");
    server.write("site/.well-known/security.txt", "Contact");
    server
}

/// The first JSON object of a text, with the site's folder and port in their places.
fn configuration(server: &Server, text: &str) -> Value {
    let folder = server.folder().join("site").display().to_string();
    let text = text
        .replace("/srv/site", &folder)
        .replace("$served/site\\$uri", &format!("{folder}$uri"))
        .replace("$served/site", &folder)
        .replace("127.0.0.1:$port", "*:8080");
    let mut values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    let mut config = values.next().unwrap().unwrap();
    config["listeners"] = json!({server.address().to_string(): config["listeners"]["*:8080"]});
    config
}

fn assert_right(server: &Server, config: &Value, name: &str) {
    let answer = server.call("PUT", "/config", config);
    // No warning either: what is shown to people must be right by the server's own judgement.
    assert_eq!(
        answer.json(),
        json!({"success": "Reconfiguration done."}),
        "{name}"
    );
    assert_eq!(
        server.get("/index.php").text(),
        "It works: /index.php",
        "{name}"
    );
    assert_eq!(server.get("/").text(), "It works: /", "{name}");
    assert_eq!(server.get("/style.css").text(), "body {}", "{name}");
    assert_eq!(
        server.get("/.well-known/security.txt").text(),
        "Contact",
        "{name}"
    );
    for path in [
        "/.git/config",
        "/.env",
        "/sub/.htpasswd",
        "/config.php.bak",
        "/config.php",
        "/config%2ephp",
        "/config.php/x",
        "/config.php/",
    ] {
        let reply = server.get(path);
        assert!(
            !reply.text().contains("secret"),
            "{name} {path}: {}",
            reply.text()
        );
    }
    for path in ["/.git/config", "/.env", "/config.php.bak"] {
        assert_eq!(server.get(path).status, 404, "{name} {path}");
    }
}

#[test]
fn the_first_configurations_of_php_run_scripts_and_hand_out_none() {
    let server = site();
    let (_, first) = FIRST_SITE.split_once("$ cat config.json\n").unwrap();
    let (_, demo) = DEMO.split_once("cat <<JSON\n").unwrap();
    let php = examples(PHP, "json");
    for (name, text) in [
        ("docs/start/first-site.md", first),
        ("packaging/demo", demo),
        ("docs/languages/php.md", &php[0]),
    ] {
        assert_right(&server, &configuration(&server, text), name);
    }
}

#[test]
fn the_first_configuration_of_fastcgi_runs_scripts_and_hands_out_none() {
    if !Fpm::is_installed() {
        skip!("PHP-FPM is not installed");
    }
    let server = site();
    let ini = server.write("php.ini", "");
    let fpm = Fpm::start(&ini, 2);
    let text = examples(FASTCGI, "json").remove(0);
    let text = text.replace("/run/php/fpm.sock", &fpm.socket().display().to_string());
    assert_right(
        &server,
        &configuration(&server, &text),
        "docs/proxy/fastcgi.md",
    );
}

/// The last example of the page is a mistake, and the answer is the server's.
#[test]
fn the_mistake_of_the_first_site_is_answered_as_the_page_shows() {
    let server = site();
    let (_, first) = FIRST_SITE.split_once("$ cat config.json\n").unwrap();
    server.put("/config", &configuration(&server, first));
    let mistake = json!({"max": 20, "spare": 5, "idle_timout": 20});
    let answer = server
        .call("PUT", "/config/applications/site/processes", &mistake)
        .json();
    let (_, shown) = FIRST_SITE.split_once("idle_timout\": 20}'").unwrap();
    for member in ["path", "suggestion", "detail"] {
        let value = format!("\"{member}\": {}", answer[member]);
        assert!(shown.contains(&value), "{value} in {shown}");
    }
    // And the other pages' examples are JSON.
    assert!(!json_examples(PHP, &[]).is_empty());
}
