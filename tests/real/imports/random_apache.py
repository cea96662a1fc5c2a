"""Virtual hosts of Apache that chance makes: sections in sections, access control, rewriting, files in folders."""

from imports.random_sites import Chance, Site, Statement

PATHS = ("/", "/a.txt", "/b.html", "/secret.txt", "/index.html", "/dir", "/dir/", "/dir/a.txt", "/dir/b.html", "/dir/index.html", "/dir/sub/", "/dir/sub/index.html", "/dir/sub/c.txt",
         "/open/", "/open/c.txt", "/closed/", "/closed/index.html", "/closed/d.txt", "/noindex/", "/noindex/e.txt", "/none", "/none/", "/dir/none.html", "/old/a.txt", "/al/a.txt", "/ala.txt", "/al/",
         "/A.TXT", "/dir//a.txt", "/dir/../secret.txt", "/%64ir/a.txt", "/secret.txt?x=1", "/home.html", "/dir/home.html", "/.htaccess", "/dir/.htaccess")
LOGIN = ("AuthType Basic", "AuthName closed", "AuthUserFile @CONF@/htpasswd")


class ApacheMaker:
    def __init__(self, chance):
        self.chance = chance

    def site(self):
        made = self.chance.some([self.rules, self.alias, self.redirect, self.index, self.page], 0, 3)
        made.append(Statement("<Directory @ROOT@>", tuple([*self.override(), *self.chance.some(self.of_folder(), 1, 3)])))
        heads = ["<Directory @ROOT@/dir>", "<Directory @ROOT@/dir/sub>", "<Directory @ROOT@/closed>", "<Directory @ROOT@/*>", "<Directory @ROOT@/*/sub>", "<DirectoryMatch \"/dir(/|$)\">", "<DirectoryMatch \"^@ROOT@/(closed|noindex)\">",
                 "<Location /dir>", "<Location /dir/>", "<Location />", "<Location /closed>", "<Location /al>", "<LocationMatch \"\\.html$\">", "<LocationMatch \"^/(dir|open)/\">", "<Location /dir/a.txt>", "<Location /*/a.txt>",
                 "<Files \"*.html\">", "<Files secret.txt>", "<Files index.html>", "<FilesMatch \"\\.(txt|md)$\">", "<FilesMatch \"^[ab]\">",
                 "<If \"%{REQUEST_URI} =~ m#secret#\">", "<If \"%{HTTP:X-Test} == '1'\">"]
        for head in self.chance.sample(heads, self.chance.randint(0, 5)):
            made.append(self.section(head))
        files = {}
        for folder in self.chance.sample(["", "dir/", "dir/sub/", "closed/", "open/"], self.chance.randint(0, 2)):
            inner = self.chance.some([self.require, self.require, self.old_access, self.rules, self.rules, self.index, self.options], 1, 2)
            if self.chance.happens(0.3):
                inner.append(Statement(self.chance.choice(["<Files secret.txt>", "<FilesMatch \"\\.txt$\">", "<Files index.html>"]), tuple(self.require())))
            files[folder + ".htaccess"] = tuple(inner)
        return Site(tuple(made), files)

    def of_folder(self):
        return [self.require, self.require, self.old_access, self.rules, self.options, self.index, self.methods, self.page]

    def section(self, head):
        if head.startswith("<Directory"):
            makers = [self.override, *self.of_folder()]
            if "*" in head or "Match" in head:
                # The import reports an index of some folders only.
                makers.remove(self.index)
            inner = self.chance.some(makers, 1, 3)
            if self.chance.happens(0.3):
                inner.append(Statement(self.chance.choice(["<Files secret.txt>", "<FilesMatch \"\\.txt$\">", "<Files index.html>", "<Files \"*.html\">"]), tuple(self.chance.some([self.require, self.old_access], 1, 1))))
        else:
            inner = self.chance.some([self.require, self.require, self.old_access, self.methods], 1, 2)
        return Statement(head, tuple(inner))

    def one(self, *texts):
        return [Statement(self.chance.choice(texts))]

    def override(self):
        return self.one("AllowOverride All", "AllowOverride All", "AllowOverride None", "AllowOverride AuthConfig", "AllowOverride FileInfo")

    def options(self):
        return self.one("Options None", "Options FollowSymLinks", "Options -FollowSymLinks", "Options +FollowSymLinks", "Options SymLinksIfOwnerMatch", "Options +Indexes", "Options Indexes FollowSymLinks", "Options -Indexes")

    def index(self):
        return self.one("DirectoryIndex home.html index.html", "DirectoryIndex a.txt", "DirectoryIndex none.html /b.html", "DirectoryIndex disabled", "DirectorySlash Off", "FallbackResource /b.html")

    def page(self):
        return self.one("ErrorDocument 403 closed", "ErrorDocument 404 nothing")

    def alias(self):
        return self.one("Alias /al @ROOT@/dir", "Alias /al/ @ROOT@/closed/", "AliasMatch ^/al/(.*)$ @ROOT@/dir/$1")

    def redirect(self):
        return self.one("Redirect 403 /secret.txt", "Redirect /old /dir", "RedirectMatch 403 index\\.html$", "RedirectMatch ^/open/(.*)$ /dir/$1", "Redirect 410 /none")

    def requirement(self, depth=0):
        chosen = self.chance.random()
        if chosen < 0.25 and depth < 2:
            kind = self.chance.choice(["RequireAny", "RequireAll", "RequireNone"])
            inner = [one for _ in range(self.chance.randint(1, 2)) for one in self.requirement(depth + 1)]
            if kind == "RequireNone":
                inner = [one for one in inner if one.inner is None and " not " not in one.text and "valid-user" not in one.text and "user" not in one.text] or self.one("Require ip 10.0.0.0/8", "Require ip 127.0.0.1")
            made = [Statement(f"<{kind}>", tuple(inner))]
            # A block of negations alone never lets clients in, and Apache refuses such a configuration.
            return made if kind != "RequireNone" else [Statement("<RequireAll>", (Statement("Require all granted"), *made))]
        if chosen < 0.35:
            return [Statement("<RequireAll>", (Statement("Require all granted"), *self.one("Require not ip 127.0.0.1", "Require not ip 10.0.0.0/8", "Require not env nothing")))]
        return self.one("Require all granted", "Require all granted", "Require all denied", "Require all denied", "Require ip 127.0.0.1", "Require ip 10.0.0.0/8", "Require local", "Require method GET", "Require method POST",
                        "Require expr %{HTTP:X-Test} == '1'", "Require valid-user", "Require user anna", "Require user bert")

    def require(self):
        made = [one for _ in range(self.chance.randint(1, 2)) for one in self.requirement()]
        if "user" in str(made):
            made = [*map(Statement, LOGIN), *made]
        return made

    def old_access(self):
        return [Statement(one) for one in self.chance.choice([
            ["Order allow,deny", "Allow from all"], ["Order deny,allow", "Deny from all"], ["Order allow,deny", "Allow from 127.0.0.1"], ["Order allow,deny", "Allow from 10.0.0.0/8"],
            ["Order deny,allow", "Deny from 127.0.0.1"], ["Order deny,allow", "Deny from all", "Allow from 127.0.0.1"], ["Order allow,deny", "Allow from all", "Deny from 127.0.0.1"], ["Deny from all"],
            ["Order allow,deny", "Deny from all", "Satisfy Any"]])]

    def methods(self):
        head = self.chance.choice(["Limit POST", "LimitExcept GET", "Limit GET"])
        # A `Require` in it adds to those beside it in Apache, and stands for itself here, which is stricter.
        return [Statement(f"<{head}>", tuple(self.one("Require all granted", "Deny from all"))), Statement("Require all granted")]

    def rules(self):
        made = self.one("RewriteEngine On", "RewriteEngine On", "RewriteEngine On", "RewriteEngine Off") if self.chance.happens(0.9) else []
        for _ in range(self.chance.randint(1, 3)):
            made += [Statement(self.chance.choice([
                "RewriteCond %{REQUEST_FILENAME} !-f", "RewriteCond %{REQUEST_FILENAME} !-d", "RewriteCond %{REQUEST_FILENAME} -f", "RewriteCond %{REQUEST_URI} secret", "RewriteCond %{REQUEST_URI} !^/open/",
                "RewriteCond %{HTTP:X-Test} ^1$", "RewriteCond %{QUERY_STRING} x", "RewriteCond %{REQUEST_METHOD} !=GET", "RewriteCond %{HTTP_HOST} ^site [NC,OR]\nRewriteCond %{REQUEST_URI} a"]))
                for _ in range(self.chance.choice([0, 0, 1, 1, 2]))]
            made += self.one(
                "RewriteRule secret - [F]", "RewriteRule \\.txt$ - [F]", "RewriteRule index\\.html$ - [F]", "RewriteRule ^/?dir/ - [F]", "RewriteRule ^/?b\\.html$ /secret.txt [L]", "RewriteRule ^/?old/(.*)$ /dir/$1 [L]",
                "RewriteRule ^/?open/(.*)$ /closed/$1", "RewriteRule ^/?dir/sub/(.*)$ /closed/$1 [PT]", "RewriteRule ^ - [L]", "RewriteRule ^/?a\\.txt$ - [L]", "RewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . /b.html [L]", "RewriteRule ^ /b.html [END]",
                "RewriteRule ^/?open/(.*)$ /dir/$1 [R=302,L]", "RewriteRule \\.html$ - [NC,S=1]", "RewriteRule ^/?dir - [C]\nRewriteRule a - [F]", "RewriteRule ^/?noindex - [G]", "RewriteRule c - [R=404,L]")
        return made


def make(seed):
    return ApacheMaker(Chance(seed)).site()


def text(statements, depth=0):
    lines = []
    for one in statements:
        space = "    " * depth
        if one.inner is None:
            lines += [space + line for line in one.text.split("\n")]
        else:
            name = one.text[1:].split()[0].rstrip(">")
            lines += [space + one.text, *text(one.inner, depth + 1), f"{space}</{name}>"]
    return lines


def server(site, host, root):
    lines = [line.replace("@ROOT@", str(root)) for line in text(site.statements)]
    return "\n".join([f"<VirtualHost 127.0.0.1:@PORT@>\nServerName {host}\nDocumentRoot {root}", *lines, "</VirtualHost>"])
