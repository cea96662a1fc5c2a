//! The user that `authenticate` has found reaches the applications of each language under the name that its users know. What a client states
//! does not.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tutti_e2e::java;
use tutti_testkit::client::{self, Reply};
use tutti_testkit::{Server, ServerOptions};

/// `secret`, by `htpasswd -nbB -C 4`.
const SECRET: &str = "$2y$04$jSz1tXNKo.beld/S8xsOwesNQxGVCl6/Vwe3Mk.oO4XqSnTLal1w.";

/// Names and passwords as a browser sends them, in UTF-8.
const ANNA: &str = "Authorization: Basic YW5uYTpzZWNyZXQ=\r\n";
const ZOE: &str = "Authorization: Basic em/DqzpzZWNyZXQ=\r\n";

/// The user in fields of the client, in each spelling that could become the variable.
const FORGED: &str =
    "Remote-User: root\r\nRemote_User: root\r\nREMOTE_USER: root\r\nX-Remote-User: root\r\n";

const PHP: &str = "<?php echo $_SERVER['REMOTE_USER'] ?? 'none';";
const RESIDENT: &str = "<?php while (tutti_handle_request(function () { echo $_SERVER['REMOTE_USER'] ?? 'none'; })) {}";
const WSGI: &str = r#"
def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [environ.get("REMOTE_USER", "none").encode("latin-1")]
"#;
const PERL: &str = "sub { my $env = shift; [200, ['Content-Type' => 'text/plain'], [exists $env->{REMOTE_USER} ? $env->{REMOTE_USER} : 'none']] };";
const RUBY: &str =
    "run ->(env) { [200, {'content-type' => 'text/plain'}, [env.fetch('REMOTE_USER', 'none')]] }";
const PAGE: &str = r#"<%@ page contentType="text/plain; charset=UTF-8" %><%
String user = request.getRemoteUser();
java.security.Principal principal = request.getUserPrincipal();
boolean isSame = principal == null ? user == null : principal.getName().equals(user);
%><%= isSame ? user == null ? "none" : user : "not the user of " + principal %>"#;

/// A page that the application gives to users of its own only.
const CONSTRAINT: &str = "<security-constraint>
<web-resource-collection><web-resource-name>all</web-resource-name><url-pattern>/*</url-pattern></web-resource-collection>
<auth-constraint><role-name>**</role-name></auth-constraint>
</security-constraint>";
const LOGIN: &str =
    "<login-config><auth-method>BASIC</auth-method><realm-name>own</realm-name></login-config>";

/// A login service without users, for a generation of servlets as Jetty names it.
fn no_users(generation: &str) -> String {
    format!(
        r#"<?xml version="1.0"?>
<!DOCTYPE Configure PUBLIC "-//Jetty//Configure//EN" "https://jetty.org/configure_10_0.dtd">
<Configure class="org.eclipse.jetty.{generation}.webapp.WebAppContext">
  <Get name="securityHandler">
    <Set name="loginService">
      <New class="org.eclipse.jetty.security.HashLoginService">
        <Arg>own</Arg>
        <Set name="userStore"><New class="org.eclipse.jetty.security.UserStore"/></Set>
      </New>
    </Set>
  </Get>
</Configure>"#
    )
}

/// A web application with one page, and with this in its `web.xml`.
fn webapp(folder: &Path, descriptor: &str) {
    let inside = folder.join("WEB-INF");
    fs::create_dir_all(&inside).unwrap();
    fs::write(folder.join("index.jsp"), PAGE).unwrap();
    let text = format!("<web-app>{descriptor}</web-app>");
    fs::write(inside.join("web.xml"), text).unwrap();
}

/// A server whose hosts have the names of the applications. A request with the query `private` needs a password.
fn started(server: &Server, applications: &Value) {
    let names = applications.as_object().unwrap().keys();
    let by_host: Vec<Value> = names
        .map(|name| json!({"match": {"host": name}, "action": {"pass": format!("applications/{name}")}}))
        .collect();
    let basic = json!({"users": {"anna": SECRET, "zoë": SECRET}});
    server.put(
        "/config",
        &json!({
            "listeners": {server.address().to_string(): {"pass": "routes/entry"}},
            "routes": {
                "entry": [
                    {"match": {"query": "private"}, "action": {"authenticate": {"basic": basic}, "pass": "routes/hosts"}},
                    {"action": {"pass": "routes/hosts"}}
                ],
                "hosts": by_host
            },
            "applications": applications
        }),
    );
}

fn ask(server: &Server, host: &str, query: &str, fields: &str) -> Reply {
    let text = format!(
        "GET /index.jsp?{query} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n"
    );
    client::request(server.address(), text.as_bytes()).unwrap()
}

fn each_gets_its_user(server: &Server, applications: &Value) {
    started(server, applications);
    for name in applications.as_object().unwrap().keys() {
        let user = |query: &str, fields: &str| {
            let reply = ask(server, name, query, fields);
            assert_eq!(reply.status, 200, "{name}: {}", server.log());
            reply.text().trim().to_owned()
        };
        let forged_anna = format!("{FORGED}{ANNA}");
        assert_eq!(user("", &forged_anna), "none", "{name}");
        assert_eq!(user("private", &forged_anna), "anna", "{name}");
        assert_eq!(user("private", ZOE), "zoë", "{name}");
        // The same process, after a user.
        assert_eq!(user("", &forged_anna), "none", "{name}");
        assert_eq!(ask(server, name, "private", FORGED).status, 401, "{name}");
    }
}

#[test]
fn the_user_reaches_php_python_perl_and_ruby() {
    let server = Server::start(&ServerOptions::default());
    let script = |name: &str, text: &str| server.write(name, text);
    let folder = server.folder();
    script("user.php", PHP);
    script("resident.php", RESIDENT);
    script("user.py", WSGI);
    let applications = json!({
        "php": {"type": "php", "root": folder, "script": "user.php"},
        "resident": {"type": "php", "root": folder, "script": "resident.php", "mode": "resident"},
        "wsgi": {"type": "python", "path": folder, "module": "user"},
        "perl": {"type": "perl", "script": script("user.psgi", PERL)},
        "ruby": {"type": "ruby", "script": script("user.ru", RUBY)}
    });
    each_gets_its_user(&server, &applications);
}

/// Parts of a page; all but the first one are for a user.
const PARTS: &str = r#"
PAGE = b"".join(b"%05d " % number for number in range(500))

def application(environ, start_response):
    first, last = environ["HTTP_RANGE"].removeprefix("bytes=").split("-")
    if first != "0" and environ.get("REMOTE_USER") != "anna":
        start_response("403 Forbidden", [])
        return []
    headers = [("Content-Type", "text/plain"), ("Cache-Control", "public, max-age=600"), ("ETag", '"a"')]
    part = PAGE[int(first):int(last) + 1]
    range = "bytes %s-%d/%d" % (first, int(first) + len(part) - 1, len(PAGE))
    start_response("206 Partial Content", headers + [("Content-Range", range), ("Content-Length", str(len(part)))])
    return [part]
"#;

/// The slices of a response are requested by the server, in place of the client.
#[test]
fn the_user_is_that_of_each_slice() {
    let server = Server::start(&ServerOptions::default());
    server.write("parts.py", PARTS);
    let cache = json!({"store": "pages", "slice": 1024, "key": "$uri"});
    server.put(
        "/config",
        &json!({
            "listeners": {server.address().to_string(): {"pass": "routes"}},
            "routes": [
                {"match": {"query": "private"}, "action": {
                    "authenticate": {"basic": {"users": {"anna": SECRET}}}, "pass": "applications/parts", "cache": cache
                }},
                {"action": {"pass": "applications/parts", "cache": cache}}
            ],
            "applications": {"parts": {"type": "python", "path": server.folder(), "module": "parts"}},
            "settings": {"cache": {"pages": {}}}
        }),
    );
    let page: String = (0..500).map(|number| format!("{number:05} ")).collect();
    let first = ask(&server, "a.example", "", "Range: bytes=0-5\r\n");
    assert_eq!((first.status, first.text().as_str()), (206, "00000 "));
    let reply = ask(&server, "a.example", "private", ANNA);
    assert_eq!((reply.status, reply.text() == page), (200, true));
}

#[test]
fn the_user_reaches_java_in_each_generation_of_servlets() {
    // Builds the jars.
    java::class_path("ee10");
    let server = Server::start(&ServerOptions::default());
    let folder = server.folder().join("webapp");
    webapp(&folder, "");
    let java = |servlet: &str| json!({"type": "java", "webapp": folder, "servlet": servlet});
    let applications = json!({
        "servlet4": java("4.0"), "servlet5": java("5.0"), "servlet60": java("6.0"), "servlet61": java("6.1")
    });
    each_gets_its_user(&server, &applications);
}

/// The server's user is none of the application's.
#[test]
fn the_user_passes_no_constraint_of_a_java_application() {
    java::class_path("ee10");
    let server = Server::start(&ServerOptions::default());
    let mut applications = json!({});
    for (servlet, generation) in [("4.0", "ee8"), ("6.0", "ee10")] {
        let (closed, own) = (format!("closed-{generation}"), format!("own-{generation}"));
        webapp(&server.folder().join(&closed), CONSTRAINT);
        webapp(&server.folder().join(&own), &format!("{CONSTRAINT}{LOGIN}"));
        let users = format!("{own}/WEB-INF/jetty-web.xml");
        server.write(&users, no_users(generation));
        for name in [closed, own] {
            let folder = server.folder().join(&name);
            applications[name] = json!({"type": "java", "webapp": folder, "servlet": servlet});
        }
    }
    started(&server, &applications);
    for name in applications.as_object().unwrap().keys() {
        let reply = ask(&server, name, "private", ANNA);
        // One without a login admits no client.
        let status = if name.starts_with("own") { 401 } else { 403 };
        assert_eq!(reply.status, status, "{name}: {}", server.log());
        let challenge = reply.field("WWW-Authenticate").unwrap_or_default();
        assert_eq!(challenge.contains("own"), name.starts_with("own"), "{name}");
    }
}
