"""Public applications on Apache, each configuration in our own words with the directives that its files use."""

from imports.apache import PHP, ApacheSite, ReverseProxyApache
from imports.nginx import PICTURE, PROBE
from imports.replay import Request, requests_for


class WithAccessFile(ApacheSite):
    """A site of PHP with a `.htaccess` in its folder."""

    def configuration(self, port):
        return f"""
<VirtualHost *:{port}>
    ServerName site.example
    DocumentRoot {self.root}
    DirectoryIndex index.php index.html
    <Directory {self.root}/>
        AllowOverride All
        Require all granted
    </Directory>
    {PHP}
</VirtualHost>
"""

    def prepare(self):
        for name in self.programs:
            self.write(name, PROBE)
        for name in self.names:
            self.write(name, f"the content of {name}\n" * 3)
        self.write("picture.jpg", PICTURE)
        self.write(".htaccess", self.access)


class DrupalOnApache(WithAccessFile):
    """Drupal's `.htaccess`: names of its sources are closed, clean addresses, scripts that may be called."""

    name = "apache-drupal"
    scripts = ("/index.php", "/core/install.php", "/update.php", "/core/lib/x.php", "/sites/default/settings.php")
    folders = ("/", "/core/", "/sites/", "/modules/", "/themes/")
    programs = ("index.php", "core/install.php", "update.php", "core/lib/x.php", "sites/default/settings.php")
    names = ("robots.txt", "core/misc/a.js", "core/misc/b.css", "core/c.yml", "core/d.module", "themes/e.twig", "themes/f.svg", "modules/g.txt", "sites/default/files/h.txt", "composer.json", "web.config", "core/i.inc", "core/j.sql")
    access = r"""
<FilesMatch "\.(engine|inc|install|make|module|profile|po|sh|.*sql|theme|twig|tpl(\.php)?|xtmpl|yml)(~|\.sw[op]|\.bak|\.orig|\.save)?$|^(\.(?!well-known).*|Entries.*|Repository|Root|Tag|Template|composer\.(json|lock)|web\.config)$">
  <IfModule mod_authz_core.c>
    Require all denied
  </IfModule>
</FilesMatch>
Options -Indexes
DirectoryIndex index.php index.html index.htm
AddType image/svg+xml svg svgz
<IfModule mod_expires.c>
  ExpiresActive On
  ExpiresDefault A1209600
  <FilesMatch \.php$>
    ExpiresActive Off
  </FilesMatch>
</IfModule>
ErrorDocument 404 /index.php
<IfModule mod_rewrite.c>
  RewriteEngine on
  RewriteRule "/\.|^\.(?!well-known/)" - [F]
  RewriteCond %{REQUEST_FILENAME} !-f
  RewriteCond %{REQUEST_FILENAME} !-d
  RewriteCond %{REQUEST_URI} !=/favicon.ico
  RewriteRule ^ index.php [L]
</IfModule>
Header always set X-Content-Type-Options nosniff
"""

    def extra(self):
        return ["/node/1", "/node/1?destination=x", "/admin/config", "/user/login", "/core", "/sites/default/files/none.txt", "/favicon.ico", "/core/c.yml~"]


class MatomoOnApache(WithAccessFile):
    """A `.htaccess` that closes folders by files of their own."""

    name = "apache-matomo"
    scripts = ("/index.php", "/matomo.php", "/core/x.php", "/config/config.ini.php")
    folders = ("/", "/core/", "/config/", "/js/", "/tmp/")
    programs = ("index.php", "matomo.php", "core/x.php", "config/config.ini.php")
    names = ("matomo.js", "robots.txt", "js/a.js", "js/b.txt", "core/c.txt", "config/d.txt", "tmp/e.txt", "plugins/f.css", "plugins/g.svg", "LICENSE", "README.md", "h.html", "js/i.json")
    access = r"""
<Files ~ "\.md$">
  Require all denied
</Files>
<Files "console">
  Require all denied
</Files>
<FilesMatch "\.(js|css|svg)$">
  Header set Cache-Control "max-age=3600"
</FilesMatch>
"""

    def prepare(self):
        super().prepare()
        for folder in ("core", "config", "tmp"):
            self.write(f"{folder}/.htaccess", "<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n<IfModule !mod_authz_core.c>\nDeny from all\n</IfModule>\n")

    def extra(self):
        return ["/matomo.php?idsite=1&rec=1", "/index.php?module=Login", "/core", "/config/none", "/README.MD", "/js/none.js"]


class Boilerplate(WithAccessFile):
    """The rules that h5bp recommends: types, lifetimes, closed names, fields of security, addresses without www."""

    name = "apache-h5bp"
    scripts = ("/index.php", "/app/b.php")
    folders = ("/", "/css/", "/img/", "/app/")
    programs = ("index.php", "app/b.php")
    fields = ("x-content-type-options", "referrer-policy")
    hosts = ("site.example",)
    names = ("css/a.css", "css/b.css", "img/c.svg", "img/d.png", "e.webmanifest", "f.json", "robots.txt", "g.html", "h.bak", "i.conf", "j.sql", "k.log", "fonts/l.woff2", "404.html")
    access = r"""
Options -MultiViews -Indexes
AddType application/manifest+json webmanifest
AddType font/woff2 woff2
AddType image/svg+xml svg svgz
<IfModule mod_rewrite.c>
    RewriteEngine On
    RewriteCond %{HTTP_HOST} ^www\.(.+)$ [NC]
    RewriteRule ^ http://%1%{REQUEST_URI} [R=301,L]
    RewriteRule "/\." - [F]
</IfModule>
<FilesMatch "(^#.*#|\.(bak|conf|dist|fla|in[ci]|log|orig|psd|sh|sql|sw[op])|~)$">
    Require all denied
</FilesMatch>
<IfModule mod_headers.c>
    Header always set X-Content-Type-Options "nosniff"
    Header always set Referrer-Policy "strict-origin-when-cross-origin"
    Header unset X-Powered-By
</IfModule>
<IfModule mod_expires.c>
    ExpiresActive on
    ExpiresDefault "access plus 1 month"
    ExpiresByType text/css "access plus 1 year"
    ExpiresByType text/html "access plus 0 seconds"
</IfModule>
"""

    def extra(self):
        return ["/css/none.css", "/h.bak~", "/app", "/img/.hidden/x", "/.well-known/security.txt"]


class JoomlaOnApache(WithAccessFile):
    """Joomla's `.htaccess`: attacks by the query are refused, clean addresses lead to the script of the site."""

    name = "apache-joomla"
    scripts = ("/index.php", "/administrator/index.php", "/api/index.php")
    folders = ("/", "/administrator/", "/media/", "/images/", "/api/")
    programs = ("index.php", "administrator/index.php", "api/index.php")
    names = ("robots.txt", "media/a.js", "media/b.css", "images/c.svg", "language/d.ini", "templates/e.xml", "htaccess.txt", "media/f.json", "LICENSE.txt", "README.txt", "images/g.png", "media/h.woff2")
    access = r"""
Options +FollowSymlinks
Options -Indexes
<IfModule mod_headers.c>
    Header always set X-Content-Type-Options "nosniff"
</IfModule>
RewriteEngine On
RewriteCond %{QUERY_STRING} base64_encode[^(]*\([^)]*\) [OR]
RewriteCond %{QUERY_STRING} (<|%3C)([^s]*s)+cript.*(>|%3E) [NC,OR]
RewriteCond %{QUERY_STRING} GLOBALS(=|\[|\%[0-9A-Z]{0,2}) [OR]
RewriteCond %{QUERY_STRING} _REQUEST(=|\[|\%[0-9A-Z]{0,2})
RewriteRule .* index.php [F]
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteCond %{REQUEST_URI} ^/api/
RewriteCond %{REQUEST_URI} !^/api/index\.php
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule .* api/index.php [L]
RewriteCond %{REQUEST_URI} !^/index\.php
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule .* index.php [L]
"""
    fields = ("x-content-type-options",)

    def extra(self):
        return ["/blog/1-hello", "/index.php/blog", "/?x=GLOBALS[a]", "/?x=base64_encode(a)", "/?x=%3Cscript%3E", "/api/v1/users", "/administrator", "/images/none.png"]


class MediaWikiOnApache(WithAccessFile):
    """Short addresses of MediaWiki, folders whose scripts do not run, and pages of a wiki as texts."""

    name = "apache-mediawiki"
    scripts = ("/w/index.php", "/w/api.php", "/w/load.php", "/w/LocalSettings.php")
    folders = ("/", "/w/", "/w/images/", "/w/resources/", "/wiki/")
    programs = ("w/index.php", "w/api.php", "w/load.php", "w/LocalSettings.php", "w/rest.php")
    names = ("robots.txt", "w/resources/a.css", "w/resources/b.js", "w/images/c.png", "w/images/d.txt", "w/skins/e.svg", "w/extensions/f.json", "w/README.md", "w/COPYING", "w/docs/g.txt", "w/languages/h.json", "w/cache/i.txt", "w/maintenance/j.sql")
    access = r"""
RewriteEngine On
RewriteRule ^/?wiki(/.*)?$ /w/index.php [L]
RewriteRule ^/?$ /w/index.php [L]
<FilesMatch "^LocalSettings">
    Require all denied
</FilesMatch>
"""

    def prepare(self):
        super().prepare()
        for folder in ("cache", "maintenance", "languages"):
            self.write(f"w/{folder}/.htaccess", "Require all denied\n")

    def extra(self):
        return ["/wiki/Main_Page", "/wiki/Talk:A/B", "/wiki", "/wiki/A?action=edit", "/w/index.php?title=A", "/w/rest.php/v1/page/A", "/w/cache", "/w/images/none.png", "/wikis"]


class WordPressMultisite(WithAccessFile):
    """A network of WordPress sites in folders: their addresses lead to the same files."""

    name = "apache-wordpress-multisite"
    scripts = ("/index.php", "/wp-login.php", "/blog/wp-login.php", "/wp-admin/index.php", "/blog/wp-admin/index.php")
    folders = ("/", "/wp-admin/", "/blog/", "/wp-content/", "/wp-includes/")
    allowed = (("rules that lead to themselves: Apache gives up with 500, Tutti says 404", lambda request, old, new, differing: (old.status, new.status) == (500, 404)),)
    programs = ("index.php", "wp-login.php", "wp-admin/index.php", "wp-content/index.php")
    names = ("robots.txt", "wp-includes/a.js", "wp-includes/b.css", "wp-content/uploads/c.txt", "wp-content/themes/d.svg", "readme.html", "wp-admin/css/e.css", "wp-content/f.json", "license.txt", "wp-includes/g.png")
    access = r"""
RewriteEngine On
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteBase /
RewriteRule ^index\.php$ - [L]
RewriteRule ^([_0-9a-zA-Z-]+/)?wp-admin$ $1wp-admin/ [R=301,L]
RewriteCond %{REQUEST_FILENAME} -f [OR]
RewriteCond %{REQUEST_FILENAME} -d
RewriteRule ^ - [L]
RewriteRule ^([_0-9a-zA-Z-]+/)?(wp-(content|admin|includes).*) $2 [L]
RewriteRule ^([_0-9a-zA-Z-]+/)?(.*\.php)$ $2 [L]
RewriteRule . index.php [L]
"""

    def extra(self):
        return ["/blog/2026/hello", "/blog/wp-includes/a.js", "/blog/wp-content/uploads/c.txt", "/blog/wp-admin", "/wp-admin", "/blog", "/category/x?paged=2"]


class TypoOnApache(WithAccessFile):
    """TYPO3's rules: versions in the names of files, closed folders, lifetimes, compression, types."""

    name = "apache-typo3"
    scripts = ("/index.php", "/typo3/index.php")
    folders = ("/", "/typo3/", "/fileadmin/", "/typo3temp/", "/_assets/")
    programs = ("index.php", "typo3/index.php")
    names = ("robots.txt", "fileadmin/a.js", "fileadmin/b.css", "fileadmin/c.svg", "typo3temp/d.txt", "_assets/e.woff2", "fileadmin/f.json", "composer.json", "fileadmin/templates/g.html", "typo3conf/h.yaml", "i.sql", "_assets/j.js.map", "fileadmin/k.webmanifest")
    access = r"""
<IfModule mod_deflate.c>
    AddOutputFilterByType DEFLATE text/css text/javascript
</IfModule>
<IfModule mod_expires.c>
    ExpiresActive on
    ExpiresDefault "access plus 1 month"
    ExpiresByType text/html "access plus 0 seconds"
    ExpiresByType application/json "access plus 0 seconds"
</IfModule>
<IfModule mod_headers.c>
    <FilesMatch "\.(woff2?|svg)$">
        Header set Access-Control-Allow-Origin "*"
    </FilesMatch>
</IfModule>
Options -MultiViews
RewriteBase /
AddType application/manifest+json webmanifest
<IfModule mod_mime.c>
    AddType application/json map
    AddCharset utf-8 .css .js .json .map
</IfModule>
RewriteEngine On
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule ^(.+)\.(\d+)\.(css|js|png)$ $1.$3 [L]
RewriteRule _(?:recycler|temp)_/ - [F]
RewriteRule fileadmin/templates/.*\.(?:txt|ts|typoscript)$ - [F]
RewriteRule (?:typo3conf/.*|composer\.(?:json|lock))$ - [F]
RewriteRule \.sql$ - [F]
RewriteRule ^(?:fileadmin/|typo3temp/|_assets/) - [L]
RewriteRule ^typo3$ typo3/ [R=301,L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteCond %{REQUEST_FILENAME} !-l
RewriteRule ^.*$ %{ENV:CWD}index.php [QSA,L]
"""

    access = access.replace("%{ENV:CWD}", "")

    def extra(self):
        return ["/fileadmin/a.1234567.js", "/fileadmin/none.1.css", "/x/_temp_/y", "/fileadmin/templates/a.ts", "/composer.lock", "/page/sub?id=1", "/typo3", "/typo3/module"]


class JenkinsOnApache(ReverseProxyApache):
    """Jenkins behind Apache, as its documentation has it: encoded slashes, WebSocket, redirects of its own."""

    name = "apache-jenkins"
    modules = ("proxy", "proxy_http", "proxy_wstunnel")
    folders = ("/", "/jenkins/", "/userContent/")
    allowed = (("a script that is not there and has no handler: Tutti says 403 to all of them", lambda request, old, new, differing: (old.status, new.status) == (404, 403) and ".php" in request.target),)

    def configuration(self, port):
        return f"""
<VirtualHost *:{port}>
    ServerName site.example
    DocumentRoot {self.root}
    ProxyRequests Off
    ProxyPreserveHost On
    AllowEncodedSlashes NoDecode
    <Proxy *>
        Order deny,allow
        Allow from all
    </Proxy>
    <Directory {self.root}>
        Require all granted
    </Directory>
    <Location /static>
        ProxyPass !
    </Location>
    ProxyPass /jenkins http://127.0.0.1:{self.backend_port}/jenkins nocanon
    ProxyPassReverse /jenkins http://127.0.0.1:{self.backend_port}/jenkins
    ProxyPassReverse /jenkins http://site.example/jenkins
    RequestHeader set X-Forwarded-Proto "http"
    RequestHeader set X-Forwarded-Port "80"
    Header edit Location ^http:// http://
</VirtualHost>
"""

    def requests(self):
        paths = [f"/jenkins/job/{number}/build?delay={number}" for number in range(90)] + ["/jenkins/job/a%2Fb", "/jenkins", "/jenkinsx", "/jenkins/redirect"]
        made = requests_for(self.paths(), self.folders, self.hosts, (), paths)
        made += [Request(method, path, body=b"a=b" if method in ("POST", "PUT") else b"") for method in ("POST", "PUT", "DELETE", "OPTIONS", "HEAD") for path in ("/jenkins/x", "/jenkins/redirect", "/jenkins/error")]
        return made


class NextcloudOnApache(WithAccessFile):
    """Nextcloud's `.htaccess`: addresses of calendars and of WebDAV, closed folders, fields of security, clean addresses."""

    name = "apache-nextcloud"
    scripts = ("/index.php", "/remote.php", "/public.php", "/status.php", "/lib/base.php", "/config/config.php")
    folders = ("/", "/core/", "/apps/", "/data/", "/config/", "/3rdparty/")
    programs = ("index.php", "remote.php", "public.php", "status.php", "ocs/v2.php", "lib/base.php", "config/config.php", "console.php")
    names = ("robots.txt", "core/css/a.css", "core/js/b.js", "core/img/c.svg", "apps/d.woff2", "apps/e.json", "data/f.txt", "3rdparty/g.js", "occ", "core/js/h.mjs", "core/i.wasm", "templates/j.html", "AUTHORS", "core/fonts/k.otf")
    fields = ("referrer-policy", "x-content-type-options", "x-frame-options", "x-permitted-cross-domain-policies", "x-robots-tag")
    access = r"""
<IfModule mod_headers.c>
  <IfModule mod_setenvif.c>
    <IfModule mod_env.c>
      Header onsuccess unset Referrer-Policy
      Header always set Referrer-Policy "no-referrer"
      Header onsuccess unset X-Content-Type-Options
      Header always set X-Content-Type-Options "nosniff"
      Header onsuccess unset X-Frame-Options
      Header always set X-Frame-Options "SAMEORIGIN"
      Header onsuccess unset X-Permitted-Cross-Domain-Policies
      Header always set X-Permitted-Cross-Domain-Policies "none"
      Header onsuccess unset X-Robots-Tag
      Header always set X-Robots-Tag "noindex, nofollow"
      SetEnv modHeadersAvailable true
    </IfModule>
  </IfModule>
  <FilesMatch "\.(css|js|mjs|svg|gif|png|jpg|webp|ico|wasm|tflite)$">
    Header set Cache-Control "max-age=15778463, immutable"
  </FilesMatch>
  <FilesMatch "\.(otf|woff2?)$">
    Header set Cache-Control "max-age=604800"
  </FilesMatch>
</IfModule>
<IfModule mod_rewrite.c>
  RewriteEngine on
  RewriteCond %{HTTP_USER_AGENT} DavClnt
  RewriteRule ^$ /remote.php/webdav/ [L,R=302]
  RewriteRule .* - [env=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
  RewriteRule ^\.well-known/carddav /remote.php/dav/ [R=301,L]
  RewriteRule ^\.well-known/caldav /remote.php/dav/ [R=301,L]
  RewriteRule ^remote/(.*) remote.php [QSA,L]
  RewriteRule ^(?:build|tests|config|lib|3rdparty|templates)/.* - [R=404,L]
  RewriteRule ^\.well-known/(?!acme-challenge|pki-validation) /index.php [QSA,L]
  RewriteRule ^ocm-provider/?$ index.php [QSA,L]
  RewriteRule ^(?:\.(?!well-known)|autotest|occ|issue|indie|db_|console).* - [R=404,L]
</IfModule>
AddDefaultCharset utf-8
Options -Indexes
<IfModule mod_rewrite.c>
  RewriteCond %{REQUEST_FILENAME} !-f
  RewriteCond %{REQUEST_FILENAME} !-d
  RewriteRule . index.php [L]
</IfModule>
"""

    def prepare(self):
        super().prepare()
        self.write("data/.htaccess", "Require all denied\nDeny from all\nSatisfy All\n<IfModule mod_autoindex.c>\n  IndexIgnore *\n</IfModule>\n")

    def extra(self):
        return ["/remote/webdav", "/.well-known/carddav", "/.well-known/caldav", "/.well-known/webfinger?resource=a", "/ocm-provider", "/ocm-provider/", "/apps/files", "/s/share",
                "/data", "/data/none", "/config", "/3rdparty", "/occ/x", "/db_structure.xml", "/console.php", "/issue_template.md", "/login?clear=1"]


class MoodleOnApache(WithAccessFile):
    """Moodle as its documentation closes it: sources, tests and read-me files; slash arguments of its scripts."""

    name = "apache-moodle"
    allowed = (("a file with a path behind it: with `AcceptPathInfo` Apache sends the file, Tutti says 404", lambda request, old, new, differing: (old.status, new.status) == (200, 404) and request.target.endswith("/")),
               ("a script that is not there: Apache shows the page of `ErrorDocument`, Tutti that of the language", lambda request, old, new, differing: old.status == new.status == 404 and ".php" in request.target and b"/error/index.php" in old.body),
               ("the query of a missing page: Apache gives it to the script of the error page under another name", lambda request, old, new, differing: differing == ["body"] and old.status == new.status == 404 and "?" in request.target))
    scripts = ("/index.php", "/pluginfile.php", "/login/index.php", "/config.php")
    folders = ("/", "/login/", "/theme/", "/vendor/", "/lib/", "/node_modules/")
    programs = ("index.php", "pluginfile.php", "login/index.php", "config.php", "error/index.php", "vendor/x.php")
    names = ("robots.txt", "theme/a.css", "theme/b.js", "lib/c.svg", "lib/readme_moodle.txt", "lib/README", "mod/upgrade.txt", "vendor/d.js", "node_modules/e.js", "composer.json", "composer.lock", "admin/environment.xml", "mod/db/install.xml", "phpunit.xml.dist", "lib/tests/behat/f.txt", "lib/fixtures/g.txt", "behat.yml", "pix/h.png")
    access = r"""
RewriteEngine On
RewriteRule "(\/vendor\/)" - [F]
RewriteRule "(\/node_modules\/)" - [F]
RewriteRule "^(vendor|node_modules)\/" - [F]
RewriteRule "(^|/)\.(?!well-known\/)" - [F]
RewriteRule "(composer\.json)" - [F]
RewriteRule "(\.lock)" - [F]
RewriteRule "(\/environment.xml)" - [F]
RewriteRule "(\/install.xml)" - [F]
RewriteRule "(\/README)" - [F]
RewriteRule "(\/readme)" - [F]
RewriteRule "(\/upgrade\.txt)" - [F]
RewriteRule "(phpunit\.xml\.dist)" - [F]
RewriteRule "(\/tests\/behat\/)" - [F]
RewriteRule "(\/fixtures\/)" - [F]
RewriteRule "(behat\.yml)" - [F]
Options -Indexes
AcceptPathInfo On
ErrorDocument 404 /error/index.php
"""

    def extra(self):
        return ["/pluginfile.php/1/course/image.png", "/pluginfile.php/1/x?forcedownload=1", "/course/view.php?id=2", "/login", "/theme/none.css", "/vendor", "/lib/.git/config", "/.well-known/x", "/mod/quiz/readme.md"]


# Differences of what Apache forwards, beyond those of all its sites.
FORWARDED = (
    ("Apache cuts a range out of an answer, Tutti leaves it to the server behind", lambda request, old, new, differing: old.status in (206, 416) and new.status == 200 and b"range:" in new.body),
    ("a script that is not there and has no handler: Tutti says 403 to all of them", lambda request, old, new, differing: (old.status, new.status) == (404, 403) and ".php" in request.target),
    ("a path with a space that a rule sends to another server: Apache says 403, Tutti sends it encoded", lambda request, old, new, differing: (old.status, new.status) == (403, 200) and "%20" in request.target),
)


class Forwarded(ReverseProxyApache):
    """Files of an application in Apache, and all else behind it: rules that ask whether a file exists."""

    scripts = ()
    def prepare(self):
        from harness.servers import free_port
        self.backend_port = free_port()
        for name in self.names:
            self.write(name, f"the content of {name}\n" * 3)

    def requests(self):
        paths = [f"{self.prefix}/group/project/{number}?ref=main&n={number}" for number in range(70)] + list(self.extra())
        made = requests_for(self.paths(), self.folders, self.hosts, (), paths)
        made += [Request(method, path, body=b"a=b" if method in ("POST", "PUT", "PATCH") else b"") for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD") for path in (f"{self.prefix}/x", f"{self.prefix}/redirect", f"{self.prefix}/error")]
        return made


class GitLabOnApache(Forwarded):
    """GitLab behind Apache: files of `public`, everything else and all uploads to workhorse, pages for its failures."""

    name = "apache-gitlab"
    allowed = FORWARDED
    modules = ("proxy", "proxy_http")
    prefix = ""
    folders = ("/", "/assets/", "/uploads/")
    names = ("assets/a.css", "assets/b.js", "assets/c.svg", "robots.txt", "404.html", "422.html", "500.html", "502.html", "deploy.html", "uploads/d.png", "favicon.ico")

    def configuration(self, port):
        return f"""
<VirtualHost *:{port}>
    ServerName site.example
    ServerSignature Off
    ProxyPreserveHost On
    AllowEncodedSlashes NoDecode
    <Location />
        Require all granted
        ProxyPassReverse http://127.0.0.1:{self.backend_port}
        ProxyPassReverse http://site.example/
    </Location>
    RewriteEngine on
    RewriteCond %{{DOCUMENT_ROOT}}/%{{REQUEST_FILENAME}} !-f [OR]
    RewriteCond %{{REQUEST_URI}} ^/uploads/.*
    RewriteRule .* http://127.0.0.1:{self.backend_port}%{{REQUEST_URI}} [P,QSA,NE]
    RequestHeader set X-Forwarded-Proto "http"
    DocumentRoot {self.root}
    <Directory {self.root}>
        Require all granted
    </Directory>
    ErrorDocument 404 /404.html
    ErrorDocument 422 /422.html
    ErrorDocument 500 /500.html
    ErrorDocument 502 /502.html
    ErrorDocument 503 /deploy.html
    LogFormat "%{{X-Forwarded-For}}i %l %u %t \\"%r\\" %>s %b" common_forwarded
    CustomLog {self.folder}/forwarded.log common_forwarded
</VirtualHost>
"""

    def extra(self):
        return ["/api/v4/projects/group%2Fproject", "/group/project.git/info/refs?service=git-upload-pack", "/uploads/none.png", "/-/health", "/users/sign_in", "/assets/none.css"]


class RedmineOnApache(Forwarded):
    """Redmine on a path of its own, behind a balancer: assets with lifetimes, an interface for one network."""

    name = "apache-redmine"
    allowed = FORWARDED
    modules = ("proxy", "proxy_http", "proxy_balancer", "lbmethod_byrequests", "slotmem_shm")
    prefix = "/redmine"
    folders = ("/", "/redmine/", "/redmine/assets/")
    names = ("assets/a.css", "assets/b.js", "assets/c.png", "plugin_assets/d.css", "help/e.html", "index.html")

    def configuration(self, port):
        return f"""
<Proxy balancer://redmine>
    BalancerMember http://127.0.0.1:{self.backend_port}/redmine
</Proxy>
<VirtualHost *:{port}>
    ServerName site.example
    DocumentRoot {self.root}
    ProxyPreserveHost On
    ProxyTimeout 60
    LimitRequestBody 5242880
    Alias /redmine/assets {self.root}/assets
    Alias /redmine/plugin_assets {self.root}/plugin_assets
    <Directory {self.root}>
        Options -Indexes
        Require all granted
    </Directory>
    <LocationMatch "^/redmine/(assets|plugin_assets)/">
        Header set Cache-Control "public, max-age=86400"
    </LocationMatch>
    <Location /redmine/sys>
        Require ip 192.0.2.0/24
    </Location>
    ProxyPass /redmine/assets !
    ProxyPass /redmine/plugin_assets !
    ProxyPass /redmine balancer://redmine
    ProxyPassReverse /redmine balancer://redmine
    ProxyPassReverse /redmine http://127.0.0.1:{self.backend_port}/redmine
    RequestHeader set X-Forwarded-Proto "http"
</VirtualHost>
"""

    def extra(self):
        return ["/redmine", "/redmine/sys/projects", "/redmine/sys", "/redmine/issues.json?limit=1", "/redmine/assets/a.css", "/redmine/assets/none.css", "/redmine/plugin_assets/d.css", "/redminex"]


PUBLIC_APACHE = (DrupalOnApache, MatomoOnApache, Boilerplate, JoomlaOnApache, MediaWikiOnApache, WordPressMultisite, TypoOnApache, JenkinsOnApache,
                 NextcloudOnApache, MoodleOnApache, GitLabOnApache, RedmineOnApache)
