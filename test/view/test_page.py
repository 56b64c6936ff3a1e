#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a browser shows of the page: Chromium runs it without a window and gives the document back. What a
reader would do is asked for by the part of the address after #. test_page.py ANFORA"""
import html.parser
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), HERE]
from programs import EFFECTS, FIBONACCI, HOSTILE, chain  # noqa: E402
from tap import Tap  # noqa: E402

ANFORA = os.path.abspath(sys.argv[1])
BROWSER = next((b for b in ("chromium", "chromium-browser", "google-chrome") if shutil.which(b)), None)
TAP = Tap()
VOID = {"meta", "input", "link", "br", "img", "hr"}


class Element:
    def __init__(self, name, attrs):
        self.name, self.attrs, self.inner = name, dict(attrs), []

    def all(self, test):
        """Elements below this one, in order."""
        todo, found = list(reversed(self.inner)), []
        while todo:
            e = todo.pop()
            if isinstance(e, Element):
                if test(e):
                    found.append(e)
                todo.extend(reversed(e.inner))
        return found

    def having(self, name):
        return self.all(lambda e: name in e.attrs)

    def of_class(self, name):
        return self.all(lambda e: name in e.attrs.get("class", "").split())

    def text(self):
        return "".join(e if isinstance(e, str) else e.text() for e in self.inner)


class Reader(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.stack = [Element("", {})]

    def handle_starttag(self, tag, attrs):
        e = Element(tag, attrs)
        self.stack[-1].inner.append(e)
        if tag not in VOID:
            self.stack.append(e)

    def handle_startendtag(self, tag, attrs):
        self.stack[-1].inner.append(Element(tag, attrs))

    def handle_endtag(self, tag):
        if any(e.name == tag for e in self.stack):
            while self.stack.pop().name != tag:
                pass

    def handle_data(self, data):
        self.stack[-1].inner.append(data)


class Page:
    def __init__(self, fragment=""):
        words = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,900", "--virtual-time-budget=8000",
                 "--user-data-dir=" + os.path.abspath("profile"), "--dump-dom", f"file://{os.path.abspath('p.html')}#{fragment}"]
        self.source = subprocess.run(words, capture_output=True, encoding="utf-8", timeout=400, check=False).stdout
        reader = Reader()
        reader.feed(self.source)
        self.root = reader.stack[0]
        body = self.root.all(lambda e: e.name == "body")
        self.ready = bool(body) and body[0].attrs.get("data-ready") == "1"
        self.details = self.by_id("details")

    def by_id(self, name):
        found = self.root.all(lambda e: e.attrs.get("id") == name)
        return found[0] if found else Element("", {})

    def nodes(self):
        return [e for e in self.root.having("data-id")]

    def folded(self):
        return [e.attrs["data-folded"] for e in self.root.having("data-folded")]

    def fact(self, name):
        return [e.text() for e in self.details.having("data-fact") if e.attrs["data-fact"] == name]

    def titles(self, kind):
        return sorted(e.of_class("title")[0].text() for e in self.root.all(lambda e: e.attrs.get("class") == "node " + kind))

    def find(self, kind, title):
        """Numbers of the nodes of that class with that title."""
        return [int(e.attrs["data-id"]) for e in self.nodes()
                if kind in e.attrs["class"].split() and e.of_class("title")[0].text() == title]


def make(program, *options):
    with open("p.anf", "w", encoding="utf-8") as f:
        f.write(program)
    r = subprocess.run([ANFORA, "view", "p.anf", "-o", "p.html", *options], capture_output=True, text=True, check=False)
    if r.returncode or r.stderr:
        raise AssertionError(r.stderr)
    with open("p.html", encoding="utf-8") as f:
        return f.read()


def want(name, got, expected):
    TAP.case(name, "" if got == expected else f"{got!r}\nis not {expected!r}")


def test_fibonacci():
    text = make(FIBONACCI)
    links = [u for u in re.findall(r"(?:https?:)?//[\w.]+|@import|url\([^#)]*\)", re.sub(r"^\s*//.*$|/\*.*?\*/", "", text, flags=re.M | re.S))
             if "www.w3.org" not in u]
    want("the page refers to nothing outside", [u for u in links if "//" in u and "http" in u or "url" in u or "import" in u], [])
    p = Page()
    want("the page is ready", p.ready, True)
    want("a graph each", len(p.folded()), 5)
    want("all graphs are open", set(p.folded()), {"0"})
    want("nodes", len(p.nodes()), 12)
    want("constants", p.titles("const"), ["0", "1", "1", "1", "1", "2"])
    want("functions as values", len(p.root.having("data-fn")), 5)
    want("what is captured", len(p.root.of_class("captured")) - 1, 3)  # one is in the legend
    want("callees are dashed", len(p.root.all(lambda e: e.attrs.get("class") == "edge callee")), 4)
    less, = p.find("cnode", "Less")
    add, = p.find("cnode", "Add")

    p = Page(f"select={less}")
    want("select: the node is marked", [e.attrs["data-id"] for e in p.root.of_class("selected")], [str(less)])
    want("select: its kind", p.fact("kind"), ["call of an operation"])
    want("select: its type or that it is not known", len(p.fact("type")), 1)
    want("select: its place", p.fact("source"), ["p.anf:2:8"])
    want("select: its graph", p.fact("graph"), ["fibonacci"])
    want("select: its inputs", [e.text().split(" ")[0].rstrip(":") for e in p.details.having("data-input")], ["n", "1"])
    want("select: its users", ["Switch" in e.text() for e in p.details.having("data-user")], [True])
    want("select: edges are marked", len(p.root.all(lambda e: "hot" in e.attrs.get("class", "").split())), 3)

    p = Page("fold=all")
    want("fold=all: every graph is folded", (set(p.folded()), len(p.nodes())), ({"1"}, 0))
    p = Page("fold=fibonacci")
    want("fold: one graph is folded", (p.folded().count("1"), len(p.nodes())), (1, 8))
    p = Page(f"fold=all&select={add}")
    want("select: unfolds the node's graph", (p.folded().count("0"), p.fact("graph")), (1, ["✗✗fibonacci"]))
    p = Page("fold=all&unfold=fibonacci")
    want("unfold: one graph is open", (p.folded().count("0"), len(p.nodes())), (1, 4))

    p = Page("search=sub")
    want("search: matches", [e.attrs["data-matches"] for e in p.root.having("data-matches")], ["2"])
    want("search: rows", len(p.root.having("data-match")), 2)
    want("search: nodes are marked", len(p.root.of_class("hit")), 2)
    p = Page(f"search=%23{add}")
    want("search: by number", [e.attrs["data-match"] for e in p.root.having("data-match")], [str(add)])
    p = Page("search=zebra")
    want("search: nothing", [e.attrs["data-matches"] for e in p.root.having("data-matches")], ["0"])

    p = Page("select=g0&theme=dark")
    want("a graph is shown", (p.fact("kind"), p.fact("nodes")), (["graph"], ["4"]))
    want("theme", p.root.all(lambda e: e.name == "html")[0].attrs.get("data-theme"), "dark")


def test_hostile():
    text = make(HOSTILE)
    want("no script but ours", len(re.findall("(?i)<script", text)), 2)
    p = Page()
    want("hostile names: the page is ready", p.ready, True)
    want("hostile names: nothing ran", [e.text() for e in p.root.all(lambda e: e.name == "title")], ["Anfora graphs"])
    want("hostile names: no markup of theirs", len(p.root.all(lambda e: e.name in ("img", "b"))), 0)
    total, = p.find("cnode", "Sum")
    p = Page(f"select={total}")
    want("attributes", (p.fact("axis"), p.fact("keepdims")), (["1"], ["true"]))
    want("a hostile name is text", "<img src=x" in p.fact("name")[0], True)
    want("hostile names: still nothing ran", [e.text() for e in p.root.all(lambda e: e.name == "title")], ["Anfora graphs"])


def test_effects():
    make(EFFECTS)
    p = Page()
    want("effects", (len(p.find("effect", "Print")), len(p.root.of_class("order"))), (2, 1))


def test_large():
    make(chain(10000))
    p = Page("search=a5000")
    want("ten thousand nodes", (p.ready, len(p.nodes()), len(p.root.having("data-match"))), (True, 10001, 1))
    make(chain(10000), "--max-nodes", "100")
    want("--max-nodes", len(Page().nodes()), 100)


def main():
    if not BROWSER:
        TAP.skip("the page in a browser", "chromium is not here")
        TAP.done()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for test in (test_fibonacci, test_hostile, test_effects, test_large):
            try:
                test()
            except (AssertionError, ValueError, IndexError) as e:
                TAP.case(test.__name__, f"{type(e).__name__}: {e}")
        os.chdir("/")
    TAP.done()


main()
