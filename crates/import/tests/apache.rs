//! Configurations of Apache, in memory, and their translations.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod memory;

use std::io;
use std::path::{Path, PathBuf};

use memory::{Memory, lost};
use serde_json::{Value, json};
use tutti_config::pattern::Pattern;
use tutti_config::table::DECODED;
use tutti_import::{ForeignServer, Imported, Sources, UnreadableSource};

fn import(files: &[PathBuf], sources: &dyn Sources) -> Result<Imported, UnreadableSource> {
    tutti_import::import(ForeignServer::Apache, files, sources)
}

const MAIN: &str = "/etc/apache2/apache2.conf";

fn files(files: &[(&str, &str)]) -> Result<Imported, UnreadableSource> {
    import(&[PathBuf::from(MAIN)], &Memory::of(files))
}

fn imported(text: &str) -> Imported {
    files(&[(MAIN, text)]).expect("it can be read")
}

/// A host with `/srv` as its folder.
fn host(text: &str) -> Imported {
    imported(&format!(
        "<VirtualHost *:80>\nServerName s\nDocumentRoot /srv\n{text}\n</VirtualHost>"
    ))
}

/// The same host, in a file that loads Apache's modules, of which none runs PHP.
fn with_modules(text: &str) -> Imported {
    imported(&format!(
        "LoadModule dir_module dir.so\n<VirtualHost *:80>\nServerName s\nDocumentRoot /srv\n{text}\n</VirtualHost>"
    ))
}

/// The steps of the host, where nothing is lost.
fn steps(text: &str) -> Value {
    let imported = host(text);
    assert_eq!(lost(&imported), [], "{text}: {:#?}", imported.findings);
    imported.configuration["routes"]["s"].clone()
}

const FILES: &str = r#"{"action":{"share":"/srv$uri","index":""}}"#;

#[test]
fn who_may_is_asked_from_the_last_section_that_says_so() {
    let steps = steps(
        "<Directory />\nRequire all denied\n</Directory>\n<Directory /srv>\nRequire all granted\n</Directory>\n\
         <Directory /srv/private>\nRequire all denied\n</Directory>\n<Location /private/open>\nRequire all granted\n</Location>\n\
         <Files secret.txt>\nRequire all denied\n</Files>",
    );
    let uris: Vec<&Value> = steps
        .as_array()
        .unwrap()
        .iter()
        .map(|step| &step["match"]["uri"])
        .collect();
    assert_eq!(
        uris,
        [
            &json!(["/private/open", "/private/open/*"]),
            &json!("~/secret\\.txt(?:/|$)"),
            &json!(["/private", "/private/*"]),
            // `/srv` lets all clients in: the access control above it is never used.
            &Value::Null,
        ]
    );
    assert_eq!(steps[1]["action"], json!({"return": 403}));
    assert_eq!(steps[2]["action"], json!({"return": 403}));
    assert_eq!(steps[0]["action"], steps[3]["action"]);
}

#[test]
fn a_folder_without_a_grant_stays_closed() {
    let steps = steps(
        "<Directory />\nRequire all denied\n</Directory>\n<Directory /usr/share>\nRequire all granted\n</Directory>",
    );
    assert_eq!(steps, json!([{"action": {"return": 403}}]));
}

#[test]
fn a_place_that_cannot_be_protected_refuses_everybody() {
    for (closing, expected) in [
        (
            "AuthType Digest\nAuthName x\nAuthUserFile /p\nRequire valid-user",
            "Require",
        ),
        ("Require expr %{TIME_HOUR} -gt 9", "Require"),
        ("Require host example.org", "Require"),
        ("Require not host example.org", "Require"),
        (
            "<RequireAll>\nRequire ip 10.0.0.0/8\nRequire user ada\n</RequireAll>",
            "Require",
        ),
        (
            "<RequireAll>\nRequire ip 10.0.0.0/8\nRequire ip 10.1.0.0/16\n</RequireAll>",
            "Require",
        ),
        ("AuthMerging And\nRequire all granted", "AuthMerging"),
        ("Order Deny,Allow\nDeny from example.org", "Deny"),
        ("Order Deny,Allow\nDeny from env=bad", "Deny"),
        ("Order Allow,Deny\nAllow from example.org", "Allow"),
        (
            "RewriteEngine On\nRewriteCond %{TIME_HOUR} >20\nRewriteRule ^ - [F]",
            "RewriteRule",
        ),
        (
            "RewriteEngine On\nRewriteRule ^a - [N]\nRewriteRule ^ - [F]",
            "RewriteRule",
        ),
        (
            "RewriteEngine On\nRewriteRule (?>.*) /checked/$1 [L]",
            "RewriteRule",
        ),
    ] {
        let imported = host(&format!("<Directory /srv>\n{closing}\n</Directory>"));
        assert_eq!(
            lost(&imported)
                .iter()
                .map(|(_, directive)| *directive)
                .collect::<Vec<_>>(),
            [expected],
            "{closing}"
        );
        let first = &imported.configuration["routes"]["s"][0];
        assert_eq!(first["action"]["return"], json!(403), "{closing}: {first}");
        let everywhere = json!({"uri": "~^/(?i:.*?(?>.*))"});
        assert!(
            first["match"].is_null() || first["match"] == everywhere,
            "{closing}: {first}"
        );
    }
}

#[test]
fn an_expression_that_is_not_understood_opens_nothing() {
    for section in ["FilesMatch", "LocationMatch", "DirectoryMatch"] {
        let imported = host(&format!(
            "<{section} \"a(b\">\nRequire all denied\n</{section}>"
        ));
        let first = &imported.configuration["routes"]["s"][0];
        assert_eq!(first, &json!({"action": {"return": 403}}), "{section}");
        assert!(!imported.is_whole(), "{section}");
        let imported = host(&format!(
            "<Directory />\nRequire all denied\n</Directory>\n<{section} \"a(b\">\nRequire all granted\n</{section}>"
        ));
        let first = &imported.configuration["routes"]["s"][0];
        assert_eq!(first, &json!({"action": {"return": 403}}), "{section}");
    }
}

#[test]
fn the_condition_of_if_opens_nothing() {
    let imported = host(
        "<Directory /srv>\nRequire all denied\n</Directory>\n<If \"%{TIME_HOUR} == '9'\">\nRequire all granted\n</If>",
    );
    assert_eq!(
        imported.configuration["routes"]["s"][0],
        json!({"action": {"return": 403}})
    );
    let imported = host("<If \"%{TIME_HOUR} == '9'\">\nRequire all denied\n</If>");
    assert_eq!(
        imported.configuration["routes"]["s"][0],
        json!({"action": {"return": 403}})
    );
    assert!(!imported.is_whole());
}

#[test]
fn addresses_are_let_in_and_kept_out() {
    for (text, expected) in [
        (
            "Require ip 10.1 192.168.0.0/255.255.0.0",
            json!(["!10.1.0.0/16", "!192.168.0.0/16"]),
        ),
        ("Require local", json!(["!127.0.0.0/8", "!::1"])),
        (
            "<RequireAll>\nRequire all granted\nRequire not ip 10.0.0.1\n</RequireAll>",
            json!("10.0.0.1"),
        ),
        (
            "<RequireNone>\nRequire ip 10.0.0.1\n</RequireNone>",
            json!("10.0.0.1"),
        ),
        (
            "Order deny,allow\nDeny from all\nAllow from 127.0.0.1",
            json!("!127.0.0.1"),
        ),
        (
            "Order allow,deny\nAllow from all\nDeny from 10.",
            json!("10.0.0.0/8"),
        ),
        (
            "Order deny,allow\nDeny from 10.0.0.0/8",
            json!("10.0.0.0/8"),
        ),
    ] {
        let steps = steps(&format!("<Directory /srv>\n{text}\n</Directory>"));
        assert_eq!(
            steps[0],
            json!({"match": {"source": expected}, "action": {"return": 403}}),
            "{text}"
        );
    }
    let steps = steps("<Location /a>\n<Limit POST>\nRequire all denied\n</Limit>\n</Location>");
    let others = "`${(!['POST'].includes((vars.method ?? ''))) ? 1 : ''}`";
    assert_eq!(
        steps[0]["match"],
        json!({"uri": ["/a", "/a/*"], "if": others})
    );
    assert!(steps[0]["action"]["pass"].is_string());
    assert_eq!(
        steps[1],
        json!({"match": {"uri": ["/a", "/a/*"]}, "action": {"return": 403}})
    );
}

#[test]
fn sources_of_programs_are_not_handed_out() {
    for text in [
        "<Directory /srv/x>\nSetHandler perl-script\n</Directory>",
        "AddOutputFilter INCLUDES .shtml",
        "ScriptAlias /run /usr/lib/cgi-bin/run",
        "WSGIScriptAlias /x /opt/app.wsgi",
    ] {
        let imported = host(text);
        assert_eq!(lost(&imported).len(), 1, "{text}: {:?}", imported.findings);
        let text = imported.configuration["routes"].to_string();
        assert!(
            text.contains("\"return\":403") || text.contains("\"return\":503"),
            "{text}"
        );
    }
    let imported = host("ScriptAlias /run /usr/lib/cgi-bin/run");
    let found = format!("{:?}", imported.findings);
    assert!(found.contains("`languages/cgi`"), "{found}");
    let imported = host(
        "<FilesMatch \".+\\.ph(?:ar|p|tml)$\">\nSetHandler application/x-httpd-php\n</FilesMatch>",
    );
    let steps = imported.configuration["routes"]["s"].as_array().unwrap();
    assert!(
        steps[0]["match"]["uri"]
            .as_str()
            .unwrap()
            .contains(r"\.php")
    );
    assert_eq!(
        steps[1]["action"],
        json!({"return": 403}),
        "`.phtml` is neither run nor shown"
    );
    let imported = host(
        "<FilesMatch \\.php$>\nSetHandler application/x-httpd-php\n</FilesMatch>\n<Directory /srv/uploads>\nphp_admin_flag engine off\n</Directory>",
    );
    let uploads = &imported.configuration["routes"]["s-uploads"];
    assert_eq!(uploads[0]["action"], json!({"return": 403}), "{uploads}");
}

#[test]
fn scripts_that_do_not_run_are_neither_run_nor_shown() {
    for stopping in [
        "<Directory /srv/u>\nphp_flag engine off\n</Directory>",
        "<DirectoryMatch ^/srv/u>\nphp_admin_flag engine off\n</DirectoryMatch>",
        "<Directory /srv/u>\nRemoveHandler .php\n</Directory>",
        "<LocationMatch ^/u>\nForceType text/plain\n</LocationMatch>",
        "<Directory /srv/u>\nAddType text/plain .php\n</Directory>",
    ] {
        let imported = host(&format!(
            "<FilesMatch \\.php$>\nSetHandler application/x-httpd-php\n</FilesMatch>\n{stopping}"
        ));
        let routes = &imported.configuration["routes"];
        let steps = if routes["s-u"].is_null() {
            &routes["s"]
        } else {
            &routes["s-u"]
        };
        assert_eq!(
            steps[0]["action"],
            json!({"return": 403}),
            "{stopping}: {steps}"
        );
        assert!(!imported.findings.is_empty(), "{stopping}");
    }
}

#[test]
fn a_second_look_at_rules_that_refuse_is_not_left_out() {
    // Apache applies all rules again to `/admin.php`.
    let imported = host(
        "<FilesMatch \\.php$>\nSetHandler application/x-httpd-php\n</FilesMatch>\n<Directory /srv>\nRewriteEngine On\nRewriteRule ^admin\\.php - [F]\nRewriteRule ^a$ admin.php [L]\n</Directory>",
    );
    assert_eq!(lost(&imported), []);
    let routes = &imported.configuration["routes"];
    assert_eq!(routes["s"][1]["action"]["pass"], json!("routes/s-settled"));
    assert_eq!(
        routes["s-settled"][0],
        json!({"match": {"uri": "~^/admin\\.php"}, "action": {"return": 403}})
    );
}

#[test]
fn what_is_handed_on_by_a_rule_is_guarded() {
    let imported = host(
        "RewriteEngine On\nRewriteRule ^/(.*) http://127.0.0.1:1/$1 [P]\n<Location /private>\nRequire all denied\n</Location>",
    );
    let routes = &imported.configuration["routes"];
    assert_eq!(routes["s"][0]["action"], json!({"pass": "routes/s-proxy"}));
    assert_eq!(
        routes["s-proxy"][0],
        json!({"match": {"uri": ["/private", "/private/*"]}, "action": {"return": 403}})
    );
    let imported =
        host("<Proxy *>\nRequire ip 10.0.0.0/8\n</Proxy>\nProxyPass / http://127.0.0.1:1/");
    assert_eq!(
        imported.configuration["routes"]["s-proxy"][0],
        json!({"match": {"source": "!10.0.0.0/8"}, "action": {"return": 403}})
    );
    let imported = host(
        "<Proxy http://other/>\nRequire all granted\n</Proxy>\n<Proxy *>\nRequire all denied\n</Proxy>\nProxyPass / http://127.0.0.1:1/",
    );
    assert_eq!(
        imported.configuration["routes"]["s"][0],
        json!({"action": {"return": 403}})
    );
}

#[test]
fn links_are_followed_only_where_they_were() {
    for (options, follows) in [
        ("FollowSymLinks", true),
        ("None", false),
        ("-FollowSymLinks", false),
        ("+SymLinksIfOwnerMatch", false),
    ] {
        let imported = host(&format!(
            "DirectoryIndex disabled\n<Directory /srv/u>\nOptions {options}\n</Directory>"
        ));
        let steps = imported.configuration["routes"]["s"].as_array().unwrap();
        // The first step is for scripts without a handler.
        let inner = &imported.configuration["routes"]["s-u"][1]["action"];
        assert_eq!(steps.len(), if follows { 2 } else { 3 }, "{options}");
        assert_eq!(
            inner["follow_symlinks"] == json!(false),
            !follows,
            "{options}"
        );
    }
}

/// Returns the list of a host, behind `index.html`; and the findings about it.
fn list(text: &str) -> (Value, Vec<(usize, String)>) {
    let imported = host(text);
    let steps = imported.configuration["routes"]["s"].as_array().unwrap();
    let folder = steps
        .iter()
        .find(|step| step["match"]["uri"] == json!("*/"));
    let mut action = folder.map_or(Value::Null, |step| step["action"].clone());
    while action["listing"].is_null() && action["fallback"].is_object() {
        action = action["fallback"].clone();
    }
    let lost = lost(&imported).into_iter();
    (
        action,
        lost.map(|(line, name)| (line, name.to_owned())).collect(),
    )
}

#[test]
fn folders_are_listed_where_options_say_so() {
    const LIST: &str = r#"{"share":"/srv$uri","index":"","listing":"html"}"#;
    let expected: Value = serde_json::from_str(LIST).unwrap();
    for options in ["Indexes FollowSymLinks", "+Indexes", "All"] {
        let text = format!("<Directory /srv>\nOptions {options}\n</Directory>");
        assert_eq!(list(&text), (expected.clone(), vec![]), "{options}");
        // Without an index, too.
        let text = format!("DirectoryIndex disabled\nOptions {options}");
        assert_eq!(list(&text), (expected.clone(), vec![]), "{options}");
    }
    for options in [
        "FollowSymLinks",
        "-Indexes",
        "None",
        "Indexes\nOptions FollowSymLinks",
        "Indexes FollowSymLinks\n</Directory>\n<Directory /srv>\nOptions -Indexes",
    ] {
        let text = format!("<Directory /srv>\nOptions {options}\n</Directory>");
        assert_eq!(list(&text), (json!({"return": 404}), vec![]), "{options}");
    }
    // A path that is no folder goes on.
    let text = "DirectoryIndex disabled\nOptions Indexes\nFallbackResource /index.html";
    let (action, lost) = list(text);
    assert_eq!((&action["listing"], lost), (&json!("html"), vec![]));
    assert_eq!(action["fallback"]["rewrite"], json!("/index.html"));
    // A name without a file has the resource before there is a list.
    let (action, lost) = list("Options Indexes\nFallbackResource /b.html");
    assert_eq!((&action["listing"], lost), (&Value::Null, vec![]));
    assert_eq!(action["rewrite"], json!("/b.html"));
}

/// Apache lists no folder if a section refuses a name of its index, be there such a file or not.
#[test]
fn a_refused_index_closes_its_folder() {
    const REFUSED: &str = "<Files index.html>\nRequire all denied\n</Files>";
    for (text, leads_to) in [
        ("Options Indexes", "listing"),
        ("FallbackResource /b.html", "/b.html"),
        (
            "DirectoryIndex index.html home.htm\nOptions Indexes",
            "listing",
        ),
    ] {
        let imported = host(&format!("{text}\n{REFUSED}"));
        assert_eq!(lost(&imported), [], "{text}");
        let routes = imported.configuration["routes"].clone();
        let action = |route: &str, uri: &str| {
            let steps = routes[route].as_array().unwrap().clone();
            let matches = |step: &&Value| {
                let pattern = step["match"]["uri"].as_str().unwrap_or("*");
                let pattern = Pattern::parse(pattern, DECODED).unwrap();
                pattern.found_in(uri.as_bytes()).unwrap()
            };
            steps.iter().find(matches).unwrap()["action"].clone()
        };
        let mut first = action("s", "/x/");
        // A missing folder is not asked about its index.
        if first["folder"].is_object() {
            first = first["folder"].clone();
        }
        assert_eq!(first["rewrite"], json!("${uri}index.html"), "{text}");
        let checks = first["pass"].as_str().unwrap().replace("routes/", "");
        let refused = action(&checks, "/x/index.html");
        let next = refused["pass"].as_str().unwrap().replace("routes/", "");
        let mut last = action(&next, "/x/");
        while last["fallback"].is_object() {
            last = last["fallback"].clone();
        }
        assert_eq!(last, json!({"return": 403}), "{text}");
        // Where the name is allowed, a folder without the file is as before.
        assert!(routes.to_string().contains(leads_to), "{text}");
    }
}

#[test]
fn a_folder_has_lists_of_its_own() {
    for (outer, inner) in [("None", "+Indexes"), ("Indexes", "-Indexes")] {
        let text = format!(
            "<Directory /srv>\nOptions {outer}\n</Directory>\n<Directory /srv/u>\nOptions {inner}\n</Directory>"
        );
        let routes = host(&text).configuration["routes"].clone();
        for (name, options) in [("s", outer), ("s-u", inner)] {
            let steps = routes[name].to_string();
            let is_listed = !["None", "-Indexes"].contains(&options);
            // The host leads to the folder, and has no list of it.
            assert_eq!(steps.contains("listing"), is_listed, "{name}: {steps}");
        }
    }
}

/// Apache leaves out of a list what is refused; here another step refuses it, so the list must not show it.
#[test]
fn lists_do_not_show_what_the_source_hides() {
    for (hides, denied) in [
        ("<Files *.bak>\nRequire all denied\n</Files>", "/a.bak"),
        (
            "<Directory /srv/in>\nRequire all denied\n</Directory>",
            "/in",
        ),
        ("<Directory /srv/in>\nOrder allow,deny\n</Directory>", "/in"),
        ("<Location /in>\nRequire ip 10.0.0.0/8\n</Location>", "/in"),
        ("<Directory /srv/a>\nRequire valid-user\n</Directory>", "/a"),
        (
            "<LocationMatch ^/secret>\nRequire all denied\n</LocationMatch>",
            "/secrets",
        ),
        ("IndexIgnore *~ RCS", "/a~"),
        ("IndexIgnore *~ RCS", "/x/RCS"),
    ] {
        let (action, lost) = list(&format!("Options Indexes\n{hides}"));
        let said = lost
            .iter()
            .map(|(_, name)| name.as_str())
            .collect::<Vec<_>>();
        assert!(
            said.iter().all(|name| *name == "Require"),
            "{hides}: {said:?}"
        );
        assert_eq!(action["listing"], json!("html"), "{hides}");
        let patterns = action["deny"].as_array().cloned();
        let patterns = patterns.unwrap_or_else(|| vec![action["deny"].clone()]);
        let is_denied = |path: &str| {
            patterns.iter().any(|pattern| {
                let source = pattern.as_str().unwrap();
                let pattern = Pattern::parse(source, DECODED).unwrap();
                pattern.found_in(path.as_bytes()).unwrap()
            })
        };
        assert!(is_denied(denied), "{hides}: {patterns:?}");
        assert!(
            !is_denied("/other.txt") && !is_denied("/"),
            "{hides}: {patterns:?}"
        );
    }
    // A name that no list has needs no pattern.
    for hides in [
        "<FilesMatch \"^\\.ht\">\nRequire all denied\n</FilesMatch>",
        "<DirectoryMatch \"/\\.git\">\nRequire all denied\n</DirectoryMatch>",
        "<Directory /srv/.git>\nRequire all denied\n</Directory>",
        "IndexIgnore .??*",
    ] {
        let (action, lost) = list(&format!("Options Indexes\n{hides}"));
        assert_eq!(
            (&action["listing"], lost),
            (&json!("html"), vec![]),
            "{hides}"
        );
        assert_eq!(action["deny"], Value::Null, "{hides}");
    }
    // A refusal that cannot be written as a pattern leaves the list out, and is reported with its place.
    for hides in [
        "<DirectoryMatch /secret>\nRequire all denied\n</DirectoryMatch>",
        "<Directory /srv/u>\nRewriteEngine On\nRewriteRule ^secret - [F]\n</Directory>",
    ] {
        let (action, lost) = list(&format!("Options Indexes\n{hides}"));
        assert_eq!(action["listing"], Value::Null, "{hides}");
        assert_eq!(lost, [(4, "Options Indexes".to_owned())], "{hides}");
    }
}

/// Clients that may enter a folder see its list, which the one around it does not name.
#[test]
fn a_guarded_folder_is_listed_for_those_who_may() {
    let text = "Options Indexes\n<Directory /srv/in>\nRequire ip 10.0.0.0/8\n</Directory>";
    let routes = host(text).configuration["routes"].clone();
    let inner = routes["s-in"].to_string();
    assert!(
        inner.contains("listing") && !inner.contains("deny"),
        "{inner}"
    );
}

#[test]
fn without_the_module_nothing_is_listed() {
    let site = "<VirtualHost *:80>\nDocumentRoot /srv\nOptions Indexes\n</VirtualHost>";
    for (module, lists) in [("autoindex", true), ("dir", false)] {
        let imported = imported(&format!("LoadModule {module}_module x.so\n{site}"));
        let all = imported.configuration.to_string();
        assert_eq!(all.contains("listing"), lists, "{all}");
    }
}

#[test]
fn a_file_of_a_folder_that_cannot_be_read_closes_it() {
    struct Locked(Memory);
    impl Sources for Locked {
        fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
            if path == Path::new("/srv/u/.htaccess") {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            self.0.read(path)
        }

        fn names_in(&self, folder: &Path) -> Vec<String> {
            self.0.names_in(folder)
        }
    }
    let main = "<Directory /srv>\nAllowOverride All\n</Directory>\nDocumentRoot /srv\n";
    let memory = Memory::of(&[(MAIN, main), ("/srv/u/index.html", "")]);
    let imported = import(&[PathBuf::from(MAIN)], &Locked(memory)).unwrap();
    assert_eq!(
        imported.configuration["routes"]["main"][0],
        json!({"match": {"uri": ["/u", "/u/*"]}, "action": {"return": 403}})
    );
    assert!(!imported.is_whole());
}

#[test]
fn files_of_folders_say_more_where_they_may() {
    let main = |allow: &str| {
        format!(
            "<Directory /srv>\nAllowOverride {allow}\nRequire all granted\n</Directory>\n<VirtualHost *:80>\nServerName s\nDocumentRoot /srv\n</VirtualHost>"
        )
    };
    let read = |allow: &str| {
        files(&[
            (MAIN, &main(allow)),
            (
                "/srv/data/.htaccess",
                "# mine\nRequire all denied\nNoSuchThing",
            ),
            ("/srv/index.html", "x"),
        ])
        .unwrap()
    };
    // A directive that is only ignored there is not allowed.
    let nonfatal = read("FileInfo Nonfatal=Override");
    assert!(
        nonfatal.findings[0].problem.contains("does not allow"),
        "{:?}",
        nonfatal.findings
    );
    let imported = read("All");
    assert_eq!(
        imported.configuration["routes"]["s"][0],
        json!({"match": {"uri": ["/data", "/data/*"]}, "action": {"return": 403}})
    );
    let finding = &imported.findings[0];
    assert_eq!(
        (
            finding.file.as_str(),
            finding.line,
            finding.directive.as_str()
        ),
        ("/srv/data/.htaccess", 3, "NoSuchThing")
    );
    assert_eq!(
        read("None").configuration["routes"]["s"][1]["match"],
        json!({"uri": "*/"})
    );
}

#[test]
fn a_front_controller_is_a_fallback() {
    let imported = host(
        "DirectoryIndex index.php\n<FilesMatch \\.php$>\nSetHandler application/x-httpd-php\n</FilesMatch>\n\
         <Directory /srv>\nRewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule ^ index.php [L]\n</Directory>",
    );
    assert_eq!(lost(&imported), []);
    let steps = imported.configuration["routes"]["s"].as_array().unwrap();
    let fallback = json!({"rewrite": "/index.php", "pass": "routes/s-settled"});
    assert_eq!(
        steps.last().unwrap(),
        &json!({"action": {"share": "/srv$uri", "index": "", "fallback": fallback}})
    );
    // With the script's own path no rule is applied again.
    assert_eq!(
        imported.configuration["routes"]["s-settled"][0]["action"],
        json!({"pass": "applications/php"})
    );
}

#[test]
fn redirects_come_before_the_question_who_may() {
    let steps = steps(
        "Redirect permanent /old http://x/new\nRedirectMatch 404 /\\.git\nRedirect gone /gone\n<Directory /srv>\nRequire all denied\n</Directory>",
    );
    assert_eq!(steps[0]["match"]["uri"], json!(["/old", "/old/*"]));
    assert_eq!(steps[0]["action"]["return"], json!(301));
    assert_eq!(
        steps[1],
        json!({"match": {"uri": "~/\\.git"}, "action": {"return": 404}})
    );
    assert_eq!(steps[2]["action"], json!({"return": 410}));
    assert_eq!(steps[3], json!({"action": {"return": 403}}));
}

#[test]
fn hosts_are_chosen_by_name_in_their_order() {
    let site = |names: &str, folder: &str| {
        format!("<VirtualHost *:80>\n{names}\nDocumentRoot /srv/{folder}\n</VirtualHost>\n")
    };
    let text = format!(
        "Listen 80\nListen 8080\n{}{}{}",
        site("ServerName first", "a"),
        site("ServerName b\nServerAlias *.b www.?.b", "b"),
        site("ServerName c", "c")
    );
    let configuration = imported(&text).configuration;
    let steps = configuration["routes"]["listen-80"].as_array().unwrap();
    let hosts: Vec<&Value> = steps.iter().map(|step| &step["match"]["host"]).collect();
    assert_eq!(
        hosts,
        [
            &json!("first"),
            &json!(["b", "*.b", "~^www\\.[^/]\\.b$"]),
            &json!("c"),
            &Value::Null
        ]
    );
    assert_eq!(steps[3]["action"]["pass"], json!("routes/first"));
    // No host is for this port: the server around them answers.
    assert_eq!(
        configuration["listeners"]["*:8080"]["pass"],
        json!("routes/main")
    );
}

#[test]
fn tls_of_a_host() {
    let text = "Listen 443\n<VirtualHost _default_:443>\nServerName s\nDocumentRoot /srv\nSSLEngine on\nSSLCertificateFile /c.pem\nSSLCertificateKeyFile /k.pem\nSSLProtocol all -SSLv3 -TLSv1 -TLSv1.1 -TLSv1.2\nSSLSessionTickets off\n</VirtualHost>";
    let imported = imported(text);
    assert_eq!(lost(&imported), []);
    assert_eq!(
        imported.configuration["listeners"]["*:443"]["tls"],
        json!({"certificate": {"file": "/c.pem", "key": "/k.pem"}, "conf_commands": {"MinProtocol": "TLSv1.3"}, "session": {"tickets": false}})
    );
}

#[test]
fn python_of_mod_wsgi() {
    let imported = host(
        "WSGIDaemonProcess app processes=3 threads=4 python-home=/venv python-path=/opt/app user=web\nWSGIProcessGroup app\n\
         WSGIScriptAlias /shop /opt/app/shop/wsgi.py\n<Directory />\nRequire all denied\n</Directory>\n<Directory /opt/app/shop>\n<Files wsgi.py>\nRequire all granted\n</Files>\n</Directory>",
    );
    assert_eq!(lost(&imported), []);
    assert_eq!(
        imported.configuration["applications"]["app"],
        json!({"type": "python", "processes": 3, "threads": 4, "home": "/venv", "user": "web", "module": "shop.wsgi", "path": ["/opt/app"], "prefix": "/shop"})
    );
    let steps = &imported.configuration["routes"]["s"];
    assert_eq!(
        steps[0],
        json!({"match": {"uri": ["/shop", "/shop/*"]}, "action": {"pass": "applications/app"}})
    );
    assert_eq!(steps[1], json!({"action": {"return": 403}}));
}

#[test]
fn proxies_and_what_is_left_out_of_them() {
    let imported = imported(
        "<Proxy balancer://app>\nBalancerMember http://10.0.0.1:80 loadfactor=2\nBalancerMember http://10.0.0.2:80 status=+H\nProxySet lbmethod=bybusyness\n</Proxy>\n\
         <VirtualHost *:80>\nServerName s\nDocumentRoot /srv\nProxyPreserveHost On\nProxyAddHeaders Off\nProxyPass /static !\nProxyPass /api/ http://10.0.0.3:81/v1/\nProxyPass / balancer://app/\n<Location /api>\nRequire ip 10.0.0.0/8\n</Location>\n</VirtualHost>",
    );
    assert_eq!(lost(&imported), []);
    let steps = &imported.configuration["routes"]["s"];
    assert_eq!(
        steps[0],
        json!({"match": {"uri": ["/static", "/static/*"]}, "action": {"pass": "routes/s-files"}})
    );
    let api = &imported.configuration["routes"]["s-api"];
    assert_eq!(
        api[0],
        json!({"match": {"source": "!10.0.0.0/8"}, "action": {"return": 403}})
    );
    assert_eq!(api[1]["action"]["proxy"], json!("http://10.0.0.3:81"));
    assert_eq!(steps[1]["action"]["pass"], json!("routes/s-api"));
    assert_eq!(
        imported.configuration["upstreams"]["app"],
        json!({"balance": "least_connections", "servers": {"10.0.0.1:80": {"weight": 2.0}, "10.0.0.2:80": {"backup": true}}})
    );
}

#[test]
fn a_pool_of_php_fpm_becomes_an_application() {
    let memory = Memory::of(&[
        (
            MAIN,
            "DocumentRoot /srv\nAlias /tool /usr/share/tool\n<FilesMatch \\.php$>\nSetHandler \"proxy:unix:/run/php/s.sock|fcgi://localhost\"\n</FilesMatch>\nphp_value a b\n",
        ),
        (
            "/pool.conf",
            "[s]\nuser = s\nlisten = /run/php/s.sock\npm = static\npm.max_children = 7\n",
        ),
    ]);
    let imported = import(&[PathBuf::from(MAIN), PathBuf::from("/pool.conf")], &memory).unwrap();
    assert_eq!(
        imported.configuration["applications"]["s"],
        json!({"type": "php", "processes": 7, "user": "s", "options": {"user": {"a": "b"}},
               "targets": {"direct": {"root": "/usr/share/tool", "prefix": "/tool"}, "srv": {"root": "/srv"}}})
    );
    let alone = imported_configuration(
        "DocumentRoot /srv\n<FilesMatch \\.php$>\nSetHandler proxy:fcgi://127.0.0.1:9000\n</FilesMatch>",
    );
    assert_eq!(
        alone["routes"]["main"][0]["action"],
        json!({"proxy": "fastcgi://127.0.0.1:9000", "fastcgi": {"root": "/srv"}})
    );
}

fn imported_configuration(text: &str) -> Value {
    imported(text).configuration
}

#[test]
fn fields_of_answers_and_ages_of_files() {
    let steps = steps(
        "Header always set X-A on\nHeader set X-B \"b 100%%\"\nHeader unset X-C\nExpiresActive On\nExpiresByType text/css \"access plus 1 day\"\nDirectoryIndex disabled\n<Files *.txt>\nHeader set X-T yes\n</Files>",
    );
    let answers = steps.as_array().unwrap();
    let fields = |step: &Value| step["action"]["response_headers"].clone();
    assert_eq!(fields(&answers[1])["X-T"], json!("yes"));
    assert_eq!(
        fields(answers.last().unwrap()),
        json!({"X-B": "b 100%", "X-C": null})
    );
    assert_eq!(
        answers.last().unwrap()["action"]["response_headers_always"],
        json!({"X-A": "on"})
    );
    let css = answers
        .iter()
        .find(|step| {
            step["match"]["uri"]
                .as_str()
                .is_some_and(|uri| uri.contains("css") && !uri.contains("txt"))
        })
        .unwrap();
    assert_eq!(fields(css)["Cache-Control"], json!("max-age=86400"));
}

#[test]
fn nothing_is_left_out_without_a_word() {
    let imported = host(
        "<DirectoryMatch /u>\nOptions Indexes\n</DirectoryMatch>\nNoSuchDirective x\nErrorDocument 200 'Not there'\nSetEnvIf A b unseen\nRewriteMap a txt:/b\nUserDir public_html\nHeader edit Set-Cookie b c\nAliasMatch ^/(a|b)/(.*)$ /b/$1\nCacheEnable disk /\nSatisfy Any\n<Location /x>\nAlias /y\n</Location>\nRewriteEngine On\nRewriteRule ^/q/(.*)$ /index.php?q=$1&%{TIME} [L]",
    );
    let found = lost(&imported);
    for expected in [
        (5, "Options Indexes"),
        (7, "NoSuchDirective"),
        (8, "ErrorDocument"),
        (9, "SetEnvIf"),
        (10, "RewriteMap"),
        (11, "UserDir"),
        (12, "Header"),
        (13, "AliasMatch"),
        (14, "CacheEnable"),
        (15, "Satisfy"),
        (17, "Alias"),
        (20, "RewriteRule"),
    ] {
        assert!(
            found.contains(&expected),
            "{expected:?} is not among {found:?}"
        );
    }
    for finding in &imported.findings {
        assert!(!finding.hint.is_empty(), "{finding:?}");
    }
}

#[test]
fn includes_definitions_and_macros_are_followed() {
    let read = files(&[
        (MAIN, "LoadModule rewrite_module x.so\nDefine ROOT /srv\nIncludeOptional none/*.conf\nInclude sites/*.conf\n<IfModule !mod_rewrite.c>\nInclude nowhere.conf\n</IfModule>\n<IfDefine NO>\nListen 1\n</IfDefine>\n<IfVersion >= 2.4>\nListen 81\n</IfVersion>\n"),
        ("/etc/apache2/envvars", "export LOGS=/var/log$SUFFIX\nexport BAD=$(id)\n"),
        ("/etc/apache2/sites/a.conf", "<Macro Site $name>\n<VirtualHost *:81>\n ServerName $name\n DocumentRoot ${ROOT}/$name\n CustomLog ${LOGS}/$name.log \\\n   combined\n</VirtualHost>\n</Macro>\nUse Site one\nUse Site two\n"),
    ])
    .unwrap();
    assert_eq!(lost(&read), []);
    let routes = &read.configuration["routes"];
    assert!(
        routes["one"].to_string().contains("/srv/one$uri"),
        "{routes}"
    );
    assert!(
        routes["two"].to_string().contains("/srv/two$uri"),
        "{routes}"
    );
    assert_eq!(
        routes["one-options"][0]["action"]["access_log"],
        json!({"path": "/var/log/one.log"})
    );
    assert_eq!(
        read.configuration["listeners"].as_object().unwrap().len(),
        1
    );
}

#[test]
fn faults_have_their_place() {
    for (text, line, problem) in [
        ("<VirtualHost *:80>\nServerName a\n", 1, "is not closed"),
        ("\n</Directory>", 2, "without"),
        ("<Directory /a>\n</Files>", 2, "is expected"),
        ("<Directory /a", 1, "ends with `>`"),
        ("Include /etc/apache2/apache2.conf", 1, "include each other"),
        ("\nInclude nowhere", 2, "there is no such file"),
        ("Use Nothing", 1, "no such macro"),
        ("<IfModule no.c>\nListen 1\n", 1, "is not closed"),
    ] {
        let error = files(&[(MAIN, text)]).unwrap_err();
        assert_eq!(
            (error.line, error.problem.contains(problem)),
            (line, true),
            "{text}: {error}"
        );
    }
    let many = format!(
        "Define A 1234567890\n{}Listen ${{A}}",
        "Define A ${A}${A}${A}${A}${A}${A}${A}${A}\n".repeat(20)
    );
    assert!(
        files(&[(MAIN, &many)])
            .unwrap_err()
            .problem
            .contains("too long")
    );
}

#[test]
fn what_is_written_says_what_it_means() {
    // A site alone, as short as it can be.
    let steps = steps("DirectoryIndex disabled");
    assert_eq!(steps.as_array().unwrap().len(), 2);
    assert_eq!(
        steps[0]["action"],
        json!({"return": 403}),
        "scripts without a handler"
    );
    assert_eq!(steps[1].to_string(), FILES);
}

#[test]
fn passwords_are_asked_for() {
    let steps = steps(
        "<Location />\nAuthType Basic\nAuthName \"Staff only\"\nAuthUserFile /p\nRequire valid-user\n</Location>",
    );
    let text = steps.to_string();
    assert!(text.contains(r#""authenticate":{"basic":{"#), "{text}");
    assert!(text.contains(r#""realm":"Staff only""#), "{text}");
    assert!(text.contains(r#""file":"/p""#), "{text}");
}

#[test]
fn a_password_and_an_address_are_both_needed() {
    for (words, expected) in [
        (
            "<RequireAll>\nRequire ip 10.0.0.0/8\nRequire valid-user\n</RequireAll>",
            1,
        ),
        ("Require ip 10.0.0.0/8\nRequire valid-user", 0),
    ] {
        let steps = steps(&format!(
            "<Location />\nAuthType Basic\nAuthName x\nAuthUserFile /p\n{words}\n</Location>"
        ));
        let text = steps.to_string();
        assert!(text.contains("authenticate"), "{text}");
        assert_eq!(text.matches("\"return\":403").count(), expected, "{text}");
    }
}

#[test]
fn errors_have_their_pages() {
    let imported = host(
        "ErrorDocument 404 /errors/404.html\nErrorDocument 403 https://other.example/x\nErrorDocument 404 /missing.html",
    );
    assert!(
        lost(&imported)
            .iter()
            .all(|(_, name)| *name != "ErrorDocument"),
        "{:?}",
        lost(&imported)
    );
    let text = imported.configuration["routes"].to_string();
    assert!(
        text.contains(r#""error_pages":{"#) && text.contains(r#""rewrite":"/missing.html""#),
        "{text}"
    );
    assert!(
        text.contains(r#""location":"https://other.example/x""#),
        "{text}"
    );
}

#[test]
fn a_directive_that_is_not_known_closes_its_place() {
    for unknown in [
        "NoSuchCheck on",
        "SecRuleEngine On",
        "PerlAccessHandler My::Check",
        "QS_DenyRequestLine +id deny x",
        "SSLRequire %{SSL_CIPHER} eq 'x'",
        "JkMount /* worker",
        "VirtualDocumentRoot /srv/%0",
        "RewriteOptions Inherit",
        "SetOutputFilter INCLUDES",
    ] {
        for text in [
            unknown.to_owned(),
            format!("<Directory /srv>\n{unknown}\nRequire all granted\n</Directory>"),
        ] {
            let imported = host(&text);
            assert_eq!(lost(&imported).len(), 1, "{text}: {:?}", imported.findings);
            let first = &imported.configuration["routes"]["s"][0];
            assert_eq!(first, &json!({"action": {"return": 403}}), "{text}");
        }
        let around = format!(
            "{unknown}\n<VirtualHost *:80>\nServerName s\nDocumentRoot /srv\n</VirtualHost>"
        );
        let first = &imported(&around).configuration["routes"]["s"][0];
        assert_eq!(first, &json!({"action": {"return": 403}}), "{around}");
    }
    for known in [
        "SecRuleEngine Off",
        "LDAPTimeout 7",
        "ProxyVia On",
        "LimitRequestFields 9",
    ] {
        let text = host(known).configuration["routes"]["s"].to_string();
        assert!(text.contains(r#"{"action":{"share":"#), "{known}: {text}");
    }
    let imported =
        host("ProxyPass / http://127.0.0.1:1/\n<ProxyMatch .*>\nRequire all denied\n</ProxyMatch>");
    let text = imported.configuration["routes"]["s"].to_string();
    assert!(!text.contains("127.0.0.1:1"), "{text}");
}

#[test]
fn methods_and_tls_are_required_as_before() {
    let all = steps("<Location /a>\nAllowMethods GET POST\nRequire all granted\n</Location>");
    assert_eq!(
        all[0],
        json!({"match": {"uri": ["/a", "/a/*"], "method": ["!GET", "!POST", "!HEAD"]}, "action": {"return": 403}})
    );
    let all = steps("<Location /a>\nSSLRequireSSL\n</Location>");
    assert_eq!(
        all[0],
        json!({"match": {"uri": ["/a", "/a/*"], "if": "`${!vars.tls_protocol ? 1 : ''}`"}, "action": {"return": 403}})
    );
}

/// A host with TLS.
fn secure(name: &str, text: &str) -> String {
    format!(
        "<VirtualHost *:443>\nServerName {name}\nDocumentRoot /srv\nSSLEngine on\nSSLCertificateFile /c.pem\nSSLCertificateKeyFile /k.pem\n{text}\n</VirtualHost>\n"
    )
}

#[test]
fn certificates_of_clients_are_asked_for() {
    let asks = "SSLVerifyClient require\nSSLCACertificateFile /ca.pem";
    let alone = imported(&secure("s", asks));
    assert_eq!(lost(&alone), []);
    let tls = &alone.configuration["listeners"]["*:443"]["tls"];
    assert_eq!(tls["client_ca"], "/ca.pem");
    assert!(tls["client_verify"].is_null(), "{tls}");
    let both = imported(&(secure("open", "") + &secure("closed", asks)));
    let tls = &both.configuration["listeners"]["*:443"]["tls"];
    assert_eq!(tls["client_verify"], "optional");
    let entrance = &both.configuration["routes"]["listen-443"];
    assert_eq!(
        entrance[1]["action"]["pass"], "routes/with-certificate",
        "{entrance}"
    );
    let part = imported(&secure(
        "s",
        "SSLCACertificateFile /ca.pem\n<Location /a>\nSSLVerifyClient require\n</Location>",
    ));
    assert_eq!(lost(&part), []);
    let text = part.configuration["routes"]["s"][0].to_string();
    assert!(
        text.contains("vars.tls_client_verify !== 'SUCCESS'"),
        "{text}"
    );
    assert_eq!(
        part.configuration["listeners"]["*:443"]["tls"]["client_verify"],
        "optional"
    );
    for unknown in [
        "SSLVerifyClient require",
        "SSLVerifyClient require\nSSLCACertificateFile /ca.pem\nSSLCARevocationCheck chain",
        "SSLVerifyClient require\nSSLCACertificateFile /ca.pem\nSSLOCSPEnable on",
    ] {
        let imported = imported(&secure("s", unknown));
        assert_eq!(lost(&imported).len(), 1, "{unknown}");
        let text = imported.configuration["listeners"]["*:443"]["pass"].to_string();
        assert!(
            text.contains("routes/refused") || text.contains("routes/listen-443"),
            "{unknown}: {text}"
        );
        assert!(
            imported.configuration["routes"]["refused"].is_array(),
            "{unknown}"
        );
    }
}

#[test]
fn what_was_encrypted_is_encrypted_or_not_there() {
    for text in ["SSLEngine on", "GnuTLSEnable on", "SSLEngine on\nMDomain s"] {
        let imported = imported(&format!(
            "Listen 443\n<VirtualHost *:443>\nServerName s\nDocumentRoot /srv\n{text}\n</VirtualHost>"
        ));
        assert!(
            imported.configuration["listeners"].is_null(),
            "{text}: {}",
            imported.configuration
        );
        assert!(!imported.is_whole(), "{text}");
    }
    let around = imported(
        "SSLCertificateFile /c.pem\nSSLCertificateKeyFile /k.pem\n<VirtualHost *:443>\nServerName s\nDocumentRoot /srv\nSSLEngine on\n</VirtualHost>",
    );
    assert!(around.configuration["listeners"]["*:443"]["tls"].is_object());
    let group = host(
        "SSLProxyVerify require\nProxyPass / balancer://b/\n<Proxy balancer://b>\nBalancerMember https://10.0.0.1\n</Proxy>",
    );
    assert_eq!(
        group.configuration["upstreams"]["b"]["tls"],
        json!({"verify": true})
    );
}

#[test]
fn cgi_programs_become_an_application() {
    let imported = host(
        "ScriptAlias /cgi-bin/ /usr/lib/cgi-bin/\n<Directory />\nRequire all denied\n</Directory>\n\
         <Directory /srv>\nRequire all granted\n</Directory>\n<Directory /usr/lib/cgi-bin>\nRequire ip 10.0.0.0/8\n</Directory>",
    );
    assert_eq!(lost(&imported), []);
    let whole = &imported.configuration;
    let mut application = whole["applications"]["cgi"].clone();
    application.as_object_mut().unwrap().remove("index");
    assert_eq!(
        application,
        json!({"type": "cgi", "root": "/usr/lib/cgi-bin", "prefix": "/cgi-bin"})
    );
    let programs = whole["routes"]["s-cgi-bin"].to_string();
    assert!(
        programs.starts_with(r#"[{"match":{"source":"!10.0.0.0/8"},"action":{"return":403}}"#),
        "{programs}"
    );
    assert!(!programs.contains("share"), "{programs}");
    // The programs get the name of the user.
    let login = "AuthType Basic\nAuthName x\nAuthUserFile /p\nRequire valid-user";
    let guarded = host(&format!(
        "ScriptAlias /cgi-bin/ /usr/lib/cgi-bin/\n<Location /cgi-bin>\n{login}\n</Location>"
    ));
    assert_eq!(lost(&guarded), []);
    let text = guarded.configuration["routes"].to_string();
    assert!(text.contains("authenticate"), "{text}");
    // Without the option, Apache starts none.
    for (options, starts) in [("", false), ("Options +ExecCGI\n", true)] {
        let imported = host(&format!(
            "<Directory /srv/x>\n{options}AddHandler cgi-script .cgi .pl\n</Directory>"
        ));
        assert_eq!(lost(&imported), [], "{options}");
        let programs = imported.configuration["routes"]["s-x"].to_string();
        assert_eq!(programs.contains("applications/cgi"), starts, "{programs}");
        let known = &imported.configuration["applications"]["cgi"]["extensions"];
        let extensions = json!([".cgi", ".pl"]);
        assert_eq!(*known == extensions, starts, "{known}");
    }
}

#[test]
fn the_path_of_an_alias_is_no_name_of_a_file() {
    let imported =
        host("Alias /al/ /data/dir/\n<FilesMatch ^a>\nRequire all denied\n</FilesMatch>");
    let text = imported.configuration["routes"]["s-al"].to_string();
    assert!(text.contains("~^(?=/al(?:"), "{text}");
}

#[test]
fn scripts_without_a_handler_are_not_shown() {
    for text in [
        "DirectoryIndex index.php",
        "php_value memory_limit 1G",
        "<Directory /srv>\nAllowOverride All\n</Directory>",
        "DirectoryIndex index.cgi\nAddHandler cgi-script .cgi",
    ] {
        let imported = with_modules(text);
        let steps = imported.configuration["routes"]["s"]
            .as_array()
            .unwrap()
            .clone();
        let about = |path: &str| {
            let holds = |step: &&Value| {
                let pattern = step["match"]["uri"].as_str();
                pattern.is_none_or(|pattern| {
                    let pattern = Pattern::parse(pattern, DECODED).unwrap();
                    pattern.found_in(path.as_bytes()).unwrap()
                })
            };
            steps.iter().find(holds).unwrap()["action"].clone()
        };
        for path in ["/index.php", "/a/b.php5", "/x.phtml"] {
            assert_eq!(about(path), json!({"return": 403}), "{text} {path}");
        }
        assert!(about("/a.html")["share"].is_string(), "{text}");
        let index = about("/").to_string();
        for name in ["index.php", "index.cgi"] {
            assert!(
                !index.contains(name) || index.contains(r#""found":{"rewrite""#),
                "an index is looked at as if it had been asked for: {index}"
            );
        }
    }
    assert_eq!(
        lost(&with_modules("DirectoryIndex index.php")),
        [(5, "DirectoryIndex")]
    );
}

#[test]
fn rules_that_cannot_be_written_lead_nowhere() {
    for rules in [
        "RewriteCond %{TIME_HOUR} >20\nRewriteRule ^ /login [R]",
        "RewriteCond %{ENV:GEOIP_COUNTRY_CODE} ^XX$\nRewriteRule ^ - [F]",
        "SetEnvIf Remote_Host bad bot\nRewriteCond %{ENV:bot} =1\nRewriteRule ^ - [F]",
        "RewriteCond %{TIME_HOUR} >20\nRewriteRule ^ - [E=late:1]\nRewriteCond %{ENV:late} =1\nRewriteRule ^ - [F]",
        "RewriteCond %{REMOTE_USER} !=ada\nRewriteRule ^ - [F]",
        "RewriteCond %{REQUEST_FILENAME} -l\nRewriteRule ^ - [F]",
    ] {
        let imported = host(&format!(
            "<Directory /srv>\nRewriteEngine On\n{rules}\n</Directory>"
        ));
        let text = imported.configuration["routes"]["s"].to_string();
        assert!(
            text.contains(r#"{"action":{"return":403}}"#),
            "{rules}: {text}"
        );
    }
    let imported = host("<Location /x>\nRedirect https://other/%{TIME}\n</Location>");
    let text = imported.configuration["routes"]["s-x"][0].to_string();
    assert!(text.contains("403"), "{text}");
    // The server outside of all hosts has rules of its own.
    let alone = files(&[(
        MAIN,
        "DocumentRoot /srv\nRewriteEngine On\nRewriteRule ^/private - [F]\n",
    )])
    .unwrap();
    assert!(
        alone.configuration["routes"]["main"]
            .to_string()
            .contains("private"),
        "{}",
        alone.configuration
    );
}

#[test]
fn addresses_are_believed_from_those_that_the_source_believes() {
    let remote = "RemoteIPHeader X-Forwarded-For\nRemoteIPTrustedProxy 10.0.0.1\n";
    let rule = "<Location />\nRequire ip 192.0.2.0/24\n</Location>";
    let one = host(&format!("{remote}{rule}"));
    assert_eq!(lost(&one), []);
    assert_eq!(
        one.configuration["listeners"]["*:80"]["forwarded"],
        json!({"source": ["10.0.0.1"], "client_ip": "X-Forwarded-For", "recursive": true})
    );
    assert!(
        one.configuration["routes"]["s"]
            .to_string()
            .contains("192.0.2.0/24")
    );
    for remote in [
        "RemoteIPHeader X-Forwarded-For\n",
        "RemoteIPHeader X-Forwarded-For\nRemoteIPTrustedProxyList /proxies\n",
        "RemoteIPHeader X-Forwarded-For\nRemoteIPTrustedProxy proxy.example\n",
    ] {
        let all = host(&format!("{remote}{rule}"));
        assert!(!all.is_whole(), "{remote}");
        assert_eq!(
            all.configuration["routes"]["s"][0],
            json!({"action": {"return": 403}}),
            "{remote}"
        );
        assert!(all.configuration["listeners"]["*:80"]["forwarded"].is_null());
    }
}

#[test]
fn a_host_of_one_address_does_not_answer_at_others() {
    let imported =
        imported("<VirtualHost 127.0.0.1:8080>\nServerName s\nDocumentRoot /srv\n</VirtualHost>");
    let entrance = &imported.configuration["routes"]["listen-8080"];
    let last = entrance.as_array().unwrap().last().unwrap();
    assert_eq!(last, &json!({"action": {"return": 403}}), "{entrance}");
}

#[test]
fn a_file_of_a_folder_opens_only_what_it_may() {
    let main = "<VirtualHost *:80>\nServerName s\nDocumentRoot /srv\n<Directory /srv>\nRequire all denied\nAllowOverride FileInfo\n</Directory>\n</VirtualHost>";
    let imported = files(&[(MAIN, main), ("/srv/.htaccess", "Require all granted\n")]).unwrap();
    assert!(!imported.is_whole());
    assert_eq!(
        imported.configuration["routes"]["s"][0],
        json!({"action": {"return": 403}})
    );
}

#[test]
fn a_field_that_cannot_be_set_is_not_the_clients_to_say() {
    let imported =
        host("ProxyPass / http://127.0.0.1:1/\nRequestHeader set X-User %{REMOTE_USER}e\n");
    let text = imported.configuration["routes"]["s"].to_string();
    assert!(text.contains(r#""X-User":null"#), "{text}");
    assert!(!imported.is_whole());
}

/// Issue 31, section 3: Debian's packages ship such files, without the one that names PHP's handler.
#[test]
fn a_site_of_mod_php_alone_runs_its_scripts() {
    let with_settings = host("php_value memory_limit 64M\nDirectoryIndex index.php");
    let site = "<VirtualHost *:80>\nServerName s\nDocumentRoot /srv\n</VirtualHost>";
    let with_scripts = files(&[
        (MAIN, site),
        ("/srv/index.php", "<?php"),
        ("/srv/a.txt", "a"),
    ]);
    for imported in [with_settings, with_scripts.unwrap()] {
        assert_eq!(lost(&imported), []);
        let whole = &imported.configuration;
        let applications = whole["applications"].as_object().unwrap();
        let (_, application) = applications.iter().next().unwrap();
        assert_eq!(
            (&application["type"], &application["root"]),
            (&"php".into(), &"/srv".into())
        );
        let steps = whole["routes"]["s"].to_string();
        assert!(steps.contains("applications/"), "{steps}");
        // Names that mod_php does not run either are not shown.
        assert!(steps.contains("phps") || steps.contains("403"), "{steps}");
    }
    // Where all modules are known and none of them runs PHP, sources are not shown.
    let main = files(&[
        (MAIN, &format!("LoadModule dir_module x.so\n{site}")),
        ("/srv/index.php", "<?php"),
    ]);
    let main = main.unwrap().configuration;
    assert_eq!(main["applications"], Value::Null);
    assert!(main["routes"]["s"].to_string().contains("403"));
}

/// The authorities of servers behind were replaced by those of the system, without a word.
#[test]
fn the_authorities_of_servers_behind_are_carried_over() {
    let host = host(
        "SSLProxyEngine on\nSSLProxyVerify require\nSSLProxyCACertificateFile /etc/ca.pem\nProxyPass / https://b.example/",
    );
    assert_eq!(lost(&host), []);
    let text = host.configuration.to_string();
    assert!(text.contains(r#""tls":{"ca":"/etc/ca.pem"}"#), "{text}");
}

/// The first step of a host's route, where nothing is lost.
fn first(text: &str) -> Value {
    steps(text)[0].clone()
}

#[test]
fn variables_and_expressions_decide_who_may() {
    let refused = |text: &str| {
        let text = steps(text).to_string();
        assert!(text.contains(r#"{"return":403}"#), "{text}");
        text
    };
    let text = refused(
        "SetEnvIfNoCase User-Agent bad bot\n<Location />\n<RequireAll>\nRequire all granted\nRequire not env bot\n</RequireAll>\n</Location>",
    );
    assert!(text.contains("/bad/i.test"), "{text}");
    let text = refused(
        "SetEnvIf X-Key ^a ok=1\n<Location />\nOrder deny,allow\nDeny from all\nAllow from env=ok\n</Location>",
    );
    assert!(text.contains("vars.header_x_key"), "{text}");
    let text = refused("<Location />\nRequire expr %{REQUEST_METHOD} == 'PUT'\n</Location>");
    assert!(text.contains("vars.method"), "{text}");
    let text = refused("<Location />\nRequire method GET\n</Location>");
    assert!(text.contains("['GET', 'HEAD'].includes"), "{text}");
    let step = first(
        "<If \"%{HTTP:X-A} == 'b'\">\nRequire all denied\n</If>\n<ElseIf \"-n %{QUERY_STRING}\">\nHeader set X-Q 1\n</ElseIf>",
    );
    assert_eq!(
        step,
        json!({"match": {"if": "`${((vars.header_x_a ?? '') === 'b') ? 1 : ''}`"}, "action": {"return": 403}})
    );
    // A variable that no directive sets is not taken for unset.
    let imported = host("<Location />\nRequire not env other\nRequire all granted\n</Location>");
    assert!(!imported.is_whole());
}

#[test]
fn one_of_two_requirements_is_enough_where_the_section_has_both() {
    let both = "AuthType Basic\nAuthName x\nAuthUserFile /p\nRequire valid-user\nOrder deny,allow\nDeny from all\nAllow from 10.0.0.1";
    let any = steps(&format!("<Location />\n{both}\nSatisfy Any\n</Location>"));
    assert_eq!(any[0]["match"], json!({"source": "10.0.0.1"}), "{any}");
    assert!(any[1]["action"]["authenticate"].is_object(), "{any}");
    let all = host(&format!("<Location />\n{both}\n</Location>"));
    let all = all.configuration["routes"].to_string();
    assert!(all.contains(r#""source":"!10.0.0.1""#), "{all}");
}

#[test]
fn some_users_of_a_file_are_let_in() {
    let hash = "$2y$05$nF6krIhgwSEGy6HO5l0Y/.rTGbVCI5AQ0YvD52.0MJTgcV4lS6EKm";
    let site = |require: &str| {
        format!(
            "<VirtualHost *:80>\nServerName s\nDocumentRoot /srv\n<Location />\nAuthType Basic\nAuthUserFile /p\nAuthGroupFile /g\n{require}\n</Location>\n</VirtualHost>"
        )
    };
    let read = |require: &str| {
        files(&[
            (MAIN, &site(require)),
            ("/p", &format!("anna:{hash}\nbert:{hash}\n")),
            ("/g", "staff: anna\n"),
        ])
        .unwrap()
    };
    for require in ["Require user anna", "Require group staff"] {
        let imported = read(require);
        assert_eq!(lost(&imported), [], "{require}");
        let basic = &imported.configuration["routes"]["s"][0]["action"]["authenticate"]["basic"];
        assert_eq!(basic["users"], json!({"anna": hash}), "{require}");
        assert!(basic["file"].is_null(), "{basic}");
    }
    for require in ["Require user clara", "Require group other"] {
        let imported = read(require);
        let first = &imported.configuration["routes"]["s"][0];
        assert_eq!(first, &json!({"action": {"return": 403}}), "{require}");
    }
}

#[test]
fn responses_of_a_site_and_of_its_parts_have_options() {
    let imported = host(
        "ErrorDocument 404 \"No such page\"\nAddDefaultCharset UTF-8\nLimitRequestBody 1000\nCustomLog /log/a combined\nCustomLog /log/b \"%m %U%q %>s\" env=!quiet\nSetEnvIf Request_URI ^/q quiet\n<Location /u>\nErrorDocument 404 default\nForceType text/plain\nLimitRequestBody 0\n</Location>\n<Directory /srv/z>\nSetOutputFilter DEFLATE\n</Directory>",
    );
    assert_eq!(lost(&imported), []);
    let whole = &imported.configuration;
    let options = &whole["routes"]["s-options"][0]["action"];
    assert_eq!(
        options["error_pages"]["404"],
        json!({"return": 404, "body": "No such page", "content_type": "text/html; charset=utf-8"})
    );
    assert_eq!(options["charset"], "utf-8");
    assert_eq!(whole["settings"]["http"]["max_body_size"], 1000);
    assert_eq!(whole["access_log"][0], json!({"path": "/log/a"}));
    let log = whole["access_log"][1].to_string();
    assert!(
        log.contains("vars.query") && log.contains(r#""if":"`${"#),
        "{log}"
    );
    let steps = whole["routes"]["s"].as_array().unwrap();
    let part = |path: &str| {
        let is_it = |step: &&Value| step["match"]["uri"][0] == path;
        steps.iter().find(is_it).unwrap()["action"].clone()
    };
    let inner = part("/u");
    assert_eq!(
        inner["error_pages"],
        json!({"404": {"return": 404}}),
        "{inner}"
    );
    assert_eq!(
        (&inner["mime_types"], &inner["default_type"]),
        (&json!({}), &"text/plain".into())
    );
    assert!(inner["http"]["max_body_size"].as_u64().unwrap() > 1 << 40);
    assert_eq!(
        part("/z")["http"]["compression"],
        json!({"compressors": [{"encoding": "gzip"}]})
    );
}

#[test]
fn every_answer_has_the_fields_that_are_always_set() {
    let steps = steps(
        "Header always set X-A one\nHeader set X-B two\nRedirect /old /new\n<Location /in>\nRequire all denied\n</Location>",
    );
    for step in [&steps[0], &steps[1]] {
        assert_eq!(
            step["action"]["response_headers_always"],
            json!({"X-A": "one"}),
            "{step}"
        );
        assert!(step["action"]["response_headers"].is_null(), "{step}");
    }
}

#[test]
fn addresses_and_cookies_of_servers_behind_are_rewritten() {
    let imported = host(
        "<Proxy balancer://b>\nBalancerMember http://10.0.0.1:81 retry=0\nBalancerMember http://10.0.0.2:81 retry=30\nProxySet stickysession=ROUTEID\n</Proxy>\nHeader add Set-Cookie \"ROUTEID=.%{BALANCER_WORKER_ROUTE}e; path=/\" env=BALANCER_ROUTE_CHANGED\nHeader edit Set-Cookie ^(.*)$ $1;Secure\nProxyPass /app/ balancer://b/x/\nProxyPassReverse /app/ balancer://b/x/\nProxyPassReverseCookiePath /x/ /app/\nProxyPassReverseCookieDomain in.example out.example\nProxyErrorOverride On",
    );
    assert_eq!(lost(&imported), []);
    let upstream = &imported.configuration["upstreams"]["b"];
    assert_eq!(upstream["sticky"]["cookie"], "ROUTEID");
    assert_eq!(
        upstream["rewrite_response"],
        json!({"cookie_attributes": {"*": {"secure": true}}, "location": {"http://10.0.0.1:81/x/": "/app/", "http://10.0.0.2:81/x/": "/app/"},
               "cookie_domain": {"in.example": "out.example"}, "cookie_path": {"/x/": "/app/"}})
    );
    assert_eq!(
        upstream["servers"],
        json!({"10.0.0.1:81": {"max_fails": 0}, "10.0.0.2:81": {"fail_timeout": 30.0}})
    );
    let text = imported.configuration["routes"].to_string();
    assert!(text.contains(r#""intercept_errors":true"#), "{text}");
}

#[test]
fn rules_skip_others_look_into_maps_and_set_the_query() {
    let with_map = |rules: &str| {
        let main = format!(
            "<VirtualHost *:80>\nServerName s\nDocumentRoot /srv\nRewriteEngine On\nRewriteMap m txt:/m\nRewriteMap low int:tolower\n{rules}\n</VirtualHost>"
        );
        let imported = files(&[(MAIN, &main), ("/m", "# old new\nconstructor /c\n")]).unwrap();
        assert_eq!(lost(&imported), [], "{rules}");
        imported.configuration["routes"]["s"].clone()
    };
    let steps = with_map("RewriteRule ^/(.*)$ ${m:$1|/none} [R]");
    let location = steps[0]["action"]["location"].as_str().unwrap();
    assert!(
        location.contains("({':constructor': '/c', })[':' + key]"),
        "{location}"
    );
    let steps = with_map(
        "RewriteRule ^/a - [S=1]\nRewriteRule txt$ - [F]\nRewriteRule ^/b /c?x=1 [PT,QSA]",
    );
    assert_eq!(steps[0]["match"]["uri"], "~^/a");
    assert_eq!(steps[1]["action"], json!({"return": 403}));
    assert_eq!(steps[2]["action"]["rewrite"], "/c?x=1&$query");
    let steps = with_map("RewriteRule ^/b /c?x=$0 [PT]\nRewriteRule ^/d /e [PT,QSD]");
    let rewrite = steps[0]["action"]["rewrite"].as_str().unwrap();
    assert!(
        rewrite.starts_with("`/c?x=${") && rewrite.ends_with("}?`"),
        "{rewrite}"
    );
    assert_eq!(steps[1]["action"]["rewrite"], "/e?");
    // The rules that are chained to one that never holds are left out, too.
    let steps =
        with_map("RewriteCond %{HTTPS} =maybe\nRewriteRule ^/x /y [C]\nRewriteRule ^ - [F]");
    assert_ne!(steps[0]["action"], json!({"return": 403}), "{steps}");
}

/// The sites of GitLab and Redmine: the path of members, the fields of requests and an alternative with a file were lost without a report.
#[test]
fn members_have_a_path_and_rules_send_all_fields() {
    let redmine = imported(
        "<Proxy balancer://b>\nBalancerMember http://10.0.0.1:80/redmine\nBalancerMember http://10.0.0.2:80/redmine/\n</Proxy>\n\
         <VirtualHost *:80>\nServerName s\nDocumentRoot /srv\nProxyPass /app balancer://b\n</VirtualHost>",
    );
    assert_eq!(lost(&redmine), []);
    let text = redmine.configuration.to_string();
    assert!(
        text.contains(r#""rewrite":"`/redmine${(vars.uri ?? '').slice('/app'.length) || '/'}`""#),
        "{text}"
    );
    let different = imported(
        "<Proxy balancer://b>\nBalancerMember http://10.0.0.1:80/a\nBalancerMember http://10.0.0.2:80/b\n</Proxy>\n\
         <VirtualHost *:80>\nServerName s\nDocumentRoot /srv\nProxyPass /app balancer://b\n</VirtualHost>",
    );
    assert_eq!(lost(&different), [(6 + 2, "ProxyPass")]);

    let gitlab = host(
        "RequestHeader set X-Forwarded-Proto https\nRewriteEngine on\nRewriteCond %{DOCUMENT_ROOT}/%{REQUEST_FILENAME} !-f [OR]\n\
         RewriteCond %{REQUEST_URI} ^/uploads/.*\nRewriteRule .* http://10.0.0.1:81%{REQUEST_URI} [P]",
    );
    assert_eq!(lost(&gitlab), [], "{:#?}", gitlab.findings);
    let steps = gitlab.configuration["routes"]["s"].as_array().unwrap();
    let uploads = steps[0].to_string();
    assert!(uploads.contains("uploads"), "{uploads}");
    let text = gitlab.configuration["routes"]["s"].to_string();
    assert_eq!(
        text.matches(r#""proxy":"http://10.0.0.1:81""#).count(),
        2,
        "{text}"
    );
    assert_eq!(
        text.matches(r#""X-Forwarded-Proto":"https""#).count(),
        2,
        "{text}"
    );
}

/// All steps of a host, those of the routes that it is made of included.
fn all_routes(imported: &Imported) -> String {
    imported.configuration["routes"].to_string()
}

#[test]
fn hosts_of_one_name_share_no_routes() {
    let imported = imported(
        "<VirtualHost *:80>\nServerName s\nDocumentRoot /srv/open\n</VirtualHost>\n\
         <VirtualHost *:443>\nServerName s\nDocumentRoot /srv/closed\n<Files index.html>\nRequire all denied\n</Files>\n</VirtualHost>",
    );
    let routes = imported.configuration["routes"].as_object().unwrap();
    let of = |folder: &str| -> Vec<&String> {
        let named = routes
            .iter()
            .filter(|(_, steps)| steps.to_string().contains(folder));
        named.map(|(name, _)| name).collect()
    };
    let (open, closed) = (of("/srv/open"), of("/srv/closed"));
    assert!(
        closed.len() > 1,
        "the index goes back to a route of its own: {routes:#?}"
    );
    for name in &closed {
        for other in &open {
            let destination = format!("\"routes/{other}\"");
            assert!(
                !routes[*name].to_string().contains(&destination),
                "{name} leads to {other}"
            );
        }
    }
}

#[test]
fn a_folder_with_wildcards_counts_like_any_other() {
    let steps = steps(
        "<Directory /srv>\nRequire all granted\n</Directory>\n<Directory /srv/*/private>\nRequire all denied\n</Directory>",
    );
    assert_eq!(steps[0]["action"]["return"], 403, "{steps:#}");
    let test = steps[0]["match"]["if"].as_str().unwrap();
    assert!(test.contains("private"), "{test}");
}

#[test]
fn a_wildcard_of_a_location_ends_at_a_slash() {
    let steps = steps(
        "<Location />\nRequire all denied\n</Location>\n<Location /a/*>\nRequire all granted\n</Location>",
    );
    assert_eq!(steps[0]["match"]["uri"], "~^/a/[^/]*$", "{steps:#}");
}

#[test]
fn rules_of_a_section_that_is_no_single_folder_refuse() {
    for (begin, end) in [
        ("Directory /srv/*", "Directory"),
        ("DirectoryMatch /private", "DirectoryMatch"),
        ("FilesMatch \\.txt$", "FilesMatch"),
        ("LocationMatch /private", "LocationMatch"),
        ("If \"%{QUERY_STRING} == 'x'\"", "If"),
    ] {
        let rules = "RewriteEngine On\nRewriteRule . - [F]";
        let imported = host(&format!("<{begin}>\n{rules}\n</{end}>"));
        assert_eq!(lost(&imported), [(6, "RewriteRule")], "{begin}");
        assert!(
            all_routes(&imported).contains(r#"},"action":{"return":403}}"#),
            "{begin}: {}",
            all_routes(&imported)
        );
    }
    let harmless =
        host("<FilesMatch \\.txt$>\nRewriteEngine On\nRewriteRule . - [E=a:1]\n</FilesMatch>");
    assert!(lost(&harmless).iter().all(|(line, _)| *line != 6));
}

#[test]
fn an_alternative_to_nothing_holds() {
    let rules = |conditions: &str| {
        let text = format!("RewriteEngine On\n{conditions}\nRewriteRule ^/x - [F]");
        steps(&text)[0].clone()
    };
    let agent = "RewriteCond %{HTTP_USER_AGENT} bad [OR]";
    assert_eq!(rules(&format!("{agent}\n{agent}")), rules(""));
    let method = "RewriteCond %{REQUEST_METHOD} POST";
    assert_eq!(rules(&format!("{method}\n{agent}")), rules(method));
}

#[test]
fn rules_that_refuse_see_the_index_of_a_folder() {
    let imported =
        host("<Directory /srv>\nRewriteEngine On\nRewriteRule ^index - [F]\n</Directory>");
    let looks_again = r#""found":{"rewrite":"${uri}index.html","pass":"routes/s-settled"}"#;
    assert!(
        all_routes(&imported).contains(looks_again),
        "{}",
        all_routes(&imported)
    );
    let settled = imported.configuration["routes"]["s-settled"].to_string();
    assert!(settled.contains("403"), "{settled}");
}

#[test]
fn index_files_meet_the_rules_of_the_server() {
    for (rules, expected) in [
        ("RewriteEngine On\nRewriteRule index - [F]", true),
        ("RedirectMatch 403 index", true),
        ("RewriteRule index - [F]", false),
        ("Redirect /old http://new/", false),
    ] {
        let steps = host(rules).configuration["routes"].clone();
        let index = steps["s-index"].to_string();
        assert_eq!(index.contains("403"), expected, "{rules}: {steps:#}");
        let leads = steps.to_string().contains(r#""pass":"routes/s-index""#);
        assert_eq!(leads, expected, "{rules}: {steps:#}");
    }
}

#[test]
fn rules_need_links_as_in_apache() {
    let folder = |options: &str| {
        let rules = "RewriteEngine On\nRewriteRule x - [G]";
        host(&format!(
            "<Directory /srv/a>\n{options}\n{rules}\n</Directory>"
        ))
        .configuration["routes"]["s-a"]
            .to_string()
    };
    let refused = r#"[{"action":{"return":403}}]"#;
    for options in [
        "Options None",
        "Options -FollowSymLinks",
        "Options Indexes",
        "Options All\nOptions -FollowSymLinks",
    ] {
        assert_eq!(folder(options), refused, "{options}");
    }
    for options in [
        "",
        "Options All",
        "Options SymLinksIfOwnerMatch",
        "Options None\nOptions +FollowSymLinks",
    ] {
        assert!(folder(options).contains("410"), "{options}");
    }
}

#[test]
fn rules_of_a_folder_have_the_switch_of_those_around() {
    let read = |switch: &str| {
        files(&[
            (
                MAIN,
                &format!("DocumentRoot /srv\n<Directory /srv>\nAllowOverride All\nRewriteEngine {switch}\nRewriteRule around - [G]\n</Directory>"),
            ),
            ("/srv/a/.htaccess", "RewriteRule secret - [F]"),
        ])
        .unwrap()
        .configuration["routes"]["main-a"]
            .to_string()
    };
    let on = read("On");
    assert!(on.contains("403") && !on.contains("410"), "{on}");
    assert!(!read("Off").contains("secret"));
}

#[test]
fn a_group_that_is_not_known_says_what_to_write() {
    let login = "AuthType Basic\nAuthName x\nAuthUserFile /users\nRequire group staff";
    let imported = host(&format!("<Location /a>\n{login}\n</Location>"));
    let mut findings = imported.findings.iter();
    let finding = findings.find(|one| one.directive == "Require").unwrap();
    assert!(
        finding.problem.contains("`AuthGroupFile` is missing"),
        "{finding:?}"
    );
    assert!(
        finding.hint.contains("`Require user NAME …`"),
        "{finding:?}"
    );
}

/// The answers of a section for methods are one list: a method without an entry is allowed.
#[test]
fn a_login_is_asked_for_some_methods() {
    let text = "<Location /dav>\nAuthType Basic\nAuthUserFile /etc/users\nAuthName a\n<LimitExcept GET OPTIONS>\nRequire valid-user\n</LimitExcept>\n</Location>";
    let memory = Memory::of(&[
        (
            MAIN,
            &format!("<VirtualHost *:80>\nServerName s\nDocumentRoot /srv\n{text}\n</VirtualHost>"),
        ),
        (
            "/etc/users",
            "anna:$2y$05$nF6krIhgwSEGy6HO5l0Y/.rTGbVCI5AQ0YvD52.0MJTgcV4lS6EKm\n",
        ),
    ]);
    let imported = import(&[PathBuf::from(MAIN)], &memory).unwrap();
    assert_eq!(lost(&imported), [], "{:#?}", imported.findings);
    let steps = imported.configuration["routes"]["s"].as_array().unwrap();
    let free = steps[0]["match"]["if"].as_str().unwrap();
    assert!(free.contains("'GET'") && free.contains("'HEAD'"), "{free}");
    assert!(steps[0]["action"]["authenticate"].is_null());
    assert_eq!(
        steps[1]["action"]["authenticate"]["basic"]["file"],
        "/etc/users"
    );
    // Also within a group of requirements, where it was not read.
    for inner in ["Limit POST", "LimitExcept GET"] {
        let block = inner.split(' ').next().unwrap();
        let text = format!(
            "<Location /a>\n<RequireAll>\nRequire all granted\n<{inner}>\nRequire all denied\n</{block}>\n</RequireAll>\n</Location>"
        );
        let imported = host(&text);
        assert_eq!(lost(&imported), [], "{text}");
        let steps = imported.configuration["routes"]["s"].to_string();
        assert!(
            steps.contains("vars.method") && steps.contains("403"),
            "{steps}"
        );
    }
}

#[test]
fn cookies_are_added() {
    let steps = steps(
        "Header add Set-Cookie a=1\nHeader add Set-Cookie b=2\nHeader always add Set-Cookie c=3",
    );
    let action = &steps.as_array().unwrap().last().unwrap()["action"];
    assert_eq!(
        action["response_headers"],
        json!({"Set-Cookie": {"add": ["a=1", "b=2"]}})
    );
    assert_eq!(
        action["response_headers_always"],
        json!({"Set-Cookie": {"add": "c=3"}})
    );
    for changes in [
        "Header set Set-Cookie a=1\nHeader add Set-Cookie b=2",
        "Header append Set-Cookie a=1",
    ] {
        let whole = host(changes);
        assert!(
            lost(&whole).iter().any(|one| one.1 == "Header"),
            "{changes}"
        );
    }
}

#[test]
fn a_closed_folder_has_its_own_page() {
    let whole = host(
        "ErrorDocument 403 site\n<Directory /srv/a>\nRequire all denied\nErrorDocument 403 folder\n</Directory>",
    );
    assert_eq!(lost(&whole), []);
    let routes = whole.configuration["routes"].to_string();
    assert!(
        routes.contains(r#""action":{"error_pages":{"403":{"body":"folder","#)
            || routes
                .contains(r#"{"return":403,"error_pages":{"403":{"return":403,"body":"folder""#),
        "{routes}"
    );
}

/// `REDIRECT_STATUS` was empty when rules began anew for a path that they had made, so that clients were redirected for ever.
#[test]
fn rules_for_the_paths_of_clients_leave_other_paths_alone() {
    let whole = host(
        "<Directory /srv>\nRewriteEngine On\nRewriteCond %{ENV:REDIRECT_STATUS} =\"\"\nRewriteRule ^page\\.html$ / [R=301,L]\n\
         RewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ page.html [L]\n</Directory>",
    );
    assert_eq!(lost(&whole), []);
    let routes = whole.configuration["routes"].to_string();
    assert!(routes.contains("? '' : '200')"), "{routes}");
    // Behind a rule that has changed the path, the value is not known: these rules refuse.
    let whole = host(
        "<Directory /srv>\nRewriteEngine On\nRewriteRule ^a$ b\nRewriteCond %{ENV:REDIRECT_STATUS} ^$\nRewriteRule ^b$ - [F]\n</Directory>",
    );
    assert!(lost(&whole).iter().any(|one| one.1 == "RewriteRule"));
}
