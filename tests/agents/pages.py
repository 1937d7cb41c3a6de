"""Pages of the documentation: settings that docs/agents.md shows, and tables that tests have recorded."""

import re
from pathlib import Path

PAGE = Path(__file__).parent.parent.parent / "docs" / "agents.md"
URL = "http://127.0.0.1:8484"
MODEL = "kimi-k2"


def block(section: str, language: str, url: str, model: str, *, at: int = 0) -> str:
    """Return a code block of a section."""
    text = PAGE.read_text("utf-8")
    _, _, rest = text.partition(f"\n## {section}\n")
    own = rest.partition("\n## ")[0]
    found = re.findall(rf"^```{language}\n(.*?)^```$", own, re.MULTILINE | re.DOTALL)
    assert len(found) > at, f"no such {language} in the section {section}"
    return found[at].replace(URL, url).replace(MODEL, model)


def with_table(text: str, begin: str, end: str, table: str) -> str:
    """Return a page with a table between two marks."""
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"
