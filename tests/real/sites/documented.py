"""The configurations of docs/sites.md, for the sites that they are for."""

import json
import re
from pathlib import Path

PAGE = Path(__file__).parent.parent.parent.parent / "docs/sites.md"


def documented(heading, address, names):
    """The configuration below a heading, on this address and with these names instead of those of the page."""
    chapter = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    assert chapter, f"docs/sites.md has no chapter `{heading}`"
    text = re.search(r"^```json\n(.*?)^```", chapter[1], re.S | re.M)[1]
    for old, new in {"*:80": address, **names}.items():
        assert old in text, f"`{old}` is not in the configuration of `{heading}`"
        text = text.replace(old, str(new))
    return json.loads(text)
