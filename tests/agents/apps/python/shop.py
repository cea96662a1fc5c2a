import os

from flask import Flask

app = Flask(__name__)


@app.get("/items/<int:number>")
def item(number):
    doubled = number * 2
    return f"item {number} of process {os.getpid()}, {doubled}\n"


@app.get("/fails")
def fails():
    raise ValueError("out of stock")


@app.get("/busy")
def busy():
    from time import monotonic
    end = monotonic() + 2
    while monotonic() < end:
        pass
    return "done\n"


@app.get("/never")
def never():
    return "not called"
