"""Django Channels: consumers that talk to each other by groups, beside Django's own pages."""

import django
from django.conf import settings

settings.configure(
    SECRET_KEY="a test's", ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, INSTALLED_APPS=["channels"],
    CHANNEL_LAYERS={"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}},
)
django.setup()

from asgiref.sync import async_to_sync
from channels.generic.websocket import AsyncJsonWebsocketConsumer, WebsocketConsumer
from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application
from django.http import HttpResponse
from django.urls import path


def page(request):
    return HttpResponse(f"{request.method} {request.path} {len(request.body)}")


urlpatterns = [path("", page)]


class Echo(WebsocketConsumer):
    """Runs in threads, and accepts from there."""

    def connect(self):
        self.accept()

    def receive(self, text_data=None, bytes_data=None):
        self.send(text_data="you said " + text_data)


class Greets(WebsocketConsumer):
    def connect(self):
        self.accept(subprotocol="chat")
        self.send(text_data="hello")

    def receive(self, text_data=None, bytes_data=None):
        assert text_data == "bye"
        self.close(code=4009, reason="bye")


class Refuses(WebsocketConsumer):
    def connect(self):
        self.close()


class Room(AsyncJsonWebsocketConsumer):
    async def connect(self):
        await self.channel_layer.group_add("room", self.channel_name)
        await self.accept()
        await self.send_json({"here": True})

    async def receive_json(self, content):
        await self.channel_layer.group_send("room", {"type": "said", "content": content})

    async def said(self, event):
        await self.send_json(event["content"])


app = ProtocolTypeRouter({
    "http": get_asgi_application(),
    "websocket": URLRouter([
        path("echo", Echo.as_asgi()), path("greets", Greets.as_asgi()), path("refuses", Refuses.as_asgi()), path("room", Room.as_asgi()),
    ]),
})
