"""leat devices, graph, export and --version."""

# folders: compute/graph compute/onnx lab/hosts

import json
import os
import re
import subprocess

import leat

JOB = """stream: {topic: events, bots: {events: 3000}}
schema: {format: json, fields: {amount: {type: number}, fraud: {type: number, role: label}}}
model:
  layers:
    - dense: {units: 4, activation: relu}
    - dense: {units: 2}
  loss: softmax_cross_entropy
optimizer: {type: sgd, learning_rate: 0.1}
train: {batch_size: 50}
"""


def test_the_program_alone_shows_what_to_do_first():
    done = leat.run()
    assert done.returncode == 0 and not done.stderr, done.stderr
    for command in ["leat demo", "leat schema FILE", "leat train job.yaml", "leat --help"]:
        assert command in done.stdout


def test_the_version_names_the_build():
    done = leat.run("--version")
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert re.fullmatch(r"0\.1\.0\+(no-git-commit|[0-9a-f]{12}(\.changed\.[0-9a-f]{8})?)\n", done.stdout), done.stdout


def test_different_sources_have_different_versions(tmp_path):
    tree, output = tmp_path / "tree", tmp_path / "version.cc"
    tree.mkdir()

    def version():
        subprocess.run(["cmake", f"-DSOURCE={tree}", "-DVERSION=0.1.0", f"-DTEMPLATE={leat.ROOT}/src/run/roles/version.cc.in",
                        f"-DOUTPUT={output}", "-P", leat.ROOT / "cmake/WriteVersion.cmake"], check=True)
        return re.search(r'return "(.*?)"', output.read_text())[1]

    def git(*arguments):
        return subprocess.run(["git", "-C", tree, "-c", "user.name=x", "-c", "user.email=x", *arguments], check=True,
                              stdout=subprocess.PIPE, text=True).stdout.strip()

    (tree / "a.cc").write_text("one")
    assert version() == "0.1.0+no-git-commit"
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    first = version()
    assert first == "0.1.0+" + git("rev-parse", "--short=12", "HEAD")
    os.utime(output, (1, 1))
    assert version() == first
    assert os.stat(output).st_mtime == 1, "an equal version costs no compilation"
    seen = {first}
    for text in ["two", "three"]:
        (tree / "a.cc").write_text(text)
        assert version().startswith(first + ".changed.")
        seen.add(version())
    git("commit", "-q", "-a", "-m", "second")
    seen.add(version())
    assert len(seen) == 4, seen
    (tree / "a.cc").write_text("one")
    git("commit", "-q", "-a", "-m", "third")
    assert version() not in seen, "the same sources at another commit"


def test_devices():
    done = leat.run("devices", "--json")
    assert done.returncode == 0, done.stderr
    machine = json.loads(done.stdout)
    assert machine["threads"] >= 1 and machine["devices"][0]["name"] == "cpu:0"
    for device in machine["devices"]:
        assert device["threads"] >= 1 and device["f32_flops_per_core"] > 1e8 and device["memory_bytes_per_s"] > 1e8
    table = leat.run("devices")
    assert table.returncode == 0 and "GFLOP/s a core" in table.stdout
    divided = leat.run("devices", "--cpu-devices", "10000")
    assert divided.returncode == 2 and "10000 CPU devices for" in divided.stderr


def test_graph(tmp_path):
    (tmp_path / "job.yaml").write_text(JOB)
    done = leat.run("graph", "job.yaml", "--dot", "step.dot", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    built, lowered, plan = done.stdout.split("\n\n")[1:]
    assert "training step, batch 50" in built and "dense1/matmul = matmul(features, dense1/weight)" in built
    assert "dense1/relu = dense(features, dense1/weight, dense1/bias)" in lowered
    assert "dense1/relu = cpu dense" in plan and "largest live set" in plan
    assert (tmp_path / "step.dot").read_text().startswith("digraph")
    scoring = leat.run("graph", "job.yaml", "--scoring", "--batch", "7", cwd=tmp_path)
    assert scoring.returncode == 0 and "scoring, batch 7" in scoring.stdout and "grad/" not in scoring.stdout


def test_a_graph_that_cannot_be(tmp_path):
    for text, part in [
        (JOB.replace("units: 2}", 'units: 2, device: "gpu:0"}'), 'unknown device "gpu:0"; available: cpu:0'),
        (JOB.replace("dense: {units: 2}", "dens: {units: 2}"), "job.yaml:6"),
        ("", "job.yaml"),
    ]:
        (tmp_path / "job.yaml").write_text(text)
        done = leat.run("graph", "job.yaml", cwd=tmp_path)
        assert done.returncode == 2, done.stdout
        lines = done.stderr.strip().splitlines()
        assert len(lines) == 1 and part in lines[0], done.stderr


def test_a_network_goes_out_as_onnx_and_comes_back(tmp_path):
    (tmp_path / "job.yaml").write_text(JOB)
    first = leat.summary(leat.run("train", "job.yaml", "--directory", "first", "--json", cwd=tmp_path))
    assert first["events"] == 3000
    exported = leat.run("export", "--directory", "first", "--to", "net.onnx", cwd=tmp_path)
    assert exported.returncode == 0, exported.stderr
    layers = JOB[JOB.index("  layers:"):JOB.index("  loss:")]
    again = JOB.replace(layers, "  layers:\n    - onnx: {file: net.onnx, output: outputs}\n")
    (tmp_path / "again.yaml").write_text(again)
    shown = leat.run("graph", "again.yaml", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "18 parameters" in shown.stdout
    second = leat.summary(leat.run("train", "again.yaml", "--directory", "second", "--json", cwd=tmp_path))
    assert second["events"] == 3000 and second["loss"] <= first["loss"] + 0.05

    for content, part in [(b"", "net.onnx"), (b"\x00" * 100, "net.onnx"),
                          ((tmp_path / "net.onnx").read_bytes()[:-20], "net.onnx")]:
        (tmp_path / "net.onnx").write_bytes(content)
        done = leat.run("train", "again.yaml", "--directory", "third", cwd=tmp_path)
        assert done.returncode == 2, done.stdout
        lines = done.stderr.strip().splitlines()
        assert len(lines) == 1 and part in lines[0], done.stderr
        assert not (tmp_path / "third").exists()
    nowhere = leat.run("export", "--directory", "nowhere", "--to", "x.onnx", cwd=tmp_path)
    assert nowhere.returncode == 2 and len(nowhere.stderr.strip().splitlines()) == 1, nowhere.stderr


def test_benchmarks_in_turn_name_what_is_worse(tmp_path):
    for tree, rate, seconds, ratio in [("old", 100, 1, 2), ("slow", 90, 1.2, 2.4), ("same", 98, 1.02, 2.04), ("busy", 98, 1.2, 2)]:
        program = tmp_path / tree / "build/release/bench/bench_x"
        program.parent.mkdir(parents=True)
        rows = [{"case": "events", "unit": "1/s", "value": rate, "reference": None},
                {"case": "time", "unit": "ms", "value": seconds, "reference": "memcpy", "ratio": ratio}]
        program.write_text("#!/bin/sh\n" + "\n".join(f"echo '{json.dumps(row)}'" for row in rows))
        program.chmod(0o755)

    def compared(new):
        return subprocess.run([leat.ROOT / "bench/in_turn.py", tmp_path / "old", tmp_path / new, "x", "--runs", "2"],
                              stdout=subprocess.PIPE, text=True, timeout=30)

    done = compared("slow")
    assert done.returncode == 1 and done.stdout.count("worse |\n") == 2, done.stdout
    assert "| x: events | 100 1/s | 90 | 1.111 (0.000) |  |" in done.stdout, done.stdout
    assert "| x: time (memcpy) | 1 ms | 1.2 | 1.200 (0.000) | 1.200 (0.000) |" in done.stdout, done.stdout
    for new in ["same", "busy"]:
        done = compared(new)
        assert done.returncode == 0 and "worse |\n" not in done.stdout, done.stdout


def script(tmp_path, commands, **options):
    """Runs commands with the functions of ./leat, which say every progress. Returns the result."""
    return subprocess.run(["bash", "-c", f'. "$1"; build={tmp_path} say_every=0; {commands}', "test", leat.ROOT / "leat"], text=True,
                          capture_output=True, timeout=60, **options)


def test_a_build_says_how_far_it_is(tmp_path):
    (tmp_path / "weights").write_text("a.cc 900\nb.cc 100\n")
    (tmp_path / "none").write_text("")
    ninja = "ninja: Entering directory `x'\n[1/2] Building CXX object a.cc.o\nwarning: odd\n[2/2] Building CXX object b.cc.o\n"
    done = script(tmp_path, f"build_progress release {tmp_path}/weights", input=ninja)
    assert done.returncode == 0 and not done.stderr, done
    said = list(dict.fromkeys(done.stdout.splitlines()))  # without those that a pause repeats
    assert any(line.startswith("leat: building release: 90 % (1 of 2), about ") for line in said), said
    assert "warning: odd" in said and said[-1].startswith("leat: building release: 100 % (2 of 2)"), said
    done = script(tmp_path, f"build_progress tsan {tmp_path}/none", input=ninja)
    said = done.stdout.splitlines()
    assert any(line.startswith("leat: building tsan: 50 % (1 of 2), about ") for line in said), said


APT = """#!/bin/bash
[[ " $* " != *" update "* ]] || exit 0
[[ " $* " != *" --assume-no "* ]] || { echo 'Need to get 12 MB of archives.'; exit 1; }
fd=$(grep -o 'Status-Fd=[0-9]*' <<<"$*")
echo 'Reading package lists...'
for line in dlstatus:1:3.5:Fetching dlstatus:2:60.0:Fetching 'pmstatus:libc6:amd64:56.7:Unpacking libc6 (1:2.36)'; do
  echo "$line" >&"${fd#*=}" || exit 9
done
exit "${APT_FAILS:-0}"
"""


def test_an_installation_says_how_far_it_is_under_sudo_too(tmp_path):
    (tmp_path / "apt-get").write_text(APT)
    (tmp_path / "sudo").write_text('#!/bin/bash\nexec "$@" 3>&- 4>&-\n')
    for name in ["apt-get", "sudo"]:
        (tmp_path / name).chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for root in ["true", "false"]:
        done = script(tmp_path, f"is_root() {{ {root}; }}; apt_install libc6", env=env)
        assert done.returncode == 0 and not done.stdout, done
        said = done.stderr.splitlines()
        assert said[:2] == ["leat: updating the lists of packages", "leat: installing 1 packages and what they need: 12 MB to fetch (libc6)"]
        for word in ["fetching packages: 3 %", "fetching packages: 60 %, about ", "installing packages: 56 %, about "]:
            assert any(line.startswith("leat: " + word) for line in said), (word, said)
        assert (tmp_path / "apt.log").read_text() == "Reading package lists...\n"
    done = script(tmp_path, "is_root() { false; }; apt_install libc6", env={**env, "APT_FAILS": "100"})
    assert done.returncode == 1 and "leat: failed: apt-get install" in done.stderr and "Reading package lists..." in done.stderr


def test_compilers_fit_what_a_container_allows(tmp_path):
    def jobs(memory, cpu):
        (tmp_path / "memory.max").write_text(memory + "\n")
        (tmp_path / "cpu.max").write_text(cpu + "\n")
        done = script(tmp_path, f"nproc() {{ echo 64; }}; awk() {{ command awk \"$1\" ${{2+<(echo MemAvailable: 104857600 kB)}}; }}; "
                                f"jobs_at_a_time {tmp_path}")
        assert done.returncode == 0 and not done.stderr, done
        return int(done.stdout)

    assert jobs("max", "max 100000") == 50, "100 GiB"
    assert jobs(str(9 << 30), "max 100000") == 4
    assert jobs(str(1 << 30), "max 100000") == 1
    assert jobs("max", "250000 100000") == 3


CMAKE = """#!/bin/bash
echo run >> {log}
mkdir -p {build}/release
printf 'CMAKE_HOME_DIRECTORY:INTERNAL={root}\nLEAT_TESTS:BOOL=ON\n' > {build}/release/CMakeCache.txt
touch {build}/release/build.ninja
"""


def test_packages_that_are_installed_make_cmake_look_again(tmp_path):
    log = tmp_path / "log"
    (tmp_path / "cmake").write_text(CMAKE.format(log=log, build=tmp_path, root=leat.ROOT))
    (tmp_path / "cmake").chmod(0o755)
    packages = tmp_path / "packages"
    packages.write_text("")
    os.utime(packages, (1, 1))
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def runs():
        done = script(tmp_path, f"dpkg_status={packages}; configure release tests", env=env)
        assert done.returncode == 0, done
        return len(log.read_text().splitlines())

    assert [runs(), runs()] == [1, 1]
    os.utime(packages)
    later = os.stat(tmp_path / "release/build.ninja").st_mtime + 5
    os.utime(packages, (later, later))
    assert runs() == 2


def test_what_changed_is_built_again_wherever_it_is(tmp_path):
    folders = ["src", "python", "bench", "fuzz", "tests", "tools", "examples", "cmake", "deploy"]
    for folder in folders:
        (tmp_path / folder).mkdir()
    for name in ["CMakeLists.txt", "CMakePresets.json"]:
        (tmp_path / name).write_text("")
    stamp = tmp_path / ".built-all"
    stamp.write_text("")
    later = os.stat(stamp).st_mtime + 5

    def changed():
        done = script(tmp_path, f"root={tmp_path} release={tmp_path}; changed all")
        assert not done.stderr, done
        return done.returncode == 0

    os.utime(stamp, (later, later))
    assert not changed()
    for folder in folders:
        os.utime(stamp, (later, later))
        path = tmp_path / folder / "new"
        path.write_text("")
        os.utime(path, (later + 5, later + 5))
        assert changed(), folder
        path.unlink()
        os.utime(tmp_path / folder, (1, 1))


def packages_of(path):
    return {line.split("#")[0].strip() for line in path.read_text().splitlines()} - {""}


def test_building_and_running_needs_no_tools_of_the_tests():
    lists = {path.name: packages_of(path) for path in (leat.ROOT / "deploy").glob("apt-packages*.txt")}
    needed = lists.pop("apt-packages.txt")
    assert len(needed) < 40
    tools = "clang|llvm|java|jre|jdk|maven|openmpi|python|pytest|gtest|gmock|benchmark|node|browser|docker"
    assert not [name for name in needed if re.search(tools, name)]
    for name, others in lists.items():
        assert not needed & others, name
