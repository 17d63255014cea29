"""Markdown pages as tests: runs the commands that a page tells its reader to type and compares what it shows.

What a block is:
  indented, or ```sh        commands, run by bash in the page's own directory; `./leat` and `leat` are the program
  ```                       output of the commands before it in the same section
  ```yaml, ```python, ...   a file; "Save this as `NAME`" stands before it
Any other block needs a mark, a comment before it that readers do not see:
  <!-- test: skip: REASON -->               the block does not run
  <!-- test: skip section: REASON -->       nor does any other up to the next heading
  <!-- test: file NAME -->                  the block is this file
  <!-- test: needs FILE ... of PAGE -->     commands: copies files that another page made
  <!-- test: replace A with B -->           commands or output
  <!-- test: shorten A to B -->             the same in the default tier; the long tier runs the page as it is written
  <!-- test: Ctrl-C at N events -->         commands: interrupts the first line there; the other lines follow
  <!-- test: background at N events -->     commands: goes on with the page there; the job waits for its output block
  <!-- test: after each line: TEXT -->      commands: waits until the background job prints TEXT once more
  <!-- test: of the background job -->      output: lets that job go on, and compares what it prints up to its end
  <!-- test: any order -->                  output: its lines are there, anywhere
  <!-- test: varies: TEXT -->               output: the numbers in TEXT differ from run to run, or the word that TEXT is

Output is compared from a line's beginning to a line's end, white space apart; `…` stands for any text, and on a line
of its own for any lines. Figures that vary with speed need no mark: VARYING. A number shown as `pid N` is replaced in
later commands. Commands must succeed. A command whose output shows an error ("leat: ...") must end with status 2.
"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass, field

import leat

DEADLINE = 300  # seconds, for one block of commands
MARK = re.compile(r"<!-- test: (.+) -->")
KINDS = {
    kind: re.compile(pattern) for kind, pattern in {
        "skip section": r"skip section: (.+)", "skip": r"skip: (.+)", "file": r"file (\S+)",
        "needs": r"needs (.+) of (\S+)", "replace": r"replace (.+) with (.+)", "shorten": r"shorten (.+) to (.+)",
        "ctrl-c": r"Ctrl-C at ([\d,]+) events", "background": r"background at ([\d,]+) events",
        "after": r"after each line: (.+)", "of background": r"of the background job",
        "any order": r"any order", "varies": r"varies: (.+)",
    }.items()
}
FIGURE = r"\b\d\.\d{3,}"  # a loss, an accuracy, an AUC
NUMBER = r"\d[\d,]*(?:\.\d+)?"
PROGRESS = re.compile(r"\d\d:\d\d  (?P<state>.+?)  events ")
# Rows of a job's result that depend on the speed of the machine. Losses, accuracies and AUCs must be close to what the
# page shows.
VARYING = re.compile(r"\s*(speed|loss|AUC|accuracy|test accuracy|test loss|staleness|time)  ")
CLOSE = 0.05
# A row that a result has on some runs only.
OPTIONAL = re.compile(r"  slow  ")


@dataclass
class Block:
    line: int
    kind: str  # commands, output, file or skipped
    text: str
    section: int
    marks: list = field(default_factory=list)
    name: str = None  # path of a file
    typed: bool = False  # commands, also skipped ones

    def mark(self, kind):
        """The groups of the first mark of a kind, or its whole text; None without such a mark."""
        return next((match.groups() or match[0] for k, match in self.marks if k == kind), None)

    def changed(self, text, short):
        for kind, match in self.marks:
            if kind == "replace" or (kind == "shorten" and short):
                if match[1] not in text:
                    raise ValueError(f"there is no '{match[1]}' to replace")
                text = text.replace(match[1], match[2])
        return text


def read_mark(text):
    for kind, pattern in KINDS.items():
        if match := pattern.fullmatch(text):
            return kind, match
    raise ValueError(f"no such mark: {text}")


def blocks(text, errors):
    """The blocks of a page; appends (line, mistake) to `errors` for unknown marks and for meaningless marks and blocks."""
    lines, found = text.splitlines(), []
    section, skipped, marks, prose, name, at = 0, False, [], "", None, 0
    while at < len(lines):
        line, begin = lines[at], at
        at += 1
        fence = re.fullmatch(r"```(\S*)", line)
        if fence:
            while at < len(lines) and lines[at] != "```":
                at += 1
            body = lines[begin + 1:at]
            at += 1
            kind = {"": "output", "sh": "commands"}.get(fence[1], "file")
        elif line.startswith("    ") and not prose:
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            body, kind = [line[4:] for line in lines[begin:at]], "commands"
        else:
            if mark := MARK.fullmatch(line):
                try:
                    marks.append(read_mark(mark[1]))
                    skipped = skipped or marks[-1][0] == "skip section"
                except ValueError as e:
                    errors.append((begin + 1, str(e)))
                continue
            if line.strip() and marks and not skipped:
                errors.append((begin + 1, "a mark with no block below it"))
            if line.startswith("#"):
                section, skipped = section + 1, False
            if line.strip():
                marks = []
                saved = re.search(r"Save this as `(\S+)`", prose + " " + line)
                name, prose = saved[1] if saved else None, prose + " " + line
            else:
                prose = ""
            continue
        block = Block(begin + 1, kind, "\n".join(body).rstrip() + "\n", section, marks)
        before = next((b for b in reversed(found) if b.typed), None)
        block.typed = kind == "commands"
        if skipped or block.mark("skip"):
            block.kind = "skipped"
        elif block.mark("file"):
            block.kind, block.name = "file", block.mark("file")[0]
        elif kind == "file":
            block.name = name
            if name is None:
                errors.append((block.line, "a file without a name, and no mark says what the block is"))
        elif kind == "output" and (before is None or before.section != section):
            errors.append((block.line, "no commands in this section print this, and no mark says what the block is"))
        elif kind == "output" and before.kind == "skipped":
            block.kind = "skipped"
        found.append(block)
        marks, prose, name = [], "", None
    return found


def line_pattern(line, exact, varies):
    """A regular expression for one line of output; a group named pN is a process number, others are figures."""
    for text in varies:
        wild = re.sub(NUMBER, "\0", text)
        line = line.replace(text, wild if wild != text else "\0")
    varying = not exact and VARYING.match(line)
    pattern = ""
    for part in re.split(rf"(…|\0|\s+|\bpid \d+|{NUMBER})", line.strip()):
        if part == "…":
            pattern += r"[^\n]*?"
        elif part == "\0":
            pattern += r"[^\s)]+"
        elif part.isspace():
            pattern += r"\s+"
        elif part.startswith("pid "):
            pattern += rf"pid (?P<p{part[4:]}>\d+)"
        elif varying and re.fullmatch(FIGURE, part):
            pattern += r"(\d\.\d+)"
        elif varying and re.fullmatch(NUMBER, part):
            pattern += NUMBER
        else:
            pattern += re.escape(part)
    return pattern


def compare(shown, printed, exact, varies=(), any_order=False):
    """Throws ValueError where the page shows text that was not printed; returns the process numbers, {shown: printed}."""
    shown, printed = shown.splitlines(), printed.splitlines()
    progress = [line for line in printed if PROGRESS.match(line)]
    for line in [line for line in shown if PROGRESS.match(line)]:
        # A short job may be over before it prints such a line, and the first lines have no figures yet.
        state = PROGRESS.match(line)["state"]
        same = [p for p in progress if PROGRESS.match(p)["state"] == state and "–" not in p]
        form = line_pattern(re.sub(NUMBER, "\0", line), True, [])
        if same and not any(re.fullmatch(form, p.strip()) for p in same):
            raise ValueError(f"progress is shown as\n  {line}\nand printed as\n  {same[0]}")
    shown = [line for line in shown if line.strip() and not PROGRESS.match(line)]
    text = "\n".join(line for line in printed if not PROGRESS.match(line) and not OPTIONAL.match(line))
    numbers, whole, gap = {}, "", ""
    for line in shown:
        if line.strip() == "…":
            gap = r"[ \t]*\n(?:[^\n]*\n)*?\s*" if whole else ""
            continue
        pattern = line_pattern(line, exact, varies)
        whole = pattern if any_order else whole + gap + pattern
        gap = r"\s+"
        match = re.search(rf"^[ \t]*{whole}(?=\s|$)", text, re.MULTILINE)
        if match is None:
            raise ValueError(f"the page shows the line\n  {line}\nand printed was\n{text.strip()[-3000:]}")
        numbers |= {name[1:]: value for name, value in match.groupdict().items()}
        if not exact and VARYING.match(line):
            printed_line = re.search(rf"^[ \t]*{pattern}", text, re.MULTILINE)
            for figure, value in zip(re.findall(FIGURE, line), printed_line.groups(), strict=True):
                if abs(float(figure) - float(value)) > CLOSE:
                    raise ValueError(f"{figure} is shown, and {value} was printed")
    if not any_order and shown and not re.search(rf"^[ \t]*{whole}[ \t]*$", text, re.MULTILINE):
        raise ValueError(f"more is printed after\n  {shown[-1]}\nnamely\n{text.strip()[-3000:]}")
    return numbers


class Reader:
    """Somebody who types a page into a terminal, from top to bottom."""

    def __init__(self, page, text, directory, short, other_page=None):
        self.page, self.directory, self.short = page, pathlib.Path(directory), short
        self.other_page = other_page  # name -> Reader that has typed it
        self.errors, self.names, self.printed, self.exact, self.job = [], {}, "", False, None
        (self.directory / "leat").symlink_to(leat.PROGRAM)
        (self.directory / "examples").symlink_to(leat.EXAMPLES)
        (self.directory / "tools").symlink_to(leat.ROOT / "tools")
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("LEAT_")}
        self.environment |= {"HOME": str(self.directory), "PATH": f"{self.directory}:{os.environ['PATH']}"}
        mistakes = []
        self.blocks = blocks(text, mistakes)
        self.errors += [f"{page}:{line}: {mistake}" for line, mistake in mistakes]

    def type_all(self):
        """Continues after a mistake, so that one run names them all. A page with a wrong mark is not run at all."""
        if self.errors:
            return self
        with contextlib.ExitStack() as self.started:
            for block, following in zip(self.blocks, [*self.blocks[1:], None]):
                try:
                    if block.kind == "file":
                        (self.directory / block.name).write_text(block.changed(block.text, self.short))
                    elif block.kind == "commands":
                        self.commands(block, following)
                    elif block.kind == "output":
                        self.output(block)
                except (ValueError, AssertionError, OSError) as e:
                    self.errors.append(f"{self.page}:{block.line}: {e}")
            if self.job:
                self.errors.append(f"{self.page}: no output block is of the background job")
        return self

    def commands(self, block, following):
        for names, page in [match.groups() for kind, match in block.marks if kind == "needs"]:
            for name in names.split():
                shutil.copy(self.other_page(page).directory / name, self.directory / name)
        script = block.changed(block.text, self.short)
        for number, value in self.names.items():
            script = re.sub(rf"\b{number}\b", value, script)
        self.printed, self.exact = "", "leat simulate" in script
        if position := block.mark("ctrl-c"):
            first, script = script.split("\n", 1)
            with self.background(first, position[0]) as job:
                job.interrupt()
                if job.wait(DEADLINE) != 0:
                    raise ValueError(f"status {job.process.returncode} after Ctrl-C:\n{job.text()[-3000:]}")
                self.printed = job.text()
        if position := block.mark("background"):
            self.job = self.started.enter_context(self.background(script.strip(), position[0]))
            return
        shown = following.text if following and following.kind == "output" else ""
        status = 2 if re.search(r"^leat: (?!warning)", shown, re.MULTILINE) else 0
        if wanted := block.mark("after"):
            if self.job is None:
                raise ValueError("there is no background job")
            for line in script.splitlines():
                before = self.job.text().count(wanted[0])
                self.run(line, 0)
                leat.wait_for(lambda: self.job.text().count(wanted[0]) > before, f"'{wanted[0]}' after '{line}'")
        elif script.strip():
            self.run(script, status)

    def output(self, block):
        if block.mark("of background"):
            if self.job is None:
                raise ValueError("there is no background job")
            job, self.job = self.job, None
            job.go_on()
            if job.wait(DEADLINE) != 0:
                raise ValueError(f"status {job.process.returncode} of the background job:\n{job.text()[-3000:]}")
            self.printed = job.text()
        varies = [match[1] for kind, match in block.marks if kind == "varies"]
        for text in varies:
            if text not in block.text:
                raise ValueError(f"there is no '{text}' that varies")
        self.names |= compare(block.changed(block.text, self.short), self.printed, self.exact, varies,
                              bool(block.mark("any order")))

    def run(self, script, status):
        process = subprocess.Popen(
            ["bash", "-eo", "pipefail", "-c", script], cwd=self.directory, env=self.environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            printed = process.communicate(timeout=DEADLINE)[0]
        except subprocess.TimeoutExpired:
            raise ValueError(f"not over after {DEADLINE} s:\n{script}") from None
        finally:
            with contextlib.suppress(ProcessLookupError):  # whatever the script left behind
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
        self.printed += printed
        if process.returncode != status:
            raise ValueError(f"status {process.returncode} instead of {status}:\n{script.strip()}\n"
                             f"printed\n{printed[-3000:]}")

    def background(self, command, position):
        """A job that has trained some events and waits at a position, so that no test depends on the time."""
        events = int(position.replace(",", ""))
        number = len(list(self.directory.glob("background-*")))
        job = leat.Job("-c", f"exec {command} --pause-at {events}", program="bash", cwd=self.directory,
                       env=self.environment, directory=self.directory / f"background-{number}")
        try:
            leat.wait_for(lambda: job.process.poll() is not None or job.children(), f"processes of '{command}'")
            leat.wait_for(lambda: job.process.poll() is not None or job.status().get("events", 0) >= events // 2,
                          f"{events // 2} events of '{command}'")
            if job.process.poll() is not None:
                raise ValueError(f"'{command}' ended before {position} events:\n{job.text()[-3000:]}")
        except (AssertionError, ValueError):
            job.end()
            raise
        return job
