#!/usr/bin/env python3
"""Holds the includes, links and tests of the tree against the ladder of folders.

A folder includes itself and what stands below it, at any depth (docs/architecture.md has the picture). Prints one line a
mistake, `file:line: ...`, and exits 1 when there is any.
"""

import argparse
import json
import re
import sys
import tempfile
from pathlib import Path

# folder: what it stands on. The ladder itself; everything else here only enforces it.
LADDER = {
    "base": [],
    "metrics": ["base"],
    "tensor": ["base"],
    "graph": ["tensor"],
    "ops": ["graph"],
    "kernels/reference": ["ops"],
    "kernels/onednn": ["ops"],
    "engine": ["graph", "metrics"],
    "optim": ["tensor"],
    "nn": ["ops", "optim"],
    "onnx": ["nn"],
    "protocol": ["tensor", "optim"],
    "wire": ["protocol"],
    "net": ["wire", "metrics"],
    "control": ["net"],
    "stream": ["tensor", "metrics"],
    "checkpoint": ["protocol", "metrics"],
    "ps": ["net"],
    "collective": ["net"],
    "trainer": ["engine", "nn", "protocol"],
    "parallel": ["trainer", "ps", "collective"],
    "train": ["parallel", "trainer", "ps", "stream", "checkpoint", "control", "onnx"],
    "observe": ["metrics", "graph"],
    "serve": ["engine", "nn", "ps"],
    "sim": ["trainer"],
    "study": ["train", "sim"],
}
# Tests run what they test: graphs need an engine and kernels.
FOR_TESTS = ["kernels/reference", "kernels/onednn", "engine", "ops"]
# Libraries that one folder keeps to itself.
KEPT_BY = [
    (re.compile(r"(oneapi/)?dnnl"), "kernels/onednn"),
    (re.compile(r"(grpc|grpcpp|google/protobuf)/|control/.*\.pb\.h$"), "control"),
    (re.compile(r"onnx/.*\.pb\.h$"), "onnx"),
    (re.compile(r"mpi\.h$"), "collective"),
    (re.compile(r"uc[pst]/"), "net"),
]
# The core: bytes and time come in as arguments, so nothing here may fetch them.
PURE = {"base", "tensor", "graph", "ops", "optim", "nn", "protocol", "wire"}
IMPURE = re.compile(r"(thread|mutex|condition_variable|future|semaphore|sys/socket\.h|unistd\.h|asio.*)$")
# The virtual cluster drives the protocol's machines and has none of its own: it defines nothing that bears the name of
# one of their parts, and sees no more of them than shells do.
DRIVES = {"sim": "protocol"}
DEFINES = re.compile(r"^(?:class|struct)\s+(\w+)[^;(]*\{")
PRIVATE_PARTS = re.compile(r".*_state\.h$")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def below(folder):
    """The folder and all it stands on."""
    found, todo = set(), [folder]
    while todo:
        f = todo.pop()
        if f not in found:
            found.add(f)
            todo += LADDER[f]
    return found


def folder_of(path):
    """The folder of the ladder that a path relative to src/ lies in, or None."""
    parts = Path(path).parts
    for n in (2, 1):
        folder = "/".join(parts[:n])
        if len(parts) > n and folder in LADDER:
            return folder
    return None


def check_file(src, path, errors):
    relative = path.relative_to(src)
    folder = folder_of(relative)
    if folder is None:
        errors.append(f"src/{relative}:1: its folder is not in the ladder of {Path(__file__).name}")
        return
    is_test = re.search(r"_test\.(cc|h)$", path.name) is not None
    allowed = below(folder)
    if is_test:
        for f in FOR_TESTS:
            allowed |= below(f)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        bracket, target = match.groups()
        where = f"src/{relative}:{number}"
        for pattern, owner in KEPT_BY:
            if pattern.match(target) and folder != owner:
                errors.append(f"{where}: {target} is for {owner} alone")
        if bracket == "<":
            if folder in PURE and not is_test and IMPURE.match(target):
                errors.append(f"{where}: <{target}> in {folder}, which has no threads, sockets or files of its own")
            continue
        if target.endswith(".pb.h"):
            continue
        other = folder_of(target)
        if other is None or not (src / target).is_file():
            errors.append(f'{where}: "{target}" is no file below src/; include by the path from there')
        elif other not in allowed:
            errors.append(f"{where}: {folder} may not include {other}")


def check_drivers(src, errors):
    for folder, machines in DRIVES.items():
        names = set()
        for path in sorted((src / machines).glob("*.h")):
            names.update(m.group(1) for m in map(DEFINES.match, path.read_text(encoding="utf-8").splitlines()) if m)
        for path in sorted((src / folder).rglob("*")):
            if path.suffix not in (".cc", ".h"):
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                where = f"src/{path.relative_to(src)}:{number}"
                defined = DEFINES.match(line)
                if defined and defined.group(1) in names - {"State"}:
                    errors.append(f"{where}: {defined.group(1)} is a part of {machines}, which {folder} only drives")
                included = INCLUDE.match(line)
                if included and included.group(2).startswith(machines + "/") and PRIVATE_PARTS.match(included.group(2)):
                    errors.append(f"{where}: {included.group(2)} is for {machines} alone")


def check_links(src, errors):
    """DEPS of each leat_module must be steps down the ladder as well."""
    name_of = {folder.split("/")[-1]: folder for folder in LADDER}
    for folder in LADDER:
        cmake = src / folder / "CMakeLists.txt"
        if not cmake.is_file():
            continue
        text = re.sub(r"#.*", "", cmake.read_text(encoding="utf-8"))
        for module in re.findall(r"leat_module\(([^)]*)\)", text):
            words, key = module.split(), None
            for word in words:
                if re.fullmatch(r"[A-Z_]+", word):
                    key = word
                elif key in ("DEPS", "TEST_DEPS"):
                    other = name_of.get(word)
                    allowed = below(folder)
                    if key == "TEST_DEPS":
                        allowed = allowed.union(*(below(f) for f in FOR_TESTS))
                    if other is None or other not in allowed:
                        errors.append(f"src/{folder}/CMakeLists.txt:1: {folder} may not link {word}")


def check_tests_built(root, commands, errors):
    built = {str(Path(c["directory"], c["file"]).resolve()) for c in json.loads(commands.read_text(encoding="utf-8"))}
    for top in ("src", "apps", "bench", "tests"):
        for path in sorted((root / top).rglob("*_test.cc")):
            if str(path.resolve()) not in built:
                errors.append(f"{path.relative_to(root)}:1: no target builds this test")


def check(root, commands=None):
    errors = []
    src = root / "src"
    for path in sorted(src.rglob("*")):
        if path.suffix in (".cc", ".h"):
            check_file(src, path, errors)
    for path in sorted((root / "apps").rglob("*")):
        if path.suffix not in (".cc", ".h"):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            for pattern, owner in KEPT_BY:
                if match and pattern.match(match.group(2)):
                    errors.append(f"{path.relative_to(root)}:{number}: {match.group(2)} is for {owner} alone")
    check_drivers(src, errors)
    check_links(src, errors)
    if commands:
        check_tests_built(root, commands, errors)
    return errors


def selftest():
    """A small tree with one mistake of each kind: each must be seen, and nothing else."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)

        def write(path, text):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")

        (root / "apps").mkdir()
        write("src/base/a.h", "#include <string>\n")
        write("src/engine/e.h", '#include "base/a.h"\n')
        write("src/ops/o.cc", '#include "base/a.h"\n#include "engine/e.h"\n')
        write("src/ops/o_test.cc", '#include "engine/e.h"\n')
        write("src/ops/CMakeLists.txt", "leat_module(NAME ops DEPS graph nn TEST_DEPS engine reference)\n")
        write("src/protocol/p.h", "#include <thread>\n#include <vector>\n")
        write("src/net/n.cc", "#include <dnnl.hpp>\n#include <grpcpp/grpcpp.h>\n#include <thread>\n")
        write("src/kernels/onednn/k.cc", "#include <oneapi/dnnl/dnnl.hpp>\n")
        write("src/control/c.cc", '#include "control/leat.pb.h"\n#include "control/gone.h"\n')
        write("src/stray/s.h", "")
        write("src/protocol/server.h", "class Server {\n};\n")
        write("src/protocol/server_state.h", "struct Server::State {\n};\n")
        write("src/sim/s.cc", '#include "protocol/server.h"\n#include "protocol/server_state.h"\nclass Server {\n};\n')
        write("apps/leat/main.cc", '#include <grpcpp/grpcpp.h>\n#include "base/a.h"\n')
        write("commands.json", json.dumps([]))
        found = check(root, root / "commands.json")
    places = sorted(e.split(": ")[0] for e in found)
    expected = sorted([
        "src/ops/o.cc:2", "src/ops/CMakeLists.txt:1", "src/protocol/p.h:1", "src/net/n.cc:1", "src/net/n.cc:2",
        "src/control/c.cc:2", "src/stray/s.h:1", "apps/leat/main.cc:1", "src/ops/o_test.cc:1",
        "src/sim/s.cc:2", "src/sim/s.cc:3",
    ])
    if places != expected:
        sys.exit("check_layers --selftest: expected\n  " + "\n  ".join(expected) + "\nfound\n  " + "\n  ".join(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--commands", type=Path, help="compile_commands.json that must hold every *_test.cc")
    parser.add_argument("--selftest", action="store_true")
    args = parser.parse_args()
    if args.selftest:
        return selftest()
    errors = check(args.root, args.commands)
    for error in errors:
        print(error)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
