"""HTTP/3 with quiche, Cloudflare's QUIC: requests, bodies, fields, priorities, migration, resumption and early data, by a small client of its own API"""

import subprocess
from pathlib import Path

from aioquic_client import serve
from base import Case

HERE = Path(__file__).resolve().parent / "quiche"
VERSION = "quiche 0.30.0"
SECONDS = 600


def build(context):
    """The client, which is no part of the workspace: BoringSSL takes minutes, and needs CMake, which the nightly run does not install."""
    cargo, _, _ = context.program("cargo"), context.program("cmake", "cmake"), context.program("c++", "g++")
    target = context.kept / "quiche-target"
    done = subprocess.run([cargo, "build", "--quiet", "--locked", "--target-dir", target], cwd=HERE, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return target / "debug/quiche-cases"


def run(context):
    context.module("tutti-python*")
    client = build(context)
    server = serve(context)
    done = subprocess.run([client, str(server.port)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=True)
    for line in done.stdout.splitlines():
        name, _, wrong = line.partition("\t")
        yield Case(name, "fail" if wrong else "pass", wrong)
