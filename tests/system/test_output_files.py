"""Files that a user names for a command's output: links, pipes, devices, modes, and full disks."""

# folders: run/launcher job

import os
import stat
import subprocess
import threading

import pytest

import leat
from test_resumed_inputs import JOB, write


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The directory of a finished job."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "job.yaml").write_text(JOB)
    write(folder / "d.csv", [1] * 40)
    done = leat.run("train", "job.yaml", "--directory", "job", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


COMMANDS = {
    "export": lambda folder, to: ["export", "--directory", folder / "job", "--to", to],
    "graph": lambda folder, to: ["graph", folder / "job.yaml", "--data", folder, "--dot", to],
    "calibrate": lambda folder, to: ["calibrate", folder / "job.yaml", "--data", folder, "--seconds", "0.01", "--out", to],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_output_goes_where_the_user_says(finished, tmp_path, command):
    def write_to(name):
        done = leat.run(*COMMANDS[command](finished, tmp_path / name))
        assert done.returncode == 0, done.stderr
        return done
    old = os.umask(0o027)
    try:
        write_to("new")
    finally:
        os.umask(old)
    size = (tmp_path / "new").stat().st_size
    assert size > 50
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "real").write_text("old")
    (tmp_path / "real").chmod(0o604)
    (tmp_path / "link").symlink_to("real")
    write_to("link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").stat().st_size > 50 and stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o604
    os.mkfifo(tmp_path / "pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_to("pipe")
    reader.join(60)
    assert len(read[0]) > 50 and stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    # A link of its own, so that an error replaces the link, and no device of this machine.
    (tmp_path / "full").symlink_to("/dev/full")
    leat.refused(leat.run(*COMMANDS[command](finished, tmp_path / "full")), "full: cannot be written: No space left on device", status=75)
    assert (tmp_path / "full").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["full", "link", "new", "pipe", "real"]


def test_a_file_on_standard_output_is_alone_there(finished, tmp_path):
    # A link of its own, so that an error replaces it, and not that of this machine.
    (tmp_path / "stdout").symlink_to("/dev/stdout")
    done = subprocess.run([leat.PROGRAM, "export", "--directory", finished / "job", "--to", tmp_path / "stdout"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    assert done.returncode == 0, done.stderr
    assert b"stdout: %d bytes" % len(done.stdout) in done.stderr
    assert (tmp_path / "stdout").is_symlink()


@pytest.mark.parametrize("arguments", [["graph", "job.yaml"], ["--help"], ["--version"]], ids=lambda a: a[0])
def test_a_full_standard_output_is_an_error(finished, arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run([leat.PROGRAM, *arguments], cwd=finished, stdout=full, stderr=subprocess.PIPE, text=True,
                              timeout=300)
    assert done.returncode == 75, done.stderr
    assert done.stderr == "leat: standard output: No space left on device\n"


def test_a_target_that_cannot_be_is_one_line(finished, tmp_path):
    leat.refused(leat.run("export", "--directory", finished / "job", "--to", tmp_path), str(tmp_path), "Is a directory")
    leat.refused(leat.run("export", "--directory", finished / "job", "--to", tmp_path / "none/net.onnx"), "No such file")
    assert not os.listdir(tmp_path)
