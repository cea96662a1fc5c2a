"""A server of Tutti for each language, its application loaded before its processes are forked where it can be (P38, P39)."""

from .java import TuttiJava
from .node import TuttiNode
from .perl import TuttiPerl
from .python import TuttiPython
from .ruby import TuttiRuby
from .servers import Tutti, TuttiGo
from .wasm import TuttiWasm


class TuttiPhp(Tutti):
    """One script for everything, compiled before the processes are forked."""

    host = "tutti-php*"

    def configuration(self):
        configuration = super().configuration()
        configuration["routes"] = [{"action": {"pass": "applications/php"}}]
        configuration["applications"]["php"].update(script="hello.php", preload=True)
        return configuration


def of(server, language, application, page="/", **more):
    """The server under the language's name; `application` is how its configuration names it, `page` is what can be asked for."""
    return type(f"{server.__name__}Alone", (server,), {"label": f"tutti, {language}", "language": language, "in_configuration": application,
                                                       "page": page, **more})


PHP = of(TuttiPhp, "PHP", "php", "/hello.php")
PYTHON = of(TuttiPython, "Python", "python", callable="app", preload=True)
RUBY = of(TuttiRuby, "Ruby", "ruby")
PERL = of(TuttiPerl, "Perl", "perl")
WASM = of(TuttiWasm, "WebAssembly", "wasm")
NODE = of(TuttiNode, "Node.js", "node")
# As many threads as Jetty's own pool begins with.
JAVA = of(TuttiJava, "Java", "java", "/hello", threads=8)
GO = of(TuttiGo, "Go", "go", "/hello")


def ask(server, page):
    """Asks for the page of a language, which must be answered."""
    code, body = server.get(page)
    if code != 200:
        raise RuntimeError(f"{server.name} answers {code} to {page}: {body[:200]!r}")
