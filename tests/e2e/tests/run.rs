//! `tutti run` in folders of applications: each is really started, and none of its sources is handed out.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use tutti_e2e::external::go_build;
use tutti_e2e::java;
use tutti_e2e::python::environment;
use tutti_testkit::server::binaries;
use tutti_testkit::{client, free_port, processes, wait_until};

const WEB_XML: &str =
    "<web-app xmlns='https://jakarta.ee/xml/ns/jakartaee' version='6.0'></web-app>\n";

/// A folder that the applications' user may enter, with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::Builder::new()
        .prefix("tutti-run-")
        .tempdir()
        .unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// The language hosts that were built for this test.
fn modules() -> TempDir {
    let modules = folder(&[]);
    for host in [
        "tutti-php",
        "tutti-python",
        "tutti-perl",
        "tutti-ruby",
        "tutti-external",
        "tutti-cgi",
        "tutti-node",
        "tutti-wasm",
        "tutti-java",
        // Its jars.
        "java",
    ] {
        symlink(binaries().join(host), modules.path().join(host)).unwrap();
    }
    modules
}

/// Ends it as Ctrl-C does, also when the test fails.
struct Running(Child);

impl Running {
    fn start(modules: &Path, folder: &Path, port: u16) -> Running {
        let child = Command::new(binaries().join("tutti"))
            .args(["run", "--quiet", "--processes", "2", "--listen"])
            .arg(port.to_string())
            .arg("--modulesdir")
            .arg(modules)
            .arg(folder)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Running(child)
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = tutti_sys::signal::send(self.pid(), libc::SIGINT);
        let _ = self.0.wait();
    }
}

/// Runs what is in the folder: `/` is answered with `expected`, the sources are not, and nothing stays behind.
fn runs(files: &[(&str, &str)], expected: &str) {
    let folder = folder(files);
    runs_there(folder.path(), files, expected);
}

/// The same of a folder or a file that is there, with these sources.
fn runs_there(what: &Path, files: &[(&str, &str)], expected: &str) {
    runs_with(what, files, expected, &[]);
}

/// The same, and these paths are answered with these texts.
fn runs_with(what: &Path, files: &[(&str, &str)], expected: &str, others: &[(&str, &str)]) {
    let modules = modules();
    let port = free_port();
    let address = ([127, 0, 0, 1], port).into();
    let mut running = Running::start(modules.path(), what, port);
    wait_until("it answers", || {
        assert!(running.0.try_wait().unwrap().is_none(), "it has ended");
        client::get(address, "/").is_ok_and(|reply| reply.text() == expected)
    });
    for (name, text) in files {
        let reply = client::get(address, &format!("/{name}")).unwrap();
        assert_ne!(reply.text(), *text, "{name}");
    }
    for (path, text) in others {
        assert_eq!(client::get(address, path).unwrap().text(), *text, "{path}");
    }
    let all = processes::tree(running.pid());
    assert!(all.len() >= 5, "{all:?}");
    tutti_sys::signal::send(running.pid(), libc::SIGINT).unwrap();
    assert!(running.0.wait().unwrap().success());
    wait_until("nothing stays behind", || {
        all.iter()
            .all(|process| !processes::is_running(process.pid))
    });
}

/// Issue 10, 1.11: `tutti run` served the sources of such folders as files.
#[test]
fn a_python_application_is_run() {
    let text = "def application(environ, start_response):\n    \
                start_response('200 OK', [('Content-Type', 'text/plain')])\n    return [b'by WSGI']\n";
    runs(&[("wsgi.py", text), ("requirements.txt", "")], "by WSGI");
}

#[test]
fn an_asgi_application_is_run() {
    let text = "async def application(scope, receive, send):\n    \
                assert scope['type'] == 'http'\n    \
                await send({'type': 'http.response.start', 'status': 200, 'headers': [(b'content-type', b'text/plain')]})\n    \
                await send({'type': 'http.response.body', 'body': b'by ASGI'})\n";
    runs(&[("asgi.py", text), ("pyproject.toml", "")], "by ASGI");
}

/// With the virtual environment in the folder, as the tutorial has it.
#[test]
fn a_django_project_is_run() {
    let settings = "SECRET_KEY = 'secret'\nALLOWED_HOSTS = ['*']\nROOT_URLCONF = 'shop.urls'\nWSGI_APPLICATION = 'shop.wsgi.application'\n";
    let urls = "from django.http import HttpResponse\nfrom django.urls import path\n\n\
                urlpatterns = [path('', lambda request: HttpResponse('by Django', content_type='text/plain'))]\n";
    let manage = "#!/usr/bin/env python\nimport os\nimport sys\n\nos.environ.setdefault('DJANGO_SETTINGS_MODULE', 'shop.settings')\n\
                  from django.core.management import execute_from_command_line\nexecute_from_command_line(sys.argv)\n";
    let wsgi = "import os\n\nfrom django.core.wsgi import get_wsgi_application\n\n\
                os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'shop.settings')\napplication = get_wsgi_application()\n";
    let files = [
        ("manage.py", manage),
        ("shop/__init__.py", ""),
        ("shop/settings.py", settings),
        ("shop/urls.py", urls),
        ("shop/wsgi.py", wsgi),
    ];
    let folder = folder(&files);
    let home = environment("django-run", "Django==5.2.19\n");
    symlink(home, folder.path().join(".venv")).unwrap();
    // Issue 28, 5.6: what `collectstatic` has left is served, too.
    let style = folder.path().join("staticfiles/admin/css/base.css");
    fs::create_dir_all(style.parent().unwrap()).unwrap();
    fs::write(&style, "b {}").unwrap();
    let others = [("/static/admin/css/base.css", "b {}")];
    runs_with(folder.path(), &files, "by Django", &others);
}

/// By its own name, and in the folder that it was built in.
#[test]
fn a_java_application_is_run() {
    // The jars of the host are there from then on.
    java::application("jakarta");
    let pages = folder(&[
        ("index.jsp", "<%= \"by\" %> Java"),
        ("WEB-INF/web.xml", WEB_XML),
    ]);
    let files = [("pom.xml", "<project/>\n")];
    let folder = folder(&files);
    let archive = folder.path().join("target/shop.war");
    fs::create_dir(archive.parent().unwrap()).unwrap();
    let packed = Command::new("jar")
        .args(["--create", "--no-manifest", "--file"])
        .arg(&archive)
        .arg("-C")
        .arg(pages.path())
        .arg(".")
        .status();
    assert!(packed.unwrap().success());
    for what in [folder.path(), &archive] {
        runs_there(what, &files, "by Java");
    }
}

/// Issue 28, 5.6. By its own name, and in the folder that it was built in.
#[test]
fn a_java_program_is_run() {
    let program = "import com.sun.net.httpserver.HttpServer;\n\
                   public class Shop {\n    public static void main(String[] arguments) throws Exception {\n        \
                   var address = new java.net.InetSocketAddress(\"127.0.0.1\", Integer.getInteger(\"server.port\"));\n        \
                   var server = HttpServer.create(address, 0);\n        \
                   server.createContext(\"/\", exchange -> {\n            \
                   exchange.sendResponseHeaders(200, 9);\n            \
                   exchange.getResponseBody().write(\"by a jar\\n\".getBytes());\n            \
                   exchange.close();\n        });\n        server.start();\n    }\n}\n";
    let files = [("pom.xml", "<project/>\n"), ("Shop.java", program)];
    let folder = folder(&files);
    let classes = folder.path().join("target/classes");
    java::compile_to(&classes, "", &[folder.path().join("Shop.java")]);
    let archive = folder.path().join("target/shop.jar");
    let packed = Command::new("jar")
        .args(["--create", "--main-class", "Shop", "--file"])
        .arg(&archive)
        .arg("-C")
        .arg(&classes)
        .arg(".")
        .status();
    assert!(packed.unwrap().success());
    for what in [folder.path(), &archive] {
        runs_there(what, &files, "by a jar\n");
    }
}

/// Issue 28, 5.6.
#[test]
fn a_go_program_that_is_built_is_run() {
    let program = "package main\n\nimport (\n\t\"fmt\"\n\t\"net/http\"\n\t\"os\"\n)\n\n\
                   func main() {\n\t\
                   http.HandleFunc(\"/\", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, \"by Go\") })\n\t\
                   http.ListenAndServe(\"127.0.0.1:\"+os.Getenv(\"PORT\"), nil)\n}\n";
    let files = [("go.mod", "module shop\n\ngo 1.23\n"), ("main.go", program)];
    let folder = folder(&files);
    go_build(folder.path(), &folder.path().join("shop"));
    runs_there(folder.path(), &files, "by Go");
}

/// Issue 28, 5.6. By its own name, and in a folder without a `package.json`.
#[test]
fn a_script_of_node_is_run() {
    let server = "import {createServer} from 'node:http'\n\
                  createServer((request, response) => response.end('by a module')).listen(process.env.PORT)\n";
    let files = [("server.mjs", server)];
    let folder = folder(&files);
    for what in [folder.path(), &folder.path().join("server.mjs")] {
        runs_there(what, &files, "by a module");
    }
}

/// Issue 28, 5.6: one with a server of its own, and one that is an application of PSGI.
#[test]
fn a_script_of_perl_is_run() {
    let own =
        "use Mojolicious::Lite -signatures;\nget '/' => {text => 'by Mojolicious'};\napp->start;\n";
    runs(&[("app.pl", own)], "by Mojolicious");
    let psgi = "sub { [200, ['Content-Type' => 'text/plain'], ['by a script']] };\n";
    runs(&[("app.pl", psgi)], "by a script");
}

#[test]
fn it_can_be_stopped_while_the_application_starts() {
    let started = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = started.local_addr().unwrap().port();
    let text = format!(
        "import socket, time\nopen = socket.create_connection(('127.0.0.1', {port}))\ntime.sleep(1000)\n\
         def application(environ, start_response):\n    pass\n"
    );
    let (folder, modules) = (
        folder(&[("wsgi.py", &text), ("requirements.txt", "")]),
        modules(),
    );
    let mut running = Running::start(modules.path(), folder.path(), free_port());
    let _application = started.accept().unwrap();
    let all = processes::tree(running.pid());
    tutti_sys::signal::send(running.pid(), libc::SIGTERM).unwrap();
    let mut status = None;
    wait_until("it ends", || {
        status = running.0.try_wait().unwrap();
        status.is_some()
    });
    assert!(status.unwrap().success(), "{status:?}");
    processes::wait_until_gone(&all);
}

/// These have to be built first, or do not say what is served: the answer says how to go on.
#[test]
fn what_cannot_be_run_gets_a_hint() {
    for (file, text, parts) in [
        (
            "go.mod",
            "module shop\n",
            [
                "a Go program: build it with `go build -o app .`",
                "\"type\": \"external\"",
                "it gets the port to serve as PORT",
            ],
        ),
        (
            "composer.json",
            "{}",
            [
                "a PHP project without an `index.php`",
                "\"type\": \"php\"",
                "name its front controller",
            ],
        ),
    ] {
        let folder = folder(&[(file, text)]);
        let output = Command::new(binaries().join("tutti"))
            .args(["run", "--listen", &free_port().to_string()])
            .arg(folder.path())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{file}: {told}");
        for part in parts {
            assert!(told.contains(part), "{file}: no `{part}` in {told}");
        }
        assert!(told.contains(&format!("it has `{file}`")), "{told}");
    }
}

#[test]
fn a_perl_application_is_run() {
    let text = "sub { [200, ['Content-Type' => 'text/plain'], ['by PSGI']] };\n";
    runs(&[("app.psgi", text)], "by PSGI");
}

#[test]
fn a_ruby_application_is_run() {
    let text = "run ->(_) { [200, {'content-type' => 'text/plain'}, ['by Rack']] }\n";
    runs(&[("config.ru", text)], "by Rack");
}

/// By its own name, and in a folder with its sources.
#[test]
fn a_webassembly_component_is_run() {
    let files = [("Cargo.toml", "[package]\n")];
    let folder = folder(&files);
    let component = folder.path().join("app.wasm");
    fs::copy(tutti_e2e::wasm::rust(), &component).unwrap();
    fs::set_permissions(&component, Permissions::from_mode(0o644)).unwrap();
    for what in [folder.path(), &component] {
        runs_there(what, &files, "Hello from a component\n");
    }
}

#[test]
fn a_node_application_is_run_wherever_it_listens() {
    let package = r#"{"scripts": {"start": "node server.js"}}"#;
    let server = "require('http').createServer((request, response) => response.end('by Node'))\
                  .listen(3000)\n";
    runs(
        &[("package.json", package), ("server.js", server)],
        "by Node",
    );
}

#[test]
fn a_program_that_speaks_http_is_run() {
    let package = r#"{"scripts": {"start": "node --no-warnings server.js"}}"#;
    let server = "require('http').createServer((request, response) => response.end('by Node'))\
                  .listen(process.env.PORT, process.env.HOST)\n";
    runs(
        &[("package.json", package), ("server.js", server)],
        "by Node",
    );
}

#[test]
fn a_php_site_is_run() {
    runs(&[("index.php", "<?php echo 'by PHP';")], "by PHP");
}

/// The line of the README, in a folder that is as `make build` leaves it. It is ended as a supervisor ends it.
#[test]
fn the_line_of_the_readme_serves_a_site() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let line = readme
        .split('`')
        .find(|words| words.starts_with("dist/bin/tutti run "))
        .unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let (program, site) = (words.first().unwrap(), words.last().unwrap());
    let here = tempfile::Builder::new()
        .prefix("tutti-readme-")
        .tempdir_in(binaries())
        .unwrap();
    for (name, text) in [("index.php", "<?php echo 'by PHP';"), ("style.css", "b {}")] {
        let path = here.path().join(site).join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fs::set_permissions(here.path(), Permissions::from_mode(0o755)).unwrap();
    // A link would lead to the folder that the program was built in, and its language hosts are elsewhere.
    let program = here.path().join(program);
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    fs::hard_link(binaries().join("tutti"), &program).unwrap();
    let modules = program.parent().unwrap().parent().unwrap().join("modules");
    fs::create_dir(&modules).unwrap();
    symlink(binaries().join("tutti-php"), modules.join("tutti-php")).unwrap();
    let said = here.path().join("said");
    let child = Command::new(&program)
        .args(words.get(1..).unwrap())
        .current_dir(here.path())
        .stdin(Stdio::null())
        .stdout(fs::File::create(&said).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut running = Running(child);
    let mut address = None;
    wait_until("it says where to look", || {
        assert!(running.0.try_wait().unwrap().is_none(), "it has ended");
        let said = fs::read_to_string(&said).unwrap();
        let told = said
            .split_once("http://")
            .and_then(|(_, rest)| rest.split_once("/\n"));
        address = told.and_then(|(address, _)| address.parse().ok());
        address.is_some()
    });
    let address = address.unwrap();
    for (path, expected) in [("/", "by PHP"), ("/style.css", "b {}")] {
        assert_eq!(client::get(address, path).unwrap().text(), expected);
    }
    let all = processes::tree(running.pid());
    tutti_sys::signal::send(running.pid(), libc::SIGTERM).unwrap();
    assert!(running.0.wait().unwrap().success());
    wait_until("nothing stays behind", || {
        all.iter()
            .all(|process| !processes::is_running(process.pid))
    });
}
