"""The examples of the guides, for the sites that they are for."""

import json
import re
from pathlib import Path

DOCUMENTS = Path(__file__).parent.parent.parent.parent / "docs"


def block(page, heading, kind):
    """The first example of a kind below a heading, of whatever level, before the next one."""
    text = (DOCUMENTS / page).read_text(encoding="utf-8")
    chapter = re.search(rf"^##+ {re.escape(heading)}\n(.*?)(?=^##+ |\Z)", text, re.S | re.M)
    assert chapter, f"docs/{page} has no chapter `{heading}`"
    return re.search(rf"^```{kind}\n(.*?)^```", chapter[1], re.S | re.M)[1]


def documented(heading, address, names):
    """The configuration of docs/start/sites.md below a heading, on this address and with these names instead of those of the page."""
    text = block("start/sites.md", heading, "json")
    for old, new in {"*:80": address, **names}.items():
        assert old in text, f"`{old}` is not in the configuration of `{heading}`"
        text = text.replace(old, str(new))
    return json.loads(text)
