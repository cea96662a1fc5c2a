"""Servers of one application: uWSGI, gunicorn, Puma."""

from imports.replay import Request, requests_for
from imports.servers import IS_ROOT, Old
from servers import own

WSGI = '''
def application(environ, start_response):
    names = ("REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "CONTENT_TYPE", "HTTP_HOST", "HTTP_X_CUSTOM", "wsgi.url_scheme")
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    import os
    lines = [f"{name}={environ.get(name, '')}" for name in names] + [f"{len(body)} bytes", os.environ.get("COLOUR", ""), os.path.basename(os.getcwd())]
    text = ("\\n".join(lines) + "\\n").encode("latin-1")
    status = {"/missing": "404 Not Found", "/moved": "302 Found", "/broken": "500 Internal Server Error"}.get(environ["PATH_INFO"], "200 OK")
    fields = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(text))), ("X-Application", "probe")]
    if status.startswith("302"):
        fields.append(("Location", "/elsewhere?a=b"))
    start_response(status, fields)
    return [text] if environ["REQUEST_METHOD"] != "HEAD" else [b""]
'''

RACK = '''
require "json"
run(lambda do |env|
  body = env["rack.input"].read
  names = %w[REQUEST_METHOD SCRIPT_NAME PATH_INFO QUERY_STRING CONTENT_TYPE HTTP_HOST HTTP_X_CUSTOM rack.url_scheme]
  text = (names.map { |name| "#{name}=#{env[name]}" } + ["#{body.bytesize} bytes", ENV["RACK_ENV"], File.basename(Dir.pwd)]).join("\\n") + "\\n"
  status = {"/missing" => 404, "/moved" => 302, "/broken" => 500}.fetch(env["PATH_INFO"], 200)
  fields = {"content-type" => "text/plain; charset=utf-8", "content-length" => text.bytesize.to_s, "x-application" => "probe"}
  fields["location"] = "/elsewhere?a=b" if status == 302
  [status, fields, env["REQUEST_METHOD"] == "HEAD" ? [] : [text]]
end)
'''


def is_path_as_it_came(request, old, new, differing):
    return differing == ["body"] and any(odd in request.target for odd in ("//", "/./", "/."))


def is_encoded_rack_path(request, old, new, differing):
    return differing == ["body"] and "%" in request.target


def application_requests():
    """Paths of an application, and every method on some of them."""
    made = [Request("GET", path) for path in ("/", "/missing", "/moved", "/broken", "/a/b/c", "/a/b/c/", "/%C3%A4", "/a%20b", "/a%2Fb", "/a+b", "/?", "/?a=1&b=2", "/?a=%26", "/x;y=1", "/~a", "/a%25b", "//a", "/./a", "/favicon.ico", "/.env")]
    made += [Request("GET", f"/page/{number}?n={number}") for number in range(60)]
    for method in ("HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        for path in ("/", "/a/b", "/missing", "/moved", "/broken", "/%C3%A4?x=y"):
            body = b"some=body&more=1" if method in ("POST", "PUT", "PATCH") else b""
            made.append(Request(method, path, body=body, fields=(("Content-Type", "application/x-www-form-urlencoded"),) if body else ()))
    made += [Request("POST", "/upload", body=b"x" * size, fields=(("Content-Type", "application/octet-stream"),)) for size in (0, 1, 1000, 20000, 300000)]
    made += [Request("GET", f"/fields/{number}", fields=(("X-Custom", f"value {number}"), ("Accept", "*/*"))) for number in range(60)]
    made += [Request("GET", "/", host=host) for host in ("other.example", "192.0.2.1", "site.example:8080", "SITE.example")]
    made += [Request("GET", f"/page/{number}", host="other.example") for number in range(30)]
    return list(dict.fromkeys(made))


class ProgramSite:
    lost = ()
    allowed = (("a path is normalised before an application gets it: `//`, `.`", is_path_as_it_came),)
    scrub = ()
    fields = ()
    more = ()
    adjust = None

    def __init__(self, folder):
        self.folder = folder
        self.root = folder / "site"

    def requests(self):
        return application_requests()

    def stop(self):
        self.old.stop()


class DjangoOnUwsgi(ProgramSite):
    """Django with its admin and its files, as an ini file of uWSGI has it."""

    name = "django-uwsgi"
    kind = "uwsgi"
    scrub = ((rb'name="csrfmiddlewaretoken" value="[^"]*"', b"TOKEN"),)

    def start_old(self):
        from sites.django import Django
        self.django = Django(self.folder)
        self.django.prepare()
        self.root = self.django.root
        self.old = Old(self.folder)
        from sites.python_site import environment
        ini = self.folder / "django.ini"
        ini.write_text(f"""# The site, as it is run in production.
[uwsgi]
base = {self.root}
plugin = python3
http-socket = 127.0.0.1:{self.old.port}
chdir = %(base)
module = site_wsgi:application
home = {environment()}
{'uid = nobody' if IS_ROOT else ''}
{'gid = nogroup' if IS_ROOT else ''}
env = DJANGO_SETTINGS_MODULE=settings
master = true
processes = 2
threads = 2
enable-threads = true
harakiri = 60
max-requests = 5000
vacuum = true
die-on-term = true
static-map = /static=%(base)/static
buffer-size = 32768
""")
        self.old.run(["uwsgi_python3", "--ini", ini], "uwsgi.log")
        self.old.wait()
        return [ini]

    allowed = (
        *ProgramSite.allowed,
        ("a file that is asked for with POST: uWSGI serves it", lambda request, old, new, differing: request.target.startswith("/static/") and request.method != "GET" and old.status == 200),
        ("a path with `..`: Tutti resolves it, uWSGI leaves it to the application", lambda request, old, new, differing: "%2e%2e" in request.target),
        ("a path with `//`: Tutti finds the file, uWSGI asks the application", lambda request, old, new, differing: request.target.startswith("//")),
        ("an unread body: uWSGI resets the connection", lambda request, old, new, differing: old.status == 0 and bool(request.body)),
        ("parts and conditions of files: uWSGI 2.0 knows none", lambda request, old, new, differing: request.target.startswith("/static/") and bool(request.fields) and old.status == 200 and new.status in (206, 304, 416)),
        ("the type of a file has its charset or another name with uWSGI", lambda request, old, new, differing: differing == ["type"] and "/static/" in request.target),
    )

    def requests(self):
        files = ["/static/admin/css/base.css", "/static/admin/js/theme.js", "/static/admin/img/icon-yes.svg", "/static/admin/css/login.css"]
        made = requests_for(files, ("/static/", "/static/admin/", "/admin/"), hosts=("127.0.0.1",), extra=["/", "/admin/login/", "/admin/login/?next=/admin/", "/admin/notes/note/", "/async", "/stream", "/no/such/page", "/admin", "/static", "/static/no-such.css"])
        made += [Request("GET", f"/admin/notes/note/{number}/change/", host="127.0.0.1") for number in range(60)]
        made += [Request(method, path, host="127.0.0.1") for method in ("HEAD", "POST", "PUT", "DELETE", "OPTIONS") for path in ("/", "/admin/", "/admin/login/", "/none/")]
        return list(dict.fromkeys(made))


class Gunicorn(ProgramSite):
    """A WSGI application with gunicorn's configuration file."""

    name = "gunicorn"
    kind = "gunicorn"
    lost = ("on_starting", "workers")

    def start_old(self):
        self.root.mkdir()
        self.root.chmod(0o755)
        (self.root / "shop.py").write_text(WSGI.replace("def application", "def app"))
        own(self.root)
        self.old = Old(self.folder)
        conf = self.folder / "gunicorn.conf.py"
        conf.write_text(f'''"""How the shop is served."""
import multiprocessing

wsgi_app = "shop:app"
bind = [
    "127.0.0.1:{self.old.port}",  # for the balancer
]
chdir = '{self.root}'
workers = multiprocessing.cpu_count() * 2 + 1
threads = 2
worker_class = "gthread"
timeout = 30
graceful_timeout = 20
max_requests = 1000
max_requests_jitter = 50
keepalive = 5
raw_env = ["COLOUR=green"]
preload_app = True
accesslog = None
errorlog = "-"
loglevel = 'warning'
backlog = 512


def on_starting(server):
    server.log.info("starting")
''')
        self.old.run(["gunicorn", "-c", conf], "gunicorn.log")
        self.old.wait()
        return [conf]


class Puma(ProgramSite):
    """A Rack application with `config/puma.rb`."""

    name = "puma"
    kind = "puma"
    lost = ("on_worker_boot",)
    allowed = (
        *ProgramSite.allowed,
        ("Tutti's PATH_INFO keeps its percent-encoding, as Rack says; Puma decodes it", is_encoded_rack_path),
    )

    def start_old(self):
        (self.root / "config").mkdir(parents=True)
        self.root.chmod(0o755)
        (self.root / "config.ru").write_text(RACK)
        own(self.root)
        self.old = Old(self.folder)
        conf = self.root / "config/puma.rb"
        conf.write_text(f'''# As `rails new` writes it, more or less.
max_threads_count = ENV.fetch("RAILS_MAX_THREADS") {{ 3 }}
min_threads_count = ENV.fetch("RAILS_MIN_THREADS") {{ max_threads_count }}
threads 1, max_threads_count
worker_timeout 3600
bind "tcp://127.0.0.1:{self.old.port}"
environment "production"
directory "{self.root}"
rackup "config.ru"
workers 2
preload_app!
quiet
on_worker_boot do
  puts "up"
end
''')
        self.old.run(["puma", "-C", conf], "puma.log")
        self.old.wait()
        return [conf]
