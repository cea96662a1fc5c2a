"""One combination: a site with its capabilities, requests with known responses, events, and the invariants.

Must hold: every protocol gives the same response; no client gets what another may see; each request is answered once, except those that the
router had when it was killed; the access log has one line for each, with its status and its bytes; the counters agree with it; no process,
descriptor or slot is left behind.
"""

import asyncio
import itertools
import json
import os
import signal
import subprocess
from collections import Counter
from dataclasses import dataclass

import asks as known
import site_app
from capabilities import EVENTS, FORWARDER_ADDRESS, NAMES, PROTOCOLS, configure
from clients import PROTOCOLS as CLIENTS, Lost, Place, Silence, WebSocket
from server import Fault, Server, wait_until

# The requests that are sent all the time while something happens.
LOAD = ("page", "mine, anna", "mine, ben", "echo", "large echo", "file", "missing", "accel", "without a password", "not admitted",
        "mine, ben, upstream", "large echo, upstream", "accel, upstream")
MAINTENANCE_PAGE = b"closed for a moment\n"
RETRY_AFTER = 7
# The errors and alerts that the daemon's log may have: texts, by the capability whose events cause them.
EXPECTED_ERRORS = {
    "router death": ("exited on signal 9 (SIGKILL)",),
    "missing module": ("parts of the stored configuration cannot be applied", "no module for `cgi` is installed",
                       "it is disabled, because `applications/other` is", "upgrade: "),
}


@dataclass
class Sent:
    """A request that was sent, and its outcome: `response` is None if it was lost."""

    number: str
    ask: known.Ask
    protocol: str
    response: object = None
    # Its connection ended with the router that was killed, or it could have.
    is_excused: bool = False
    # The router that was killed may have had its line of the access log in a buffer, which it writes when it is idle.
    is_buffered: bool = False
    # It got the page of the maintenance.
    is_closed: bool = False


class Origin:
    """An HTTP/1.1 server behind the server."""

    async def serve(self, port):
        self.server = await asyncio.start_server(self._connection, "127.0.0.1", port)

    async def _connection(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                first, *lines = head.split("\r\n")[:-2]
                fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                body = await reader.readexactly(int(fields.get("content-length", 0)))
                method, target, _ = first.split(" ")
                status, head, body = await self.respond(method, target, fields, body)
                lines = [f"HTTP/1.1 {status} Status", f"Content-Length: {len(body)}", *(f"{name}: {value}" for name, value in head)]
                writer.write("\r\n".join([*lines, "", ""]).encode() + (b"" if method == "HEAD" else body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()


class Copies(Origin):
    """The upstream of the mirror: it counts the copies by the id of the request."""

    def __init__(self):
        self.count = Counter()

    async def respond(self, method, target, fields, body):
        self.count[fields.get("x-test-id", "")] += 1
        return 200, [], b""


class Pages(Origin):
    """The same pages as the application's, from a server."""

    async def respond(self, method, target, fields, body):
        address, scheme = fields["x-forwarded-for"], fields["x-forwarded-proto"]
        scope = {"path": target, "method": method, "client": (address, 0), "scheme": scheme}

        async def receive():
            return {"body": body}
        site_app.note(scope, fields)
        status, head, body = await site_app.respond(scope, receive, fields)
        head = [(name, value) for name, value in head if name != "content-length"]
        if not any(name == "content-type" for name, _ in head):
            head = [("content-type", "text/plain"), *head]
        return status, head, body


class Combination:
    """The capabilities that are on, and what has been done so far."""

    def __init__(self, on, folder, programs, etcd):
        self.on = frozenset(on)
        self.etcd = etcd
        self.source = folder / "source.json" if "fleet roll-out" in on else None
        environment = {"TUTTI_FLEET_PATIENCE": "0.5", "TUTTI_FLEET_LIFE": "2"} if self.source else {}
        folder.mkdir(parents=True)
        folder.chmod(0o755)
        self.server = Server(folder / "server", programs, self.source, environment)
        self.folder = folder
        self.asks = known.asks(self.on)
        self.generation = 1
        self.numbers = itertools.count(1)
        self.sent = []
        self.known = {}
        # Events that have begun, and the one that is under way.
        self.events, self.during = [], None
        # The clients that send requests meanwhile.
        self.busy = []
        self.jobs, self.slow, self.sockets = [], [], []
        self.copies, self.pages = Copies(), Pages()
        self.protocols = [name for name in PROTOCOLS if name in self.on]

    # Clients and requests.

    def client(self, protocol, source="127.0.0.1", announced=""):
        tls = protocol != "HTTP/1" and not announced
        port = self.server.secure if tls else self.server.plain
        return CLIENTS[protocol](Place(port, source, announced, tls))

    async def send(self, client, ask, pause=None):
        """Sends a request, and checks its response."""
        number = f"{client.name}-{next(self.numbers)}"
        sent = Sent(number, ask, client.name)
        self.sent.append(sent)
        host = [("Host", ask.host)] if ask.host else []
        fields = [*host, *ask.fields, *known.credentials(self.on, ask.user), ("X-Test-Id", number)]
        during, begun = self.during, len(self.events)
        try:
            sent.response = await client.request(ask.method, ask.path, fields, ask.body, pause)
        except Lost as reason:
            # The kernel or the next router tells each client that the router has died.
            sent.is_excused = "router death" in (during, *self.events[begun:]) and not isinstance(reason, Silence)
            if not sent.is_excused:
                raise Fault(f"{client.name}, `{ask.name}` ({number}): lost: {reason}; {self.server.processes()}") from reason
            return sent
        self.check(client, sent, {during, *self.events[begun:]})
        return sent

    def check(self, client, sent, states):
        ask, response = sent.ask, sent.response
        if "maintenance" in states and response.status == 503:
            sent.is_closed = True
            if response.get("retry-after") != str(RETRY_AFTER):
                raise Fault(f"{client.name}, `{ask.name}`: 503 in maintenance without its Retry-After: {response.fields}")
            return
        problems = [known.fits(response, answer, client.place.tls, ask.method) for answer in [ask.answer, *ask.alternatives]]
        if all(problems):
            raise Fault(f"{client.name}, `{ask.name}` ({sent.number}): {problems[0]}; fields: {response.fields}")
        if ask.alternatives or ask.is_unique:
            return
        key = ask.name, client.place.tls and b"SCHEME" in (ask.answer.body or b""), self.generation if ask.answer.body is None else 0
        seen = known.compared(response)
        first, protocol = self.known.setdefault(key, (seen, client.name))
        if first != seen:
            difference = [pair for pair in zip(("status", "fields", "body"), first, seen) if pair[1] != pair[2]]
            raise Fault(f"`{ask.name}` is not the same over {protocol} and {client.name}: {str(difference)[:600]}")

    async def send_all(self):
        """All requests over every protocol, one after the other on one connection of each."""
        for protocol in self.protocols:
            client = self.client(protocol)
            for ask in self.asks:
                if ask.source == "127.0.0.1":
                    await self.send(client, ask)
                    continue
                if protocol == "HTTP/3" and ask.announced:
                    continue
                other = self.client(protocol, ask.source, ask.announced)
                await self.send(other, ask)
                await other.close()
            await client.close()

    # Those that need a connection or a path of their own.

    async def send_special(self):
        for protocol in self.protocols:
            client = self.client(protocol)
            if "limits" in self.on:
                await self.send_limited(client)
            if "spooler" in self.on:
                job = await self.send(client, self.job())
                self.jobs.append(json.loads(job.response.body)["id"])
            if "slow log" in self.on:
                slow = known.Ask("slow", known.Answer(200, b"slow\n", copies=None), "/slow")
                self.slow.append(await self.send(client, slow))
            if "missing module" in self.on:
                await self.send(client, self.other(503))
            if "WebSocket" in self.on:
                socket = await self.open_websocket(client)
                await self.end_websocket(socket, client.name)
            await client.close()
        if "early data" in self.on:
            await self.send_early()

    @staticmethod
    def job():
        return known.Ask("job", known.Answer(202), "/jobs/one", method="POST", body=b"work", is_unique=True)

    def other(self, status):
        body = b"the error page of 5xx\n" if "error pages" in self.on and status == 503 else b"other\n" if status == 200 else None
        return known.Ask(f"other, {status}", known.Answer(status, body), "/other")

    async def send_limited(self, client):
        """Two requests of one key are served; the third is one too many, whatever comes after the limit."""
        key = ("X-Limit", f"{client.name}-{next(self.numbers)}")
        for at in range(3):
            answer = known.Answer(200, known.page("/page/limited"), copies=None) if at < 2 else self.too_many()
            await self.send(client, known.Ask(f"limited, {at}", answer, "/page/limited", fields=[key], is_unique=at == 2))
        await self.send_at_once(client)

    async def send_at_once(self, client):
        """The second of two requests at once of one key is too many; there is room again when the first has ended."""
        slot = f"slot-{next(self.numbers)}"
        wait = known.Ask("waits", known.Answer(200, b"waited\n", copies=None), "/wait", fields=[("X-Slot", slot)])
        first = asyncio.create_task(self.send(client, wait))
        await wait_until(
            lambda: first.done() or any(line["path"] == "/wait" and line["slot"] == slot for line in self.server.read(self.server.served)),
            f"{client.name}: the first request reaches the application")
        another = self.client(client.name)
        await self.send(another, known.Ask("one too many", self.too_many(), "/wait", fields=[("X-Slot", slot)], is_unique=True))
        await another.close()
        self.server.served.with_name(f"served-{slot}").touch()
        await first
        await self.send(client, wait)

    def too_many(self):
        return known.Answer(429, b"the error page of 429\n" if "error pages" in self.on else None)

    async def open_websocket(self, client):
        number = f"{client.name}-{next(self.numbers)}"
        ask = known.Ask("websocket", known.Answer(101, copies=None), "/chat")
        sent = Sent(number, ask, client.name)
        self.sent.append(sent)
        socket = await client.websocket("/chat", [*known.credentials(self.on, "anna"), ("X-Test-Id", number)])
        if not isinstance(socket, WebSocket):
            raise Fault(f"{client.name}: the WebSocket is answered {socket.status}: {socket.fields} {socket.body[:200]}")
        socket.sent = sent
        await self.talk(socket, client.name)
        return socket

    async def talk(self, socket, protocol):
        expected = f"hello from {known.seen_user(self.on, 'anna')}"
        try:
            heard = await socket.echo("hello")
        except (Lost, ConnectionError) as reason:
            raise Fault(f"{protocol}: the WebSocket has ended: {reason}") from reason
        if heard != expected:
            raise Fault(f"{protocol}: the WebSocket answers {heard!r} instead of {expected!r}")

    async def end_websocket(self, socket, protocol):
        try:
            code = await socket.end()
        except (Lost, ConnectionError) as reason:
            raise Fault(f"{protocol}: the WebSocket ended without its closing handshake: {reason}") from reason
        if code != 1000:
            raise Fault(f"{protocol}: the WebSocket was closed with {code} instead of 1000")

    async def send_early(self):
        """A request in the first packets of a client that has been here before; it is served once."""
        client = self.client("HTTP/3")
        await self.send(client, self.asks[0])
        await wait_until(lambda: client.tickets and client.tokens, "the client gets a session ticket and a token")
        number = f"early-{next(self.numbers)}"
        answer = known.Answer(200, b"127.0.0.1 SCHEME early=1\n", copies=1 if "mirror" in self.on else 0)
        sent = Sent(number, known.Ask("early", answer, "/who"), client.name)
        self.sent.append(sent)
        try:
            sent.response, is_early = await client.early("/who", [*known.credentials(self.on, "anna"), ("X-Test-Id", number)])
        except Lost as reason:
            raise Fault(f"the early request is lost: {reason}") from reason
        if not is_early:
            raise Fault("the server has not accepted early data")
        self.check(client, sent, {None})
        await client.close()

    # Events.

    async def load(self, client, is_kept, begun, done):
        """Requests one after the other, until `done` is set and each was sent once more. `begun` is set when the first has its response."""
        wanted = [ask for ask in self.asks if ask.name in LOAD]
        is_last = False
        while not is_last:
            is_last = done.is_set()
            for ask in wanted:
                await self.send(client, ask)
                begun.set()
                if not is_kept:
                    await client.close()
        await client.close()

    async def happen(self, event):
        """An event while requests are under way."""
        done, tasks, began, first = asyncio.Event(), [], [], len(self.sent)
        self.busy = [self.client(protocol) for protocol in self.protocols for _ in (True, False)]
        for client, is_kept in zip(self.busy, itertools.cycle((True, False))):
            began.append(asyncio.Event())
            tasks.append(asyncio.create_task(self.load(client, is_kept, began[-1], done)))

        async def act():
            for each in began:
                await each.wait()
            self.during = event
            self.events.append(event)
            try:
                await getattr(self, event.replace(" ", "_").replace("-", "_"))()
            finally:
                self.during = None
                done.set()
            if event == "router death":
                for sent in self.sent[first:]:
                    sent.is_buffered = True
        tasks.append(asyncio.create_task(act()))
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def maintenance(self):
        page = self.server.folder / "closed.html"
        page.write_bytes(MAINTENANCE_PAGE)
        await self.server.succeed("PUT", "/control/maintenance", {"retry_after": RETRY_AFTER, "page": str(page)})
        for protocol in self.protocols:
            client = self.client(protocol)
            job = [self.job()] if "spooler" in self.on else []
            for ask in [*self.asks[:6], *job]:
                sent = await self.send(client, ask)
                body = known.decoded(sent.response)
                if not sent.is_closed or ask.method != "HEAD" and body != MAINTENANCE_PAGE:
                    raise Fault(f"{protocol}, `{ask.name}` in maintenance: {sent.response.status} {body[:200]}")
            await client.close()
        await self.server.succeed("DELETE", "/control/maintenance")

    async def restart(self):
        await self.server.succeed("POST", "/control/applications/site/restart")

    async def upgrade(self):
        status, text = await self.server.call("POST", "/control/upgrade")
        if "missing module" in self.on:
            # The new version has to serve the whole configuration; the old one continues.
            if status == 200 or "cgi" not in text:
                raise Fault(f"the upgrade is not refused for the missing module: {status} {text}")
        elif status != 200:
            raise Fault(f"the upgrade fails: {status} {text}")

    async def router_death(self):
        router = self.server.pids("tutti: router")
        connecting = [client.quic for client in self.busy if client.name == "HTTP/3" and client.quic and client.quic.is_connecting]
        for pid in router:
            os.kill(pid, signal.SIGKILL)
        await wait_until(lambda: self.server.pids("tutti: router") and not set(self.server.pids("tutti: router")) & set(router), "another router starts")
        for each in connecting:
            # A reset means nothing before the end of the handshake (RFC 9000 §10.3), so that only the client's patience ends it.
            each.give_up()
        client = self.client(self.protocols[0])
        while True:
            sent = await self.send(client, self.asks[0])
            if sent.response:
                break
        await client.close()

    async def fleet_roll_out(self):
        self.generation = 2
        status, output = await self.roll_out()
        if "missing module" in self.on:
            # A node refuses a document that it cannot serve as a whole, and keeps the one that it has.
            self.generation = 1
            if status == 0 or "cgi" not in output:
                raise Fault(f"the fleet's document is not refused for its missing module: {status} {output}")
        elif status:
            raise Fault(f"the roll-out fails: {output}")

    async def roll_out(self):
        document = self.folder / f"document-{self.generation}.json"
        document.write_text(json.dumps(configure(self.on, self.server, self.generation)))
        return await self.fleet("put", document, "--wait", "0")

    async def fleet(self, *words):
        """(status, output) of a command of `tutti fleet`."""
        environment = os.environ | {"TUTTI_SOURCE": str(self.source), "TUTTI_FLEET_PATIENCE": "2", "NO_COLOR": "1"}
        process = await asyncio.create_subprocess_exec(
            self.server.tutti, "fleet", *words, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
        output, _ = await process.communicate()
        return process.returncode, output.decode()

    async def wait_for_node(self):
        """Waits until the node is known to the store: documents are rolled out to those that are."""
        end = asyncio.get_running_loop().time() + 60
        while '"node"' not in (await self.fleet("status", "--json"))[1]:
            if asyncio.get_running_loop().time() > end:
                raise Fault("the node does not come to the store")
            await asyncio.sleep(0.1)

    # The whole.

    async def prepare(self):
        server = self.server
        (server.folder / "files/data.bin").write_bytes(known.DATA)
        (server.folder / "files/text.txt").write_bytes(known.TEXT)
        (server.folder / "protected/data.bin").write_bytes(known.DATA)
        (server.folder / "protected/text.txt").write_bytes(known.TEXT)
        for status in (401, 404, 429):
            (server.folder / f"errors/{status}.html").write_text(f"the error page of {status}\n")
        for file in (each for name in ("protected", "files", "errors") for each in (server.folder / name).iterdir()):
            # The tag of a file that is new is weak.
            os.utime(file, (1_700_000_000, 1_700_000_000))
        script = server.folder / "cgi/other"
        script.write_text("#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nother\\n'\n")
        script.chmod(0o755)
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost", "-days", "9",
             "-keyout", server.folder / "key.pem", "-out", server.folder / "chain.pem"], check=True, capture_output=True)
        server.certificate.write_text((server.folder / "chain.pem").read_text() + (server.folder / "key.pem").read_text())
        os.environ["SERVED"] = str(server.served)
        await self.copies.serve(server.copies)
        await self.pages.serve(server.origin)
        if self.source:
            prefix = f"/{self.folder.name}/"
            self.source.write_text(json.dumps({"etcd": {"endpoints": [self.etcd], "prefix": prefix}, "name": "node"}))
        await server.start()
        if self.source:
            await self.wait_for_node()
            status, output = await self.roll_out()
            if status:
                raise Fault(f"the first roll-out fails: {output}")
        else:
            await server.succeed("PUT", "/config", configure(self.on, server, 1))

    async def lose_module(self):
        """The server starts again without the module of an application: all but that is served."""
        client = self.client(self.protocols[0])
        await self.send(client, self.other(200))
        await client.close()
        await self.server.stop()
        (self.server.folder / "modules/tutti-cgi").unlink()
        await self.server.start()

    async def keep(self):
        """Begins requests that last longer than the events: those of clients that read slowly, and WebSockets."""
        slow = []
        self.are_over = asyncio.get_running_loop().create_future()
        for protocol in self.protocols:
            if "slow clients" in self.on:
                for ask in await self.slow_asks(protocol):
                    client = self.client(protocol)
                    slow.append((client, asyncio.create_task(self.send(client, ask, asyncio.shield(self.are_over)))))
            if "WebSocket" in self.on:
                client = self.client(protocol)
                self.sockets.append((client, await self.open_websocket(client)))
        return slow

    async def slow_asks(self, protocol):
        """Responses that are received slowly, from the application and from the cache, and a body that is sent slowly."""
        big = known.Answer(200, site_app.big(), copies=None)
        large = known.Ask("large", known.Answer(200, site_app.big()[:site_app.LARGE], copies=None), "/large")
        client = self.client(protocol)
        await self.send(client, large)
        await client.close()
        return [known.Ask("big", big, "/big"), large,
                known.Ask("slow echo", known.Answer(200, known.LARGE_BODY), "/echo", method="POST", body=known.LARGE_BODY)]

    async def end_kept(self, slow):
        has_died = "router death" in self.on
        if not self.are_over.done():
            self.are_over.set_result(None)
        for client, task in slow:
            await task
            await client.close()
        for client, socket in self.sockets:
            if has_died:
                socket.sent.is_excused = True
            else:
                await self.talk(socket, client.name)
                await self.end_websocket(socket, client.name)
            await client.close()
        self.sockets = []

    async def run(self):
        """Raises a [Fault] if anything is not as it must be."""
        await self.prepare()
        if "missing module" in self.on:
            await self.lose_module()
        await self.send_all()
        await self.send_special()
        await self.settle()
        before = self.server.descriptors()
        slow = await self.keep()
        for event in EVENTS:
            if event in self.on:
                await self.happen(event)
        await self.end_kept(slow)
        await self.settle()
        counters = await self.counters()
        await self.send_all()
        await self.send_special()
        await self.settle()
        await self.check_counters(counters)
        await self.check_logs()
        await self.check_work()
        await self.check_descriptors(before)
        await self.server.stop()
        self.check_daemon_log()
        self.copies.server.close()
        self.pages.server.close()

    async def settle(self):
        """Waits until nothing is under way any more."""
        state = {}

        async def is_settled():
            status = await self.server.status()
            state.update(status)
            site = status["applications"]["site"]
            own = {title: len(self.server.pids(f"tutti: {title}")) for title in ("router", "controller")}
            state["own"] = own
            return (own == {"router": 1, "controller": 1} and site["requests"]["active"] == 0 and site["processes"]["running"] == 2
                    and site["processes"]["idle"] == 2 and status["connections"]["active"] == 0 and status["connections"]["idle"] == 0)
        end = asyncio.get_running_loop().time() + 60
        while not await is_settled():
            if asyncio.get_running_loop().time() > end:
                seen = {key: state[key] for key in ("own", "connections", "applications")}
                raise Fault(f"something stays under way: {seen}; {self.server.processes()}")
            await asyncio.sleep(0.02)

    # Invariants.

    async def counters(self):
        """(lines of the access log and subrequests, which have none; requests of /status; requests of the metrics)."""
        metrics = await self.server.metrics()
        status = await self.server.status()
        counted = sum(value for name, value in metrics.items() if name.startswith("tutti_requests_total"))
        subrequests = sum(line["path"] == "/auth" for line in self.server.read(self.server.served))
        return len(self.server.read(self.server.access_log)) + subrequests, status["requests"]["total"], counted

    async def check_counters(self, before):
        after = before
        end = asyncio.get_running_loop().time() + 20
        while asyncio.get_running_loop().time() < end:
            after = await self.counters()
            grown = {now - then for now, then in zip(after, before)}
            if len(grown) == 1:
                return
            await asyncio.sleep(0.05)
        raise Fault(f"access log, /status and metrics do not agree: {before} before, {after} after")

    async def check_logs(self):
        """One line for each request, with its status and its bytes."""
        lines = {}
        for line in self.server.read(self.server.access_log):
            # Deliveries of jobs and runs of schedules come from the server itself.
            if line["address"] != "unix:":
                lines.setdefault(line["id"], []).append(line)
        for sent in self.sent:
            own = lines.pop(sent.number, [])
            if sent.response is None:
                if len(own) > 1 or not own and not sent.is_excused and sent.ask.name != "websocket":
                    raise Fault(f"`{sent.ask.name}` ({sent.number}) has {len(own)} lines in the access log: {own}")
                continue
            if not own and sent.is_buffered:
                continue
            if len(own) != 1:
                raise Fault(f"`{sent.ask.name}` ({sent.number}) has {len(own)} lines in the access log instead of one: {own}")
            self.check_line(sent, own[0])
        if more := [line for number, line in lines.items() if number != "-"]:
            raise Fault(f"the access log has lines of requests that were not sent: {more[:5]}")

    def check_line(self, sent, line):
        response = sent.response
        if line["status"] != response.status or line["bytes"] != len(response.body):
            raise Fault(f"`{sent.ask.name}` ({sent.number}): the access log has {line} for {response.status} with {len(response.body)} bytes")
        address = sent.ask.source
        if sent.ask.announced:
            address = sent.ask.announced
        elif address == FORWARDER_ADDRESS and "forwarded" in self.on:
            address = known.CLIENT_BEHIND_FORWARDER
        protocol = {"HTTP/1": "HTTP/1.1", "HTTP/2": "HTTP/2.0", "HTTP/3": "HTTP/3.0"}[sent.protocol]
        seen = {"address": line["address"], "protocol": line["protocol"], "uri": line["uri"]}
        expected = {"address": address, "protocol": protocol, "uri": sent.ask.path}
        if self.on & {"guards", "forward-auth"} and response.status not in (401, 429, 503):
            seen["user"], expected["user"] = line["user"], sent.ask.user
        if seen != expected:
            raise Fault(f"`{sent.ask.name}` ({sent.number}): the access log has {seen} instead of {expected}")

    async def check_work(self):
        """Each request was served and copied at most once, each job done, and each slow request is in the slow log."""
        served = self.server.read(self.server.served)
        count = Counter(line["id"] for line in served if line["path"] not in ("/auth", "/sorry"))
        for sent in self.sent:
            if count[sent.number] > 1 and sent.ask.name != "job":
                raise Fault(f"`{sent.ask.name}` ({sent.number}) was served {count[sent.number]} times")
            copies, expected = self.copies.count[sent.number], sent.ask.answer.copies
            if sent.is_closed:
                expected = 0
            wanted = sent.response is not None and expected == 1
            if copies > 1 or expected == 0 and copies:
                raise Fault(f"`{sent.ask.name}` ({sent.number}) was copied {copies} times")
            if wanted:
                await wait_until(lambda: self.copies.count[sent.number] == 1, f"`{sent.ask.name}` ({sent.number}) is copied")
        for job in self.jobs:
            await wait_until(lambda: any(line["job"] == job for line in self.server.read(self.server.served)), f"job {job} is done")
        if "schedules" in self.on:
            await wait_until(lambda: any(line["schedule"] == "tick" for line in self.server.read(self.server.served)), "a run of the schedule")
        for sent in self.slow:
            await wait_until(lambda: self.finished_slow() >= len(self.slow), "each slow request is in the slow log")
        if "mules" in self.on:
            await self.check_mule()

    def check_daemon_log(self):
        """It has no error that nothing here has caused."""
        expected = tuple(text for name in self.on for text in EXPECTED_ERRORS.get(name, ()))
        for line in self.server.log.read_text(errors="replace").splitlines():
            is_error = "[alert]" in line or "[error]" in line or "panicked" in line
            if is_error and not any(text in line for text in expected):
                raise Fault(f"the daemon's log has an error: {line}")

    def finished_slow(self):
        return sum(entry["state"] == "finished" and entry["target"] == "/slow" for entry in self.server.read(self.server.slow_log))

    async def check_mule(self):
        def running():
            return [pid for pid, title in self.server.processes().items() if title.startswith("sleep 1000")]
        await wait_until(lambda: len(running()) == 1, "one mule runs", lambda: f": {self.server.processes()}")

    async def check_descriptors(self, before):
        """The processes have the files open that they had before; each listen thread may keep the files of the site open that it has sent."""
        differences = {}
        kept = tuple(f"{self.server.folder}/{name}/" for name in ("files", "protected", "errors"))

        async def is_same():
            differences.clear()
            after = self.server.descriptors()
            for title, files in before.items():
                kinds = [Counter(file.split(":")[0] for file in each if not file.startswith(kept)) for each in (files, after.get(title, []))]
                if kinds[0] != kinds[1]:
                    differences[title] = (kinds[1] - kinds[0], kinds[0] - kinds[1])
            return not any(more for more, _ in differences.values())
        end = asyncio.get_running_loop().time() + 20
        while not await is_same():
            if asyncio.get_running_loop().time() > end:
                raise Fault(f"descriptors are left behind (more, fewer): {differences}")
            await asyncio.sleep(0.1)


def ordered(on):
    return [name for name in NAMES if name in on]
