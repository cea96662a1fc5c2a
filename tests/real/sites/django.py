"""Django with its admin, by WSGI and by ASGI: log in, add a note, see it, change it, delete it, log out."""

import json

from servers import own
from sites.documented import documented
from sites.python_site import PythonSite


class Django(PythonSite):
    name = "django"
    members = {"module": "site_wsgi"}

    def prepare(self):
        super().prepare()
        (self.root / "data").mkdir()
        for arguments in (("makemigrations", "notes"), ("migrate",), ("collectstatic", "--no-input")):
            self.run("manage.py", *arguments, "--verbosity", "0")
        self.environment |= {"DJANGO_SUPERUSER_PASSWORD": "sesame"}
        self.run("manage.py", "createsuperuser", "--no-input", "--username", "ada", "--email", "ada@example.test")
        own(self.root)

    def tutti(self, address):
        configuration = documented("Django", address, {"/srv/django": self.root, "mysite.wsgi": self.members["module"], "mysite.settings": "settings"})
        application = configuration["applications"]["django"]
        own = self.application()
        application.update({name: value for name, value in own.items() if name in ("home", "user", "group")})
        application["environment"].update(self.environment)
        return configuration

    def journey(self, person, root):
        page = person.get("/admin/").expect("Django administration", "Log in")
        assert page.url.endswith("/admin/login/?next=/admin/"), page.url
        wrong = person.submit(page, page.form(id="login-form"), {"username": "ada", "password": "wrong"})
        page = wrong.expect("Please enter the correct username and password")
        page = person.submit(page, page.form(id="login-form"), {"username": "ada", "password": "sesame"})
        page.expect("Site administration", "Notes")
        style = person.get("/static/admin/css/base.css").expect("--primary")
        assert style.header("Content-Type").startswith("text/css"), style.header("Content-Type")
        page = person.get("/admin/notes/note/add/").expect("Add note")
        page = person.submit(page, page.form(id="note_form"), {"text": "Grüße <aus> Wien"}, button="_save")
        page.expect("was added successfully", "Grüße &lt;aus&gt; Wien")
        person.get("/").expect("<li>Grüße <aus> Wien</li>")
        assert json.loads(person.get("/async").text) == {"notes": ["Grüße <aus> Wien"]}
        page = person.get("/admin/notes/note/1/change/")
        page = person.submit(page, page.form(id="note_form"), {"text": "changed"}, button="_save")
        page.expect("was changed successfully")
        page = person.get("/admin/notes/note/1/delete/").expect("Are you sure")
        person.submit(page, page.form(field="post")).expect("was deleted successfully")
        person.get("/").expect_not("changed")
        assert person.get("/stream").text == "".join(f"{number}\n" for number in range(1000))
        page = person.get("/admin/")
        person.submit(page, page.form(id="logout-form")).expect("Logged out")
        person.get("/admin/").expect("Log in")
        person.get("/no/such/page", status=404).expect("Not Found")
        return "/admin/"


class DjangoAsgi(Django):
    """The same by ASGI."""

    name = "django-asgi"
    source = "django"
    members = {"module": "site_asgi"}
