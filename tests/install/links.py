#!/usr/bin/env python3
"""Follows the links of all Markdown pages below a folder: files and headings must be there.

    tests/install/links.py FOLDER
"""
import pathlib
import re
import sys

LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """The names that headings have as targets, as the usual viewers make them."""
    found = set()
    for heading in re.findall(r"^#+ +(.*)$", FENCED.sub("", text), re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


def main() -> int:
    top = pathlib.Path(sys.argv[1])
    pages = sorted(top.rglob("*.md"))
    seen, broken = 0, []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for link in LINK.findall(FENCED.sub("", text)):
            if "://" in link:
                continue
            seen += 1
            name, _, anchor = link.partition("#")
            target = page.parent / name if name else page
            if not target.exists():
                broken.append(f"{page}: {link}: no such file")
            elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
                broken.append(f"{page}: {link}: no such heading")
    print("\n".join(broken))
    if broken or seen < 50:
        print(f"{len(broken)} of {seen} links are broken", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
