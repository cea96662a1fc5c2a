"""The applications that are served: the one of the language contract (`tests/conformance/contract`) in each language, a cached page, and jobs."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

CACHED = """<?php
header('Cache-Control: max-age=2, stale-while-revalidate=2');
echo str_repeat("Hello from the cache\\n", 1000);
"""

# A line for each delivery. Jobs arrive at least once.
JOBS = """<?php
file_put_contents(getenv('WORK') . '/jobs', $_SERVER['HTTP_X_TUTTI_JOB_ID'] . "\\n", FILE_APPEND | LOCK_EX);
echo "done\\n";
"""


def run(*words, cwd=None, env=None):
    done = subprocess.run([str(word) for word in words], cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}:\n{done.stdout[-3000:]}")


def java(root, dist):
    jars = [jar for folder in ("core", "ee10") for jar in (Path(dist) / "modules/java" / folder).glob("*.jar")]
    classes = root / "WEB-INF/classes"
    classes.mkdir(parents=True)
    run("javac", "-cp", ":".join(map(str, jars)), "-d", classes, root / "Contract.java")
    return {"type": "java", "webapp": str(root), "threads": 4, "options": ["-Xmx96m", "-XX:TieredStopAtLevel=1"]}


def go(root):
    run("go", "build", "-o", root / "app-go", ".", cwd=ROOT / "tests/conformance/go")
    return {"type": "external", "executable": str(root / "app-go")}


def component(root):
    """Returns nothing where the host was not built (`WASM=`)."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RUSTFLAGS", "CARGO_BUILD", "RUSTC"))}
    target = ROOT / ".work/soak-wasm"
    run("cargo", "build", "--quiet", "--locked", "--release", "--target", "wasm32-wasip2", cwd=ROOT / "tests/conformance/wasm/rust",
        env={**environment, "CARGO_TARGET_DIR": str(target)})
    shutil.copy(target / "wasm32-wasip2/release/conformance.wasm", root / "app.wasm")
    return {"type": "wasm-wasi-component", "component": str(root / "app.wasm")}


def applications(root, dist):
    """The applications by name, with what each says in its greeting; those that speak WebSocket."""
    at = str(root)
    found = {
        "php": ("PHP", {"type": "php", "root": at, "script": "app.php"}),
        "resident": ("PHP", {"type": "php", "root": at, "script": "resident.php", "mode": "resident"}),
        "wsgi": ("Python", {"type": "python", "path": at, "module": "wsgi", "threads": 2}),
        "asgi": ("ASGI", {"type": "python", "path": at, "module": "asgi"}),
        "perl": ("Perl", {"type": "perl", "script": f"{at}/app.psgi"}),
        "ruby": ("Ruby", {"type": "ruby", "script": f"{at}/config.ru"}),
        "node": ("Node.js", {"type": "node", "working_directory": at, "script": "app.js"}),
        "java": ("Java", java(root, dist)),
        "go": ("Go", go(root)),
        "cgi": ("CGI", {"type": "cgi", "root": at, "script": "app.cgi"}),
    }
    if any((Path(dist) / "modules").glob("tutti-wasm*")):
        found["component"] = ("a component", component(root))
    return found, {"asgi", "ruby", "node", "java", "go"}
