"""An application for each language host, as a package's user would write it first."""

from dataclasses import dataclass, field


@dataclass
class Language:
    package: str
    application: dict
    files: dict
    says: str
    # Debian packages besides what the host itself depends on.
    needs: str = ""
    commands: list = field(default_factory=list)
    path: str = "/"


LANGUAGES = [
    Language(
        "tutti-python",
        {"type": "python", "path": "/srv/python", "module": "wsgi"},
        {"/srv/python/wsgi.py": "def application(environ, start_response):\n    start_response('200 OK', [])\n    return [b'Python says hello']\n"},
        "Python says hello",
    ),
    Language(
        "tutti-perl",
        {"type": "perl", "script": "/srv/perl/app.psgi"},
        {"/srv/perl/app.psgi": "sub { [200, ['Content-Type' => 'text/plain'], ['Perl says hello']] };\n"},
        "Perl says hello",
    ),
    Language(
        "tutti-ruby",
        {"type": "ruby", "script": "/srv/ruby/config.ru"},
        {"/srv/ruby/config.ru": "run ->(env) { [200, { 'content-type' => 'text/plain' }, ['Ruby says hello']] }\n"},
        "Ruby says hello",
        needs="ruby-rack",
    ),
    Language(
        "tutti-node",
        {"type": "node", "working_directory": "/srv/node", "script": "app.js"},
        {"/srv/node/app.js": "require('http').createServer((request, response) => response.end('Node says hello')).listen(3000);\n"},
        "Node says hello",
    ),
    Language(
        "tutti-java",
        {"type": "java", "webapp": "/srv/java"},
        {"/srv/java/WEB-INF/web.xml": "<web-app/>\n", "/srv/java/index.jsp": "<% out.print(\"Java says \" + 6 * 7); %>\n"},
        "Java says 42",
        path="/index.jsp",
    ),
]
