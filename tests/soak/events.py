"""Things that happen while the clients ask: changes of the configuration, restarts, killed processes, upgrades, jobs."""

import http.client
import json
import os
import random
import signal
import threading
import time

from harness.processes import command, tree, wait_until
from readings import role

# A client may have taken up a connection of a killed router, before it saw that it is closed.
AFTER_A_KILL = 2.0
# The next router has started all applications by then.
STARTED_WITHIN = 60.0
# A client of QUIC without the router that it talked to waits until the connection is idle for too long.
AFTER_A_KILL_QUIC = 40.0


class Events:
    """Threads that do things to a server, and the list of what may have cost requests: (time, host or None for all, text)."""

    def __init__(self, server, hosts, seconds):
        self.server, self.hosts = server, hosts
        self.began = time.monotonic()
        # Routers are killed and upgraded in the first half; memory is compared in the second.
        self.steady_at = self.began + seconds / 2
        self.is_over = threading.Event()
        self.kills, self.done, self.failed = [], {}, []
        # Each event but the jobs: when it began and ended, and its problem, if there was one.
        self.history = []
        self.jobs = []
        # An upgrade fails, as it should, if one of its routers is killed.
        self.upgrading = threading.Lock()
        self.threads = []

    def note(self, what, begun, problem=None, **more):
        self.done[what] = self.done.get(what, 0) + 1
        if problem:
            self.failed.append(f"{what}: {problem}")
        if problem or what != "job":
            self.history.append({"begun": begun, "at": time.time(), "what": what, "problem": problem, **more})

    def every(self, seconds, action):
        def repeat():
            while not self.is_over.wait(seconds * random.uniform(0.7, 1.3)):
                try:
                    action()
                except Exception as error:  # One that fails is a fault of the server, and the others go on.
                    self.failed.append(f"{action.__name__}: {error!r}")
        thread = threading.Thread(target=repeat)
        self.threads.append(thread)
        thread.start()

    def start(self, seconds):
        self.every(3, self.change_configuration)
        self.every(31, self.restart_application)
        self.every(13, self.kill_worker)
        self.every(0.5, self.post_job)
        # At least a few of each, also in a run of minutes.
        self.every(max(20, seconds / 20), self.kill_router)
        self.every(max(30, seconds / 16), self.upgrade)

    def stop(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join()

    def processes(self, kind):
        return [pid for pid in tree(self.server.roots[0]) if role(pid) == kind]

    def change_configuration(self):
        name = random.choice([name for name in self.hosts if name not in ("cached", "jobs")])
        value = random.choice([1, 2, {"max": 3, "spare": 1, "idle_timeout": 2}])
        begun = time.time()
        status, body = self.server.put(f"/config/applications/{name}/processes", value)
        self.note("change", begun, None if status == 200 else body, host=name)

    def restart_application(self):
        name = random.choice(list(self.hosts))
        begun = time.time()
        status, body = self.server.control_request("GET", f"/control/applications/{name}/restart")
        # A router that was killed meanwhile has not restarted it, and the next one starts it.
        is_explained = any(when > begun - STARTED_WITHIN for when, host in self.kills if host is None)
        self.note("restart", begun, None if status == 200 or is_explained else body, host=name)

    def kill_worker(self):
        workers = self.processes("application")
        if workers:
            victim = random.choice(workers)
            name = command(victim).split('"')
            if len(name) > 2:
                self.kill("killed worker", victim, name[1])

    def kill_router(self):
        with self.upgrading:
            if time.monotonic() < self.steady_at:
                for router in self.processes("router")[:1]:
                    self.kill("killed router", router, None)

    def kill(self, what, pid, host):
        # Before it is done: a client may hear of it first.
        begun = time.time()
        self.kills.append((begun, host))
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            self.kills.remove((begun, host))
        else:
            self.note(what, begun, pid=pid, host=host)

    def upgrade(self):
        with self.upgrading:
            if time.monotonic() >= self.steady_at:
                return
            begun = time.time()
            # A router that was just started is not ready to be handed over.
            status, body = wait_until(self.upgraded, 60, "a router that can be handed over")
            self.note("upgrade", begun, None if status == 200 else body)

    def upgraded(self):
        status, body = self.server.control_request("POST", "/control/upgrade")
        return None if "still starting" in body else (status, body)

    def post_job(self):
        begun = time.time()
        connection = http.client.HTTPConnection(self.server.place.host, self.server.job_port, timeout=30)
        try:
            connection.request("POST", "/jobs.php", b"x" * random.choice((10, 50_000)))
            response = connection.getresponse()
            body = response.read()
            if response.status == 200 or response.status == 202:
                self.jobs.append(json.loads(body)["id"])
            self.note("job", begun, None if response.status in (200, 202) else f"{response.status} {body!r}")
        except (OSError, http.client.HTTPException) as error:
            # Not accepted, unless a router died meanwhile.
            if not self.explains(begun, time.time(), None, "HTTP/1"):
                self.note("job", begun, repr(error))
        finally:
            connection.close()

    def undelivered(self, file):
        """Jobs that were accepted and never done, once there is time for all."""
        def missing():
            done = set(file.read_text().split()) if file.exists() else set()
            return [job for job in self.jobs if job not in done]
        try:
            wait_until(lambda: not missing(), 120, "all jobs")
        except TimeoutError:
            pass
        return missing()

    def explains(self, begun, at, host, protocol):
        """True if a process was killed that may have had the request."""
        after = AFTER_A_KILL_QUIC if protocol == "HTTP/3" else AFTER_A_KILL
        return any(begun <= time_ + (after if name is None else 0) and at >= time_ and name in (None, host) for time_, name in self.kills)
