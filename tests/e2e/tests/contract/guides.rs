//! The examples of each language's guide, served as they stand.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tutti_e2e::documents::{examples, json_examples};
use tutti_e2e::{c as c_library, external, java as java_build};
use tutti_testkit::guide;
use tutti_websocket_cases::{Frame, Heard, WebSocketClient, build};

use crate::suite::Application;

pub(crate) fn serve(application: &Application) {
    (application.language.example)(application);
}

impl Application<'_> {
    fn page(&self) -> String {
        let page = format!(
            "{}/../../docs/languages/{}.md",
            env!("CARGO_MANIFEST_DIR"),
            self.language.guide
        );
        fs::read_to_string(page).unwrap()
    }

    /// Puts these options in place of its own; those of a guide that are not for this machine are left out.
    fn put(&self, mut options: Value) {
        if let Some(members) = options.as_object_mut() {
            for absent in ["user", "home"] {
                members.remove(absent);
            }
        }
        let path = format!("/config/applications/{}", self.language.name);
        self.server.put(&path, &options);
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }
}

/// Each program of a page in turn, in a file that `option` names; `answers` are the starts of what they say of `/x`.
fn scripts(application: &Application, mark: &str, option: &str, file: &str, answers: &[&str]) {
    let page = application.page();
    let programs = examples(&page, mark);
    assert_eq!(programs.len(), answers.len());
    let mut options: Value = json_examples(&page, &[]).remove(0);
    for (program, answer) in programs.iter().zip(answers) {
        options[option] = json!(application.write(file, program));
        // A change, so that the application is loaded again.
        options["environment"] = json!({"EXAMPLE": answer});
        application.put(options.clone());
        let text = application.get("/x").text();
        assert!(text.starts_with(answer), "{text}");
    }
}

pub(crate) fn perl(application: &Application) {
    let answers = ["/x: visit 1 of process ", "line 1\nline 2\nline 3\n"];
    scripts(application, "perl", "script", "example.psgi", &answers);
    application.server.wait_for_log("done with /x");
}

pub(crate) fn ruby(application: &Application) {
    let answers = ["/x: visit 1 of process ", "line 1\nline 2\nline 3\n"];
    scripts(application, "ruby", "script", "example.ru", &answers);
    application.server.wait_for_log("done with /x");
}

/// The resident script, with the application that it boots.
pub(crate) fn php(application: &Application) {
    let page = application.page();
    let script = examples(&page, "php").remove(0);
    application.write("resident.php", &script);
    let boot =
        "<?php return new class { function answer($method, $uri) { echo \"$method $uri\"; } };";
    application.write("boot.php", boot);
    let mut options = json_examples(&page, &[]).remove(1);
    for mode in ["resident", "classic"] {
        options["root"] = json!(application.root());
        options["mode"] = json!(mode);
        application.put(options.clone());
        assert_eq!(application.get("/x").text(), "GET /x", "{mode}");
    }
}

pub(crate) fn python(application: &Application) {
    let page = application.page();
    for (number, program) in examples(&page, "python").iter().enumerate() {
        application.write(&format!("example{number}.py"), program);
        let mut options = json_examples(&page, &[]).remove(0);
        options["type"] = json!("python");
        options["path"] = json!(application.root());
        options["module"] = json!(format!("example{number}"));
        application.put(options);
        assert_eq!(application.get("/x").text(), "Hello from /x\n");
    }
}

pub(crate) fn node(application: &Application) {
    let page = application.page();
    let root = application.root();
    for program in examples(&page, "js") {
        application.write("server.js", &program);
        let places = [("/srv/shop", root.to_str().unwrap())];
        let whole = json_examples(&page, &places).remove(0);
        application.put(whole["applications"]["shop"].clone());
        let text = application.get("/").text();
        assert!(text.starts_with("Hello, 127.0.0.1"), "{text}");
    }
}

pub(crate) fn http(application: &Application) {
    let root = application.root();
    let places = [
        ("/srv/api", root.to_str().unwrap()),
        ("/usr/bin/node", "/usr/bin/env"),
    ];
    let page = application.page();
    let mut all = json_examples(&page, &places).into_iter();
    let whole = all
        .find(|example| example.get("applications").is_some())
        .unwrap();
    let mut options = whole["applications"]["api"].clone();
    options["arguments"]
        .as_array_mut()
        .unwrap()
        .insert(0, json!("node"));
    application.put(options);
    assert_eq!(application.get("/").text(), "Hello from Node.js\n");
}

/// The program of the page's first session, with the configuration behind it.
pub(crate) fn go(application: &Application) {
    let page = application.page();
    let shop = application.root().join("shop");
    let sdk = external::source("sdk/go").canonicalize().unwrap();
    for command in guide::commands(&page) {
        if let Some(name) = command.line.strip_prefix("cat /srv/hello/") {
            let text = command.prints.join("\n") + "\n";
            let text = text.replace("/usr/share/tutti/go", sdk.to_str().unwrap());
            application.write(&format!("shop/{name}"), &text);
        }
    }
    external::go_build(&shop, &shop.join("shop"));
    let options = json_examples(&page, &[("/srv/shop", shop.to_str().unwrap())]);
    application.put(options[0].clone());
    assert_eq!(application.get("/").text(), "Hello from Go\n");
}

/// The first sample, compiled by the guide's command.
pub(crate) fn c(application: &Application) {
    let page = include_str!("../../../../docs/languages/sdk.md");
    let command = guide::commands(page).remove(0).line;
    let library = c_library::library();
    let command = command
        .replace("/srv/hello", "hello")
        .replace("dist/include", "sdk/c/include")
        .replace("dist/lib/libtutti_worker.a", library.to_str().unwrap());
    let root = application.root();
    let sources = external::source("sdk").canonicalize().unwrap();
    std::os::unix::fs::symlink(sources, root.join("sdk")).unwrap();
    let compiler = Command::new("sh")
        .args(["-c", &command])
        .current_dir(&root)
        .status();
    assert!(compiler.unwrap().success(), "{command}");
    let hello = root.join("hello");
    let options = json_examples(page, &[("/srv/hello", hello.to_str().unwrap())]).remove(0);
    application.put(options);
    assert_eq!(application.get("/guide").text(), "Hello from C: /guide\n");
}

/// The configuration for gitweb, with another script.
pub(crate) fn cgi(application: &Application) {
    let root = application.root();
    let places = [
        ("/usr/share/gitweb", root.to_str().unwrap()),
        ("gitweb.cgi", "app.cgi"),
    ];
    let whole = json_examples(&application.page(), &places).remove(0);
    application.put(whole["applications"]["gitweb"].clone());
    assert_eq!(application.get("/git/").text(), "Hello from CGI\n");
}

/// A servlet and an endpoint.
pub(crate) fn java(application: &Application) {
    let page = application.page();
    let programs = examples(&page, "java");
    let [hello, echo] = &programs[..] else {
        panic!("a servlet and an endpoint");
    };
    let sources = [
        application.write("Hello.java", hello),
        application.write("Echo.java", echo),
    ];
    let folder = application.root().join("shop");
    java_build::compile_to(
        &folder.join("WEB-INF/classes"),
        &java_build::class_path("ee10"),
        &sources,
    );
    let war = application.root().join("shop.war");
    java_build::pack(&folder, &war);
    let mut options = json_examples(&page, &[]).remove(0);
    options["webapp"] = json!(war);
    application.put(options);
    assert_eq!(application.get("/hello/you").text(), "Hello from /you\n");
    let (mut client, _) = WebSocketClient::open(application.address, "/echo", "").unwrap();
    client.send(&build(&[Frame::new(1, "you")])).unwrap();
    let heard = Heard::Message(1, b"heard: you".to_vec());
    assert_eq!(client.hear().unwrap(), heard);
}

/// The configurations for components.
pub(crate) fn component(application: &Application) {
    let app = application.root().join("app.wasm");
    let work = application.work();
    let places = [
        ("/srv/hello/hello.wasm", app.to_str().unwrap()),
        ("/srv/shop/shop.wasm", app.to_str().unwrap()),
        ("/srv/shop/data", work.to_str().unwrap()),
    ];
    let [whole, one, _module] = json_examples(&application.page(), &places)
        .try_into()
        .unwrap();
    let [hello] = whole["applications"]
        .as_object()
        .unwrap()
        .values()
        .collect::<Vec<_>>()[..]
    else {
        panic!("one application");
    };
    application.put(hello.clone());
    assert_eq!(application.get("/").text(), "Hello from a component\n");
    application.put(one);
    assert_eq!(
        application.get("/environment").text(),
        r#"["COLOUR=blue"] []"#
    );
}

pub(crate) fn module(application: &Application) {
    let app = application.root().join("app.wasm");
    let work = application.work();
    let places = [
        ("/srv/echo/echo.wasm", app.to_str().unwrap()),
        ("/srv/echo/data", work.to_str().unwrap()),
        ("\"luw_request_handler\"", "\"handle\""),
        ("\"luw_module_init_handler\"", "\"begin_module\""),
        ("\"luw_module_end_handler\"", "\"end_module\""),
    ];
    let mut all = json_examples(&application.page(), &places);
    application.put(all.remove(2));
    assert_eq!(application.get("/").text(), "Hello from a module\n");
}
