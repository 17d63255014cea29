#!/usr/bin/env python3
"""Checks that sources of one target can be compiled in one batch.

The release and sanitizer builds compile the sources of a target in batches (CMake's unity builds), where the unnamed namespaces of all
sources are one. Two helpers of one name would clash there, or, worse, one source would silently call the overload of another. So a name
that an unnamed namespace or a `static` function of a source defines is defined in no other source of its target. Equal aliases, such as
`namespace fs = std::filesystem;`, may be repeated. Nor is it the name of a function or constant of the same namespace that a header of the
target declares: from the unnamed namespaces of later sources in the batch nobody would find that one. Sources that are compiled alone
(SKIP_UNITY_BUILD_INCLUSION) are left out.

Prints one line per mistake, `file:line: ...`, and exits with 1 if there are any.
"""

import argparse
import collections
import functools
import json
import re
import sys
import tempfile
from pathlib import Path

SKIPPED = re.compile(r'R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|(?<![0-9a-fA-F])\'(?:[^\'\\\n]|\\.)+\'', re.S)
DIRECTIVE = re.compile(r"^#(?:[^\n]*\\\n)*[^\n]*", re.M)
INCLUDE = BATCH = re.compile(r'^#include "([^"]+)"', re.M)
ANGLES = r"<(?:[^<>()]|\([^()]*\)|<(?:[^<>()]|\([^()]*\)|<[^<>]*>)*>)*>"
TEMPLATE = re.compile(r"^template\s*" + ANGLES + r"\s*(?:requires\s[^{;]*?(?=\b(?:class|struct|void|auto|bool|std)\b))?")
TYPE = re.compile(r"^(?:class|struct|union|enum(?: class)?)\s+(?:\[\[\w+\]\]\s*)?(?:alignas\([^)]*\)\s*)?(\w+)(?=[^=()]*[{;:])")
ALIAS = re.compile(r"^(?:using|namespace)\s+(\w+)\s*=")
MATCHER = re.compile(r"^MATCHER\w*\((\w+)")
OTHER_MACRO = re.compile(r"^(?:using|static_assert|friend|extern|LEAT_FIELDS|LEAT_ENUM|LEAT_KINDS|LEAT_CODECS|TEST|TYPED_TEST|INSTANTIATE|REGISTER)\b|^(?:TEST|TYPED_TEST|INSTANTIATE)_")
ATTRIBUTES = re.compile(r"\[\[[^\]]*\]\]\s*|\b(?:alignas|decltype|noexcept|__attribute__)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|^LEAT_\w+\s+")
NAME = re.compile(r"^[\w:\s*&\[\],]*?\b(\w+)\s*(?=[(={\[;,])")
# Functions that a library finds by their names.
FOUND_BY_NAME = ("PrintTo", "operator")


Definition = collections.namedtuple("Definition", "line space name alias hidden")


def definitions(text):
    """Definitions and declarations outside of functions and types. `alias`: the text of an alias; `hidden`: no other source sees it."""
    code = SKIPPED.sub(lambda m: re.sub(r"[^\n]", " ", m.group()) if m.group().startswith("/") else '""' + "\n" * m.group().count("\n"), text)
    lines = DIRECTIVE.sub(lambda m: "\n" * m.group().count("\n"), code).split("\n")
    spaces, depth, number = [], 0, 0
    while number < len(lines):
        line = lines[number]
        number += 1
        space = re.match(r"(?:inline )?namespace\b([^=;{]*)\{", line)
        if depth == 0 and space:
            spaces.append(space.group(1).strip())
            continue
        if depth == 0 and line.startswith("}") and spaces:
            spaces.pop()
            continue
        if depth == 0 and re.match(r"[A-Za-z_\[]", line):
            head, end = line, number
            while not re.search(r"[;{]", head) and end < len(lines):
                head += " " + lines[end]
                end += 1
            head = TEMPLATE.sub("", head)
            for name, alias in names_of(head):
                yield Definition(number, "::".join(filter(None, spaces)), name, alias, "" in spaces or head.startswith("static "))
        depth += line.count("{") - line.count("}")


def names_of(head):
    """(name, the text if it is an alias)."""
    alias, matcher = ALIAS.match(head), MATCHER.match(head)
    if alias:
        yield alias.group(1), " ".join(head.split())
    elif matcher:
        yield matcher.group(1), None
    elif TYPE.match(head):
        yield TYPE.match(head).group(1), None
    elif not OTHER_MACRO.match(head):
        head = ATTRIBUTES.sub("", re.sub(ANGLES, "", head))
        name = NAME.match(head)
        if name and not head[:name.start(1)].endswith("::") and name.group(1) not in FOUND_BY_NAME:
            yield name.group(1), None
            # Further constants of the same line: `constexpr int kFew = 1, kMany = 2;`
            if name.group(1).startswith("k"):
                yield from ((more, None) for more in re.findall(r"[,]\s*(k[A-Z]\w*)\s*[=({]", head))


def targets(commands):
    """{target: its sources in batches}, by the batches that the compile commands name."""
    found = {}
    for command in json.loads(commands.read_text(encoding="utf-8")):
        batch = Path(command["directory"], command["file"])
        if batch.parent.name == "Unity" and batch.is_file():
            found.setdefault(batch.parent.parent, []).extend(Path(p) for p in BATCH.findall(batch.read_text(encoding="utf-8")))
    return found


def headers_of(root, sources):
    """All of the project's headers that these sources include, directly or not."""
    found, left = set(), list(sources)
    while left:
        for name in INCLUDE.findall(read(left.pop())):
            header = root / "src" / name
            if header not in found and header.is_file():
                found.add(header)
                left.append(header)
    return found


@functools.cache
def read(path):
    return path.read_text(encoding="utf-8")


@functools.cache
def definitions_in(path):
    return list(definitions(read(path)))


def check(root, commands):
    errors = set()
    all_targets = targets(commands)
    if not all_targets:
        return [f"{commands}: no source is compiled in a batch"]
    for sources in all_targets.values():
        # Without generated ones.
        sources = sorted(path for path in sources if path.is_relative_to(root) and commands.parent not in path.parents)
        first, declared = {}, {}
        for header in headers_of(root, sources):
            declared.update(((d.space, d.name), (header, d.line)) for d in definitions_in(header) if not d.hidden and d.alias is None)
        for path in sources:
            for d in definitions_in(path):
                if not d.hidden:
                    continue
                where = f"{path.relative_to(root)}:{d.line}: {d.name}"
                other, line, text = first.setdefault(d.name, (path, d.line, d.alias))
                if other != path and (d.alias is None or d.alias != text):
                    errors.add(f"{where} is also in {other.relative_to(root)}:{line}, which may be in the same batch")
                if (d.space, d.name) in declared:
                    header, line = declared[d.space, d.name]
                    errors.add(f"{where} hides that of {header.relative_to(root)}:{line} from later sources of the batch")
    return sorted(errors)


SELFTEST = {
    "a.cc": "namespace leat {\nnamespace {\nnamespace fs = std::filesystem;\nusing Json = nlohmann::json;\nconstexpr int kFew = 1, kMany = 2;\n"
            "struct Row {\n  int Inner(int x) { return x; }\n};\ntemplate <class T>\nstd::vector<T> Of(const std::map<int, T>& all,\n"
            "                  int more) {\n  return {};\n}\nvoid PrintTo(const Row& row, std::ostream* out) {}\n}  // namespace\n"
            "int Public(int x) {\n  return x;\n}\nstatic void Local() {\n}\n}  // namespace leat\n",
    "b.cc": "namespace leat {\nnamespace {\nnamespace fs = std::filesystem;\nusing Json = nlohmann::ordered_json; ✗\n"
            "constexpr double kMany = 3; ✗\n// struct Row {\nconst char* text = R\"(\nstruct Row {\n)\";\nint Of(int x) { ✗\n  return x;\n}\n"
            "void PrintTo(const int& row, std::ostream* out) {}\nint Inner() {\n  return 1;\n}\n}  // namespace\n"
            "void Row::Of(int) {\n}\nstatic void Local() { ✗\n}\n}  // namespace leat\n",
    "alone.cc": "namespace {\nint Of() {\n}\n}\n",
    # Declarations of a header are hidden by helpers of its namespace alone.
    "src/shape.h": "#define FAR(x) \\\n  Far(x) {\nnamespace leat {\nint Far(int x);\nstruct Size;\ninline constexpr int kMost = 1;\nusing Text = int;\n"
                   "}  // namespace leat\nnamespace leat::other {\nint Near();\n}  // namespace leat::other\n",
    "src/deep.h": "#pragma once\n#include \"shape.h\"\n",
    "src/c.cc": "#include \"deep.h\"\nnamespace leat {\nnamespace {\nint Far(int x) { ✗\n  return x;\n}\nint Near() {\n  return 1;\n}\n"
                "const int kMost = 2; ✗\nstruct Size { ✗\n};\nusing Text = int;\n}  // namespace\n}  // namespace leat\n",
}


def selftest():
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        expected = []
        for path, text in SELFTEST.items():
            (root / path).parent.mkdir(exist_ok=True)
            expected += [f"{path}:{number}" for number, line in enumerate(text.splitlines(), 1) if "✗" in line]
            (root / path).write_text(text.replace(" ✗", ""), encoding="utf-8")
        batch = root / "build/x.dir/Unity/unity_0_cxx.cxx"
        batch.parent.mkdir(parents=True)
        batch.write_text(f'#include "{root}/a.cc"\n#include "{root}/b.cc"\n#include "{root}/src/c.cc"\n')
        commands = root / "build/commands.json"
        commands.write_text(json.dumps([{"directory": str(root), "file": str(batch)}, {"directory": str(root), "file": "alone.cc"}]))
        found = sorted(error.split(": ")[0] for error in check(root, commands))
        if found != sorted(expected):
            sys.exit(f"check_batches --selftest: expected {sorted(expected)}, found {found}")
        commands.write_text("[]")
        if len(check(root, commands)) != 1:
            sys.exit("check_batches --selftest: a build without batches is not named")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--commands", type=Path, help="compile_commands.json of a build with batches")
    parser.add_argument("--selftest", action="store_true", help="check this program itself")
    args = parser.parse_args()
    if args.selftest:
        return selftest()
    errors = check(args.root.resolve(), args.commands.resolve())
    print("\n".join(errors), end="\n" if errors else "")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
