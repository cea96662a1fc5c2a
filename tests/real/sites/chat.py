"""A chat in Litestar over WebSocket: people come, talk and go."""

import json

from sites.python_site import PythonSite
from websocket import WebSocket


class Chat(PythonSite):
    name = "chat"
    members = {"module": "chat", "callable": "app"}

    def tutti(self, address):
        configuration = super().tutti(address)
        # The rooms are in the process's memory.
        configuration["applications"]["app"]["processes"] = 1
        return configuration

    def journey(self, person, root):
        person.get("/").expect("The chat is up")

        def join(room, name, **options):
            return WebSocket(person.host, person.port, f"/room/{room}?name={name}", **options)

        ada = join("tea", "ada", subprotocol="chat, other")
        assert ada.headers.get("sec-websocket-protocol") == "chat", ada.headers
        assert ada.hear() == "ada comes"
        bob = join("tea", "bob")
        assert (ada.hear(), bob.hear()) == ("bob comes", "bob comes")
        eve = join("coffee", "eve")
        assert eve.hear() == "eve comes"
        bob.say("Grüße, ada ☕")
        assert (ada.hear(), bob.hear()) == ("bob: Grüße, ada ☕",) * 2
        long = "x" * 50_000
        ada.say(long)
        assert (ada.hear(), bob.hear()) == (f"ada: {long}",) * 2
        assert json.loads(person.get("/rooms").text) == {"tea": 2, "coffee": 1}
        assert bob.leave()[0] == 1000
        assert ada.hear() == "bob goes"
        ada.say("/leave")
        assert ada.hear() == (4000, "bye")
        crowd = [join("hall", f"n{number}") for number in range(30)]
        crowd[0].say("hello all")
        for member in crowd:
            while member.hear() != "n0: hello all":
                pass
        try:
            join("tea", "")
        except AssertionError as refused:
            assert "403" in str(refused), refused
        else:
            raise AssertionError("no user was let in")
        return "/"
