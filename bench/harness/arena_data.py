"""Makes the data that HttpArena gives an entry when it runs, in the same shape: the data set, static files, a certificate, and Postgres with a table."""

import atexit
import functools
import gzip
import json
import os
import random
import shutil
import subprocess
from pathlib import Path

from .processes import Process, wait_until

ITEMS = 50
ROWS = 100_000
CATEGORIES = ("books", "clothing", "electronics", "home", "sports", "tools")
TAGS = ("eco", "fast", "large", "light", "new", "quiet", "sale", "small")
WORDS = ("align", "border", "color", "display", "function", "margin", "return", "value", "width", "window")

# Name and size of each file; text has siblings compressed by gzip and brotli.
FILES = {
    "reset.css": 8192, "layout.css": 25_600, "theme.css": 18_432, "components.css": 204_800, "utilities.css": 61_440,
    "analytics.js": 12_288, "helpers.js": 22_528, "app.js": 204_800, "vendor.js": 307_200, "router.js": 35_840,
    "header.html": 122_880, "footer.html": 56_320, "logo.svg": 15_344, "icon-sprite.svg": 71_680, "manifest.json": 2_883,
    "regular.woff2": 18_432, "bold.woff2": 22_528, "hero.webp": 46_080, "thumb1.webp": 8_192, "thumb2.webp": 6_144,
}
BINARY = (".woff2", ".webp")

TABLE = f"""
CREATE TABLE items (id integer PRIMARY KEY, name text NOT NULL, category text NOT NULL, price integer NOT NULL, quantity integer NOT NULL,
    active boolean NOT NULL, tags jsonb NOT NULL, rating_score integer NOT NULL, rating_count integer NOT NULL);
INSERT INTO items SELECT n, 'Item ' || n, ('{{{",".join(CATEGORIES)}}}'::text[])[1 + n % {len(CATEGORIES)}], 1 + n % 251 * 2 % 500, 1 + n % 997,
    n % 2 = 0, jsonb_build_array('fast', 'new'), 1 + n % 50, 1 + n % 300 FROM generate_series(1, {ROWS}) AS n;
ANALYZE items;
"""


def make(folder):
    """The files, in `folder`; the same at each run."""
    numbers = random.Random(54)
    (folder / "static").mkdir(parents=True)
    items = [{"id": number, "name": f"Item {number}", "category": numbers.choice(CATEGORIES), "price": numbers.randint(1, 500),
              "quantity": numbers.randint(1, 100), "active": numbers.random() < 0.5, "tags": numbers.sample(TAGS, numbers.randint(1, 4)),
              "rating": {"score": numbers.randint(1, 50), "count": numbers.randint(1, 300)}} for number in range(1, ITEMS + 1)]
    (folder / "dataset.json").write_text(json.dumps(items))
    for name, size in FILES.items():
        file = folder / "static" / name
        if name.endswith(BINARY):
            file.write_bytes(numbers.randbytes(size))
            continue
        text = json.dumps({"name": "arena", "values": numbers.choices(WORDS, k=size // 8)}) if name.endswith(".json") else ""
        while len(text) < size:
            text += f"{' '.join(numbers.choices(WORDS, k=6))} {numbers.randint(0, 9999)};\n"
        data = text[:size].encode()
        file.write_bytes(data)
        file.with_name(f"{name}.gz").write_bytes(gzip.compress(data, 9, mtime=0))
    compress_by_brotli(folder / "static")
    make_certificate(folder)
    for entry in [folder, *folder.rglob("*")]:
        entry.chmod(0o755 if entry.is_dir() else 0o644)
    return folder


def compress_by_brotli(folder):
    """Node.js has brotli inside; without it there are no such files."""
    if not shutil.which("node"):
        return
    script = ("const fs = require('fs'), zlib = require('zlib'); for (const name of process.argv.slice(1)) "
              "fs.writeFileSync(`${name}.br`, zlib.brotliCompressSync(fs.readFileSync(name)));")
    subprocess.run(["node", "-e", script, *(folder / name for name in FILES if not name.endswith(BINARY))], check=True)


def make_certificate(folder):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9", "-subj", "/CN=localhost",
                    "-keyout", folder / "server.key", "-out", folder / "server.crt"], check=True, capture_output=True)


def postgres_programs():
    """The folder of Debian's newest Postgres, which is not in PATH; None without one."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


@functools.cache
def database(folder):
    """The URL of a Postgres with the table, which runs until this program ends; None where Postgres is not installed."""
    programs = postgres_programs()
    if not programs:
        return None
    from .servers import WORKER_USER, free_port
    data, port = Path(folder) / "postgres", free_port()
    data.mkdir()
    user = []
    if os.geteuid() == 0:
        # It refuses to run as root.
        shutil.chown(data, WORKER_USER)
        user = ["setpriv", f"--reuid={WORKER_USER}", "--clear-groups", "--"]
    subprocess.run([*user, programs / "initdb", "-D", data, "-U", "bench", "-A", "trust", "--no-sync"], check=True, capture_output=True, cwd="/")
    process = Process([*user, programs / "postgres", "-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", "", "-F", "-c", "max_connections=300"],
                      Path(folder) / "postgres.log", cwd="/")
    atexit.register(process.stop)
    url = f"postgres://bench@127.0.0.1:{port}/postgres"

    def query(text):
        return subprocess.run([programs / "psql", "-q", "-v", "ON_ERROR_STOP=1", url], input=text, text=True, capture_output=True, check=False)

    wait_until(lambda: query("SELECT 1;").returncode == 0, 60, f"Postgres; log: {folder}/postgres.log")
    done = query(TABLE)
    if done.returncode:
        raise RuntimeError(f"the table was not made: {done.stderr}")
    return url
