//! The table of languages: how each runs the contract's application, and what it does not offer.
//!
//! A new language is one more row, and its application in `tests/conformance/contract`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tutti_e2e::{c, external, java, wasm};
use tutti_testkit::{files, is_root};

use crate::guides;
use crate::suite::Application;

/// Where one language's application is.
pub(crate) struct ContractSite {
    /// A copy of `tests/conformance/contract`.
    pub(crate) root: PathBuf,
    /// A folder that the application may write to.
    pub(crate) work: PathBuf,
}

/// A row.
pub(crate) struct Language {
    /// The name of its application.
    pub(crate) name: &'static str,
    /// Its guide: the name of a page in `docs`.
    pub(crate) guide: &'static str,
    /// Builds what the server looks for when it starts.
    pub(crate) prepare: fn(),
    /// Builds the application in its place; its options.
    pub(crate) application: fn(&ContractSite) -> Value,
    /// The file below `root` with the text `Hello from` that a deployment changes.
    pub(crate) artifact: &'static str,
    /// Serves the examples of the guide in place of the contract's application.
    pub(crate) example: fn(&Application),
    /// The status of a request in which the application's code fails, and what the log says then.
    pub(crate) failure: u16,
    pub(crate) reason: &'static str,
    /// The words of the log for the place of a request that hangs.
    pub(crate) place: &'static str,
    /// The most requests that one process has begun at a time.
    pub(crate) begun: usize,
    /// WebSocket is offered; otherwise a handshake is an ordinary request.
    pub(crate) has_websocket: bool,
    /// The cases that cannot be, each with the words of the guide that say so.
    pub(crate) lacks: &'static [(&'static str, &'static str)],
}

impl Language {
    pub(crate) fn has(&self, case: &str) -> bool {
        !self.lacks.iter().any(|(lacked, _)| *lacked == case)
    }
}

/// The fields that most rows have in common.
const SCRIPT: Language = Language {
    name: "",
    guide: "",
    prepare: || {},
    application: |_| json!({}),
    artifact: "",
    example: |_| {},
    failure: 500,
    reason: "asked to fail",
    place: "hang",
    begun: 1,
    has_websocket: false,
    lacks: &[],
};

const EVERYTHING_AT_ONCE: usize = usize::MAX;

const PHP_LACKS: &[(&str, &str)] = &[
    (
        "hints",
        "A script has no early hints (103) and no trailer fields",
    ),
    (
        "trailers",
        "A script has no early hints (103) and no trailer fields",
    ),
    (
        "preload",
        "`preload` compiles the entry scripts; the script itself runs in each worker",
    ),
];

const WSGI_LACKS: &[(&str, &str)] = &[
    (
        "hints",
        "WSGI has no early hints, no trailer fields and no WebSocket",
    ),
    (
        "trailers",
        "WSGI has no early hints, no trailer fields and no WebSocket",
    ),
];

const RUBY_LACKS: &[(&str, &str)] = &[("trailers", "Rack has no trailer fields behind a body")];

const PROGRAM_LACKS: &[(&str, &str)] = &[(
    "preload",
    "`preload` has no effect: each process is a program of its own",
)];

pub(crate) const LANGUAGES: &[Language] = &[
    Language {
        name: "php",
        guide: "php",
        application: |place| json!({"type": "php", "root": place.root, "script": "app.php"}),
        artifact: "app.php",
        example: guides::php,
        lacks: PHP_LACKS,
        ..SCRIPT
    },
    Language {
        name: "php-resident",
        guide: "php",
        application: |place| json!({"type": "php", "root": place.root, "script": "resident.php", "mode": "resident"}),
        artifact: "app.php",
        example: guides::php,
        lacks: PHP_LACKS,
        ..SCRIPT
    },
    Language {
        name: "wsgi",
        guide: "python",
        application: |place| python(place, json!({"module": "wsgi"})),
        artifact: "wsgi.py",
        example: guides::python,
        lacks: WSGI_LACKS,
        ..SCRIPT
    },
    Language {
        name: "wsgi-threads",
        guide: "python",
        application: |place| python(place, json!({"module": "wsgi", "threads": 3})),
        artifact: "wsgi.py",
        example: guides::python,
        begun: 3,
        lacks: WSGI_LACKS,
        ..SCRIPT
    },
    Language {
        name: "asgi",
        guide: "python",
        application: |place| python(place, json!({"module": "asgi"})),
        artifact: "asgi.py",
        example: guides::python,
        begun: EVERYTHING_AT_ONCE,
        has_websocket: true,
        ..SCRIPT
    },
    Language {
        name: "perl",
        guide: "perl",
        application: |place| json!({"type": "perl", "script": place.root.join("app.psgi")}),
        artifact: "app.psgi",
        example: guides::perl,
        lacks: &[
            ("hints", "PSGI has no trailer fields, and early hints"),
            ("trailers", "PSGI has no trailer fields, and early hints"),
        ],
        ..SCRIPT
    },
    Language {
        name: "ruby",
        guide: "ruby",
        application: |place| json!({"type": "ruby", "script": place.root.join("config.ru")}),
        artifact: "config.ru",
        example: guides::ruby,
        has_websocket: true,
        lacks: RUBY_LACKS,
        ..SCRIPT
    },
    Language {
        name: "ruby-threads",
        guide: "ruby",
        application: |place| json!({"type": "ruby", "script": place.root.join("config.ru"), "threads": 3}),
        artifact: "config.ru",
        example: guides::ruby,
        begun: 3,
        has_websocket: true,
        lacks: RUBY_LACKS,
        ..SCRIPT
    },
    Language {
        name: "node",
        guide: "node",
        application: |place| {
            let mut application =
                json!({"type": "node", "working_directory": place.root, "script": "app.js"});
            // Another Node.js than the first in PATH.
            if let Some(runtime) = std::env::var_os("TUTTI_NODE_RUNTIME") {
                application["runtime"] = json!(runtime.to_string_lossy());
            }
            application
        },
        artifact: "app.js",
        example: guides::node,
        // An exception that is not caught ends the process.
        failure: 502,
        begun: EVERYTHING_AT_ONCE,
        has_websocket: true,
        lacks: PROGRAM_LACKS,
        ..SCRIPT
    },
    Language {
        name: "java",
        guide: "java",
        prepare: || drop(java::class_path("ee10")),
        application: |place| {
            let source = [place.root.join("Contract.java")];
            java::compile_to(
                &place.root.join("WEB-INF/classes"),
                &java::class_path("ee10"),
                &source,
            );
            let options = ["-Xmx400m", "-XX:TieredStopAtLevel=1"];
            json!({"type": "java", "webapp": place.root, "threads": 2, "options": options})
        },
        artifact: "WEB-INF/classes/Contract.class",
        example: guides::java,
        begun: 2,
        has_websocket: true,
        lacks: &[
            (
                "preload",
                "`preload` has no effect: each process is a program of its own",
            ),
            (
                "silence about a failure",
                "which has the exception's message and no stack",
            ),
        ],
        ..SCRIPT
    },
    Language {
        name: "go",
        guide: "go",
        application: |place| {
            external::build("tests/conformance/go", &place.root.join("app"));
            json!({"type": "external", "executable": place.root.join("app")})
        },
        artifact: "app",
        example: guides::go,
        failure: 502,
        begun: EVERYTHING_AT_ONCE,
        has_websocket: true,
        lacks: &[
            (
                "preload",
                "`preload` has no effect: each process is a program of its own",
            ),
            (
                "place of a hang",
                "The log does not say where a goroutine hangs",
            ),
        ],
        ..SCRIPT
    },
    Language {
        name: "c",
        guide: "sdk",
        application: |place| {
            let program = place.root.join("app");
            c::compile("tests/conformance/contract/app.c", &program);
            json!({"type": "external", "executable": program})
        },
        artifact: "app",
        example: guides::c,
        failure: 502,
        has_websocket: true,
        lacks: &[
            (
                "preload",
                "`preload` has no effect: each process is a program of its own",
            ),
            (
                "place of a hang",
                "The log does not say where a C program hangs",
            ),
        ],
        ..SCRIPT
    },
    Language {
        name: "component",
        guide: "wasm",
        application: |place| {
            let component = installed(&wasm::rust(), place);
            json!({"type": "wasm-wasi-component", "component": component, "access": {"filesystem": [place.work]}})
        },
        artifact: "app.wasm",
        example: guides::component,
        reason: "told to fail",
        place: "compute_for_ever",
        begun: EVERYTHING_AT_ONCE,
        lacks: &[
            ("hints", "No answers before the one (103)"),
            ("crash", "A failure ends the instance, not the process"),
            ("preload", "`preload` has no effect"),
        ],
        ..SCRIPT
    },
    Language {
        name: "module",
        guide: "wasm",
        application: |place| {
            let module = installed(&wasm::module(&[]), place);
            json!({
                "type": "wasm", "module": module, "access": {"filesystem": [place.work]},
                "request_handler": "handle", "malloc_handler": "luw_malloc_handler",
                "free_handler": "luw_free_handler", "module_init_handler": "begin_module",
                "request_end_handler": "end_request",
                "instance": {"memory": "400M"}
            })
        },
        artifact: "app.wasm",
        example: guides::module,
        reason: "instruction executed",
        place: "compute_for_ever",
        lacks: &[
            ("hints", "No answers before the one (103)"),
            ("trailers", "A module has no trailer fields"),
            ("request streaming", "bodies do not stream in"),
            ("crash", "A failure ends the instance, not the process"),
            ("preload", "`preload` has no effect"),
        ],
        ..SCRIPT
    },
    Language {
        name: "cgi",
        guide: "cgi",
        application: |place| json!({"type": "cgi", "root": place.root, "script": "app.cgi"}),
        artifact: "app.cgi",
        example: guides::cgi,
        failure: 502,
        place: "app.cgi` (process ",
        lacks: &[
            (
                "hints",
                "A script has no early hints (103) and no trailer fields",
            ),
            (
                "trailers",
                "A script has no early hints (103) and no trailer fields",
            ),
            (
                "crash",
                "A script that dies costs its own request, and no worker",
            ),
            (
                "limits.memory",
                "`limits.memory_max` is for a script and all that it has started",
            ),
            (
                "preload",
                "`preload` has no effect: each script is a program of its own",
            ),
        ],
        ..SCRIPT
    },
    Language {
        name: "http",
        guide: "external",
        application: |place| {
            json!({
                "type": "external", "protocol": "http", "executable": "/usr/bin/env",
                "arguments": ["node", place.root.join("app.js")], "working_directory": place.root
            })
        },
        artifact: "app.js",
        example: guides::http,
        failure: 502,
        begun: EVERYTHING_AT_ONCE,
        has_websocket: true,
        lacks: &[
            (
                "preload",
                "`preload` has no effect: each process is a program of its own",
            ),
            (
                "place of a hang",
                "The log does not say where a program hangs",
            ),
            (
                "service after a hang",
                "A program that hangs is not replaced",
            ),
        ],
        ..SCRIPT
    },
];

fn python(place: &ContractSite, members: Value) -> Value {
    let mut application = json!({"type": "python", "path": place.root});
    tutti_testkit::set_members(&mut application, &members);
    // Another Python than the system's may be one that only root can read.
    if std::env::var_os("TUTTI_PYTHON_HOST").is_some() && is_root() {
        application["user"] = json!("root");
        application["group"] = json!("root");
    }
    application
}

/// A copy of a component or a module.
fn installed(built: &Path, place: &ContractSite) -> PathBuf {
    let installed = place.root.join("app.wasm");
    files::install(built, &installed);
    installed
}
