#!/usr/bin/env python3
"""Measures what a fleet of 1,000 nodes asks of one etcd: `bench/fleet.py [--nodes 1000] [--document]`.

Nodes are `tutti-fleet-nodes`: the code of the process that follows a source, without servers. Measured: how long a document takes to all
nodes, what the store costs meanwhile and at rest, and how nodes come back to a store that was away. Writes bench/results/fleet.json; with
`--document` also the pictures of docs/operate/fleet.md. Needs `packaging/etcd`; by root it runs in a network of its own.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from harness import machine  # noqa: E402
from harness.processes import cpu_seconds, pss_bytes  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
INSIDE = "TUTTI_BENCH_HAS_ITS_NETWORK"
PREFIX = "/bench/"
# Each runs on one core.
PROCESSES = 2
PATIENCE = 300


def say(text):
    print(text, flush=True)


def wait_until(what, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"bench/fleet.py: not within {PATIENCE} s: {what}")
        time.sleep(0.1)


class Etcd:
    """One member, as a site would run it: everything is written to the disk."""

    def __init__(self, programs, folder):
        self.programs, self.folder = programs, folder
        self.client, self.peer = "127.0.0.1:23790", "http://127.0.0.1:23800"
        self.process = None

    def start(self):
        url = f"http://{self.client}"
        self.process = subprocess.Popen(
            [self.programs / "etcd", "--name", "m0", "--data-dir", self.folder / "data", "--listen-client-urls", url, "--advertise-client-urls", url,
             "--listen-peer-urls", self.peer, "--initial-advertise-peer-urls", self.peer, "--initial-cluster", f"m0={self.peer}",
             "--log-level", "error"], stderr=(self.folder / "etcd.log").open("a"))
        wait_until("etcd answers", self.is_well)

    def is_well(self):
        try:
            with urllib.request.urlopen(f"http://{self.client}/health", timeout=5) as reply:
                return reply.status == 200
        except OSError:
            return False

    def kill(self):
        self.process.kill()
        self.process.wait()

    def metrics(self):
        """Each metric that is one number, and the messages of gRPC by their method."""
        with urllib.request.urlopen(f"http://{self.client}/metrics", timeout=60) as reply:
            lines = reply.read().decode().splitlines()
        found = {}
        for line in lines:
            name, _, value = line.rpartition(" ")
            if line.startswith("#") or not name:
                continue
            if "{" not in name:
                found[name] = float(value)
            elif name.startswith("grpc_server_msg_received_total{"):
                method = name.partition('grpc_method="')[2].partition('"')[0]
                found[f"messages {method}"] = found.get(f"messages {method}", 0) + float(value)
        return found

    def ctl(self, *arguments):
        command = [self.programs / "etcdctl", f"--endpoints={self.client}", "--command-timeout=60s", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def answers(self):
        output = self.ctl("get", "--prefix", f"{PREFIX}nodes/", "--count-only", "--write-out=fields")
        return int(next(line for line in output.splitlines() if line.startswith('"Count"')).rpartition(":")[2])


class Nodes:
    """All nodes, and when each has put which generation in force."""

    def __init__(self, program, etcd, count):
        self.count, self.applied, self.lock = count, {}, threading.Lock()
        each = -(-count // PROCESSES)
        self.processes = []
        for first in range(0, count, each):
            process = subprocess.Popen([program, str(first), str(min(each, count - first)), etcd.client, PREFIX],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            threading.Thread(target=self.read, args=(process,), daemon=True).start()
            self.processes.append(process)

    def read(self, process):
        for line in process.stdout:
            event = json.loads(line)
            with self.lock:
                self.applied.setdefault(event["generation"], {})[event["node"]] = event["at"]

    def times(self, generation):
        with self.lock:
            return sorted(self.applied.get(generation, {}).values())

    def cpu(self):
        return sum(cpu_seconds(process.pid) for process in self.processes)

    def memory(self):
        return sum(sum(pss_bytes(process.pid).values()) for process in self.processes)

    def end(self):
        for process in self.processes:
            process.stdin.close()
            process.wait()


class Cost:
    """The cost of the store from here on."""

    def __init__(self, etcd, nodes):
        self.etcd, self.nodes = etcd, nodes
        self.before, self.begin, self.own = etcd.metrics(), time.monotonic(), nodes.cpu()

    def sum(self):
        after, seconds, own = self.etcd.metrics(), time.monotonic() - self.begin, self.nodes.cpu()

        def more(name):
            return after.get(name, 0) - self.before.get(name, 0)

        messages = {name.partition(" ")[2]: round(more(name)) for name in after if name.startswith("messages ") and more(name)}
        return {
            "seconds": round(seconds, 1),
            "cpu_seconds": round(more("process_cpu_seconds_total"), 2),
            "bytes_in": round(more("etcd_network_client_grpc_received_bytes_total")),
            "bytes_out": round(more("etcd_network_client_grpc_sent_bytes_total")),
            "puts": round(more("etcd_mvcc_put_total")),
            "messages": messages,
            "memory_mib": round(after["process_resident_memory_bytes"] / 2**20, 1),
            "watchers": round(after["etcd_debugging_mvcc_watcher_total"]),
            "cpu_seconds_of_nodes": round(own - self.own, 2),
        }


class Connects:
    """Connections that are begun and that fail in each tenth of a second, as the kernel counts them in this network."""

    def __init__(self):
        self.slots, self.is_over = [], False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    @staticmethod
    def counts():
        names, values = (line.split()[1:] for line in Path("/proc/self/net/snmp").read_text().splitlines() if line.startswith("Tcp:"))
        tcp = dict(zip(names, map(int, values)))
        return tcp["ActiveOpens"], tcp["AttemptFails"]

    def run(self):
        before, due = self.counts(), time.monotonic()
        while not self.is_over:
            due += 0.1
            time.sleep(max(0.0, due - time.monotonic()))
            now = self.counts()
            self.slots.append([now[0] - before[0], now[1] - before[1]])
            before = now

    def end(self):
        self.is_over = True
        self.thread.join()
        return self.slots


def document(number, size):
    """A configuration of about so many bytes, another one for each number."""
    routes, length = [], 0
    while length < size:
        route = {"match": {"uri": f"/section-{len(routes)}/*", "host": "www.example.com"}, "action": {"return": 301, "location": f"https://www.example.com/{number}/{len(routes)}"}}
        length += len(json.dumps(route)) + 2
        routes.append(route)
    return {"listeners": {"*:80": {"pass": "routes"}}, "routes": [*routes, {"action": {"return": 404}}]}


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.etcd = Etcd(options.etcd, folder)
        self.etcd.start()
        self.nodes = Nodes(options.program, self.etcd, options.nodes)
        wait_until("all nodes answer", lambda: self.etcd.answers() == options.nodes)
        self.number = 0
        self.environment = dict(os.environ, TUTTI_SOURCE=f"etcd://{self.etcd.client}{PREFIX}")

    def put(self, *arguments):
        """Rolls a new document out. Returns when the command began, how long it took, and its report."""
        self.number += 1
        path = self.folder / "document.json"
        path.write_text(json.dumps(document(self.number, self.options.bytes)))
        begin, start = time.time(), time.monotonic()
        run = subprocess.run([self.options.tutti, "fleet", "put", path, "--json", *arguments], env=self.environment, capture_output=True, text=True, check=False)
        took = time.monotonic() - start
        if run.returncode:
            sys.exit(f"bench/fleet.py: tutti fleet put: {run.stdout}{run.stderr}")
        return begin, took, json.loads(run.stdout)

    def roll_outs(self):
        """In one wave each: when each node has the document, and when the command knows."""
        found = []
        for _ in range(self.options.roll_outs):
            cost = Cost(self.etcd, self.nodes)
            begin, took, report = self.put("--wait", "0", "--waves", "100%")
            times = [at - begin for at in self.nodes.times(report["generation"])]
            if len(times) != self.options.nodes:
                sys.exit(f"bench/fleet.py: {len(times)} nodes have generation {report['generation']}")
            found.append({"first": round(times[0], 3), "median": round(times[len(times) // 2], 3), "last": round(times[-1], 3), "command": round(took, 3),
                          "times": [round(at, 3) for at in times], "cost": cost.sum()})
            say(f"  first {times[0]:.2f} s, median {found[-1]['median']} s, last {times[-1]:.2f} s, command {took:.2f} s, etcd {found[-1]['cost']['cpu_seconds']} s of CPU")
        return found

    def waves(self):
        cost = Cost(self.etcd, self.nodes)
        _, took, report = self.put("--wait", f"{self.options.wait}s")
        return {"wait": self.options.wait, "waves": "1,10%,100%", "command": round(took, 1), "nodes": len(report["nodes"]), "cost": cost.sum()}

    def rest(self):
        cost = Cost(self.etcd, self.nodes)
        time.sleep(self.options.rest)
        found = cost.sum()
        found["memory_mib_of_nodes"] = round(self.nodes.memory() / 2**20, 1)
        found["leases"] = len(self.etcd.ctl("lease", "list").splitlines()) - 1
        return found

    def death(self):
        """The store dies, is away for a while, and comes back."""
        connects, begin = Connects(), time.monotonic()
        time.sleep(1)
        self.etcd.kill()
        time.sleep(self.options.away)
        self.etcd.start()
        back = time.monotonic() - begin
        wait_until("all nodes follow", lambda: self.etcd.metrics().get("etcd_debugging_mvcc_watcher_total", 0) >= self.options.nodes)
        follow = time.monotonic() - begin
        wait_until("all nodes answer", lambda: self.etcd.answers() == self.options.nodes)
        answer = time.monotonic() - begin
        time.sleep(3)
        cpu = self.etcd.metrics()["process_cpu_seconds_total"]
        slots = connects.end()
        away = slots[10:int(back * 10)]
        found = {"away": self.options.away, "back": round(back, 1), "all_follow_after": round(follow - back, 1), "all_answer_after": round(answer - back, 1),
                 "cpu_seconds": round(cpu, 2), "attempts_per_second_while_away": round(sum(slot[0] for slot in away) / (len(away) / 10)),
                 "most_attempts_in_a_tenth": max(slot[0] for slot in slots), "slots": slots}
        say(f"  all follow {found['all_follow_after']} s after it is back, all answer after {found['all_answer_after']} s")
        return found

    def run(self):
        found = {"nodes": self.options.nodes, "bytes": len(json.dumps(document(1, self.options.bytes))), "machine": machine.describe()}
        found["machine"]["peers"] = {"etcd": subprocess.run([self.options.etcd / "etcd", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]}
        say("roll-outs in one wave")
        found["roll_outs"] = self.roll_outs()
        say("at rest")
        found["rest"] = self.rest()
        say(f"  {found['rest']}")
        say("a roll-out in waves")
        found["waves"] = self.waves()
        say(f"  {found['waves']}")
        say("the store dies")
        found["deaths"] = [self.death() for _ in range(self.options.deaths)]
        return found

    def end(self):
        self.nodes.end()
        self.etcd.kill()


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--roll-outs", type=int, default=10)
    parser.add_argument("--bytes", type=int, default=20_000, help="size of the document")
    parser.add_argument("--rest", type=int, default=60, help="seconds at rest")
    parser.add_argument("--wait", type=int, default=30, help="seconds that each wave has to be well")
    parser.add_argument("--away", type=int, default=30, help="seconds that the store is away")
    parser.add_argument("--deaths", type=int, default=2)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    parser.add_argument("--tools", type=Path, help="folder of tutti-fleet-nodes (default: build it)")
    parser.add_argument("--results", type=Path, default=ROOT / "bench/results")
    parser.add_argument("--document", action="store_true", help="draw the pictures of docs/operate/fleet.md")
    options = parser.parse_args()
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    if not options.tools:
        subprocess.run(["cargo", "build", "--release", "-p", "tutti-fleet-nodes"], cwd=ROOT, check=True)
        options.tools = target / "release"
    options.program = options.tools / "tutti-fleet-nodes"
    options.tutti = options.dist / "bin/tutti"
    options.etcd = target / "debug/etcd-programs"
    subprocess.run([ROOT / "packaging/etcd", options.etcd], check=True)
    return options


def main():
    # In a network of its own, no other program's connections are counted.
    if os.geteuid() == 0 and not os.environ.get(INSIDE):
        command = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, *sys.argv]
        if not subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode:
            read_options()
            os.execvpe("unshare", command, dict(os.environ, **{INSIDE: "1"}))
    options = read_options()
    resource.setrlimit(resource.RLIMIT_NOFILE, (4 * options.nodes + 1024,) * 2)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="tutti-bench-") as folder:
        bench = Bench(options, Path(folder))
        try:
            found = bench.run()
        finally:
            bench.end()
    options.results.mkdir(parents=True, exist_ok=True)
    path = options.results / "fleet.json"
    path.write_text(json.dumps(found) + "\n")
    say(f"written: {path}")
    if options.document:
        subprocess.run(["/usr/bin/python3", ROOT / "bench/harness/fleet_plot.py", path, ROOT / "docs/project/plots"], check=True)


if __name__ == "__main__":
    main()
