"""An application for each language host, as a package's user would write it first."""

from dataclasses import dataclass, field


@dataclass
class Language:
    package: str
    application: dict
    files: dict
    says: str
    # Debian packages besides what the host itself depends on.
    needs: str = ""
    commands: list = field(default_factory=list)
    path: str = "/"


LANGUAGES = [
    Language(
        "tutti-python",
        {"type": "python", "path": "/srv/python", "module": "wsgi"},
        {"/srv/python/wsgi.py": "def application(environ, start_response):\n    start_response('200 OK', [])\n    return [b'Python says hello']\n"},
        "Python says hello",
    ),
    Language(
        "tutti-perl",
        {"type": "perl", "script": "/srv/perl/app.psgi"},
        {"/srv/perl/app.psgi": "sub { [200, ['Content-Type' => 'text/plain'], ['Perl says hello']] };\n"},
        "Perl says hello",
    ),
    Language(
        "tutti-ruby",
        {"type": "ruby", "script": "/srv/ruby/config.ru"},
        {"/srv/ruby/config.ru": "run ->(env) { [200, { 'content-type' => 'text/plain' }, ['Ruby says hello']] }\n"},
        "Ruby says hello",
        needs="ruby-rack",
    ),
    Language(
        "tutti-node",
        {"type": "node", "working_directory": "/srv/node", "script": "app.js"},
        {"/srv/node/app.js": "require('http').createServer((request, response) => response.end('Node says hello')).listen(3000);\n"},
        "Node says hello",
    ),
    Language(
        "tutti-java",
        {"type": "java", "webapp": "/srv/java"},
        {"/srv/java/WEB-INF/web.xml": "<web-app/>\n", "/srv/java/index.jsp": "<% out.print(\"Java says \" + 6 * 7); %>\n"},
        "Java says 42",
        path="/index.jsp",
    ),
]
GO = """package main

import (
	"fmt"
	"net/http"

	unit "unit.nginx.org/go"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "Go says hello") })
	if err := unit.ListenAndServe(":8080", nil); err != nil {
		panic(err)
	}
}
"""


def go_mod(folder):
    """The module of that application, with Tutti's own in this folder."""
    return f"module hello\n\ngo 1.23\n\nrequire unit.nginx.org/go v0.0.0\n\nreplace unit.nginx.org/go => {folder}\n"


# Served by the images of a language, too. The packages of these have tests of their own in run.py.
OTHERS = [
    Language(
        "tutti-php",
        {"type": "php", "root": "/srv/php", "script": "index.php"},
        {"/srv/php/index.php": "<?php echo 'PHP says ', 6 * 7;\n"},
        "PHP says 42",
    ),
    Language(
        "tutti-dev",
        {"type": "external", "executable": "/srv/go/hello"},
        {
            "/srv/go/main.go": GO,
            "/srv/go/go.mod": go_mod("/usr/share/tutti/go"),
        },
        "Go says hello",
        commands=["go build -C /srv/go"],
    ),
    Language("tutti-wasm", {"type": "wasm-wasi-component", "component": "/srv/wasm/hello.wasm"}, {}, "Hello from a component"),
]


def of_package(name):
    """The application of the package `tutti-NAME`, whose name ends with a version or not."""
    return next(one for one in LANGUAGES + OTHERS if one.package == f"tutti-{name.rstrip('0123456789.')}")
