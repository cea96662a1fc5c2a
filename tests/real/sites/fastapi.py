"""FastAPI and Starlette: models, dependencies, lifespan, streams both ways, files, background tasks."""

import hashlib
import json

from sites.python_site import PythonSite


class FastApi(PythonSite):
    name = "fastapi"
    members = {"module": "api", "callable": "app"}

    def tutti(self, address):
        configuration = super().tutti(address)
        # The background task is seen by the process that had it.
        configuration["applications"]["app"]["processes"] = 1
        return configuration

    def journey(self, person, root):
        home = json.loads(person.get("/").text)
        assert home["started"] == "by lifespan" and home["loop"] == "uvloop", home
        person.get("/docs").expect("swagger-ui")
        assert "/items/{number}" in json.loads(person.get("/openapi.json").text)["paths"]

        def make(number, body, token="sesame", status=201):
            headers = {"Content-Type": "application/json", "X-Token": token}
            return json.loads(person.post(f"/items/{number}", json.dumps(body).encode(), status=status, headers=headers).text)

        made = make(7, {"name": "Öl", "price": 2.5})
        assert made == {"number": 7, "item": {"name": "Öl", "price": 2.5}, "total": 5.0}, made
        assert make(7, {"name": "Öl"}, status=422)["detail"][0]["loc"] == ["body", "price"]
        assert make(7, {"name": "Öl", "price": 1}, "wrong", 403)["detail"] == "wrong token"
        assert json.loads(person.get("/done").text) == [7]
        assert person.get("/events?count=4").text == "".join(f"data: {number}\n\n" for number in range(4))
        data = bytes(range(256)) * 40_000
        answer = json.loads(person.post("/digest", data, headers={"Content-Type": "application/octet-stream"}).text)
        assert answer == {"digest": hashlib.sha256(data).hexdigest(), "length": len(data)}, answer
        assert person.get("/large").body == b"x" * 10_000_000
        person.get("/source").expect("A FastAPI application")
        person.get("/fails", status=500).expect("Internal Server Error")
        person.get("/no/such", status=404).expect("Not Found")
        return "/docs"
