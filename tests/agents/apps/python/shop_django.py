from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path


def item(request, number):
    return HttpResponse(f"item {number}\n")


def fails(request):
    raise ValueError("out of stock")


urlpatterns = [path("items/<int:number>", item), path("fails", fails)]
application = get_wsgi_application()
