#!/usr/bin/env python3
"""Mixed load for a long time, with the memory and the errors watched: `bench/soak.py [--minutes 60]`.

PHP pages, files, uploads, slow clients that leave, workers that retire and reconfigurations, all at once. Fails when an
answer is wrong or when the memory of main and router still grows after the first tenth of the time.
"""

import argparse
import http.client
import random
import shutil
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from harness.processes import command, pss_bytes  # noqa: E402
from harness.servers import Tutti  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent

# Growth after the warm-up that is still called flat: the caches of a few threads, not a leak of bytes per request.
ALLOWED_MIB = 4.0

UPLOAD = """<?php
$body = file_get_contents('php://input');
echo strlen($body), ' ', md5($body), "\\n";
"""


class Soak(Tutti):
    """Workers retire all the time, so that their slots and tables are used again and again."""

    def configuration(self):
        configuration = super().configuration()
        configuration["applications"]["php"]["processes"] = {"max": 8, "spare": 2, "idle_timeout": 2}
        configuration["applications"]["php"]["limits"] = {"requests": 500, "timeout": 20}
        return configuration


class Counter:
    def __init__(self):
        self.lock = threading.Lock()
        self.requests, self.wrong = 0, []

    def add(self, what, is_right, detail=""):
        with self.lock:
            self.requests += 1
            if not is_right:
                self.wrong.append(f"{what}: {detail}")


def visitor(server, expected, counter, is_over):
    """Pages and files on a kept connection."""
    while not is_over():
        connection = http.client.HTTPConnection(server.place.host, server.port, timeout=30)
        try:
            for _ in range(random.randrange(1, 200)):
                path, body = random.choice(expected)
                connection.request("GET", path)
                response = connection.getresponse()
                data = response.read()
                counter.add(path, response.status == 200 and data == body, f"{response.status}, {len(data)} bytes")
                if is_over():
                    break
        except OSError as error:
            counter.add("connection", False, repr(error))
        finally:
            connection.close()


def uploader(server, counter, is_over):
    """Bodies of all sizes: in the segment, in the spool."""
    import hashlib
    while not is_over():
        body = random.randbytes(random.choice((10, 3_000, 40_000, 900_000, 5_000_000)))
        connection = http.client.HTTPConnection(server.place.host, server.port, timeout=30)
        try:
            connection.request("POST", "/upload.php", body)
            answer = connection.getresponse().read().decode()
            counter.add("upload", answer.split() == [str(len(body)), hashlib.md5(body).hexdigest()], answer[:100])
        except OSError as error:
            counter.add("upload", False, repr(error))
        finally:
            connection.close()


def deserter(server, is_over):
    """Clients that leave in the middle of everything."""
    while not is_over():
        with socket.create_connection((server.place.host, server.port), timeout=30) as client:
            path = random.choice(("/hello.php", "/file-100k.txt", "/sleep.php", "/"))
            request = f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
            client.sendall(request[:random.randrange(1, len(request) + 1)])
            if random.random() < 0.5:
                client.settimeout(0.2)
                try:
                    client.recv(random.randrange(1, 4096))
                except TimeoutError:
                    pass


def reconfigurer(server, counter, is_over):
    """A change of routes or processes every other second."""
    turn = 0
    while not is_over():
        turn += 1
        value = {"max": 8, "spare": 1 + turn % 3, "idle_timeout": 2}
        status, body = server.put("/config/applications/php/processes", value)
        counter.add("reconfiguration", status == 200, body)
        time.sleep(2)


def core_mib(server):
    """PSS of main and router: what must not grow, however many workers there are."""
    sizes = pss_bytes(server.roots[0])
    return sum(size for pid, size in sizes.items() if '"' not in command(pid)) / 1024 / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--dist", default=str(ROOT / "dist"))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tutti-soak-"))
    folder.chmod(0o755)
    site = shutil.copytree(ROOT / "bench/site", folder / "site")
    (site / "upload.php").write_text(UPLOAD)
    for name, size in (("file-1k.txt", 1024), ("file-100k.txt", 102_400), ("file-10m.bin", 10 << 20)):
        (site / name).write_bytes(random.Random(size).randbytes(size))
    Soak.dist = options.dist
    server = Soak(folder / "server", site, 4)
    counter = Counter()
    try:
        server.start()
        expected = [(f"/{name}", (site / name).read_bytes()) for name in ("file-1k.txt", "file-100k.txt", "file-10m.bin")]
        expected = expected[:2] * 10 + expected[2:] + [("/hello.php", b"Hello, world!\n"), ("/json.php", server.get("/json.php")[1])] * 20
        begin = time.monotonic()
        end = begin + options.minutes * 60

        def is_over():
            return time.monotonic() > end

        threads = [threading.Thread(target=visitor, args=(server, expected, counter, is_over)) for _ in range(6)]
        threads += [threading.Thread(target=uploader, args=(server, counter, is_over)) for _ in range(2)]
        threads += [threading.Thread(target=deserter, args=(server, is_over)) for _ in range(2)]
        threads.append(threading.Thread(target=reconfigurer, args=(server, counter, is_over)))
        for thread in threads:
            thread.start()
        readings = []
        while not is_over():
            time.sleep(min(10, max(0.1, options.minutes * 6)))
            readings.append((time.monotonic() - begin, core_mib(server)))
            print(f"{readings[-1][0]:7.0f} s  {readings[-1][1]:6.1f} MiB  {counter.requests:,} requests  {len(counter.wrong)} wrong", flush=True)
        for thread in threads:
            thread.join()
    finally:
        server.stop()
        log = server.log_tail()
        shutil.rmtree(folder, ignore_errors=True)
    settled = [size for seconds, size in readings if seconds > options.minutes * 6]
    quarter = max(1, len(settled) // 4)
    growth = sum(settled[-quarter:]) / quarter - sum(settled[:quarter]) / quarter
    print(f"{counter.requests:,} requests, {len(counter.wrong)} wrong; main and router grew by {growth:.1f} MiB after the first tenth")
    for wrong in counter.wrong[:10]:
        print(f"  {wrong}")
    if counter.wrong or growth > ALLOWED_MIB:
        print(log)
        sys.exit(1)


if __name__ == "__main__":
    main()
