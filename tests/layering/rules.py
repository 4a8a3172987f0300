#!/usr/bin/env python3
"""Rules of the source tree that no compiler checks: layering of includes, sizes, how errors are born, words that have
no place here. Run in the project's root; `--selftest` proves that each rule can fail."""

import os
import re
import sys
import tempfile

FILE_LINES = 1000
FUNCTION_LINES = 120
TOP = ["runtime", "autodiff", "kernels", "shaders", "models", "cli", "tests"]

# Library -> libraries whose public headers it may include, besides its own.
DRIVER = ["base", "hal"]
LAYERS = {
    "base": [],
    "graph": ["base"],
    "autodiff": ["base", "graph"],
    "hal": ["base"],
    "exec": ["base", "hal"],
    "driver_null": DRIVER,
    "driver_cpu": DRIVER,
    "driver_opencl": DRIVER,
    "driver_vulkan": DRIVER,
    "shaders": ["base", "hal"],
    "kernels": ["base", "graph", "hal", "exec"],
    "llvm": ["base", "graph", "hal", "exec", "kernels"],
    "compile": ["base", "graph", "hal", "exec", "kernels", "llvm", "shaders"],
    "drivers": DRIVER,
    "models": ["base", "graph", "autodiff", "hal", "exec", "kernels", "compile", "drivers"],
    "programs": ["base", "graph", "autodiff", "hal", "exec", "kernels", "compile", "drivers", "models"],
    "cli": None,  # everything
    "tests": None,
}
FOLDERS = [  # longest first
    ("runtime/drivers/opencl/", "driver_opencl"),
    ("runtime/drivers/vulkan/", "driver_vulkan"),
    ("runtime/drivers/null/", "driver_null"),
    ("runtime/drivers/cpu/", "driver_cpu"),
    ("runtime/drivers/registry/", "drivers"),
    ("runtime/base/", "base"),
    ("runtime/graph/", "graph"),
    ("runtime/exec/", "exec"),
    ("runtime/hal/", "hal"),
    ("models/programs/", "programs"),
    ("kernels/schedule/", "compile"),
    ("kernels/compile/", "compile"),
    ("kernels/llvm/", "llvm"),
    ("autodiff/", "autodiff"),
    ("kernels/", "kernels"),
    ("shaders/", "shaders"),
    ("models/", "models"),
    ("cli/", "cli"),
    ("tests/", "tests"),
]
# Headers of others -> the only libraries (and the tests) that may include them.
FOREIGN = [
    (r"(CL/|OpenCL/)", ["driver_opencl", "tests"]),
    (r"vulkan/", ["driver_vulkan", "tests"]),
    (r"(llvm-c|llvm)/", ["llvm", "tests"]),
    (r"glslang/", ["shaders", "tests"]),
    (r"sqlite3", ["exec", "cli", "tests"]),
    (r"criterion/", ["tests"]),
]
FAILURES = (
    "INVALID|UNSUPPORTED|OUT_OF_MEMORY|NOT_FOUND|IO|CORRUPT|COMPILE|DEVICE_LOST|TIMEOUT|CANCELLED|DIVERGED|INTERNAL"
)
BARE = re.compile(r"\breturn\s+QN_(%s)\s*;|\?[^;?]*\bQN_OK\s*:\s*QN_(%s)\s*;" % (FAILURES, FAILURES))
MACHINE = re.compile(r"(?<![\w.~$}])/(home|root|work|Users)/\w|\b\w+\.debian\.org|\bpypi\.org|archive\.ubuntu\.com")
UNFINISHED = re.compile(r"\b(TODO|FIXME|HACK|XXX)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)


def library_of(path):
    for prefix, name in FOLDERS:
        if path.startswith(prefix):
            return name
    return None


def source_files():
    for top in TOP:
        for folder, names, files in os.walk(top):
            names[:] = sorted(n for n in names if not n.startswith("."))
            for name in sorted(files):
                if name.endswith((".c", ".h", ".def", ".comp", ".glsl", ".cl")):
                    yield os.path.join(folder, name)


def blank(text):
    """The text with comments, strings and preprocessor lines blanked; line breaks stay."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*'

    def keep_lines(match):
        s = match.group(0)
        return ('""' if s[0] == '"' else "") + "\n" * s.count("\n")

    return re.sub(pattern, keep_lines, text, flags=re.S | re.M)


def functions(code):
    """(first line, lines) of every function body of a file."""
    depth, line, start, last, statement = 0, 1, None, "", 1
    for c in code:
        if c == "\n":
            line += 1
            continue
        if c.isspace():
            continue
        if depth == 0 and last in ("", ";", "}"):
            statement = line
        if c == "{":
            if depth == 0 and last == ")":
                start = statement
            if not (depth == 0 and last == '"'):  # extern "C" opens no depth
                depth += 1
        elif c == "}":
            depth = max(0, depth - 1)
            if depth == 0 and start is not None:
                yield start, line - start + 1
                start = None
        last = c


def check_includes(path, text, headers, say):
    library = library_of(path)
    allowed = LAYERS[library]
    public = "/include/quern/" in path
    for match in INCLUDE.finditer(text):
        name = match.group(2)
        line = text.count("\n", 0, match.start()) + 1
        for pattern, libraries in FOREIGN:
            if re.match(pattern, name) and (public or library not in libraries):
                say(path, line, "includes %s, which %s may not" % (name, "a public header" if public else library))
        owner = headers.get(name)
        if owner is None and match.group(1) == '"':
            beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
            where = next((p for p in (beside, name) if os.path.isfile(p)), None)
            if name.startswith("quern/") and not name.endswith(".def"):
                say(path, line, "includes %s, which no library offers" % name)
            owner = library_of(where) if where else None
            if owner not in (None, library) and library not in ("tests", "cli", "programs"):
                say(path, line, "includes %s, a private header of %s" % (name, owner))
                continue
        if owner is None or owner == library or allowed is None:
            continue
        if owner not in allowed:
            say(path, line, "includes %s of %s; %s may use: %s" % (name, owner, library, " ".join(allowed) or "nothing"))


def check_text(path, text, code, say):
    library = library_of(path)
    lines = text.count("\n")
    if lines > FILE_LINES:
        say(path, 1, "has %d lines, at most %d" % (lines, FILE_LINES))
    if path.endswith(".c"):
        for start, count in functions(code):
            if count > FUNCTION_LINES:
                say(path, start, "a function of %d lines, at most %d" % (count, FUNCTION_LINES))
    for pattern, what, where in (
        (BARE, "a bare status code: only QN_ERR makes a failure", code if library != "tests" else ""),
        (MACHINE, "a path or host of one machine", text),
        (UNFINISHED, "unfinished work is marked", text),
        (re.compile(r"\bcase\s+QN_OP_"), "a switch over graph operations: use the table", code),
        (re.compile(r"(?<!\w)getenv\s*\("), "reads the environment: add a row to env.def",
         code if library not in ("base", "tests", "driver_opencl", "driver_vulkan") else ""),
        (re.compile(r"(?<!\w)(longjmp|setjmp|alloca)\s*\("), "setjmp and alloca are not used here", code),
    ):
        for match in pattern.finditer(where):
            say(path, where.count("\n", 0, match.start()) + 1, what)


def check_tree():
    failures = []

    def say(path, line, what):
        failures.append("%s:%d: %s" % (path, line, what))

    files = list(source_files())
    headers = {}
    for path in files:
        at = path.find("/include/quern/")
        if at >= 0:
            name = path[at + len("/include/"):]
            if name in headers:
                say(path, 1, "%s is offered by two libraries" % name)
            headers[name] = library_of(path)
    for path in files:
        with open(path, encoding="utf-8") as f:
            text = f.read()
        if library_of(path) is None:
            say(path, 1, "lies in no library's folder")
            continue
        if path.endswith((".c", ".h")):
            check_includes(path, text, headers, say)
        check_text(path, text, blank(text), say)
    return len(files), failures


LONG = "int f(void)\n{\n" + "  ;\n" * FUNCTION_LINES + "}\n"
OK = "/* return QN_IO; */\nstatic int g(int x) { return x; }\n" + "static const int t[] = {\n" + "  1,\n" * 300 + "};\n"
SELFTEST = [  # path, text, part of the complaint or None
    ("runtime/base/ok.c", OK, None),
    ("runtime/graph/up.c", '#include "quern/a.h"\n#include "quern/g.h"\n', None),
    ("runtime/base/include/quern/a.h", "\n", None),
    ("runtime/graph/include/quern/g.h", 'extern "C" {\nint f(void);\n}\n', None),
    ("runtime/graph/private.h", "\n", None),
    ("runtime/base/down.c", '#include "quern/g.h"\n', "base may use: nothing"),
    ("runtime/exec/down.c", '#include "quern/g.h"\n', "exec may use: base hal"),
    ("runtime/exec/peek.c", '#include "runtime/graph/private.h"\n', "a private header of graph"),
    ("runtime/base/absent.c", '#include "quern/none.h"\n', "which no library offers"),
    ("runtime/hal/cl.c", "#include <CL/cl.h>\n", "which hal may not"),
    ("runtime/drivers/vulkan/include/quern/v.h", "#include <vulkan/vulkan.h>\n", "a public header may not"),
    ("runtime/base/long.c", LONG, "a function of %d lines" % (FUNCTION_LINES + 3)),
    ("runtime/base/longfile.c", "\n" * (FILE_LINES + 1), "has %d lines" % (FILE_LINES + 1)),
    ("runtime/base/bare.c", "qn_status f(void) { return QN_INVALID; }\n", "a bare status code"),
    ("runtime/base/bare2.c", "qn_status f(int x) { return x ? QN_OK : QN_IO; }\n", "a bare status code"),
    ("kernels/path.c", 'const char *p = "/ho' + 'me/someone/x";\n', "of one machine"),
    ("kernels/todo.c", "/* TO" + "DO: later */\n", "unfinished"),
    ("kernels/switch.c", "int f(int x) { switch (x) { case QN_OP_ADD: return 1; } return 0; }\n", "a switch over"),
    ("kernels/env.c", 'const char *f(void) { return getenv("X"); }\n', "reads the environment"),
    ("models/jump.c", "void f(void) { longjmp(b, 1); }\n", "setjmp"),
]


def selftest():
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for path, text, _ in SELFTEST:
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
    print("%d rules tried, %d wrong" % (len(SELFTEST), bad))
    return 1 if bad else 0


def main():
    if "--selftest" in sys.argv[1:]:
        return selftest()
    count, failures = check_tree()
    for failure in failures:
        print(failure)
    print("%d files, %d broken rules" % (count, len(failures)))
    return 1 if failures or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
