"""Java: web applications that others have made, from Maven Central as they are: JSPWiki, Solr 4, and the examples of Wicket."""

import json
import os
import re
import shutil
import subprocess
import time
import urllib.parse
import zipfile
from pathlib import Path

from browser import png
from servers import own
from sites.java import OPTIONS, ROOT, JavaSite

COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"


def fetched(artifact):
    """The file of `GROUP:NAME:VERSION[:war]`, which Maven brings on first use."""
    _, name, version, *kind = artifact.split(":")
    folder = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "java-wars"
    file = folder / f"{name}-{version}.{(kind or ['jar'])[0]}"
    if not file.exists():
        command = ["mvn", "--quiet", "--batch-mode", COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
        subprocess.run(command, check=True)
    return file


class War(JavaSite):
    """A packed web application, unpacked where it is served, with further jars in it."""

    jars = ()

    def prepare(self):
        super().prepare()
        with zipfile.ZipFile(fetched(self.war)) as war:
            war.extractall(self.root)
        for jar in self.jars:
            shutil.copy(fetched(jar), self.root / "WEB-INF/lib")
        self.home = self.root.parent / "home"
        self.home.mkdir()
        self.furnish()
        own(self.root, self.home)

    def furnish(self):
        """Puts what the application needs beside itself into `home`."""

    def application(self):
        # With jars by the dozen a start takes long where other tests run.
        return {**super().application(), "limits": {"start_timeout": 300}, "options": [*OPTIONS, *self.options()]}

    def options(self):
        return []


class JspWiki(War):
    """People register, log in, write pages in a wiki's markup, attach pictures, compare versions and search."""

    name = "jspwiki"
    is_long = True
    war = "org.apache.jspwiki:jspwiki-war:2.11.2:war"

    def furnish(self):
        (self.home / "pages").mkdir()
        (self.home / "pages/Main.txt").write_text("!!Tea and coffee\nA [Kettle] is needed.\n")
        for name in ("userdatabase.xml", "groupdatabase.xml"):
            shutil.copy(self.root / "WEB-INF" / name, self.home)
        told = {
            "jspwiki.fileSystemProvider.pageDir": "pages", "jspwiki.basicAttachmentProvider.storageDir": "attachments", "jspwiki.workDir": "work",
            "jspwiki.xmlUserDatabaseFile": "userdatabase.xml", "jspwiki.xmlGroupDatabaseFile": "groupdatabase.xml",
        }
        lines = [f"{name} = {self.home / place}\n" for name, place in told.items()]
        # Seconds; from the start until pages are looked at it is a minute else.
        lines += [f"{name} = 1\n" for name in ("jspwiki.lucene.initialdelay", "jspwiki.lucene.indexdelay")]
        lines += ["jspwiki.pageProvider = VersioningFileProvider\n"]
        (self.root / "WEB-INF/classes/jspwiki-custom.properties").write_text("".join(lines))

    def journey(self, person, root):
        person.get("/").expect("Tea and coffee", "Kettle")
        page = person.get("/Login.jsp?tab=register")
        told = {"loginname": "ada", "password": "secret words", "password2": "secret words", "fullname": "Ada Löv", "email": "ada@example.com"}
        person.submit(page, page.form(field="loginname"), told, button="action").expect("Tea and coffee")
        person.get("/Logout.jsp")
        page = person.get("/Login.jsp")
        login = {"j_username": "ada", "j_password": "wrong"}
        page = person.submit(page, page.form(field="j_username"), login, button="submitlogin").expect("Not a valid login.")
        login["j_password"] = "secret words"
        person.submit(page, page.form(field="j_username"), login, button="submitlogin").expect("Ada Löv", "Tea and coffee")
        for text, shown in (("__hot__ ümlaut ☕ <script>alert(1)</script>", "<b>hot</b> ümlaut ☕ &lt;script&gt;"), ("a whistle for [Main]", "a whistle for")):
            page = person.get("/Edit.jsp?page=Kettle")
            page = person.submit(page, page.form(id_="editform"), {"_editedtext": f"!!Kettle\n{text}\n"}, button="ok")
            page.expect(shown)
            assert page.url.endswith("/Wiki.jsp?page=Kettle"), page.url
        person.get("/Diff.jsp?page=Kettle&r1=2&r2=1").expect('<td class="diffadd">a whistle for [Main]</td>', '<td class="diffrem">__hot__')
        picture = png(900, 700)
        page = person.get("/Upload.jsp?page=Kettle")
        files = {"files": ("kettle.png", "image/png", picture)}
        person.submit(page, page.form(id_="uploadform"), {"changenote": "a kettle"}, files=files).expect("kettle.png")
        answer = person.get("/attach/Kettle/kettle.png")
        assert answer.body == picture and answer.header("Content-Type") == "image/png", answer.headers
        # A thread of its own brings what is new into the index.
        found = '<td><a class="wikipage" href="/Wiki.jsp?page=Kettle"'
        end = time.monotonic() + 120
        while found not in person.get("/Search.jsp?query=whistle").text:
            assert time.monotonic() < end, "the new text is not found"
            time.sleep(0.2)
        person.get("/Search.jsp?query=umbrella").expect_not(found)
        person.get("/Logout.jsp").expect_not("Ada Löv")
        person.get("/Delete.jsp?page=Kettle").expect("j_username")
        return "/"


class Solr(War):
    """Documents are indexed, changed, found in several ways, and removed."""

    name = "solr"
    is_long = True
    war = "org.apache.solr:solr:4.10.4:war"
    jars = ("org.slf4j:slf4j-api:1.7.36", "org.slf4j:slf4j-simple:1.7.36", "org.slf4j:jcl-over-slf4j:1.7.36")

    SCHEMA = """<?xml version="1.0"?>
<schema name="books" version="1.5">
  <types>
    <fieldType name="string" class="solr.StrField"/>
    <fieldType name="long" class="solr.TrieLongField"/>
    <fieldType name="text" class="solr.TextField">
      <analyzer><tokenizer class="solr.StandardTokenizerFactory"/><filter class="solr.LowerCaseFilterFactory"/></analyzer>
    </fieldType>
  </types>
  <fields>
    <field name="id" type="string" indexed="true" stored="true" required="true"/>
    <field name="_version_" type="long" indexed="true" stored="true"/>
    <field name="title" type="text" indexed="true" stored="true"/>
    <field name="shelf" type="string" indexed="true" stored="true"/>
    <field name="pages" type="long" indexed="true" stored="true"/>
  </fields>
  <uniqueKey>id</uniqueKey>
  <defaultSearchField>title</defaultSearchField>
</schema>
"""
    SETTINGS = """<?xml version="1.0"?>
<config>
  <luceneMatchVersion>4.10.4</luceneMatchVersion>
  <directoryFactory name="DirectoryFactory" class="solr.NIOFSDirectoryFactory"/>
  <updateHandler class="solr.DirectUpdateHandler2"><updateLog/></updateHandler>
  <requestHandler name="/select" class="solr.SearchHandler"/>
  <requestHandler name="/update" class="solr.UpdateRequestHandler"/>
  <requestHandler name="/admin/" class="solr.admin.AdminHandlers"/>
  <requestDispatcher handleSelect="false">
    <requestParsers multipartUploadLimitInKB="65536" formdataUploadLimitInKB="65536"/>
  </requestDispatcher>
</config>
"""

    def furnish(self):
        (self.home / "solr.xml").write_text("<solr/>")
        core = self.home / "books"
        (core / "conf").mkdir(parents=True)
        (core / "core.properties").write_text("name=books\n")
        (core / "conf/schema.xml").write_text(self.SCHEMA)
        (core / "conf/solrconfig.xml").write_text(self.SETTINGS)

    def options(self):
        return [f"-Dsolr.solr.home={self.home}"]

    def journey(self, person, root):
        def update(what):
            kind = {"Content-Type": "application/json"}
            answer = json.loads(person.post("/books/update?commit=true&wt=json", json.dumps(what).encode(), headers=kind).text)
            assert answer["responseHeader"]["status"] == 0, answer

        def found(query):
            return json.loads(person.get(f"/books/select?wt=json&{query}").text)

        person.get("/").expect("Solr Admin")
        shelves = ("tea", "coffee", "cocoa")
        books = [{"id": str(number), "title": f"Book {number} of Grüße", "shelf": shelves[number % 3], "pages": number} for number in range(5000)]
        update(books)
        answer = found("q=gr%C3%BC%C3%9Fe&rows=0&facet=true&facet.field=shelf")
        assert answer["response"]["numFound"] == 5000, answer
        assert answer["facet_counts"]["facet_fields"]["shelf"] == ["coffee", 1667, "tea", 1667, "cocoa", 1666], answer
        update({"add": {"doc": {"id": "7", "title": "Seven kettles", "shelf": "tea", "pages": 70}}})
        update({"delete": {"query": "shelf:cocoa"}})
        words = " OR ".join(f"word{number}" for number in range(500))
        answer = json.loads(person.post("/books/select", {"wt": "json", "q": f"title:({words} OR kettles)"}).text)
        assert [book["id"] for book in answer["response"]["docs"]] == ["7"], answer
        answer = found("q=pages:[4990+TO+*]&sort=pages+desc&fl=id&rows=3")
        assert [book["id"] for book in answer["response"]["docs"]] == ["4999", "4998", "4996"], answer
        lines = person.get("/books/select?q=*:*&fl=id&rows=5000&wt=csv").text.split()
        assert lines[0] == "id" and len(lines) == 1 + 5000 - 1666, len(lines)
        person.get("/books/select?wt=json&q=title:(", status=400).expect("SyntaxError")
        return "/"


class Wicket(War):
    """The examples: forms, pages behind a login, parts of pages that change by Ajax, uploads."""

    name = "wicket"
    is_long = True
    war = "org.apache.wicket:wicket-examples:9.0.0:war"

    def furnish(self):
        (self.home / "tmp").mkdir()

    def options(self):
        return ["--add-opens", "java.base/java.lang=ALL-UNNAMED", "-Dwicket.configuration=deployment", f"-Djava.io.tmpdir={self.home}/tmp"]

    def journey(self, person, root):
        person.get("/helloworld/").expect("Hello World!")
        page = person.get("/guestbook/")
        person.submit(page, page.form(id_="commentForm"), {"text": "<b>ümlaut</b> ☕"}).expect("&lt;b&gt;ümlaut&lt;/b&gt; ☕")
        page = person.get("/forminput/")
        form = page.form(field="integerProperty")
        page = person.submit(page, form, {"integerProperty": "abc"}).expect("&#039;integerProperty&#039; is not a valid Integer")
        # A request for a page of the protected part leads to the login, and from there to the page.
        page = person.get("/authentication1/")
        page = person.submit(page, page.form(field="username"), {"username": "wicket", "password": "wrong"}).expect("feedbackPanelERROR")
        page = person.submit(page, page.form(field="username"), {"username": "wicket", "password": "wicket"}).expect("Sign Out")
        assert page.url.endswith("/authentication1/"), page.url
        page = person.get("/ajax/links")
        link = urllib.parse.urljoin(page.url, re.search(r'"u":"([^"]*-c1~link)"', page.text)[1])
        part = {"Wicket-Ajax": "true", "Wicket-Ajax-BaseURL": "links?0", "X-Requested-With": "XMLHttpRequest"}
        for count in (1, 2):
            answer = person.get(link, headers=part).expect(f">{count}</span>]]></component></ajax-response>")
            assert answer.header("Content-Type") == "text/xml;charset=utf-8", answer.headers
        page = person.get("/upload/single")
        for length, told in ((50_000, "saved file: grün.txt"), (95_000, "feedbackPanelERROR")):
            form = page.form(enctype="multipart/form-data")
            page = person.submit(page, form, files={"fileInput": ("grün.txt", "text/plain", b"x" * length)}).expect(told)
        # Beans of CDI, Spring's and templates of Velocity in one application.
        page = person.get("/cdi/").expect("Injection Example")
        page = person.get(urllib.parse.urljoin(page.url, re.search(r'href="([^"]*)">Injection Example', page.text)[1]))
        before = int(re.search(r"counter value is: <[^>]*>(\d+)", page.text)[1])
        link = re.search(r'href="([^"]*)"[^>]*>increment', page.text)[1]
        person.get(urllib.parse.urljoin(page.url, link)).expect(f">{before + 1}</span>")
        person.get("/spring/").expect("annotations approach")
        person.get("/velocity/").expect("Velocity Template Component")
        person.get("/nosuch", status=404)
        return "/"
