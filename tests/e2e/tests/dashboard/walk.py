"""Looks at every page of a dashboard like the people who will: at two widths, in the dark, with the keyboard, with a screen reader, without
JavaScript. `walk.py URL TOKEN_FILE [FOLDER]`; pictures go into the folder."""

import sys
from pathlib import Path

from chromium import Chromium

PAGES = {
    "/": ("Overview", ["Now", "The last hour", "Server"]),
    "/applications": ("Applications", ["blog"]),
    "/traffic": ("Traffic", ["Listeners", "Answers", "Upstreams"]),
    "/jobs": ("Jobs", ["Spoolers", "Schedules"]),
    "/configuration": ("Configuration", ["Refused change", "In force", "History"]),
    "/certificates": ("Certificates", []),
    "/problems": ("Problems", ["Not served as configured", "Elsewhere", "Recent failed requests", "Recent slow requests"]),
    "/numbers": ("Numbers", ["Status", "Metrics"]),
}

# Contrast of text and its ground (WCAG 2.2, 1.4.3): 4.5, or 3 where it is large.
CONTRAST = """(() => {
    const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => {
        const part = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
        return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
    };
    const ground = (element) => {
        for (; element; element = element.parentElement) {
            const colour = parse(getComputedStyle(element).backgroundColor);
            if (colour.length < 4 || colour[3] === 1) return colour;
        }
        return [255, 255, 255];
    };
    const poor = [];
    for (const element of document.body.querySelectorAll("*")) {
        const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
        if (!text || !element.checkVisibility()) continue;
        const style = getComputedStyle(element);
        const [a, b] = [light(parse(element.closest("svg") ? style.fill : style.color)), light(ground(element))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        const isLarge = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
        if (ratio < (isLarge ? 3 : 4.5)) poor.push(`${element.tagName} ${element.textContent.slice(0, 30)} ${ratio.toFixed(2)}`);
    }
    return poor;
})()"""

FOCUSED = "(document.activeElement.textContent || document.activeElement.id || document.activeElement.tagName).trim().slice(0, 40)"
IS_OUTLINED = "(() => { const style = getComputedStyle(document.activeElement); return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2; })()"


def log_in(page, url, token):
    page.go(url + "/jobs")
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
    page.messages.clear()  # The browser tells of the 403.
    page.wait_until("the focus", has_focus)
    page.type(token)
    before = page.loads
    page.press("Enter")
    page.wait_for_load(before)
    assert page.run("location.pathname") == "/jobs", "back to where one wanted to go"


def look(page, url, pictures):
    for width, dark in ((1400, False), (1400, True), (400, False), (400, True)):
        page.size(width, dark=dark)
        for path, (title, headings) in PAGES.items():
            page.go(url + path)
            over = page.run("document.documentElement.scrollWidth - innerWidth")
            assert over <= 0, f"{path} is {over} pixels too wide at {width}"
            poor = page.run(CONTRAST)
            assert not poor, (path, dark, poor)
            found = page.run("[...document.querySelectorAll('h1, h2')].map((heading) => heading.textContent)")
            assert found[0] == title and set(headings) <= set(found), (path, found)
            if pictures:
                name = f"{title.lower()}-{width}-{'dark' if dark else 'light'}.png"
                page.picture(Path(pictures, name))


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
    page.go(url + "/numbers")
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
    """The tree that a screen reader reads."""
    page.size(1400)
    for path, (title, _) in PAGES.items():
        page.go(url + path)
        tree = page.tree()
        roles = [role for role, _ in tree]
        for role in ("banner", "navigation", "main", "contentinfo"):
            assert roles.count(role) == 1, (path, role, roles)
        assert ("heading", title) in tree, path
        for role in ("table", "region", "image", "link", "button", "form", "combobox"):
            unnamed = [entry for entry in tree if entry[0] == role and not entry[1]]
            assert role == "form" or not unnamed, (path, unnamed)
        # Each table has its headings, and each row its name.
        unnamed = page.run("[...document.querySelectorAll('th')].filter((cell) => !cell.scope || !cell.textContent.trim()).length")
        assert unnamed == 0, path
        levels = page.run("[...document.querySelectorAll('h1, h2, h3')].map((heading) => Number(heading.tagName[1]))")
        assert levels[0] == 1 and levels.count(1) == 1 and all(b - a <= 1 for a, b in zip(levels, levels[1:])), (path, levels)
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
        # An element in a closed `details` cannot be reached, and is not to be.
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
    assert "Go on with updates" in page.run("document.querySelector('.controls').textContent")


def without_scripts(page, url):
    page.scripts(False)
    for path in PAGES:
        page.go(url + path)
        assert not page.run("[...document.querySelectorAll('button')].some((button) => button.textContent === 'Pause updates')"), "scripts are off"
    page.go(url + "/")
    text = page.run("document.querySelector('main').innerText")
    for word in ("Requests", "Connections active", "Processes running", "blog", "running"):
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
    url, token_file, *pictures = sys.argv[1:]
    token = Path(token_file).read_text().strip()
    with Chromium() as browser:
        page = browser.page()
        page.size(1400)
        log_in(page, url, token)
        look(page, url, pictures[0] if pictures else None)
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
