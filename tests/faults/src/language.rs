//! The same small application in each language: one file, in which a text tells the release that answers. Bytes of it that are replaced by
//! others make another release, or one that does not start.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tutti_e2e::{java, wasm};
use tutti_testkit::{Reply, Server, ServerOptions, files};

/// The text of the first release; that of another has another digit.
const RELEASE: &str = "release 1";

/// An application in one language.
pub struct Language {
    /// Its name, for the list of costs.
    pub name: &'static str,
    /// A file with which it does not start, and words of the reason.
    pub fails: Vec<(Vec<u8>, &'static str)>,
    /// Processes that serve it: as many as this machine starts soon.
    pub processes: usize,
    /// Workers that the test of leaks replaces, in `make test` and in the long run.
    pub replaced: (usize, usize),
    file: &'static str,
    works: Vec<u8>,
    members: fn(&Path) -> Value,
}

impl Language {
    fn of_text(
        (name, file): (&'static str, &'static str),
        works: &str,
        fails: &[(&str, &'static str)],
        members: fn(&Path) -> Value,
    ) -> Self {
        let fails = fails.iter();
        Language {
            name,
            fails: fails
                .map(|(text, reason)| (text.as_bytes().to_vec(), *reason))
                .collect(),
            processes: 3,
            replaced: (40, 10_000),
            file,
            works: works.as_bytes().to_vec(),
            members,
        }
    }

    /// PHP.
    pub fn php() -> Self {
        Self::of_text(
            ("PHP", "page.php"),
            "<?php echo 'release 1';\n",
            &[],
            |folder| json!({"type": "php", "root": folder, "script": "page.php"}),
        )
    }

    /// Python, by WSGI.
    pub fn python() -> Self {
        Self::of_text(
            ("Python", "page.py"),
            "def application(environ, start):\n    start('200 OK', [('Content-Length', '9')])\n    return [b'release 1']\n",
            &[
                ("raise RuntimeError('no database')\n", "no database"),
                ("def application(:\n", "SyntaxError"),
                ("import os, time\nos.abort()\ntime.sleep(60)\n", "signal 6"),
                ("import os\nos._exit(7)\n", "7"),
                ("application = None\n", "callable"),
            ],
            |folder| json!({"type": "python", "path": folder, "module": "page"}),
        )
    }

    /// Perl.
    pub fn perl() -> Self {
        Self::of_text(
            ("Perl", "page.psgi"),
            "sub { [200, ['Content-Length' => 9], ['release 1']] };\n",
            &[
                ("die 'no database';\n", "no database"),
                ("sub {\n", "syntax error"),
                ("kill 'ABRT', $$; sleep 60;\n", "signal 6"),
                ("require POSIX; POSIX::_exit(7);\n", "7"),
                ("42;\n", "page.psgi"),
            ],
            |folder| json!({"type": "perl", "script": folder.join("page.psgi")}),
        )
    }

    /// Ruby.
    pub fn ruby() -> Self {
        Self::of_text(
            ("Ruby", "page.ru"),
            "run ->(_) { [200, {'content-length' => '9'}, ['release 1']] }\n",
            &[
                ("raise 'no database'\n", "no database"),
                ("run(\n", "syntax error"),
                ("Process.kill('ABRT', Process.pid)\nsleep\n", "signal 6"),
                ("exit! 7\n", "7"),
                ("run 42\n", "respond to `call`"),
            ],
            |folder| json!({"type": "ruby", "script": folder.join("page.ru")}),
        )
    }

    /// Node.js.
    pub fn node() -> Self {
        let mut node = Self::of_text(
            ("Node.js", "page.js"),
            "require('http').createServer((request, response) => response.end('release 1')).listen();\n",
            &[
                ("throw new Error('no database');\n", "no database"),
                ("let = = 2;\n", "SyntaxError"),
                ("process.abort();\n", "signal 6"),
                ("process.exit(7);\n", "exited with code 7"),
                ("require('left-pad');\n", "Cannot find module"),
                ("console.log('done already');\n", "ended before it listened"),
            ],
            |folder| json!({"type": "node", "script": folder.join("page.js")}),
        );
        node.processes = 2;
        node.replaced = (24, 10_000);
        node
    }

    /// A program of its own that speaks HTTP.
    pub fn external() -> Self {
        let mut external = Self::of_text(
            ("a program", "page.py"),
            include_str!("language/external.py"),
            &[
                (
                    "#!/usr/bin/python3\nraise RuntimeError('no database')\n",
                    "no database",
                ),
                ("#!/usr/bin/python3\nimport os\nos.abort()\n", "signal 6"),
                (
                    "#!/usr/bin/python3\nimport os\nos._exit(7)\n",
                    "exited with code 7",
                ),
                ("#!/no/such/interpreter\n", "page.py"),
            ],
            |folder| json!({"type": "external", "protocol": "http", "executable": folder.join("page.py")}),
        );
        external.processes = 2;
        external.replaced = (24, 10_000);
        external
    }

    /// Java, with `jakarta.servlet`.
    pub fn java() -> Self {
        let works = compiled();
        let patched = |text: &str| replaced(&works, "start:serve", text);
        let mut too_new = works.clone();
        // The version of a class file (JVMS 4.1): that of a Java to come.
        too_new[6..8].copy_from_slice(&143_u16.to_be_bytes());
        let fails = vec![
            (patched("start:throw"), "no database"),
            (patched("start:abort"), "signal 6"),
            (too_new, "compiled for Java 99"),
        ];
        Language {
            name: "Java",
            fails,
            // A virtual machine takes a second to start.
            processes: 1,
            replaced: (4, 1_000),
            file: "WEB-INF/classes/Page.class",
            works,
            members: |folder| {
                json!({
                    "type": "java", "webapp": folder, "threads": 4,
                    "options": ["-Xmx64m", "-XX:TieredStopAtLevel=1"]
                })
            },
        }
    }

    /// A WebAssembly component.
    pub fn component() -> Self {
        let works = marked(&wasm::rust(), "Hello fro");
        let fails = vec![
            (b"hello".to_vec(), "it is not WebAssembly"),
            (b"\0asm\x01\0\0\0".to_vec(), "it is a module"),
            (b"\0asm\x0d\0\x01\0".to_vec(), "it exports nothing"),
            (works[..works.len() / 2].to_vec(), "loading"),
        ];
        Language {
            name: "a component",
            fails,
            processes: 2,
            replaced: (24, 10_000),
            file: "page.wasm",
            works,
            members: |folder| json!({"type": "wasm-wasi-component", "component": folder.join("page.wasm")}),
        }
    }

    /// A WebAssembly module, of the older type.
    pub fn module() -> Self {
        let works = marked(&wasm::module(&[]), "Hello fro");
        let fails = vec![
            (b"hello".to_vec(), "it is not WebAssembly"),
            (b"\0asm\x0d\0\x01\0".to_vec(), "it is a component"),
            (b"\0asm\x01\0\0\0".to_vec(), "exports no function"),
            (works[..works.len() / 2].to_vec(), "loading"),
        ];
        Language {
            name: "a module",
            fails,
            processes: 2,
            replaced: (24, 10_000),
            file: "page.wasm",
            works,
            members: |folder| {
                json!({
                    "type": "wasm", "module": folder.join("page.wasm"), "request_handler": "handle",
                    "malloc_handler": "luw_malloc_handler", "free_handler": "luw_free_handler",
                    "module_init_handler": "begin_module"
                })
            },
        }
    }

    /// The bytes of the file as the release of this number, which has one digit.
    pub fn release(&self, number: usize) -> Vec<u8> {
        replaced(&self.works, RELEASE, &release_body(number))
    }

    /// The members of the application; `environment` has this number, which makes it another one.
    pub fn application(&self, server: &Server, number: usize) -> Value {
        let mut application = (self.members)(&folder(server));
        application["processes"] = json!(self.processes);
        application["environment"] = json!({
            "GENERATION": number.to_string(), "TMPDIR": temporary(server)
        });
        application
    }
}

/// The beginning of the answer of the release of this number.
pub fn release_body(number: usize) -> String {
    RELEASE.replace('1', &number.to_string())
}

/// True for the answer of any release.
pub fn is_release(body: &[u8]) -> bool {
    body.starts_with(b"release ")
}

fn folder(server: &Server) -> PathBuf {
    server.folder().join("site")
}

/// Where the application's processes keep what is temporary.
pub fn temporary(server: &Server) -> PathBuf {
    server.folder().join("work")
}

/// A server with the application `site` of a language.
pub struct LanguageSite {
    /// The server.
    pub server: Server,
    /// The language.
    pub language: Language,
}

impl LanguageSite {
    /// Starts it; `extra` replaces members of the application.
    pub fn start(language: Language, extra: &Value) -> Self {
        let server = Server::start(&ServerOptions::default());
        let work = temporary(&server);
        fs::create_dir(&work).expect("a folder");
        let for_all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(&work, for_all).expect("its mode");
        let site = LanguageSite { server, language };
        site.write(&site.language.release(1));
        let mut application = site.language.application(&site.server, 0);
        for (name, value) in extra.as_object().into_iter().flatten() {
            application[name] = value.clone();
        }
        site.server.put(
            "/config",
            &json!({
                "listeners": {
                    format!("127.0.0.1:{}", site.server.port()): {"pass": "applications/site"}
                },
                "applications": {"site": application},
            }),
        );
        site
    }

    /// Puts this in the place of the application's file, as a deployment does: whole, or not yet.
    pub fn write(&self, bytes: &[u8]) {
        let path = folder(&self.server).join(self.language.file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        let source = self.server.write("source", bytes);
        let ready = self.server.folder().join("ready");
        // By a process of its own: some are programs, which are not run while somebody may write to them.
        files::install(&source, &ready);
        fs::remove_file(source).expect("it was just written");
        fs::rename(ready, path).expect("a file");
    }

    /// Asks for a restart.
    pub fn restart(&self) -> Reply {
        let path = "/control/applications/site/restart";
        self.server.call("GET", path, &Value::Null)
    }

    /// The workers' process numbers, in order.
    pub fn workers(&self) -> Vec<i32> {
        let mut workers = self.server.workers("site");
        workers.sort_unstable();
        workers
    }
}

/// The class of the application in Java.
fn compiled() -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("Page.java");
    fs::write(&source, include_str!("language/Page.java")).expect("a file");
    java::compile_to(folder.path(), &java::class_path("ee10"), &[source]);
    fs::read(folder.path().join("Page.class")).expect("a class")
}

/// A file of the conformance tests whose answer, which begins with this text, tells the release.
fn marked(path: &Path, beginning: &str) -> Vec<u8> {
    let bytes = fs::read(path).expect("it was built");
    replaced(&bytes, beginning, RELEASE)
}

/// The bytes with one text, which they must have, replaced by another that is as long.
fn replaced(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len(), "{from} {to}");
    let mut bytes = bytes.to_vec();
    let mut count = 0;
    for at in 0..=bytes.len().saturating_sub(from.len()) {
        if bytes[at..].starts_with(from.as_bytes()) {
            bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
            count += 1;
        }
    }
    assert!(count > 0, "there is no `{from}`");
    bytes
}
