"""The admin, a list, and an asynchronous view."""

import asyncio

from django.contrib import admin
from django.http import HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import path
from notes.models import Note


def index(request):
    return HttpResponse("".join(f"<li>{note}</li>" for note in Note.objects.all()))


async def asynchronous(request):
    await asyncio.sleep(0.01)
    return JsonResponse({"notes": [note.text async for note in Note.objects.all()]})


def stream(request):
    return StreamingHttpResponse((f"{number}\n" for number in range(1000)), content_type="text/plain")


urlpatterns = [path("admin/", admin.site.urls), path("", index), path("async", asynchronous), path("stream", stream)]
