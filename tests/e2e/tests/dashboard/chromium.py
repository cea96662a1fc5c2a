"""Chromium as far as the test of the dashboard needs it, over the DevTools protocol."""

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "real"))
from websocket import WebSocket  # noqa: E402

# A start on a machine with much to do.
LONGEST_START = 120

FLAGS = ["--headless=new", "--hide-scrollbars", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
         "--disable-background-networking", "--remote-debugging-port=0", "--remote-allow-origins=*", "--ignore-certificate-errors"]


class Chromium:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.process = subprocess.Popen(["chromium", *FLAGS, f"--user-data-dir={self.folder.name}", "about:blank"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        told = Path(self.folder.name, "DevToolsActivePort")
        end = time.monotonic() + LONGEST_START
        while not (told.exists() and told.read_text().count("\n")):
            assert self.process.poll() is None, "chromium has ended"
            assert time.monotonic() < end, "chromium does not start"
            time.sleep(0.05)
        self.port = int(told.read_text().split()[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.folder.cleanup()

    def page(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("PUT", "/json/new?about:blank")
        target = json.load(connection.getresponse())
        return Page(self.port, target["id"])


class Page:
    """A tab. `messages` are what its console and the browser have complained about."""

    def __init__(self, port, target):
        self.socket = WebSocket("127.0.0.1", port, f"/devtools/page/{target}")
        self.number = 0
        self.messages = []
        self.loads = 0
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility", "DOM"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        self.number += 1
        number = self.number
        self.socket.say(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = self._hear()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def _hear(self):
        answer = json.loads(self.socket.hear())
        method, parameters = answer.get("method"), answer.get("params", {})
        if method == "Log.entryAdded":
            self.messages.append(parameters["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.messages.append(json.dumps(parameters["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.messages.append(json.dumps(parameters["args"]))
        elif method == "Page.loadEventFired":
            self.loads += 1
        return answer

    def wait_for_load(self, before):
        while self.loads == before:
            self._hear()

    def go(self, url):
        before = self.loads
        self.call("Page.navigate", url=url)
        self.wait_for_load(before)

    def run(self, expression):
        """The value of a JavaScript expression; also where the page's own scripts are off."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, (expression, result["exceptionDetails"])
        return result["result"].get("value")

    def wait_until(self, what, expression):
        # A busy machine takes its time; the test as a whole has an end.
        while not self.run(expression):
            time.sleep(0.1)

    def size(self, width, height=900, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def scripts(self, on):
        self.call("Emulation.setScriptExecutionDisabled", value=not on)

    def press(self, key, code=None, shift=False, control=False):
        codes = {"Tab": 9, "Enter": 13}
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 and not control else {}
        common = {"key": key, "code": code or key, "windowsVirtualKeyCode": codes.get(key, ord(key[0])), "modifiers": 8 * shift + 2 * control}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def picture(self, path, whole=True):
        import base64
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        Path(path).write_bytes(base64.b64decode(data))

    def tree(self):
        """Returns what a screen reader gets: (role, name) of each node that is not ignored."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        seen = [node for node in nodes if not node["ignored"]]
        return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in seen]
