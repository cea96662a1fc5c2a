"""Flask, used like a person: pages, a form, a session, an upload, a stream, a file, errors."""

import hashlib
import json

from sites.python_site import PythonSite


class Flask(PythonSite):
    name = "flask"
    members = {"module": "shop", "callable": "app"}

    def journey(self, person, root):
        page = person.get("/").expect("Flask is up")
        page = person.submit(page, page.form(action="/add"), {"item": "Käse & <b>Brot</b>"})
        page.expect("<li>Käse &amp; &lt;b&gt;Brot&lt;/b&gt;</li>")
        page = person.submit(page, page.form(action="/add"), {"item": "Wein"})
        page.expect("Brot", "<li>Wein</li>")
        data = bytes(range(256)) * 8000
        answer = json.loads(person.post("/upload", {}, {"file": ("ü.bin", "application/octet-stream", data)}).text)
        assert answer == {"name": "ü.bin", "digest": hashlib.sha256(data).hexdigest()}, answer
        assert person.get("/stream?word=w%C3%B6rd").text == "".join(f"wörd {number}\n" for number in range(5))
        person.get("/file").expect("A small Flask application")
        where = json.loads(person.get("/where?a=1").text)
        assert where["url"].endswith("/where?a=1") and where["remote"] == "127.0.0.1" and where["root"] == "", where
        person.get("/missing", status=404).expect("Not Found")
        person.get("/fails", status=500).expect("Internal Server Error")
        head = person.request("HEAD", "/")
        assert head.text == "" and int(head.header("Content-Length")) > 100, head.headers
        person.get("/").expect("Wein")
        return "/"
