"""A small Flask application: pages, forms, sessions, uploads, streams, errors."""

import hashlib
import time

from flask import Flask, abort, jsonify, redirect, render_template_string, request, send_file, session, stream_with_context, url_for

app = Flask(__name__)
app.secret_key = "only for tests"
PAGE = "<title>{{ title }}</title><h1>{{ title }}</h1><form method=post action=/add><input name=item><button>Add</button></form>" \
       "<ul>{% for item in items %}<li>{{ item }}</li>{% endfor %}</ul>"


@app.get("/")
def index():
    return render_template_string(PAGE, title="Flask is up", items=session.get("items", []))


@app.post("/add")
def add():
    session["items"] = [*session.get("items", []), request.form["item"]]
    return redirect(url_for("index"))


@app.post("/upload")
def upload():
    file = request.files["file"]
    return jsonify(name=file.filename, digest=hashlib.sha256(file.read()).hexdigest())


@app.get("/stream")
def stream():
    @stream_with_context
    def lines():
        for number in range(5):
            yield f"{request.args['word']} {number}\n"
            time.sleep(0.01)
    return lines(), {"Content-Type": "text/plain"}


@app.get("/file")
def file():
    return send_file(__file__, mimetype="text/x-python")


@app.get("/where")
def where():
    return jsonify(url=request.url, root=request.script_root, path=request.path, remote=request.remote_addr, scheme=request.scheme)


@app.get("/missing")
def missing():
    abort(404)


@app.get("/fails")
def fails():
    raise RuntimeError("on purpose")
