"""LEAT_REQUIRE_ALL=1 turns skips into failures in test programs, alone and under ctest, and in pytest. Files of tests tell their cases."""

# folders: tests/require_all

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
PROGRAM = os.environ["LEAT_SKIPPING"]

PYTEST = {
    "test_call.py": "import pytest\ndef test_passes(): pass\ndef test_skips(): pytest.skip('no data here')\n",
    "test_mark.py": "import pytest\n@pytest.mark.skipif(True, reason='no data here')\ndef test_skips(): assert False\n",
    "test_file.py": "import pytest\npytest.skip('no data here', allow_module_level=True)\n",
}


def run(*words, require_all, cwd=None):
    environment = {key: value for key, value in os.environ.items() if key != "LEAT_REQUIRE_ALL"}
    if require_all:
        environment["LEAT_REQUIRE_ALL"] = require_all
    return subprocess.run(words, env=environment, cwd=cwd, text=True, timeout=60, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@pytest.mark.parametrize("test, reason", [("Skipping.LacksData", "no data here"),
                                          ("SkippingFixture.LacksItsFixture", "no fixture here")])
@pytest.mark.parametrize("brief", ["0", "1"])  # 1: as sanitizer builds run it
def test_a_program_that_skips(test, reason, brief):
    words = [PROGRAM, f"--gtest_filter={test}", f"--gtest_brief={brief}"]
    for value in (None, "", "0"):
        passed = run(*words, require_all=value)
        assert passed.returncode == 0 and reason in passed.stdout, passed.stdout
    failed = run(*words, require_all="1")
    assert failed.returncode == 1, failed.stdout
    assert "LEAT_REQUIRE_ALL=1 allows no test to skip" in failed.stdout and reason in failed.stdout
    assert "[  SKIPPED ]" not in failed.stdout, "ctest would count this as skipped"


@pytest.mark.parametrize("brief", ["0", "1"])
def test_an_allowed_skip_says_why(brief):
    done = run(PROGRAM, "--gtest_filter=*IsAllowed:*Passes", f"--gtest_brief={brief}", require_all="1")
    assert done.returncode == 0, done.stdout
    assert "allowed skip huge-pages: the kernel has no transparent huge pages" in done.stdout


def test_ctest_sees_the_failure(tmp_path):
    # As gtest_discover_tests writes it.
    (tmp_path / "CTestTestfile.cmake").write_text(
        f"add_test(skips [==[{PROGRAM}]==] --gtest_filter=Skipping.LacksData)\n"
        'set_tests_properties(skips PROPERTIES SKIP_REGULAR_EXPRESSION "\\\\[  SKIPPED \\\\]")\n')
    passed = run("ctest", cwd=tmp_path, require_all=None)
    assert passed.returncode == 0 and "Skipped" in passed.stdout, passed.stdout
    failed = run("ctest", cwd=tmp_path, require_all="1")
    assert failed.returncode != 0 and "Failed" in failed.stdout, failed.stdout


@pytest.mark.parametrize("file", PYTEST)
def test_pytest(tmp_path, file):
    shutil.copy(HERE.parent / "pytest_tiers.py", tmp_path / "conftest.py")
    (tmp_path / file).write_text(PYTEST[file])
    words = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", file]
    passed = run(*words, cwd=tmp_path, require_all=None)
    assert passed.returncode in (0, 5) and "1 skipped" in passed.stdout, passed.stdout  # 5: nothing else in the file
    failed = run(*words, cwd=tmp_path, require_all="1")
    assert failed.returncode not in (0, 5) and "skipped" in failed.stdout, failed.stdout
    assert "LEAT_REQUIRE_ALL=1 allows no test to skip: " in failed.stdout and "no data here" in failed.stdout


CASES = """import os, pytest
@pytest.fixture(scope="module")
def slow():
    import time
    time.sleep(0.1)
@pytest.fixture
def broken(): raise OSError("no such device")
def test_passes(slow): assert "LEAT_CASES" not in os.environ
def test_fails(): assert 1 == 2, "two are not one"
def test_skips(): pytest.skip("no data here")
def test_lacks_its_fixture(broken): pass
@pytest.mark.parametrize("words", ["a b"])
def test_ends_the_process(words): os._exit(7)
"""


def test_a_file_of_tests_tells_its_cases(tmp_path):
    shutil.copy(HERE.parent / "pytest_tiers.py", tmp_path / "conftest.py")
    (tmp_path / "test_some.py").write_text(CASES)
    (tmp_path / "test_worse.py").write_text("import gone\n")
    told = tmp_path / "cases"
    for file, status in [("test_some.py", 7), ("test_worse.py", 2)]:
        words = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", file]
        done = run("env", f"LEAT_CASES={told}", *words, cwd=tmp_path, require_all=None)
        assert done.returncode == status, done.stdout
    lines = [line.split("\t") for line in told.read_text().splitlines()]
    assert all(name == f"{tmp_path.name}.some" for name, *_ in lines[:-1])
    ended = {case: words for _, case, *words in lines if words[0] != "started"}
    assert float(ended["test_passes"][1]) >= 0.1
    assert [ended[case][::2] for case in ["test_passes", "test_fails", "test_skips", "test_lacks_its_fixture"]] == [
        ["passed", ""], ["failed", "AssertionError: two are not one"], ["skipped", ""], ["failed", "OSError: no such device"]]
    started = [case for _, case, *words in lines if words == ["started"]]
    assert started == [*list(ended)[:4], "test_ends_the_process[a b]"] and "test_ends_the_process[a b]" not in ended
    assert lines[-1] == [f"{tmp_path.name}.worse", "(import)", "failed", "0", "ModuleNotFoundError: No module named 'gone'"]
