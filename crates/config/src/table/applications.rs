//! Options of applications: the common ones and those of each type.

use super::{Kind, Names, Object, Opt, Support, Text, opt};

/// A `type` of applications.
#[derive(Debug)]
pub struct ApplicationType {
    /// First word of `type`.
    pub name: &'static str,
    /// Its options.
    pub object: &'static Object,
    /// Whether a version may follow.
    pub versions: bool,
    /// Whether this version of the server runs it.
    pub support: Support,
}

/// Every type.
pub static TYPES: &[ApplicationType] = &[
    ApplicationType {
        name: "php",
        object: &PHP,
        versions: true,
        support: Support::Now,
    },
    ApplicationType {
        name: "external",
        object: &EXTERNAL,
        versions: false,
        support: Support::Now,
    },
    ApplicationType {
        name: "python",
        object: &PYTHON,
        versions: true,
        support: Support::Now,
    },
    ApplicationType {
        name: "perl",
        object: &PERL,
        versions: true,
        support: Support::Now,
    },
    ApplicationType {
        name: "ruby",
        object: &RUBY,
        versions: true,
        support: Support::Later,
    },
    ApplicationType {
        name: "java",
        object: &JAVA,
        versions: true,
        support: Support::Later,
    },
    ApplicationType {
        name: "wasm",
        object: &WASM,
        versions: false,
        support: Support::Later,
    },
    ApplicationType {
        name: "wasm-wasi-component",
        object: &WASI,
        versions: false,
        support: Support::Later,
    },
];

/// The most workers a transport segment holds (`spec/wire.md`).
const MAX_PROCESSES: i64 = 4096;

const PROCESSES_KIND: Kind =
    Kind::OneOf(&[Kind::Integer(1, MAX_PROCESSES), Kind::Object(&PROCESSES)]);

const COMMON: &[Opt] = &[
    opt(
        "type",
        Kind::String(Text::Module),
        "Language, and the version if it matters: `php`, `php 8`, `php 8.2`",
    )
    .required(),
    opt(
        "processes",
        PROCESSES_KIND,
        "Number of processes: fixed, or as many as are needed within limits",
    )
    .default("1")
    .unit("processes"),
    opt(
        "limits",
        Kind::Object(&LIMITS),
        "When a process or a request is ended",
    ),
    opt(
        "preload",
        Kind::Boolean,
        "Load the application once, before its processes are forked (`docs/processes.md`)",
    )
    .default("false"),
    opt(
        "watch",
        Kind::Boolean,
        "Restart when a file of the application changes: for development",
    )
    .default("false"),
    opt(
        "environment",
        Kind::Map(Names::Environment, &Kind::String(Text::Any)),
        "Environment variables, added to the server's own",
    ),
    opt(
        "user",
        Kind::String(Text::NotEmpty),
        "User the processes run as; the server's default one unless given",
    ),
    opt(
        "group",
        Kind::String(Text::NotEmpty),
        "Group they run as; the user's own unless given",
    ),
    opt(
        "working_directory",
        Kind::String(Text::Path),
        "Their working directory; the server's unless given",
    ),
    opt(
        "stdout",
        Kind::String(Text::Path),
        "File for their standard output",
    ),
    opt(
        "stderr",
        Kind::String(Text::Path),
        "File for their standard error; the log unless given",
    ),
    opt(
        "isolation",
        Kind::Object(&ISOLATION),
        "Namespaces, file system root, cgroup",
    ),
];

/// `processes` in its long form.
pub static PROCESSES: Object = Object {
    name: "processes",
    summary: "As many processes as are needed, within limits",
    options: &[&[
        opt(
            "max",
            Kind::Integer(1, MAX_PROCESSES),
            "Most processes, busy and idle",
        )
        .default("1")
        .unit("processes"),
        opt(
            "spare",
            Kind::Integer(0, MAX_PROCESSES),
            "Idle processes to keep ready",
        )
        .default("0")
        .unit("processes"),
        opt(
            "idle_timeout",
            Kind::Integer(0, 0x7fff_ffff),
            "Time after which an idle process that is not needed is ended",
        )
        .default("15")
        .unit("seconds"),
    ]],
    exactly_one: &[],
};

/// `limits`.
pub static LIMITS: Object = Object {
    name: "limits",
    summary: "When a process or a request is ended",
    options: &[&[
        opt(
            "requests",
            Kind::Integer(0, i64::MAX),
            "Requests after which a process is replaced; 0: never",
        )
        .default("0")
        .unit("requests"),
        opt(
            "timeout",
            Kind::Integer(0, 0x7fff_ffff),
            "Time a request may take, waiting included; 0: any",
        )
        .default("0")
        .unit("seconds"),
        opt(
            "drain_timeout",
            Kind::Integer(0, 0x7fff_ffff),
            "Time a process that is being replaced or removed may take for the requests it has; 0: any",
        )
        .default("60")
        .unit("seconds"),
        opt(
            "memory",
            SIZE,
            "Resident memory beyond which a process is replaced when its request is done; 0: any",
        )
        .default("0")
        .unit("bytes"),
        opt(
            "memory_max",
            SIZE,
            "Resident memory beyond which a process is killed; twice `memory` unless given, 0: none",
        )
        .unit("bytes"),
        opt(
            "queue",
            Kind::Object(&QUEUE),
            "How many requests may wait for a process, and how long",
        ),
        opt(
            "concurrency",
            Kind::Integer(1, 65_535),
            "Requests that one event loop has at once; the runtime's own choice unless given",
        )
        .unit("requests"),
    ]],
    exactly_one: &[],
};

/// Bytes, as a number or with a unit.
const SIZE: Kind = Kind::OneOf(&[Kind::Integer(0, i64::MAX), Kind::String(Text::Size)]);

/// `limits.queue`.
pub static QUEUE: Object = Object {
    name: "queue",
    summary: "How many requests may wait for a process, and how long; others are answered 503 with `Retry-After`",
    options: &[&[
        opt(
            "length",
            Kind::Integer(0, 1_000_000),
            "Requests that may wait",
        )
        .default("20000")
        .unit("requests"),
        opt(
            "wait",
            Kind::Integer(0, 0x7fff_ffff),
            "Time a request may wait; 0: any",
        )
        .default("0")
        .unit("seconds"),
    ]],
    exactly_one: &[],
};

/// `isolation`.
pub static ISOLATION: Object = Object {
    name: "isolation",
    summary: "Namespaces, file system root and cgroup of the processes",
    options: &[&[
        opt("namespaces", Kind::Object(&NAMESPACES), "New namespaces"),
        opt(
            "rootfs",
            Kind::String(Text::Path),
            "New root of the file system; paths in the other options are inside of it",
        ),
        opt(
            "automount",
            Kind::Object(&AUTOMOUNT),
            "What is mounted in the new root",
        ),
        opt("cgroup", Kind::Object(&CGROUP), "Control group"),
        opt(
            "uidmap",
            Kind::Array(&Kind::Object(&ID_MAP)),
            "User ids inside and outside; with a new `credential` namespace",
        ),
        opt(
            "gidmap",
            Kind::Array(&Kind::Object(&ID_MAP)),
            "Group ids inside and outside; with a new `credential` namespace",
        ),
        opt(
            "new_privs",
            Kind::Boolean,
            "Whether programs they run may gain privileges, by set-uid bits for example",
        )
        .default("true"),
    ]],
    exactly_one: &[],
};

/// `isolation.namespaces`.
pub static NAMESPACES: Object = Object {
    name: "namespaces",
    summary: "New namespaces for the processes",
    options: &[&[
        opt("cgroup", Kind::Boolean, "cgroup namespace").default("false"),
        opt("credential", Kind::Boolean, "User namespace").default("false"),
        opt(
            "ipc",
            Kind::Boolean,
            "System V IPC and POSIX message queues",
        )
        .default("false"),
        opt("mount", Kind::Boolean, "Mount namespace").default("false"),
        opt("network", Kind::Boolean, "Network namespace").default("false"),
        opt("pid", Kind::Boolean, "Process namespace").default("false"),
        opt("time", Kind::Boolean, "Clock offsets").default("false"),
        opt("uname", Kind::Boolean, "UTS namespace").default("false"),
    ]],
    exactly_one: &[],
};

/// `isolation.automount`.
pub static AUTOMOUNT: Object = Object {
    name: "automount",
    summary: "What is mounted in the new root",
    options: &[&[
        opt("language_deps", Kind::Boolean, "What the language needs").default("true"),
        opt("procfs", Kind::Boolean, "`/proc`").default("true"),
        opt("tmpfs", Kind::Boolean, "`/tmp`").default("true"),
    ]],
    exactly_one: &[],
};

/// `isolation.cgroup`.
pub static CGROUP: Object = Object {
    name: "cgroup",
    summary: "Control group",
    options: &[&[opt(
        "path",
        Kind::String(Text::Path),
        "In the version 2 hierarchy: absolute, or relative to the server's own",
    )
    .required()]],
    exactly_one: &[],
};

/// One of `isolation.uidmap` and `isolation.gidmap`.
pub static ID_MAP: Object = Object {
    name: "id map",
    summary: "A range of ids",
    options: &[&[
        opt(
            "container",
            Kind::Integer(0, u32::MAX as i64),
            "First id inside",
        )
        .required(),
        opt(
            "host",
            Kind::Integer(0, u32::MAX as i64),
            "First id outside",
        )
        .required(),
        opt("size", Kind::Integer(1, u32::MAX as i64), "Number of ids").required(),
    ]],
    exactly_one: &[],
};

/// `php`.
pub static PHP: Object = Object {
    name: "php",
    summary: "A PHP application",
    options: &[
        COMMON,
        ENTRY,
        &[
            opt(
                "targets",
                Kind::Map(Names::NotEmpty, &Kind::Object(&PHP_TARGET)),
                "Several entry points, instead of `root`, `script` and `index`",
            ),
            opt(
                "mode",
                Kind::String(Text::Word(&["classic", "resident"])),
                "`classic`: the script runs anew for every request; `resident`: `script` boots once in each process and loops on `tutti_handle_request()`",
            )
            .default("\"classic\""),
            opt(
                "options",
                Kind::Object(&PHP_OPTIONS),
                "php.ini and directives",
            ),
        ],
    ],
    exactly_one: &["root", "targets"],
};

const ENTRY: &[Opt] = &[
    opt(
        "root",
        Kind::String(Text::Path),
        "Base directory of the scripts",
    ),
    opt(
        "script",
        Kind::String(Text::NotEmpty),
        "Script below `root` that serves every request",
    )
    .needs(&["root"]),
    opt(
        "index",
        Kind::String(Text::NotEmpty),
        "Script of a directory, where there is no `script`",
    )
    .default("\"index.php\"")
    .needs(&["root"]),
];

/// One of `targets`.
pub static PHP_TARGET: Object = Object {
    name: "php target",
    summary: "An entry point of a PHP application",
    options: &[ENTRY],
    exactly_one: &["root"],
};

/// `options` of a PHP application.
pub static PHP_OPTIONS: Object = Object {
    name: "php options",
    summary: "php.ini and directives. Values are strings; flags are `\"0\"` and `\"1\"`",
    options: &[&[
        opt("file", Kind::String(Text::Path), "php.ini"),
        opt(
            "admin",
            Kind::Map(Names::NotEmpty, &Kind::String(Text::Any)),
            "Directives that scripts cannot change",
        ),
        opt(
            "user",
            Kind::Map(Names::NotEmpty, &Kind::String(Text::Any)),
            "Directives that scripts can change",
        ),
    ]],
    exactly_one: &[],
};

/// `external`.
pub static EXTERNAL: Object = Object {
    name: "external",
    summary: "A program that speaks the worker protocol (Go, Node.js)",
    options: &[
        COMMON,
        &[
            opt(
                "executable",
                Kind::String(Text::Path),
                "The program, absolute or relative to `working_directory`",
            )
            .required(),
            opt(
                "arguments",
                Kind::Array(&Kind::String(Text::Any)),
                "Its arguments",
            ),
            opt(
                "protocol",
                Kind::String(Text::Word(&["http"])),
                "`http`: the program is an HTTP server that knows nothing of this one; without it, it speaks the worker protocol",
            ),
            opt(
                "listen",
                Kind::String(Text::Word(&["port", "unix", "inherit"])),
                "With `protocol`: what the program is given to listen on: a port of 127.0.0.1 (in `PORT`), the path of a UNIX socket (in `SOCKET`), or descriptor 3 as by systemd",
            )
            .default("\"port\""),
            opt(
                "probe",
                Kind::String(Text::Path),
                "With `protocol`: a path that is asked for until it is answered with less than 500, before requests are sent to a new process",
            ),
        ],
    ],
    exactly_one: &[],
};

const THREADS: &[Opt] = &[
    opt(
        "threads",
        Kind::Integer(1, 0x7fff_ffff),
        "Threads of a process that handle requests",
    )
    .default("1")
    .unit("threads"),
    opt(
        "thread_stack_size",
        Kind::Integer(1, 0x7fff_ffff),
        "Stack of such a thread",
    )
    .unit("bytes"),
];

static PYTHON: Object = Object {
    name: "python",
    summary: "A Python application (WSGI or ASGI)",
    options: &[
        COMMON,
        THREADS,
        PYTHON_ENTRY,
        &[
            opt(
                "targets",
                Kind::Map(Names::NotEmpty, &Kind::Object(&PYTHON_TARGET)),
                "Several entry points",
            ),
            opt("home", Kind::String(Text::Path), "Virtual environment"),
            opt(
                "path",
                Kind::OneOf(&[
                    Kind::String(Text::Path),
                    Kind::Array(&Kind::String(Text::Path)),
                ]),
                "Folders put before `sys.path`",
            ),
            opt(
                "protocol",
                Kind::String(Text::Word(&["wsgi", "asgi"])),
                "Interface; found out unless given",
            ),
        ],
    ],
    exactly_one: &["module", "targets"],
};

const PYTHON_ENTRY: &[Opt] = &[
    opt("module", Kind::String(Text::NotEmpty), "Module to import"),
    opt("callable", Kind::String(Text::NotEmpty), "Its callable")
        .default("\"application\"")
        .needs(&["module"]),
    opt(
        "factory",
        Kind::Boolean,
        "The callable makes the application",
    )
    .default("false")
    .needs(&["module"]),
    opt(
        "prefix",
        Kind::String(Text::Any),
        "`SCRIPT_NAME` or `root_path`",
    ),
];

/// One of `targets`.
pub static PYTHON_TARGET: Object = Object {
    name: "python target",
    summary: "An entry point of a Python application",
    options: &[PYTHON_ENTRY],
    exactly_one: &["module"],
};

static PERL: Object = Object {
    name: "perl",
    summary: "A Perl application (PSGI)",
    options: &[
        COMMON,
        THREADS,
        &[opt("script", Kind::String(Text::Path), "PSGI script").required()],
    ],
    exactly_one: &[],
};

static RUBY: Object = Object {
    name: "ruby",
    summary: "A Ruby application (Rack)",
    options: &[
        COMMON,
        THREADS,
        &[
            opt("script", Kind::String(Text::Path), "Rack script").required(),
            opt(
                "hooks",
                Kind::String(Text::Path),
                "Script with the hooks of a worker's life",
            ),
        ],
    ],
    exactly_one: &[],
};

static JAVA: Object = Object {
    name: "java",
    summary: "A Java application (servlets)",
    options: &[
        COMMON,
        THREADS,
        &[
            opt(
                "webapp",
                Kind::String(Text::Path),
                "The .war file, packed or not",
            )
            .required(),
            opt(
                "classpath",
                Kind::Array(&Kind::String(Text::Path)),
                "Libraries",
            ),
            opt(
                "options",
                Kind::Array(&Kind::String(Text::Any)),
                "Options of the virtual machine",
            ),
            opt(
                "unit_jars",
                Kind::String(Text::Path),
                "Folder of the server's own .jar files",
            ),
        ],
    ],
    exactly_one: &[],
};

const WASM_ACCESS: Opt = opt("access", Kind::Object(&ACCESS), "What it may use");

static ACCESS: Object = Object {
    name: "wasm access",
    summary: "What a WebAssembly application may use",
    options: &[&[opt(
        "filesystem",
        Kind::Array(&Kind::String(Text::Path)),
        "Folders",
    )]],
    exactly_one: &[],
};

static WASM: Object = Object {
    name: "wasm",
    summary: "A WebAssembly module",
    options: &[
        COMMON,
        &[
            opt("module", Kind::String(Text::Path), "The .wasm file").required(),
            opt(
                "request_handler",
                Kind::String(Text::NotEmpty),
                "Function that handles a request",
            )
            .required(),
            opt(
                "malloc_handler",
                Kind::String(Text::NotEmpty),
                "Function that allocates memory",
            )
            .required(),
            opt(
                "free_handler",
                Kind::String(Text::NotEmpty),
                "Function that frees it",
            )
            .required(),
            opt(
                "module_init_handler",
                Kind::String(Text::NotEmpty),
                "Function called at start",
            ),
            opt(
                "module_end_handler",
                Kind::String(Text::NotEmpty),
                "Function called at the end",
            ),
            opt(
                "request_init_handler",
                Kind::String(Text::NotEmpty),
                "Function called before a request",
            ),
            opt(
                "request_end_handler",
                Kind::String(Text::NotEmpty),
                "Function called when a request has been received",
            ),
            opt(
                "response_end_handler",
                Kind::String(Text::NotEmpty),
                "Function called when a response has been sent",
            ),
            WASM_ACCESS,
        ],
    ],
    exactly_one: &[],
};

static WASI: Object = Object {
    name: "wasm-wasi-component",
    summary: "A WebAssembly component (wasi:http)",
    options: &[
        COMMON,
        &[
            opt("component", Kind::String(Text::Path), "The .wasm file").required(),
            WASM_ACCESS,
        ],
    ],
    exactly_one: &[],
};
