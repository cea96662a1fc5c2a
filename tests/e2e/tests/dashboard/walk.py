"""Looks at every page of a dashboard like the people who will: at three widths, in dark mode, with the keyboard, with a screen reader, without
JavaScript. `walk.py URL TOKEN_FILE AXE [FOLDER]`; AXE is the script of axe-core, and pictures go into the folder."""

import sys
from pathlib import Path

from chromium import Chromium

PAGES = {
    "/": ("Overview", ["Needs attention", "Now", "The last hour", "Server"]),
    "/applications": ("Applications", ["blog"]),
    "/traffic": ("Traffic", ["Listeners", "Routes", "Responses", "Upstreams"]),
    "/jobs": ("Jobs", ["Spoolers", "Schedules"]),
    "/configuration": ("Configuration", ["Refused change", "In force", "History"]),
    "/certificates": ("Certificates", []),
    "/problems": ("Problems", ["Needs attention", "Recent failed requests", "Recent slow requests"]),
    "/metrics": ("Metrics", ["Status", "Metrics"]),
    "/search?q=blog": ("Search", []),
}

# Contrast, names, roles, headings, landmarks: all rules that axe has by default.
AXE = """axe.run({resultTypes: ["violations"]}).then(({violations}) => violations.flatMap(({id, nodes}) =>
    nodes.map((node) => `${id}: ${node.html.slice(0, 200)} ${node.failureSummary}`)))"""

FOCUSED = "(document.activeElement.textContent || document.activeElement.id || document.activeElement.tagName).trim().slice(0, 40)"
IS_OUTLINED = "(() => { const style = getComputedStyle(document.activeElement); return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2; })()"


def check(page, axe):
    page.run(axe)
    violations = page.run(AXE)
    assert not violations, (page.run("location.pathname + ' ' + innerWidth"), violations)


def log_in(page, url, token, axe):
    page.go(url + "/jobs")
    check(page, axe)
    tree = page.tree()
    assert ("textbox", "Token") in tree and ("button", "Log in") in tree, tree
    # The field gets the focus, so a person types at once.
    has_focus = "document.activeElement.id === 'token'"
    page.wait_until("the focus", has_focus)
    page.type("0" * 64)
    before = page.loads
    page.press("Enter")
    page.wait_for_load(before)
    assert ("alert", "") in page.tree() or any(role == "alert" for role, _ in page.tree()), page.tree()
    page.messages.clear()  # The browser logs the 403.
    page.wait_until("the focus", has_focus)
    page.type(token)
    before = page.loads
    page.press("Enter")
    page.wait_for_load(before)
    assert page.run("location.pathname") == "/jobs", "back to where one wanted to go"


def look(page, url, axe, pictures):
    for width, dark in ((1400, False), (1400, True), (800, False), (390, False), (390, True)):
        page.size(width, dark=dark)
        for path, (title, headings) in PAGES.items():
            page.go(url + path)
            over = page.run("document.documentElement.scrollWidth - innerWidth")
            assert over <= 0, f"{path} is {over} pixels too wide at {width}"
            check(page, axe)
            found = page.run("[...document.querySelectorAll('h1, h2')].map((heading) => heading.textContent)")
            assert found[0] == title and set(headings) <= set(found), (path, found)
            if pictures:
                name = f"{title.lower()}-{width}-{'dark' if dark else 'light'}.png"
                page.picture(Path(pictures, name))


def overview(page, url):
    """The alerts come first, with their commands."""
    page.size(390, 844)
    page.go(url + "/")
    alert = page.run("document.querySelector('main section:first-of-type .alerts').innerText")
    assert "of upstream api is down" in alert and "Run curl -iv http://" in alert, alert
    assert page.run("document.querySelector('.alerts').getBoundingClientRect().bottom <= innerHeight"), "it is seen on a phone without scrolling"
    assert page.run("document.querySelector('nav a[href=\"/problems\"]').textContent") == "Problems (1)"
    # On a phone a row is a card with the headings in its cells, and a table nevertheless.
    tree = page.tree()
    assert ("rowheader", "blog") in tree and ("rowheader", "routes") in tree, tree
    cells = [name for role, name in tree if role == "cell"]
    for heading in ("Requests", "4xx", "5xx", "p50", "p99", "Busy workers", "Backlog", "Memory"):
        assert any(name.startswith(heading) for name in cells), (heading, cells)
    page.size(1400)


def search(page, url):
    """Control and K lead to the search, and Enter to its results."""
    page.size(1400)
    page.go(url + "/")
    page.press("k", control=True)
    assert page.run("document.activeElement.id") == "search"
    page.type("BLOG")
    before = page.loads
    page.press("Enter")
    page.wait_for_load(before)
    found = page.run("[...document.getElementById('results').rows].map((row) => [...row.cells].map((cell) => cell.textContent))")
    assert ["blog", "application"] in found and any(kind == "configuration" for _, kind in found), found
    before = page.loads
    page.run("document.querySelector('#results a[href*=\"#application-\"]').click()")
    page.wait_for_load(before)
    assert page.run("document.querySelector(':target').textContent") == "blog"
    page.go(url + "/search?q=hunter2")
    assert page.run("document.getElementById('results')") is None, "secrets are not found"


def fit(page, url):
    """On a laptop's screen the applications are seen whole, memory included, without scrolling."""
    page.size(1280)
    for path in ("/", "/applications"):
        page.go(url + path)
        over = page.run("[...document.querySelectorAll('main .scroll')].map((part) => part.scrollWidth - part.clientWidth)")
        assert max(over) <= 0, f"tables of {path} are wider than 1280 pixels: {over}"
    page.size(1400)


def arrange(page, url):
    """Tables are sorted by a click on a heading, also after an update, and long ones are filtered."""
    page.go(url + "/metrics")
    body = "document.querySelector('tbody')"
    column = f"[...{body}.rows].filter((row) => !row.hidden).map((row) => row.cells[0].textContent)"
    names = page.run(column)
    heading = f"{body}.parentElement.tHead.rows[0].cells[0]"
    page.run(f"{heading}.querySelector('button').click()")
    assert page.run(f"{heading}.ariaSort") == "ascending"
    page.run(f"{heading}.querySelector('button').click()")
    assert page.run(f"{heading}.ariaSort") == "descending"
    ascending = page.run("(" + repr(names) + ").sort((a, b) => a.localeCompare(b))")
    assert page.run(column) == ascending[::-1], page.run(column)
    wanted = names[0]
    page.run(f"(() => {{ const input = document.getElementById({body}.id + '-filter'); input.value = {wanted!r}; input.dispatchEvent(new Event('input')); }})()")
    found = page.run(column)
    assert wanted in found and len(found) < len(names), found
    page.run("window.mark = document.getElementById('seen').textContent")
    page.wait_until("an update", "document.getElementById('seen').textContent !== window.mark")
    assert len(page.run(column)) == len(found), "an update keeps the filter"
    # Amounts are compared, not their texts.
    amounts = page.run("['9.00 MiB', '1.50 GiB', '12.5 ms', '3.00 s', '–', '1\u00a0234'].map(amount)")
    assert amounts == [9 * 2**20, 1.5 * 2**30, 0.0125, 3, -1, 1234], amounts


def listen(page, url):
    """The graphs, as a screen reader reads them. The rest of what it reads is axe's."""
    page.go(url + "/")
    images = [name for role, name in page.tree() if role in ("image", "img")]
    assert "Requests per second" in images and len(images) == 6, images
    words = page.run("document.getElementById('graph-requests-text').textContent")
    assert "in the last hour from" in words or "nothing yet" in words, words


def use_keys(page, url):
    page.go(url + "/")
    page.press("Tab")
    assert page.run(FOCUSED) == "Skip to content"
    assert page.run("document.activeElement.getBoundingClientRect().left >= 0"), "the skipping link is seen when it has the focus"
    page.press("Enter")
    page.press("Tab")
    assert page.run("document.querySelector('main').contains(document.activeElement)"), "the way to the other pages is skipped"
    for path in PAGES:
        page.go(url + path)
        wanted = page.run("document.querySelectorAll('a[href], button, input:not([type=hidden]), select, summary, [tabindex=\"0\"]').length")
        # An element in a closed `details` cannot be reached.
        wanted -= page.run("document.querySelectorAll('details:not([open]) :is([tabindex=\"0\"], button, input)').length")
        seen = []
        for _ in range(wanted):
            page.press("Tab")
            assert page.run(IS_OUTLINED), (path, page.run(FOCUSED))
            page.run("window.visited = (window.visited || new Set()).add(document.activeElement)")
            seen.append(page.run(FOCUSED))
        reached = page.run("window.visited.size")
        assert reached >= wanted, (path, reached, wanted, seen)
    # From page to page with the keyboard alone.
    page.go(url + "/")
    page.run("document.querySelector('nav a[href=\"/traffic\"]').focus()")
    before = page.loads
    page.press("Enter")
    page.wait_for_load(before)
    assert page.run("document.querySelector('h1').textContent") == "Traffic"


def wait_for_news(page, url):
    """The script fetches the page again: numbers change, the focus stays where it is."""
    page.go(url + "/")
    page.run("document.querySelector('summary').focus(); window.mark = 1")
    page.wait_until("new numbers", f"document.getElementById('seen').textContent !== {page.run('JSON.stringify(document.getElementById(`seen`).textContent)')}")
    assert page.run("window.mark") == 1, "the page was not loaded anew"
    assert page.run("document.activeElement.tagName") == "SUMMARY"
    page.run("[...document.querySelectorAll('button')].find((button) => button.textContent === 'Pause updates').click()")
    assert "Resume updates" in page.run("document.querySelector('.controls').textContent")


def without_scripts(page, url):
    page.scripts(False)
    for path in PAGES:
        page.go(url + path)
        assert not page.run("[...document.querySelectorAll('button')].some((button) => button.textContent === 'Pause updates')"), "scripts are off"
    page.go(url + "/")
    text = page.run("document.querySelector('main').innerText")
    for word in ("Requests", "p99", "Busy workers", "Backlog", "Active connections", "blog", "running"):
        assert word in text, (word, text)
    drawn = page.run("document.querySelectorAll('.graph svg[role=img] path').length")
    assert drawn >= 8, f"{drawn} lines are drawn without a script"
    before = page.loads
    page.run("document.querySelector('.controls a').click()")
    page.wait_for_load(before)
    page.go(url + "/configuration")
    assert page.run("document.querySelectorAll('[id^=refused-]').length") >= 5
    assert page.run("document.querySelector('.marked .mark').innerText").startswith("Problem: ")
    page.scripts(True)


def main():
    url, token_file, axe, *pictures = sys.argv[1:]
    token = Path(token_file).read_text().strip()
    axe = Path(axe).read_text()
    with Chromium() as browser:
        page = browser.page()
        page.size(1400)
        log_in(page, url, token, axe)
        overview(page, url)
        look(page, url, axe, pictures[0] if pictures else None)
        search(page, url)
        fit(page, url)
        arrange(page, url)
        listen(page, url)
        use_keys(page, url)
        wait_for_news(page, url)
        without_scripts(page, url)
        before = page.loads
        page.run("document.querySelector('.logout button').click()")
        page.wait_for_load(before)
        page.go(url + "/")
        assert page.run("location.pathname") == "/login", "logged out"
        assert not page.messages, page.messages
    print("ok")


main()
