"""README and the tutorials do what they say: their commands run, and print what the pages show. Marks: pages.py."""

# folders: docs examples

import gzip
import re
import struct

import pytest

import leat
import pages
from kafka import Broker

README = "README.md"
KAFKA = "docs/kafka.md"
TUTORIALS = sorted(str(page.relative_to(leat.ROOT)) for page in (leat.ROOT / "docs/tutorials").glob("*.md"))


def write_digits(folder):
    """Files that look like MNIST's, with 600 images of noise."""
    folder.mkdir()
    for name, head, size in [("images-idx3", [2051, 600, 28, 28], 600 * 28 * 28), ("labels-idx1", [2049, 600], 600)]:
        values = bytes(k * k % 251 % (256 if "images" in name else 10) for k in range(size))
        (folder / f"train-{name}-ubyte.gz").write_bytes(gzip.compress(struct.pack(f">{len(head)}I", *head) + values))


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """A page that was typed once, in the default tier's short form or as it is written."""
    readers, brokers = {}, []

    def type_page(page, short):
        if (page, short) not in readers:
            folder = tmp_path_factory.mktemp(re.sub(r"\W", "-", page))
            if page == README:
                write_digits(folder / "DIR")
            if page == KAFKA:  # at a free port; the page finds it running
                brokers.append(Broker(folder / "broker"))
            reader = pages.Reader(page, (leat.ROOT / page).read_text(), folder, short,
                                  lambda name: type_page("docs/tutorials/" + name, short))
            readers[page, short] = reader.type_all()
        return readers[page, short]
    yield type_page
    for broker in brokers:
        broker.stop()


@pytest.mark.parametrize("page", [*TUTORIALS, KAFKA, README])
@pytest.mark.parametrize("short", [pytest.param(True, id="short"),
                                   pytest.param(False, id="as_written", marks=pytest.mark.long)])
def test_a_page_does_what_it_says(typed, page, short):
    reader = typed(page, short)
    assert not reader.errors, "\n\n".join(reader.errors)


def options_of(*command):
    """The options of a command and its subcommands."""
    done = leat.run(*command, "--help")
    assert done.returncode == 0, f"leat {' '.join(command)} --help: {done.stderr}"
    found = set(re.findall(r"(?<!\S)--[a-z-]+|(?<=,)--[a-z-]+", done.stdout))
    for name in re.findall(r"^  ([a-z-]+) ", done.stdout.partition("Subcommands:\n")[2], re.MULTILINE):
        found |= options_of(*command, name)
    return found


# Options of docker, podman and their compose.
OPTIONS_OF_CONTAINERS = {"--network", "--remove-orphans", "--scale", "--shm-size", "--time"}


def test_commands_in_documents_exist():
    """Also those in prose, in tables, and on pages that nobody types from top to bottom."""
    commands = set(re.findall(r"^  ([a-z-]+) ", leat.run("--help").stdout, re.MULTILINE))
    options = {command: options_of(command) for command in commands}
    every, wrong, seen = OPTIONS_OF_CONTAINERS.union(*options.values()), [], 0
    for script in (leat.ROOT / "deploy/slurm").iterdir():
        every |= set(re.findall(r"(?<![\w-])--[a-z-]+", script.read_text()))
    for page in [leat.ROOT / README, leat.ROOT / "CONTRIBUTING.md", *sorted((leat.ROOT / "docs").rglob("*.md"))]:
        text = page.read_text()
        # Commands in a line of code end with it, or with a comment, a pipe or a redirection.
        lines = [line for line in text.splitlines() if line.startswith("    ")]
        unfenced = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", unfenced)]
        name = page.relative_to(leat.ROOT)
        if name.parts[0] != "CONTRIBUTING.md":  # its options are those of tools
            wrong += [f"{name}: no command has the option {span}" for span in spans
                      if (option := re.match(r"--[a-z-]+", span)) and option[0] not in every]
        code = "\n".join(lines + spans)
        # "leat" is also the name of a namespace and of an image.
        for command, rest in re.findall(r"(?:^|(?<!kubectl -n)(?<!push)[\s/])leat ([a-z][a-z-]*)(?![\w:])([^\n#|>;]*)", code):
            if command in ("test", "bench", "wheel"):  # commands of the script ./leat, which this --help leaves out
                continue
            seen += 1
            if command not in commands:
                wrong.append(f"{name}: leat {command}: no such command")
                continue
            wrong += [f"{name}: leat {command}: no option {option}"
                      for option in re.findall(r"(?<!\S)--[a-z-]+", rest) if option not in options[command]]
    assert not wrong, "\n".join(wrong)
    assert seen > 30


@pytest.mark.parametrize("text, mistake", [
    ("    false\n    echo not reached\n", "page.md:1: status 1 instead of 0"),
    ("    ./leat train absent.yaml\n", "status 2 instead of 0"),
    ("    echo 'leat: wrong'\n\n```\nleat: wrong\n```\n", "status 0 instead of 2"),
    ("    echo one two\n\n```\none three\n```\n", "page.md:3: the page shows the line\n  one three"),
    ("    echo one two\n\n```\none\n```\n", "more is printed after\n  one"),
    ("    echo one two\n\n```\ntwo\n```\n", "the page shows the line\n  two"),
    ("    printf 'a\\nb\\nc\\n'\n\n```\na\nc\n```\n", "the page shows the line\n  c"),
    ("    printf 'a\\nb\\n'\n\n```\nb\n…\na\n```\n", "the page shows the line\n  a"),
    ("    echo '  loss        0.4000 over 10'\n\n```\n  loss        0.3000 over 9\n```\n",
     "0.3000 is shown, and 0.4000 was printed"),
    ("    echo '  events      4 in all'\n\n```\n  events      5 in all\n```\n", "events      5 in all"),
    ("    echo '00:01  running  events 4 (1/s)'\n\n```\n00:09  running  events 40 (1/min)\n```\n",
     "progress is shown as"),
    ("```\none\n```\n", "page.md:1: no commands in this section print this"),
    ("    echo one\n\n# Next\n\n```\none\n```\n", "page.md:5: no commands in this section print this"),
    ("```yaml\na: 1\n```\n", "page.md:1: a file without a name"),
    ("Save this as `a.yaml`.\n\nMore.\n\n```yaml\na: 1\n```\n", "page.md:5: a file without a name"),
    ("<!-- test: skip: -->\n    false\n", "page.md:1: no such mark: skip:"),
    ("<!-- test: skip: why -->\nProse.\n", "page.md:2: a mark with no block below it"),
    ("<!-- test: skip section: why -->\n    false\n\n# Next\n\n    false\n", "page.md:6: status 1"),
    ("<!-- test: shorten 9 to 1 -->\n    echo 8\n", "there is no '9' to replace"),
    ("    echo 8\n\n<!-- test: varies: 9 -->\n```\n8\n```\n", "page.md:4: there is no '9' that varies"),
    ("<!-- test: background at 10 events -->\n    ./leat train absent.yaml\n", "ended before 10 events"),
    ("<!-- test: after each line: x -->\n    true\n", "there is no background job"),
])
def test_a_page_with_a_mistake_fails(tmp_path, text, mistake):
    errors = pages.Reader("page.md", text, tmp_path, True).type_all().errors
    assert len(errors) == 1 and mistake in errors[0], errors


RIGHT = """# A page

Save this as `a.py`. It prints
four lines.

```python
import sys
print("pid 4711 of 12", "a line that is long, and was wrapped", "this and that", f"{sys.argv[1]} events", sep="\\n")
```

<!-- test: shorten 9000 to 9 -->
    python3 a.py 9000

<!-- test: varies: of 13 -->
<!-- test: shorten 9000 to 9 -->
```
pid 1234 of 13
a line … long,
and was wrapped
…
9000 events
```

    echo number 1234

<!-- test: replace 1234 with 4711 -->
```
number 1234
```

<!-- test: skip: it fails -->
    false

```
not printed
```
"""


@pytest.mark.parametrize("short", [True, False])
def test_a_right_page_passes(tmp_path, short):
    assert not pages.Reader("page.md", RIGHT, tmp_path, short).type_all().errors
