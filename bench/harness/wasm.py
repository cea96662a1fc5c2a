"""WebAssembly: Tutti beside wasmtime's own `wasmtime serve`, the same component in each, an instance for each request (P37)."""

import functools
import os
import shutil
import subprocess
from pathlib import Path

from .cases import Case, no_errors, ratio
from .loads import Wrk
from .servers import Server, Tutti

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "tests/conformance/wasm/rust"
TARGET = "wasm32-wasip2"


@functools.cache
def component():
    """The component of the conformance suite, whose answer to `/` is a hello."""
    built = ROOT / ".work/bench-wasm"
    environment = {name: value for name, value in os.environ.items() if name != "RUSTFLAGS"}
    done = subprocess.run(["cargo", "build", "--quiet", "--locked", "--release", "--target", TARGET], cwd=SOURCE,
                          env={**environment, "CARGO_TARGET_DIR": str(built)}, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(f"the component is not built\nhint: rustup target add {TARGET}\n{done.stderr[-500:]}")
    return built / TARGET / "release/conformance.wasm"


def wasmtime_version():
    """That of `wasmtime`, where it is installed."""
    if not shutil.which("wasmtime"):
        return None
    return subprocess.run(["wasmtime", "--version"], capture_output=True, text=True, check=True).stdout.strip()


def serve(host, port):
    """The arguments of `wasmtime serve` with the component."""
    return ["wasmtime", "serve", "-Scli", "--addr", f"{host}:{port}", str(component())]


class WasmtimeServe(Server):
    """One process with a thread for each core; instances from a pool, a new one for each request, which are its defaults."""

    label = "wasmtime serve"
    programs = ("wasmtime", "cargo")

    def arguments(self):
        return serve(self.place.host, self.port)


class TuttiWasm(Tutti):
    label = "tutti"
    programs = ("cargo",)
    host = "tutti-wasm"

    def configuration(self):
        return self.serving("wasm", {"type": "wasm-wasi-component", "component": str(component())})


def cases(context):
    load, path = Wrk(1, 64, context.seconds), "/"

    def verdict(table):
        return [ratio(table, "rps", load.name, path, at_least=1.2, peer=WasmtimeServe.label), no_errors(table)]

    peer = wasmtime_version()
    return [Case("P37", "a WebAssembly component's hello, an instance for each request, 2 processes", "≥ 1.2 × `wasmtime serve`",
                 [(WasmtimeServe, 2, None), (TuttiWasm, 2, None)], [(load, path)], verdict,
                 note=f"{peer}: one process, a thread for each core." if peer else "No peer: wasmtime is not installed.")]
