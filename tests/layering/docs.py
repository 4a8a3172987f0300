#!/usr/bin/env python3
"""What the pages claim to exist does exist: files and folders, links, names of functions, types, environment variables,
commands of ./dev and of the tool. Run in the project's root; `--selftest` proves that each rule can fail."""

import fnmatch
import os
import re
import sys
import tempfile

sys.dont_write_bytecode = True
from rules import MACHINE  # noqa: E402

SOURCES = ["runtime", "autodiff", "kernels", "shaders", "models", "cli", "bench", "tests", "cmake"]
FILE = re.compile(r"(?<![\w./-])((?:[\w.*{},-]+/)*[\w*{},-]+\.(?:c|h|def|py|sh|cmake|comp|cl|md|png))\b(?![\w(])")
FOLDER = re.compile(r"(?<![\w./-])((?:[\w{},-]+/)+)(?=[`\s|,;:)]|$)")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
NAME = re.compile(r"(?<![\w/])((?:qn|qs|QN)_\w*\w)(\*?)")
DEV = re.compile(r"\./dev ([a-z]+)")
TOOL = re.compile(r"(?:^|[`\s/])quern ([a-z]+)\b")
EXAMPLE = re.compile(r"cube", re.I)  # the operation that docs/adding-an-op.md invents
CODE = re.compile(r"```.*?```|`[^`\n]+`|(?:^|\n)(?:    [^\n]*\n)+", re.S)


def expand(pattern):
    """Names with {a,b} written out."""
    match = re.search(r"\{([^{}]*)\}", pattern)
    if not match:
        return [pattern]
    return [
        name
        for part in match.group(1).split(",")
        for name in expand(pattern[: match.start()] + part + pattern[match.end():])
    ]


class Tree:
    def __init__(self):
        self.files, self.folders, self.words = [], set(), set()
        for top in sorted(os.listdir(".")):
            if os.path.isfile(top):
                self.files.append(top)
            elif top in SOURCES + ["docs"]:
                for folder, names, files in os.walk(top):
                    names[:] = [n for n in names if not n.startswith(".")]
                    self.folders.add(folder + "/")
                    self.files += [os.path.join(folder, f) for f in files]
        for path in self.files:
            if path.endswith((".c", ".h", ".def", ".cmake", ".txt", ".py", ".comp")):
                with open(path, encoding="utf-8", errors="replace") as f:
                    self.words.update(re.findall(r"\w+", f.read()))
        self.words.update("QN_" + name for name in self.rows("QN_ENV"))
        for macro in ("QN_OP_UNARY", "QN_OP_BINARY", "QN_OP_OTHER", "QN_OP"):
            for name in self.rows(macro):
                self.words.add("QN_OP_" + name)
        self.dev = set(self.read("dev", r"^([a-z]+)\)", r"^([a-z]+)\) "))
        self.tool = {"help", "version"}
        for path in self.files:
            if path.startswith("cli/cmd_"):
                self.tool.update(self.read(path, r'\.name = "([a-z]+)"'))

    def rows(self, macro):
        return [m for p in self.files if p.endswith(".def") for m in self.read(p, r"\b%s\((\w+)" % macro)]

    @staticmethod
    def read(path, *patterns):
        if not os.path.isfile(path):
            return []
        with open(path, encoding="utf-8", errors="replace") as f:
            text = f.read()
        return [m for p in patterns for m in re.findall(p, text, re.M)]

    def has_file(self, name):
        """As a path from the root, as the end of a path, or as a header's public name."""
        patterns = (name, "*/" + name, "*/include/" + name)
        return any(fnmatch.fnmatchcase(path, p) for p in patterns for path in self.files)

    def has_folder(self, name):
        return any(f == name or f.endswith("/" + name) for f in self.folders)

    def has_name(self, name, star):
        if EXAMPLE.search(name):
            return True
        if star or name.endswith("_"):
            return any(w.startswith(name) for w in self.words)
        return name in self.words


def check_page(path, text, tree, say):
    line_of = lambda at: text.count("\n", 0, at) + 1
    for match in MACHINE.finditer(text):
        say(path, line_of(match.start()), "a path or host of one machine")
    for match in LINK.finditer(text):
        target = match.group(1)
        if not re.match(r"[a-z]+:", target) and not os.path.exists(os.path.join(os.path.dirname(path), target)):
            say(path, line_of(match.start()), "links to %s, which is not there" % target)
    for code in CODE.finditer(text):
        here = code.group(0)
        at = lambda m: line_of(code.start() + m.start())
        for match in FILE.finditer(here):
            for name in expand(match.group(1)):
                if not tree.has_file(name):
                    say(path, at(match), "names the file %s, which is not there" % name)
        for match in FOLDER.finditer(here):
            for name in expand(match.group(1)):
                if name.split("/")[0] in SOURCES + ["docs"] and not tree.has_folder(name):
                    say(path, at(match), "names the folder %s, which is not there" % name)
        for match in NAME.finditer(here):
            if not tree.has_name(match.group(1), match.group(2)):
                say(path, at(match), "names %s, which no source has" % match.group(1))
        for pattern, known, what in ((DEV, tree.dev, "./dev"), (TOOL, tree.tool, "quern")):
            for match in pattern.finditer(here):
                if match.group(1) not in known:
                    say(path, at(match), "there is no command `%s %s`" % (what, match.group(1)))


def pages():
    found = [os.path.join("docs", n) for n in sorted(os.listdir("docs")) if n.endswith(".md")]
    return (["README.md"] if os.path.isfile("README.md") else []) + found


def check_tree():
    failures = []
    tree = Tree()
    names = pages()
    for path in names:
        with open(path, encoding="utf-8") as f:
            check_page(path, f.read(), tree, lambda p, line, what: failures.append("%s:%d: %s" % (p, line, what)))
    return len(names), failures


FILES = {
    "dev": 'case "$command" in\nbuild) build ;;\ntest)\n  tests\n  ;;\nesac\n',
    "runtime/base/status.c": "void qn_error_raise(void) {}\n",
    "runtime/base/include/quern/env.def": 'QN_ENV(DEVICE, "x")\n',
    "cli/cmd_train.c": 'const cli_command c = {.name = "train"};\n',
}
SELFTEST = [  # page, text, part of the complaint or None
    ("docs/good.md", "`status.c`, `runtime/base/status.c`, `quern/env.def`, `runtime/base/`, `cmd_*.c`, `{status,cmd_train}.c`, "
     "`qn_error_raise`, `qn_error_*`, `QN_DEVICE`, `./dev build`, `./dev test`, `quern train x`, [here](good.md)\n", None),
    ("docs/file.md", "`runtime/base/absent.c`\n", "names the file"),
    ("docs/fence.md", "```\nsee gone.h\n```\n", "names the file"),
    ("docs/folder.md", "`runtime/gone/`\n", "names the folder"),
    ("docs/glob.md", "`test_*.c`\n", "names the file"),
    ("docs/brace.md", "`{status,gone}.c`\n", "names the file gone.c"),
    ("docs/link.md", "[there](gone.md)\n", "links to"),
    ("docs/name.md", "`qn_error_lower`\n", "names qn_error_lower"),
    ("docs/env.md", "`QN_NOTHING`\n", "names QN_NOTHING"),
    ("docs/dev.md", "\n    ./dev fly\n", "./dev fly"),
    ("docs/tool.md", "`quern fly`\n", "quern fly"),
    ("docs/path.md", "in /ho" + "me/someone\n", "of one machine"),
]


def selftest():
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for path, text in list(FILES.items()) + [(p, t) for p, t, _ in SELFTEST]:
            if os.path.dirname(path):
                os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        _, failures = check_tree()
        os.chdir("/")
    for path, _, part in SELFTEST:
        mine = [f for f in failures if f.startswith(path + ":")]
        if part is None and mine or part is not None and not any(part in f for f in mine):
            print("%s: expected %s, got %s" % (path, part, mine))
            bad += 1
    print("%d pages tried, %d wrong" % (len(SELFTEST), bad))
    return 1 if bad else 0


def main():
    if "--selftest" in sys.argv[1:]:
        return selftest()
    count, failures = check_tree()
    for failure in failures:
        print(failure)
    print("%d pages, %d false claims" % (count, len(failures)))
    return 1 if failures or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
