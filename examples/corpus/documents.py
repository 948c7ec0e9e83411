#!/usr/bin/env python3
"""Writes the documents of a Debian package, or of a folder, as JSONL: objects of "id", "text".

    examples/corpus/documents.py python3.11-doc python.jsonl     # 497 documents
    examples/corpus/documents.py --keep packages perl-doc perl.jsonl
    examples/corpus/documents.py ./notes notes.jsonl

A package is downloaded by `apt-get download` and unpacked, not installed; a folder has a slash in
its name. Documents are sources in reStructuredText, Markdown and Pod and plain texts; without any,
HTML pages as text.
"""

import argparse
import gzip
import html.parser
import json
import subprocess
import tempfile
from pathlib import Path

SOURCES = (".rst.txt", ".rst.gz", ".rst", ".md", ".pod", ".txt", ".txt.gz")
NO_TEXT = {"script", "style", "head", "nav"}
BLOCKS = {"p", "div", "h1", "h2", "h3", "h4", "h5", "h6", "li", "tr", "pre", "br", "dt", "dd"}


class PageText(html.parser.HTMLParser):
    """The text of a page, blocks on lines of their own."""

    def __init__(self):
        super().__init__()
        self.pieces, self.hidden = [], 0

    def handle_starttag(self, tag, attrs):
        self.hidden += tag in NO_TEXT
        if tag in BLOCKS:
            self.pieces.append("\n")

    def handle_endtag(self, tag):
        self.hidden -= tag in NO_TEXT
        if tag in BLOCKS:
            self.pieces.append("\n")

    def handle_data(self, data):
        if self.hidden == 0:
            self.pieces.append(data)

    def text(self):
        lines = [line.rstrip() for line in "".join(self.pieces).split("\n")]
        kept = [line for line, before in zip(lines, [""] + lines) if line or before]
        return "\n".join(kept).strip() + "\n"


def unpacked(package, folder):
    """The package's files below `folder`, which it is downloaded into once."""
    target = folder / package
    if not target.exists():
        subprocess.run(["apt-get", "download", "--quiet", package], cwd=folder, check=True)
        archive = next(folder.glob(f"{package}_*.deb"))
        subprocess.run(["dpkg-deb", "-x", archive, target], check=True)
    return target


def read(file):
    raw = gzip.open(file).read() if file.suffix == ".gz" else file.read_bytes()
    text = raw.decode("utf-8", errors="replace")
    if ".html" not in file.name:
        return text
    page = PageText()
    page.feed(text)
    return page.text()


def documents(root):
    files = sorted(file for file in root.rglob("*") if file.is_file() and not file.is_symlink())
    sources = [file for file in files if file.name.endswith(SOURCES)]
    pages = [file for file in files if file.name.endswith((".html", ".html.gz"))]
    for file in sources or pages:
        yield {"id": str(file.relative_to(root)), "text": read(file)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, help="a folder for the package's files [none is kept]")
    parser.add_argument("package", help="or a folder")
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        root = (Path(options.package) if "/" in options.package
                else unpacked(options.package, folder.resolve()))
        count = 0
        with options.out.open("w") as out:
            for document in documents(root):
                out.write(json.dumps(document, ensure_ascii=False) + "\n")
                count += 1
    if count == 0:
        raise SystemExit(f"{options.package} has no documents")
    print(f"{options.out}: {count} documents, {options.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
