"""Servers of nginx that chance makes: locations in locations, access control, rewriting, pages for errors."""

from imports.random_sites import Chance, Site, Statement

PASSWORDS = "@CONF@/htpasswd"
PATHS = ("/", "/a.txt", "/b.html", "/secret.txt", "/index.html", "/dir", "/dir/", "/dir/a.txt", "/dir/b.html", "/dir/index.html", "/dir/sub/", "/dir/sub/index.html", "/dir/sub/c.txt",
         "/open/", "/open/c.txt", "/closed/", "/closed/index.html", "/closed/d.txt", "/noindex/", "/noindex/e.txt", "/none", "/none/", "/dir/none.html", "/old/a.txt", "/al/a.txt", "/ala.txt", "/al/",
         "/check", "/A.TXT", "/dir//a.txt", "/dir/../secret.txt", "/%64ir/a.txt", "/secret.txt?x=1", "/home.html", "/dir/home.html")


class NginxMaker:
    def __init__(self, chance):
        self.chance = chance

    def site(self):
        made = self.chance.some([self.index, self.access, self.password, self.page, self.tries, self.rewrite, self.condition, self.listing, self.question, self.satisfy], 0, 4)
        heads = ["/", "/dir/", "/dir", "/dir/sub/", "= /", "= /dir/a.txt", "= /dir/index.html", "= /index.html", "^~ /dir/", "~ \\.html$", "~* \\.TXT$", "~ ^/dir/", "~ /sub/", "/open/", "/closed/", "/al", "/al/", "~ ^/al/(.*)$", "~ ^/(closed|noindex)", "/none"]
        for head in different(self.chance.sample(heads, self.chance.randint(1, 6))):
            made.append(self.location(head, 0))
        made += [self.named(), self.check()]
        return Site(tuple(made))

    def one(self, *texts):
        return [Statement(self.chance.choice(texts))]

    def location(self, head, depth):
        makers = [self.access, self.password, self.internal, self.answer, self.tries, self.index, self.rewrite, self.condition, self.page, self.methods, self.question, self.listing, self.satisfy, lambda: self.folder(head)]
        inner = self.chance.some(makers, 0, 3)
        if depth < 2 and not head.startswith("=") and self.chance.happens(0.3):
            inner += self.nested(head, depth)
        if any(one.text.startswith("alias") for one in inner):
            # Together, they do odd things.
            inner = [one for one in inner if not one.text.startswith("try_files")]
        return Statement(f"location {head}", tuple(inner))

    def nested(self, head, depth):
        path = head.removeprefix("^~ ")
        heads = ["~ \\.html$", "~ \\.txt$", "~ ^/dir/", "~ /sub/"]
        if "~" not in path:
            heads += [f"{path.rstrip('/')}/sub/", f"= {path.rstrip('/')}/a.txt", f"= {path.rstrip('/')}/index.html", f"^~ {path.rstrip('/')}/sub/"]
        return [self.location(one, depth + 1) for one in different(self.chance.sample(heads, self.chance.randint(1, 2)))]

    def named(self):
        texts = ["return 200 named;", "return 403;", "rewrite ^ /b.html last;", "rewrite ^ /b.html break;", "try_files /a.txt =404;", "deny all;"]
        return Statement("location @named", tuple(self.one(*texts)))

    def check(self):
        inner = self.one("return 204;", "return 200;", "return 401;", "return 403;", "deny all;")
        if self.chance.happens(0.5):
            inner = [Statement("if ($http_x_test = 1)", tuple(self.one("return 403;", "return 401;", "return 200;"))), *inner]
        if self.chance.happens(0.5):
            inner.insert(0, Statement("internal;"))
        return Statement("location = /check", tuple(inner))

    def index(self):
        return self.one("index home.html index.html;", "index home.html;", "index a.txt;", "index none.html /b.html;")

    def access(self):
        return self.chance.choice([
            [Statement("deny all;")], [Statement("allow 127.0.0.1;"), Statement("deny all;")], [Statement("deny 127.0.0.1;")],
            [Statement("allow 10.0.0.0/8;"), Statement("deny all;")], [Statement("allow all;")],
        ])

    def password(self):
        return [Statement("auth_basic closed;"), Statement(f"auth_basic_user_file {PASSWORDS};")] if self.chance.happens(0.8) else [Statement("auth_basic off;")]

    def satisfy(self):
        return [Statement("satisfy any;")]

    def internal(self):
        return [Statement("internal;")]

    def listing(self):
        return [Statement("autoindex on;")]

    def answer(self):
        return self.one("return 200 text;", "return 204;", "return 403;", "return 404;", "return 302 /open/;")

    def page(self):
        return self.one("error_page 403 /open/c.txt;", "error_page 404 =200 /a.txt;", "error_page 403 = @named;", "error_page 404 = @named;", "error_page 404 /none.html;", "error_page 401 403 =404 /b.html;", "error_page 403 404 /closed/d.txt;")

    def tries(self):
        return self.one("try_files $uri $uri/ =404;", "try_files $uri /b.html;", "try_files $uri @named;", "try_files $uri $uri/ /index.html;", "try_files $uri =403;", "try_files /dir$uri $uri =404;")

    def rewrite(self):
        return self.one(
            "rewrite ^/old/(.*)$ /dir/$1 last;", "rewrite ^/old/(.*)$ /closed/$1;", "rewrite ^/dir/sub/(.*)$ /closed/$1;", "rewrite ^/b\\.html$ /secret.txt break;", "rewrite ^/a\\.txt$ /dir/a.txt break;",
            "rewrite ^/dir/(.*\\.html)$ /$1 last;", "rewrite ^/open/(.*) /dir/$1 redirect;", "rewrite ^/index\\.html$ /b.html last;", "rewrite ^/check$ /open/c.txt last;", "rewrite secret /a.txt;")

    def condition(self):
        head = self.chance.choice([
            "if ($uri ~ secret)", "if ($http_x_test = 1)", "if (!-e $request_filename)", "if (-d $request_filename)", "if (!-d $request_filename)", "if (-f $request_filename)", "if ($uri = /index.html)",
            "if ($request_uri ~ \\.txt)", "if ($args)", "if ($request_method = POST)"])
        return [Statement(head, tuple(self.one("return 403;", "return 403;", "rewrite ^ /b.html last;", "rewrite ^ /secret.txt break;", "return 200 chosen;", "break;", "set $x 1;")))]

    def methods(self):
        return [Statement(self.chance.choice(["limit_except GET", "limit_except POST"]), tuple(self.one("deny all;", "allow 127.0.0.1; deny all;")))]

    def question(self):
        return self.one("auth_request /check;", "auth_request /check;", "auth_request off;")

    def folder(self, head):
        if head.startswith("~"):
            return self.one("alias @ROOT@/dir/$1;") if "(.*)" in head else self.one("root @ROOT@/dir;")
        if head.startswith("="):
            return self.one("alias @ROOT@/dir/a.txt;", "root @ROOT@/dir;")
        return self.one("alias @ROOT@/dir/;", "alias @ROOT@/dir/;" if head.endswith("/") else "alias @ROOT@/dir;", "root @ROOT@/dir;")


def different(heads):
    """The heads of locations without a second one of the same prefix."""
    return list({head.removeprefix("^~ "): head for head in heads}.values())


def once(statements):
    """The statements without those that nginx takes once only, and has had."""
    repeatable = ("allow", "deny", "rewrite", "if", "location", "error_page", "limit_except", "auth_basic_user_file")
    had, made = set(), []
    for one in statements:
        name = one.text.split()[0].rstrip(";")
        name = "root" if name == "alias" else name
        if name in had and name not in repeatable:
            continue
        had.add(name)
        made.append(Statement(one.text, one.inner if one.inner is None else once(one.inner)))
    return tuple(made)


def make(seed):
    site = NginxMaker(Chance(seed)).site()
    return Site(once(site.statements))


def text(statements, depth=0):
    lines = []
    for one in statements:
        space = "    " * depth
        lines += [space + one.text] if one.inner is None else [f"{space}{one.text} {{", *text(one.inner, depth + 1), space + "}"]
    return lines


def server(site, host, root):
    return "\n".join([f"server {{ listen 127.0.0.1:@PORT@; server_name {host}; root @ROOT@;", *text(site.statements), "}"])
