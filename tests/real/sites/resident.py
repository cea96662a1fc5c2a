"""Frameworks' front controllers, unmodified, in resident PHP: booted once in each process, by the adapter that comes with Tutti."""

import json
import shutil
from pathlib import Path

from servers import own
from sites.documented import documented
from sites.slim import Slim

ADAPTER = "<?php\nrequire TUTTI_RESIDENT . '/resident.php';\nTutti\\Resident\\{call};\n"


def resident(root, environment):
    """Front controllers live in `public`, what is resident beside it, where no client can ask for it."""
    return {"type": "php", "root": str(root.parent), "script": "resident.php", "mode": "resident", "environment": environment,
            "processes": {"max": 4, "spare": 1}}


class SlimResident(Slim):
    """The same walk as in classic PHP: its front controller starts the session, so it runs for each request."""

    name = "slim-resident"

    def prepare(self):
        super().prepare()
        call = "front_controller(__DIR__ . '/public/index.php')"
        (self.root.parent / "resident.php").write_text(ADAPTER.format(call=call))

    def tutti(self, address):
        configuration = super().tutti(address)
        configuration["applications"]["app"] = resident(self.root, self.environment)
        return configuration

    def journey(self, person, root):
        for _ in range(2):
            page = super().journey(person, root)
            person.cookies.clear()
        return page


FRONT = """<?php
require '/usr/share/php/Slim/autoload.php';
$app = new Slim\\App();
$app->add(fn ($request, $response, $next) => $next($request->withAttribute('seen', $request->getHeaderLine('X-User')), $response)->withHeader('X-Layer', '1'));
$app->get('/hello/{name}', fn ($request, $response, $with) => $response->withJson([$with['name'], $request->getQueryParams(), $request->getAttribute('seen')]));
$app->post('/echo', fn ($request, $response) => $response->withJson($request->getParsedBody(), 201)->withHeader('X-Echo', '1'));
$app->get('/own', function ($request, $response) { return $this->response->withJson($this->request->getUri()->getPath()); });
$app->get('/exit', function () { echo 'the end'; exit; });
$app->get('/fails', function () { throw new RuntimeException('on purpose'); });
$app->run();
"""


class SlimKept(Slim):
    """The application is built once; what a request brought must not be there for the next."""

    name = "slim-kept"

    def prepare(self):
        super().prepare()
        (self.root / "index.php").write_text(FRONT)
        (self.root.parent / "resident.php").write_text(ADAPTER.format(call="slim(__DIR__ . '/public/index.php')"))

    def tutti(self, address):
        configuration = super().tutti(address)
        configuration["applications"]["app"] = {**resident(self.root, self.environment), "processes": 1}
        return configuration

    def journey(self, person, root):
        for turn in range(3):
            hello = person.request("GET", f"/hello/{turn}?a={turn}", None, {"X-User": f"user {turn}"})
            assert json.loads(hello.text) == [str(turn), {"a": str(turn)}, f"user {turn}"], hello.text
            assert hello.header("X-Layer") == "1" and hello.header("X-Echo") is None
            assert json.loads(person.get("/hello/b").text) == ["b", [], ""]
            sent = person.post("/echo", json.dumps({"turn": turn}).encode(), status=201, headers={"Content-Type": "application/json"})
            assert json.loads(sent.text) == {"turn": turn} and sent.header("X-Echo") == "1", sent.text
            assert json.loads(person.get("/own").text) == "/own"
            person.get("/exit").expect("the end")
            person.get("/fails", status=500)
            person.get("/none", status=404)
        return "/hello/a"


class Lumen:
    """One application object boots; each request gets a copy of it."""

    name = "lumen-resident"

    def __init__(self, folder):
        self.root = folder / "lumen/public"
        self.environment = {"APP_ENV": "production"}

    def prepare(self):
        shutil.copytree(Path(__file__).parent / "lumen_app", self.root.parent)
        (self.root.parent / "resident.php").write_text(ADAPTER.format(call="lumen(__DIR__ . '/bootstrap/app.php')"))
        (self.root.parent / "storage/logs").mkdir(parents=True, exist_ok=True)
        own(self.root.parent)

    def after_start(self, server):
        pass

    def stop(self):
        pass

    def tutti(self, address):
        return {"listeners": {address: {"pass": "applications/app"}}, "applications": {"app": resident(self.root, self.environment)}}

    def nginx(self, php):
        return f"""
            location / {{ try_files $uri /index.php$is_args$args; }}
            location = /index.php {{ {php} }}"""

    def journey(self, person, root):
        for turn in range(3):
            home = person.get("/").expect("Lumen is up")
            assert home.header("X-Middleware") == "/", home.header("X-Middleware")
            hello = json.loads(person.get(f"/hello/{turn}?a={turn}").text)
            assert hello == {"hello": str(turn), "query": {"a": str(turn)}}, hello
            sent = person.post("/echo", json.dumps({"turn": turn}).encode(), status=201, headers={"Content-Type": "application/json"})
            assert json.loads(sent.text) == {"sent": {"turn": turn}, "method": "POST"}, sent.text

            # Anything that a request puts in the container or the configuration goes with it.
            assert json.loads(person.get("/visits").text) == {"visits": 1}
            person.get("/leave").expect("left")
            seen = json.loads(person.get("/seen").text)
            assert seen == {"config": None, "bound": False, "path": "seen", "user": None}, seen
            seen = json.loads(person.request("GET", "/seen", None, {"X-User": "me"}).text)
            assert seen["user"] == "me", seen

            server = json.loads(person.get("/server?a=1").text)
            assert server["SCRIPT_NAME"] == "/index.php" and server["DOCUMENT_ROOT"] == str(root), server
            assert server["QUERY_STRING"] == "a=1" and server["SCRIPT_FILENAME"] == f"{root}/index.php", server
            person.get("/exit").expect("the end")
            person.get("/none", status=404)
            person.post("/hello/x", b"", status=405)
            person.get("/fails", status=500)
        return "/"


class Symfony(Lumen):
    """A kernel of Symfony's components that is kept."""

    name = "symfony-resident"

    def __init__(self, folder):
        super().__init__(folder)
        self.root = folder / "symfony/public"

    def prepare(self):
        shutil.copytree(Path(__file__).parent / "symfony_app", self.root.parent)
        call = "symfony(require __DIR__ . '/kernel.php', __DIR__ . '/public/index.php')"
        (self.root.parent / "resident.php").write_text(ADAPTER.format(call=call))
        own(self.root.parent)

    def journey(self, person, root):
        for turn in range(3):
            person.get("/").expect("Symfony is up")
            hello = json.loads(person.get(f"/hello/{turn}?a={turn}").text)
            assert hello == {"hello": str(turn), "query": {"a": str(turn)}}, hello
            sent = person.post("/echo", json.dumps({"turn": turn}).encode(), status=201, headers={"Content-Type": "application/json"})
            assert json.loads(sent.text) == {"sent": {"turn": turn}, "method": "POST"}, sent.text
            assert person.get("/stream").text == "abc"
            uploaded = person.post("/upload", {}, {"file": ("a.txt", "text/plain", b"x" * 1000)})
            assert json.loads(uploaded.text) == {"bytes": 1000}, uploaded.text
            stacked = json.loads(person.get("/stacked").text)
            assert stacked == {"main": "/stacked", "parent": None}, stacked
            person.get("/fails", status=500)
        return "/"


class SymfonyRuntime(Symfony):
    """The stock front controller: Symfony's runtime runs what it returns. Its file is made of Symfony's own template, as Composer's plugin does."""

    name = "symfony-front"
    template = Path("/usr/share/php/Symfony/Component/Runtime/Internal/autoload_runtime.template")

    def prepare(self):
        super().prepare()
        runtime = self.template.read_text().replace("%runtime_class%", "'Symfony\\\\Component\\\\Runtime\\\\SymfonyRuntime'")
        runtime = runtime.replace("%runtime_options%", "['project_dir' => dirname(__DIR__, 1)]")
        (self.root.parent / "vendor/autoload_runtime.php").write_text(runtime)
        (self.root / "index.php").write_text((self.root / "runtime.php").read_text())
        call = "front_controller(__DIR__ . '/public/index.php')"
        (self.root.parent / "resident.php").write_text(ADAPTER.format(call=call))

    def tutti(self, address):
        configuration = super().tutti(address)
        configuration["applications"]["app"]["processes"] = 1
        return configuration

    def journey(self, person, root):
        for _ in range(3):
            page = super().journey(person, root)
        return page


class LumenFront(Lumen):
    """The stock front controller, for each request."""

    name = "lumen-front"

    def prepare(self):
        super().prepare()
        call = "front_controller(__DIR__ . '/public/index.php')"
        (self.root.parent / "resident.php").write_text(ADAPTER.format(call=call))

    def tutti(self, address):
        configuration = super().tutti(address)
        configuration["applications"]["app"]["processes"] = 1
        return configuration


class LumenDocumented(Lumen):
    """The front controller as Laravel's documentation and docs/start/sites.md have it: a process forgets each request."""

    name = "lumen"

    def tutti(self, address):
        configuration = documented("Laravel, Symfony, CodeIgniter", address, {"/srv/laravel/public": self.root})
        configuration["applications"]["laravel"]["environment"].update(self.environment)
        return configuration

    def journey(self, person, root):
        page = super().journey(person, root)
        (Path(root) / ".env").write_text("APP_KEY=secret")
        for path in ("/.env", "/index.php/../.env", "/../bootstrap/app.php", "/storage/logs/lumen.log"):
            answer = person.get(path, status=404)
            assert "secret" not in answer.text and "<?php" not in answer.text, path
        return page
