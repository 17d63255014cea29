#!/usr/bin/env python3
"""Runs the tests for `./leat test`, and sums up what was slow and what failed.

    run_tests.py [--built PRESET=SECONDS]... -- CTEST OPTION...
    run_tests.py --changed [REV] [--minutes M]

The first form shows ctest's output as it comes, and between its lines those of the cases of tests/system and tests/python
(tests/pytest_tiers.py). Before ctest's closing lines stand the slowest cases, the minutes by preset, and the cases that failed.
The exit status is ctest's.

The second form runs the tests that are nearest to what has changed since REV, on the release build, until the time is over: unit
tests of the changed folders, the simulator's, unit tests of the folders that include them, then files of tests/system and
tests/python by the folders that their comment `# folders: ...` names.
"""

import argparse
import contextlib
import fcntl
import json
import os
import queue
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import check_layers

SLOWEST = 15
# 12/4775 Test  #123: base_test.Time.Adds ......   Passed    0.01 sec
CTEST_CASE = re.compile(r"\s*\d+/\d+ Test +#\d+: (.+) \.{3,} *(?:\*\*\*)?(.*?) +(\d+\.\d+) sec")
CTEST_CLOSING = re.compile(r"\d+% tests passed, \d+ tests? failed out of \d+")
GTEST_BEGIN = re.compile(r"\[ RUN      \] (.+)")
GTEST_END = re.compile(r"\[ +(OK|FAILED|SKIPPED) +\] (\S+?)(?:, where .*)? \((\d+) ms\)")
FOLDERS = re.compile(r"^# folders: (.+)$", re.MULTILINE)
COMMAND = re.compile(r'\b(?:AddCommand|add_subcommand|add|add_role)\(\s*(?:app, result,\s*)?"([a-z-]+)"')
IMPORT = re.compile(r"^(?:import|from) (\w+)", re.MULTILINE)
SANITIZERS = ("asan", "tsan")
# Sources that are compiled alone at most; with more, batches take less time.
MOST_ALONE = 16


class Summary:
    """The time and the outcome of each case."""

    def __init__(self):
        self.cases = []  # (seconds, name)
        self.failed = []
        self.minutes = defaultdict(lambda: [0.0, 0.0])  # by preset: of builds, of tests

    def add(self, name, seconds, failed="", show=True):
        if show:
            self.cases.append((seconds, name))
        if failed:
            self.failed.append(f"{name}: {failed}" if failed != "failed" else name)

    def lines(self, at_a_time):
        yield "slowest cases:"
        for seconds, name in sorted(self.cases, key=lambda case: -case[0])[:SLOWEST]:
            yield f"{seconds:9.1f} s  {name}"
        yield f"minutes    build   tests ({at_a_time} at a time)"
        for preset in sorted(self.minutes, key=(*("release", *SANITIZERS), "").index):
            build, tests = self.minutes[preset]
            yield f"  {preset:8}{build / 60:6.1f}  {tests / 60:6.1f}"
        if self.failed:
            yield "failed cases:"
            yield from (f"  {name}" for name in self.failed)


class Cases:
    """Follows the file in which files of pytest tell their cases."""

    def __init__(self, path, show, summary):
        self.path, self.show, self.summary = path, show, summary
        self.read, self.running, self.told, self.failed = 0, {}, set(), set()
        Path(path).touch()

    def poll(self):
        with open(self.path, "rb") as file:
            file.seek(self.read)
            text = file.read()
        text = text[:text.rfind(b"\n") + 1]
        self.read += len(text)
        for line in text.decode(errors="replace").splitlines():
            name, case, outcome, *more = line.split("\t")
            self.told.add(name)
            if outcome == "started":
                self.running[name] = case
                continue
            self.running.pop(name, None)
            seconds, error = float(more[0]), more[1]
            self.show(f"        {name}  {case}  {outcome}  {seconds:.1f} s" + (f"  {error}" if error else ""))
            if outcome == "failed":
                self.failed.add(name)
            self.summary.add(f"{name}  {case}", seconds, (error or "failed") if outcome == "failed" else "")

    def end(self, name, seconds, failed):
        """The file of tests `name` has ended; `failed` is why it did not pass, or empty."""
        self.poll()
        case = self.running.pop(name, None)
        if failed and case:
            self.summary.add(f"{name}  {case}", seconds, f"{failed} while it ran", show=False)
        elif name in self.told:
            self.summary.add(name, seconds, failed if name not in self.failed else "", show=False)
        else:
            self.summary.add(name, seconds, failed)


def preset_of(test):
    return next((preset for preset in SANITIZERS if test.startswith(preset + ".")), "release")


def cases_under_sanitizer(root, test, since):
    """(name, seconds, failed) of the cases of a program that is one test of ctest, as googletest has written them."""
    path = root / "build" / preset_of(test) / "cases" / f"{test}.json"
    with contextlib.suppress(OSError, ValueError):
        if preset_of(test) != "release" and path.stat().st_mtime >= since:
            for suite in json.loads(path.read_text(encoding="utf-8"))["testsuites"]:
                for case in suite["testsuite"]:
                    yield f"{test}  {case['classname']}.{case['name']}", float(case["time"].rstrip("s")), bool(case.get("failures"))


def run_ctest(root, command, built, out):
    """Shows the output of ctest and the cases as they come; returns ctest's exit status."""
    summary, closing, began = Summary(), [], time.time()

    def show(line):
        out.write(line.encode() + b"\n" if isinstance(line, str) else line)
        out.flush()

    with tempfile.TemporaryDirectory() as folder:
        cases = Cases(os.path.join(folder, "cases"), show, summary)
        ctest = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "LEAT_CASES": cases.path})
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: ctest.send_signal(number))

        def line_ends(line):
            text = line.decode(errors="replace").rstrip("\n")
            if closing or CTEST_CLOSING.match(text):
                closing.append(line)
                return
            cases.poll()
            if match := CTEST_CASE.match(text):
                name, status, seconds = match[1], match[2].strip(), float(match[3])
                summary.minutes[preset_of(name)][1] += seconds
                failed = "" if status.startswith(("Passed", "Skipped", "Not Run (Disabled)")) else status.lower()
                inside = list(cases_under_sanitizer(root, name, began))
                for case, its_seconds, its_failure in inside:
                    summary.add(case, its_seconds, "failed" if its_failure else "")
                if inside:
                    told = any(its_failure for *_, its_failure in inside)
                    summary.add(name, seconds, "" if told else failed, show=False)
                else:
                    cases.end(name, seconds, failed)
            show(line)

        begun = b""
        with selectors.DefaultSelector() as ready:
            ready.register(ctest.stdout, selectors.EVENT_READ)
            while True:
                if not ready.select(0.5):
                    cases.poll()
                    continue
                if not (read := os.read(ctest.stdout.fileno(), 1 << 16)):
                    break
                *lines, begun = (begun + read).split(b"\n")
                for line in lines:
                    line_ends(line + b"\n")
        if begun:
            line_ends(begun)
        status = ctest.wait()
        cases.poll()
    if summary.cases:
        for part in built:
            preset, seconds = part.split("=")
            summary.minutes[preset][0] += float(seconds)
        at_a_time = command[command.index("--parallel") + 1] if "--parallel" in command else 1
        show("")
        for line in summary.lines(at_a_time):
            show(line)
        show("")
    for line in closing:
        show(line)
    return status if status >= 0 else 128 - status


# Which tests are near to a change.

@dataclass
class Step:
    """A program of unit tests, or a file of pytest."""
    name: str
    kind: str  # unit, system
    distance: int = 0
    place: str = ""  # path of a unit test program, below the build folder

    def __str__(self):
        return self.name


@dataclass
class Choice:
    steps: list = field(default_factory=list)
    uncovered: list = field(default_factory=list)  # changed paths that no test is known for
    alone: list = field(default_factory=list)  # changed sources


def test_calls(path):
    """{name: words} of the calls of leat_test in a CMakeLists.txt. Calls with variables in their names are left out."""
    found, words, before = {}, None, ""
    for match in check_layers.TOKEN.finditer(path.read_text(encoding="utf-8")):
        quoted, word, bracket = match.groups()
        if bracket == "(" and before == "leat_test":
            words = []
        elif bracket == ")" and words is not None:
            if words[0] == "NAME" and "$" not in words[1]:
                found[words[1]] = words[2:]
            words = None
        elif words is not None and word:
            words.append(word)
        before = word
    return found


def distances(layers, changed, changed_tests):
    """How far the folders' code and tests are from a change, by folder. A folder includes what is one nearer."""
    code, tests = dict.fromkeys(changed, 0), {}
    todo = list(changed)
    while todo:
        at = todo.pop(0)
        for folder, module in layers.modules.items():
            if folder not in code and layers.modules[at].name in module.list("DEPS"):
                code[folder] = code[at] + 1
                todo.append(folder)
    for folder, module in layers.modules.items():
        near = [code[folder]] if folder in code else []
        for name in module.list("TEST_DEPS"):
            if name in layers.by_name and layers.by_name[name].folder in code:
                near.append(code[layers.by_name[name].folder] + 1)
        if folder in changed_tests:
            near.append(0)
        if near:
            tests[folder] = min(near)
    return code, tests


class PythonTests:
    """The files of tests/system and tests/python: the folders that they name, and what they import."""

    def __init__(self, root):
        self.root = root
        self.texts = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
                      for top in ("system", "python") for path in sorted((root / "tests" / top).glob("*.py"))}
        self.files = [path for path in self.texts if Path(path).name.startswith("test_")]

    @staticmethod
    def name(path):
        return f"{Path(path).parent.name}.{Path(path).stem.removeprefix('test_')}"

    def folders(self, path):
        match = FOLDERS.search(self.texts[path])
        return match[1].split() if match else []

    def imports(self, path):
        """The file, and the files of its folder that it imports, also through others."""
        found, todo = set(), [path, (Path(path).parent / "conftest.py").as_posix()]
        while todo:
            at = todo.pop()
            if at in self.texts and at not in found:
                found.add(at)
                todo += [(Path(at).parent / f"{name}.py").as_posix() for name in IMPORT.findall(self.texts[at])]
        return found

    def commands(self, path):
        """The commands that a source adds, and the one that is its name."""
        source = self.root / path
        added = COMMAND.findall(source.read_text(encoding="utf-8")) if source.is_file() else []
        return [*added, Path(path).stem.removesuffix("_command").replace("_", "-")]

    def distance(self, path, changed, code):
        """How far a file is from a change; None: it names no folder that the change reaches."""
        near, text = [], self.texts[path]
        if self.imports(path) & changed:
            near.append(-1)
        for folder in self.folders(path):
            if folder in code:
                near.append(code[folder])
            if any(one.startswith(folder + "/") for one in changed):
                near.append(0)
        for one in changed:
            # Commands of the program: files of tests/system name them in quotes.
            if one.startswith("src/cli/") and path.startswith("tests/system/"):
                near.append(0 if any(f'"{command}"' in text for command in self.commands(one)) else 1)
        return min(near, default=None)


def check_folders(root):
    """A message for each file of tests that names no folder, or a folder that does not exist."""
    errors, tests = [], PythonTests(root)
    layers = check_layers.Layers(root / "src", [])
    for path in tests.files:
        folders = tests.folders(path)
        if not folders:
            errors.append(f"{path}:1: needs a comment `# folders: ...`: the folders of src/, or of the repository, that it is about")
        for folder in folders:
            if folder not in layers.modules and not (root / folder).is_dir():
                errors.append(f"{path}:1: # folders: {folder} is neither a module of src/ nor a folder")
    return errors


def choose(root, paths):
    """The tests near to changed paths, nearest first."""
    layers = check_layers.Layers(root / "src", [])
    python, choice = PythonTests(root), Choice()
    changed, changed_tests, covered = defaultdict(int), set(), set()
    for path in paths:
        folder = layers.folder_of(path.removeprefix("src/")) if path.startswith("src/") else None
        if folder:
            covered.add(path)
            if path.endswith("_test.cc"):
                changed_tests.add(folder)
            else:
                changed[folder] += 1
        if path.startswith("src/") and path.endswith(".cc") and (root / path).is_file():
            choice.alone.append(path)
    code, tests = distances(layers, changed, changed_tests)
    has_tests = {layers.folder_of(path.relative_to(root / "src")) for path in (root / "src").rglob("*_test.cc")}
    units = [Step(f"{layers.modules[folder].name}_test", "unit", distance, f"src/{folder}")
             for folder, distance in tests.items() if folder in has_tests]
    if (root / "tests/CMakeLists.txt").is_file():
        for name, words in test_calls(root / "tests/CMakeLists.txt").items():
            libraries = [layers.by_name[word.removeprefix("leat_")].folder for word in words
                         if word.startswith("leat_") and word.removeprefix("leat_") in layers.by_name]
            near = [code[folder] + 1 for folder in libraries if folder in code]
            if own := [path for path in paths if path.startswith("tests/") and path.count("/") > 1 and
                       any(word.startswith(path.split("/")[1] + "/") for word in words)]:
                covered.update(own)
                near.append(0)
            if near:
                units.append(Step(name, "unit", min(near), "tests"))
    # The simulator's seeds find what unit tests of a state machine do not.
    units.sort(key=lambda step: (step.distance, step.name != "sim_test", -changed.get(step.place.removeprefix("src/"), 0), step.name))
    for step in [step for step in units if step.name == "sim_test"]:
        units.remove(step)
        units.insert(sum(other.distance == 0 for other in units), step)
    system = []
    for path in python.files:
        distance = python.distance(path, set(paths), code)
        if distance is not None:
            system.append((distance, len(python.folders(path)), Step(python.name(path), "system", distance)))
        covered.update(one for one in paths if one in python.imports(path) or
                       any(one.startswith(folder + "/") for folder in python.folders(path)))
    choice.steps = units + [step for *_, step in sorted(system, key=lambda row: (*row[:2], row[2].name))]
    choice.uncovered = [path for path in paths if path not in covered and not path.startswith("src/cli/")]
    return choice


def changed_paths(root, revision):
    """Files that differ between REV and the working tree, those that git does not track yet too."""
    def git(*words):
        done = subprocess.run(["git", "-C", root, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode:
            print(f"leat: test --changed {revision}: {(done.stderr.strip().splitlines() or ['git failed'])[0]}", file=sys.stderr)
            sys.exit(2)
        return [path for path in done.stdout.split("\0") if path]

    return sorted({*git("diff", "--name-only", "--no-renames", "-z", revision, "--"),
                   *git("ls-files", "--others", "--exclude-standard", "-z")})


# Running them.

class OutOfTime(Exception):
    pass


class BuildFailed(Exception):
    pass


class Nearest:
    """Builds and runs the steps of a choice until the deadline."""

    def __init__(self, root, jobs, minutes):
        self.root, self.build, self.jobs, self.minutes = root, root / "build/release", jobs, minutes
        self.began = time.monotonic()
        self.deadline = self.began + 60 * minutes
        self.cores = len(os.sched_getaffinity(0))
        self.summary, self.left_out, self.finished = Summary(), [], 0
        self.printing, self.building, self.running = threading.Lock(), threading.Lock(), set()
        self.outputs = None

    def say(self, text):
        with self.printing:
            print(f"[{time.monotonic() - self.began:4.0f} s] {text}", flush=True)

    def left(self):
        return self.deadline - time.monotonic()

    @contextlib.contextmanager
    def measured(self, which):
        began = time.monotonic()
        try:
            yield
        finally:
            self.summary.minutes["release"][which] += time.monotonic() - began

    def lock(self, file):
        """Waits for the end of another caller's build."""
        while True:
            with contextlib.suppress(BlockingIOError):
                return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self.left() <= 0:
                raise OutOfTime
            time.sleep(0.1)

    def run(self, *command):
        """Runs a command of the build until the deadline; shows its output if it fails."""
        if self.left() <= 0:
            raise OutOfTime
        with open(self.root / "build/.lock", "w", encoding="ascii") as lock, self.measured(0):
            self.lock(lock)
            with self.child(command, signal.SIGINT) as process:
                try:
                    said, _ = process.communicate(timeout=max(self.left(), 1))
                except subprocess.TimeoutExpired:
                    raise OutOfTime from None
        if process.returncode:
            with self.printing:
                print(said, flush=True)
            raise BuildFailed(" ".join(map(str, command)))
        return said

    def ninja(self, *targets):
        with self.building:
            self.run("ninja", "-C", self.build, "-j", self.jobs, *targets)

    def compile_alone(self, sources):
        """Changed sources leave their batches: from the second time on, that is faster. The last sources that already did stay out."""
        cache = (self.build / "CMakeCache.txt").read_text(encoding="utf-8")
        match = re.search(r"^LEAT_ALONE:\w+=(.*)$", cache, re.MULTILINE)
        before = [source for source in (match[1].split(";") if match else []) if source]
        alone = [*sources, *(source for source in before if source not in sources)][:MOST_ALONE]
        if len(sources) <= MOST_ALONE and not {*sources} <= {*before}:
            self.say(f"sources that are compiled alone from now on: {' '.join(source for source in alone if source not in before)}")
            self.run("cmake", "-S", self.root, "-B", self.build, f"-DLEAT_ALONE={';'.join(alone)}")

    @staticmethod
    def stop(process, first):
        """Ends a process and its children: in good order, so that it ends what it started; after half a minute, at once."""
        process.send_signal(first)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    @contextlib.contextmanager
    def child(self, command, first, **more):
        """A process in a group of its own, which ends with the block."""
        process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                   start_new_session=True, **more)
        self.running.add(process)
        try:
            yield process
        finally:
            if process.poll() is None:
                self.stop(process, first)
            self.running.discard(process)

    def unit(self, step):
        """All cases of a program, in as many processes as there are cores."""
        self.say(f"building {step}")
        self.ninja(step.name)
        self.say(f"running {step}")
        done, late, errors = queue.Queue(), threading.Event(), []
        folder = self.build / step.place

        def shard(index):
            environment = {**os.environ, "GTEST_TOTAL_SHARDS": str(self.cores), "GTEST_SHARD_INDEX": str(index)}
            command = [folder / step.name, "--gtest_filter=-*Long.*", "--gtest_color=no"]
            with self.child(command, signal.SIGTERM, cwd=folder, env=environment) as process:
                watch = threading.Timer(max(self.left(), 0.1), lambda: (late.set(), self.stop(process, signal.SIGTERM)))
                watch.start()
                self.follow_gtest(step.name, process, done, late)
                watch.cancel()

        with self.measured(1):
            def guarded(index):
                try:
                    shard(index)
                except Exception as error:
                    errors.append(error)

            shards = [threading.Thread(target=guarded, args=(index,), daemon=True) for index in range(self.cores)]
            for thread in shards:
                thread.start()
            for thread in shards:
                thread.join()
        if errors:
            raise BuildFailed(f"{step}: {errors[0]}")
        cases = 0
        while not done.empty():
            cases += done.get()
        if late.is_set():
            raise OutOfTime
        self.finished += 1
        self.say(f"{step}: {cases} cases")

    def follow_gtest(self, program, process, done, late):
        """Shows each case that fails, with its output, when it fails."""
        case, said, cases, failures = None, [], 0, 0

        def failed(seconds, why):
            self.summary.add(f"{program}.{case or '(no case)'}", seconds, why)
            self.say(f"{program}.{case or '(no case)'}: {why}\n" + "".join(said[-200:]).rstrip())

        for line in process.stdout:
            if match := GTEST_BEGIN.match(line):
                case, said, began = match[1], [], time.monotonic()
            said.append(line)
            if case and (match := GTEST_END.match(line)):
                if match[1] == "FAILED":
                    failures += 1
                    failed(float(match[3]) / 1000, "failed")
                else:
                    self.summary.add(f"{program}.{case}", float(match[3]) / 1000)
                case, said, cases = None, [], cases + 1
        status = process.wait()
        if not late.is_set() and status and (case or not failures):
            why = f"ended by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
            failed(time.monotonic() - began if case else 0, why)
        done.put(cases)

    def tests_of_pytest(self):
        """{name: (command, environment)} as CMake gives them to ctest."""
        with self.building:
            listed = json.loads(self.run("ctest", "--test-dir", self.build / "tests", "-L", "system|python", "--show-only=json-v1"))
        found = {}
        for test in listed["tests"]:
            variables = next((p["value"] for p in test.get("properties", []) if p["name"] == "ENVIRONMENT"), [])
            found[test["name"]] = test.get("command"), dict(one.split("=", 1) for one in variables)
        return found

    def targets_of(self, environment):
        """Programs and modules that the variables of a test name, or whose folders they name."""
        if self.outputs is None:
            with self.building:
                listed = self.run("ninja", "-C", self.build, "-t", "targets", "all")
            self.outputs = re.findall(r"^(\S+): CXX_(?:EXECUTABLE|MODULE_LIBRARY)_LINKER\S*$", listed, re.MULTILINE)
        places = [os.path.relpath(value, self.build) for value in environment.values() if value.startswith("/")]
        return ["leat", *(path for path in self.outputs if any(path == place or path.startswith(place + "/") for place in places))]

    def system(self, step, command, environment):
        self.ninja(*self.targets_of(environment))
        self.say(f"running {step}")
        with tempfile.TemporaryDirectory() as folder, self.measured(1):
            cases = Cases(os.path.join(folder, "cases"), self.say, self.summary)
            with self.child(command, signal.SIGINT, cwd=self.build / "tests",
                            env={**os.environ, **environment, "LEAT_CASES": cases.path}) as process:
                said = []
                reader = threading.Thread(target=lambda: said.extend(process.stdout), daemon=True)
                reader.start()
                began = time.monotonic()
                while process.poll() is None and self.left() > 0:
                    time.sleep(0.2)
                    cases.poll()
                if process.poll() is None:
                    cases.poll()
                    raise OutOfTime
                reader.join()
            cases.end(step.name, time.monotonic() - began, f"exit status {process.returncode}" if process.returncode else "")
        self.finished += 1
        if process.returncode:
            self.say(f"{step}: failed\n" + "".join(said[-200:]).rstrip())

    def all_systems(self, steps):
        """Files of pytest, as many at a time as there are cores; most of the time they wait."""
        known, todo, errors = self.tests_of_pytest(), queue.Queue(), []
        for step in steps:
            todo.put(step)

        def work():
            while not errors:
                try:
                    step = todo.get_nowait()
                except queue.Empty:
                    return
                command, environment = known.get(step.name, (None, {}))
                try:
                    if not command:
                        raise BuildFailed(f"{step} is no test of {self.build}/tests")
                    self.system(step, command, environment)
                except OutOfTime:
                    self.left_out.append(step)
                except Exception as error:
                    errors.append(error if isinstance(error, BuildFailed) else BuildFailed(f"{step}: {error}"))

        workers = [threading.Thread(target=work, daemon=True) for _ in range(self.cores)]
        for thread in workers:
            thread.start()
        for thread in workers:
            thread.join()
        if errors:
            raise errors[0]

    def all(self, choice):
        """Returns the exit status."""
        units = [step for step in choice.steps if step.kind == "unit"]
        systems = [step for step in choice.steps if step.kind == "system"]
        broken = ""
        try:
            try:
                self.compile_alone(choice.alone)
                while units:
                    self.unit(units[0])
                    units.pop(0)
                order = {step.name: number for number, step in enumerate(systems)}
                waiting, systems = systems, []
                if waiting:
                    self.all_systems(waiting)
                    self.left_out.sort(key=lambda step: order[step.name])
            except OutOfTime:
                self.left_out += units + systems
        except BuildFailed as error:
            broken = str(error)
        print()
        for line in self.summary.lines(self.cores):
            print(line)
        if self.left_out:
            print(f"not run, or not to the end, in {self.minutes:g} minutes: {' '.join(map(str, self.left_out))}")
        if broken:
            print(f"failed: {broken}")
        elif choice.steps and not self.finished:
            print(f"no test has ended within {self.minutes:g} minutes")
        sys.stdout.flush()
        return 1 if broken or self.summary.failed or (choice.steps and not self.finished) else 0


    def interrupted(self):
        """Ends everything that runs."""
        self.deadline = 0
        for process in list(self.running):
            self.stop(process, signal.SIGINT)


def run_changed(root, revision, minutes, jobs):
    paths = changed_paths(root, revision)
    if not paths:
        print(f"nothing has changed since {revision}")
        return 0
    choice = choose(root, paths)
    if choice.uncovered:
        print(f"only ./leat test covers: {' '.join(choice.uncovered)}")
    if not choice.steps:
        return 0
    print(f"tests, nearest first: {' '.join(map(str, choice.steps))}", flush=True)
    nearest = Nearest(root, jobs, minutes)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return nearest.all(choice)
    except KeyboardInterrupt:
        nearest.interrupted()
        return 130


# A small tree for the self-test.
TREE = {
    "src/CMakeLists.txt": "foreach(layer base protocol sim roles launcher)\nendforeach()\n",
    "src/base/CMakeLists.txt": 'leat_module(NAME base PURPOSE "p")\n',
    "src/base/time_test.cc": "",
    "src/protocol/CMakeLists.txt": 'leat_module(NAME protocol DEPS base PURPOSE "p")\n',
    "src/protocol/server/push.cc": "",
    "src/protocol/server/push_test.cc": "",
    "src/sim/CMakeLists.txt": 'leat_module(NAME sim DEPS protocol PURPOSE "p")\n',
    "src/sim/swarm_test.cc": "",
    "src/roles/CMakeLists.txt": 'leat_module(NAME roles DEPS protocol PURPOSE "p")\n',
    "src/roles/server_test.cc": "",
    "src/launcher/CMakeLists.txt": 'leat_module(NAME launcher DEPS roles TEST_DEPS sim PURPOSE "p")\n',
    "src/launcher/local_test.cc": "",
    "src/optim/CMakeLists.txt": 'leat_module(NAME optim PURPOSE "p")\n',
    "src/optim/optim_test.cc": "",
    "src/cli/serve_command.cc": "",
    "src/cli/model_commands.cc": 'AddCommand(\n      app, result, "serve", "answer requests", Serve)',
    "tests/CMakeLists.txt": "leat_test(NAME cut_test SOURCES cut/cut_test.cc LIBS leat_roles)\n"
                            "leat_test(NAME cut_${what}_test SOURCES cut/cut_test.cc LIBS leat_roles)\n",
    "tests/cut/cut_test.cc": "",
    "tests/system/conftest.py": "",
    "tests/system/hosts.py": "",
    "tests/system/test_counter.py": "# folders: roles protocol\n",
    "tests/system/test_hosts.py": "# folders: launcher\nfrom hosts import Hosts\n",
    "tests/system/test_serve.py": '# folders: protocol\nimport hosts\nrun("serve")\n',
    "tests/system/test_pages.py": "# folders: docs\n",
    "tests/python/conftest.py": "",
    "tests/python/test_job.py": "# folders: optim python\n",
    "docs/jobs.md": "",
    "python/leat/job.py": "",
    "README.md": "",
}
CHOICES = [
    (["src/protocol/server/push.cc"], "protocol_test sim_test roles_test cut_test launcher_test "
     "system.serve system.counter system.hosts", "", ["src/protocol/server/push.cc"]),
    (["src/protocol/server/push_test.cc"], "protocol_test", "", ["src/protocol/server/push_test.cc"]),
    (["src/protocol/gone.h", "src/optim/optim.h"], "optim_test protocol_test sim_test roles_test cut_test launcher_test "
     "system.serve python.job system.counter system.hosts", "", []),
    (["src/sim/net.h"], "sim_test launcher_test", "", []),
    (["src/optim/optim.h"], "optim_test python.job", "", []),
    (["tests/system/hosts.py"], "system.hosts system.serve", "", []),
    (["src/cli/serve_command.cc"], "system.serve system.hosts system.pages system.counter", "", ["src/cli/serve_command.cc"]),
    (["src/cli/model_commands.cc"], "system.serve system.hosts system.pages system.counter", "", ["src/cli/model_commands.cc"]),
    (["README.md", "docs/jobs.md", "python/leat/job.py", "tests/cut/disk.h"], "cut_test system.pages python.job", "README.md", []),
    (["README.md", "src/CMakeLists.txt"], "", "README.md src/CMakeLists.txt", []),
]


def plant(root, tree):
    for path, text in tree.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
        if text.startswith("#!"):
            (root / path).chmod(0o755)


def expect(what, found, expected):
    if found != expected:
        sys.exit(f"run_tests --selftest: {what}: expected\n  {expected}\nfound\n  {found}")


def test_choices(root):
    plant(root, TREE)
    for paths, steps, uncovered, alone in CHOICES:
        choice = choose(root, paths)
        expect(f"tests near to {paths}", " ".join(map(str, choice.steps)), steps)
        expect(f"not covered of {paths}", " ".join(choice.uncovered), uncovered)
        expect(f"alone of {paths}", choice.alone, alone)
    expect("folders", check_folders(root), [])
    plant(root, {"tests/system/test_none.py": '"""Without."""\n', "tests/system/test_gone.py": "# folders: base gone\n"})
    expect("wrong folders", [error.split(":")[0] for error in check_folders(root)],
           ["tests/system/test_gone.py", "tests/system/test_none.py"])


def git(root, *words):
    subprocess.run(["git", "-C", root, "-c", "user.name=t", "-c", "user.email=t", "-c", "commit.gpgsign=false", *words], check=True,
                   stdout=subprocess.DEVNULL)


def test_changed_paths(root):
    plant(root, {"a": "", "b": "", "c": ""})
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    plant(root, {"a": "1"})
    git(root, "commit", "-qam", "second")
    (root / "b").unlink()
    plant(root, {"c": "1", "d e": ""})
    git(root, "add", "c")
    expect("changed since HEAD", changed_paths(root, "HEAD"), ["b", "c", "d e"])
    expect("changed since HEAD~1", changed_paths(root, "HEAD~1"), ["a", "b", "c", "d e"])


TELLS = r"""printf 'system.jobs\tgood\tstarted\nsystem.jobs\tgood\tpassed\t70.5\t\n' >>$LEAT_CASES
printf 'system.jobs\tbad\tstarted\nsystem.jobs\tbad\tfailed\t80\tAssertionError: 1\nsystem.jobs\tlong\tstarted\n' >>$LEAT_CASES
"""
CTEST = f"""
add_test(base_test.Good sh -c "exit 0")
add_test([=[base_test.P/Bad.Case/"a b"]=] sh -c "echo the reason; exit 1")
add_test(asan.base_test sh -c "kill -SEGV $$")
add_test(asan.net_test sh -c [=[mkdir -p build/asan/cases; echo '{{"testsuites": [{{"testsuite": [
  {{"classname": "Tcp", "name": "Slow/0", "time": "65.5s"}},
  {{"classname": "Tcp", "name": "Wrong", "time": "0.1s", "failures": [{{}}]}}]}}]}}' >build/asan/cases/asan.net_test.json; exit 1]=])
add_test(system.jobs sh -c [=[{TELLS} exec sleep 60]=])
set_tests_properties(system.jobs PROPERTIES TIMEOUT 2)
add_test(system.mute sh -c "exit 3")
"""


def test_ctest(root):
    """Cases are shown, failures are named, and ctest has the last word."""
    plant(root, {"CTestTestfile.cmake": CTEST})
    done = subprocess.run([sys.executable, __file__, "--root", root, "--built", "release=90", "--built", "asan=60", "--", "--test-dir", root,
                           "--output-on-failure", "--parallel", "3"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines = done.stdout.splitlines()
    expect("exit status of ctest", done.returncode, 8)
    for line in ["        system.jobs  good  passed  70.5 s", "        system.jobs  bad  failed  80.0 s  AssertionError: 1", "the reason",
                 "     80.0 s  system.jobs  bad", "     65.5 s  asan.net_test  Tcp.Slow/0", "  release    1.5     0.0", "  asan       1.0     0.0"]:
        if not any(one == line for one in lines):
            sys.exit(f"run_tests --selftest: no line {line!r} in\n{done.stdout}")
    failed = lines.index("failed cases:")
    closing = next(number for number, line in enumerate(lines) if CTEST_CLOSING.match(line))
    expect("failed cases", sorted(filter(None, lines[failed + 1:closing])), sorted([
        '  base_test.P/Bad.Case/"a b"', "  asan.base_test: exception: segfault", "  asan.net_test  Tcp.Wrong", "  system.jobs  bad: AssertionError: 1",
        "  system.jobs  long: timeout while it ran", "  system.mute"]))
    if not any(line.startswith("Total Test time") for line in lines[closing:]):
        sys.exit(f"run_tests --selftest: not ctest's closing lines:\n{done.stdout}")
    done = subprocess.run([sys.executable, __file__, "--", "--test-dir", root, "-R", "Good"], stdout=subprocess.PIPE)
    expect("exit status of ctest", done.returncode, 0)


# Test programs that list their cases as googletest does: one that fails, one that crashes, and one that takes too long.
GTEST = """#!/bin/sh
[ "$GTEST_SHARD_INDEX" = 0 ] || exit 0
echo '[ RUN      ] Push.Good'
echo '[       OK ] Push.Good (1500 ms)'
echo '[ RUN      ] Push.Last/1'
"""
PROGRAMS = {
    "src/protocol/protocol_test": GTEST + "echo 'push_test.cc:7: Failure'\necho '[  FAILED  ] Push.Last/1, where GetParam() = 2 (3 ms)'\nexit 1\n",
    "src/sim/sim_test": GTEST + "kill -ABRT $$\n",
    "src/roles/roles_test": GTEST + "sleep 100\n",
}


def test_alone(root):
    """The last changed sources are compiled alone, and never too many."""
    plant(root, {"build/release/CMakeCache.txt": ""})
    commands = []
    nearest = Nearest.__new__(Nearest)
    nearest.root, nearest.build, nearest.say = root, root / "build/release", lambda text: None

    def configured(*words):
        commands.append(words[-1])
        plant(root, {"build/release/CMakeCache.txt": words[-1].replace("-DLEAT_ALONE=", "LEAT_ALONE:STRING=") + "\n"})

    nearest.run = configured
    nearest.compile_alone(["a.cc", "b.cc"])
    nearest.compile_alone(["b.cc"])
    expect("sources that are alone already", commands, ["-DLEAT_ALONE=a.cc;b.cc"])
    nearest.compile_alone([f"{number}.cc" for number in range(MOST_ALONE - 1)])
    expect("the first ones return to their batches", commands[1:], [f"-DLEAT_ALONE={';'.join(f'{n}.cc' for n in range(MOST_ALONE - 1))};a.cc"])
    nearest.compile_alone([f"more{number}.cc" for number in range(MOST_ALONE + 1)])
    expect("too many at once", len(commands), 2)


def test_nearest(root):
    """A run with stand-ins for programs: what fails is shown first, and what the time does not suffice for is left out."""
    plant(root, {**TREE, **{f"made/{path}": text for path, text in PROGRAMS.items()}})
    rules = "rule copy\n  command = cp $in $out\n" + "".join(
        f"build {path}: copy ../../made/{path}\nbuild {Path(path).name}: phony {path}\n" for path in PROGRAMS)
    plant(root, {"build/release/build.ninja": rules, "build/release/CMakeCache.txt": "LEAT_ALONE:STRING=src/protocol/server/push.cc\n",
                 ".gitignore": "build\n"})
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")

    def run(*words):
        done = subprocess.run([sys.executable, __file__, "--root", root, "--changed", *words], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    expect("nothing changed", run(), (0, "nothing has changed since HEAD\n"))
    plant(root, {"src/protocol/server/push.cc": "int bug;\n"})
    status, text = run("--minutes", "0.15")
    expect("exit status of a failure", status, 1)
    parts = ["building protocol_test", "protocol_test.Push.Last/1: failed\n[ RUN      ] Push.Last/1\npush_test.cc:7: Failure\n",
             "protocol_test: 2 cases", "building sim_test", "sim_test.Push.Last/1: ended by SIGABRT", "running roles_test", "slowest cases:\n",
             "1.5 s  sim_test.Push.Good", "failed cases:\n  protocol_test.Push.Last/1\n  sim_test.Push.Last/1: ended by SIGABRT\n",
             "in 0.15 minutes: roles_test cut_test launcher_test system.serve"]
    at = [text.find(part) for part in parts]
    if at != sorted(at) or -1 in at:
        sys.exit(f"run_tests --selftest: expected {parts} in this order in\n{text}")
    expect("no time", run("--minutes", "0")[0], 1)
    git(root, "checkout", "-q", "src")
    plant(root, {"src/optim/optim.h": "int no_target_builds_its_test;\n"})
    status, text = run()
    expect("exit status of a build that fails", (status, "failed: ninja" in text), (1, True))
    expect("no such revision", run("gone"), (2, "leat: test --changed gone: fatal: bad revision 'gone'\n"))


def selftest():
    for test in (test_choices, test_changed_paths, test_ctest, test_alone, test_nearest):
        with tempfile.TemporaryDirectory() as folder:
            test(Path(folder))
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--built", action="append", default=[], metavar="PRESET=SECONDS", help="how long the build of a preset took")
    parser.add_argument("--changed", nargs="?", const="HEAD", metavar="REV", help="run the tests near to what has changed since REV (HEAD)")
    parser.add_argument("--minutes", type=float, default=5, help="with --changed: start no test after so many minutes, and end what runs")
    parser.add_argument("--jobs", type=int, default=2, help="with --changed: compilers at a time")
    parser.add_argument("--folders", action="store_true", help="check the comments `# folders: ...` of the files of tests")
    parser.add_argument("--selftest", action="store_true")
    parser.add_argument("ctest", nargs="*", help="options of ctest")
    args = parser.parse_args()
    if args.selftest:
        return selftest()
    if args.folders:
        errors = check_folders(args.root)
        print(*errors, sep="\n", end="\n" if errors else "")
        return 1 if errors else 0
    if args.changed is not None:
        return run_changed(args.root, args.changed, args.minutes, args.jobs)
    return run_ctest(args.root, ["ctest", *args.ctest], args.built, sys.stdout.buffer)


if __name__ == "__main__":
    sys.exit(main())
