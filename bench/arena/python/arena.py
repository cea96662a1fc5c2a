"""The endpoints of HttpArena by Flask."""

import json
import os
from pathlib import Path

from flask import Flask, Response, jsonify, request

app = Flask(__name__)
ITEMS = json.loads(Path(os.environ["DATASET"]).read_text())


def text(body):
    return Response(str(body), mimetype="text/plain")


def query_sum():
    return request.args.get("a", 0, type=int) + request.args.get("b", 0, type=int)


@app.route("/baseline11", methods=["GET", "POST"])
def baseline11():
    return text(query_sum() + int(request.get_data() or 0))


@app.get("/baseline2")
def baseline2():
    return text(query_sum())


@app.get("/pipeline")
def pipeline():
    return text("ok")


@app.get("/json/<int:count>")
def listed(count):
    factor = request.args.get("m", 1, type=int)
    items = [{**item, "total": item["price"] * item["quantity"] * factor} for item in ITEMS[:count]]
    return jsonify(items=items, count=len(items))


@app.post("/upload")
def upload():
    received = 0
    while part := request.stream.read(65536):
        received += len(part)
    return text(received)
