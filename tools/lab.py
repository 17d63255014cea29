#!/usr/bin/env python3
"""Repeats an experiment of docs/lab/README.md in the simulator: prints its table and draws its picture.

    tools/lab.py EXPERIMENT
    tools/lab.py --calibrate     # measures the times in docs/lab/*.profile.json anew, on this machine

An experiment is a study of examples/studies/, `mpi` or `reduction`. Times come from docs/lab/*.profile.json, so the same
build prints the same table on every machine. LEAT_PROGRAM replaces the program ./leat, LEAT_DATA is the folder with mnist/.
"""

import argparse
import html
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
LAB = PICTURES = ROOT / "docs/lab"
# The job of each profile, and the sizes of batches.
PROFILES = {
    "digits": (LAB / "digits.yaml", [50, 100, 500, 1000]),
    "mnist": (ROOT / "examples/mnist.yaml", [128]),
    "lenet": (ROOT / "examples/lenet.yaml", [64]),
    "mpi-dnn": (LAB / "mpi-dnn.yaml", [32]),
    "mpi-cnn": (LAB / "mpi-cnn.yaml", [32]),
}
# The profile of each study, and its plots.
STUDIES = {
    "batch": ("digits", ["Time to accuracy", "Speed"]),
    "placement": ("mnist", ["Speed", "Efficiency"]),
    "server-link": ("mnist", ["Speed", "Efficiency"]),
    "small-model": ("mnist", ["Speed", "Aggregated compute time"]),
    "large-model": ("lenet", ["Speed", "Aggregated compute time"]),
    "input": ("mnist", ["Speed", "Efficiency"]),
}
REAL = {"batch"}
STYLE = """<style>
:root{color-scheme:light dark}
text{font-family:system-ui,sans-serif;fill:#1c1c1c}.t{font-weight:600;font-size:14px}.n{font-size:11px;fill:#666}.g{stroke:#ddd}
@media(prefers-color-scheme:dark){text{fill:#eee}.n{fill:#aaa}.g{stroke:#444}}
</style>"""


def run(*arguments):
    program = pathlib.Path(os.environ.get("LEAT_PROGRAM", ROOT / "leat")).absolute()
    done = subprocess.run([program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return done.stdout


def data():
    return pathlib.Path(os.environ.get("LEAT_DATA", ROOT.parent / "data")) / "mnist"


def table(head, rows):
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in (head, *rows)]
    return [lines[0], "|" + "---|" * len(head), *lines[1:]]


def picture(plots, key):
    """An SVG image of two plots side by side, 520 × 300 each, and a key of (colour, name) below them."""
    lines = [f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 1080 {312 + 20 * ((len(key) + 3) // 4)}'>", STYLE]
    for i, plot in enumerate(plots):
        lines.append(f"<g transform='translate({560 * i},0)'>{plot}</g>")
    for i, (colour, name) in enumerate(key):
        x, y = 70 + 255 * (i % 4), 322 + 20 * (i // 4)
        lines.append(f"<circle cx='{x}' cy='{y - 4}' r='5' fill='{colour}'/><text x='{x + 12}' y='{y}' font-size='12'>"
                     f"{html.escape(name)}</text>")
    return "\n".join([*lines, "</svg>", ""])


def speed(value):
    return f"{value:,.0f}"


def study(name):
    profile, titles = STUDIES[name]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, name)
        options = ["--simulated", "--profile", LAB / f"{profile}.profile.json", "--out", out, "--data", data(), "--json"]
        found = json.loads(run("study", ROOT / f"examples/studies/{name}.yaml", *options, *(["--real"] if name in REAL else [])))
        report = (out / "report.html").read_text(encoding="utf-8")
    plots = {title.split(" 0.")[0]: body for title, body in re.findall(r'<svg [^>]*aria-label="([^"]*)">(.*?)</svg>', report, re.DOTALL)}
    key = re.findall(r'class="key" style="background:(#\w+)"></span><b>([^<]*)</b>', report)
    (PICTURES / f"{name}.svg").write_text(picture([plots[title] for title in titles], key), encoding="utf-8")
    if name in REAL:
        rows = [[p["batch"], speed(p["events_per_s"]), "not reached" if p["target_s"] is None else f"{p['target_s']:.1f} s",
                 f"{p['usage']['staleness']:.1f}"] for p in found["points"]]
        return table(["batch", "events/s", "time to the accuracy", "staleness"], rows)
    return table(["", "workers that are worth it", "events/s with them", "most events/s", "limit beyond"],
                 [series_row(found, series) for series in found["series"]])


def series_row(found, series):
    points = [p for p in found["points"] if series_of(found, p) == series["name"]]
    there = next(p for p in points if p["workers"] == series["sweet_spot"])
    most = max(points, key=lambda p: p["events_per_s"])
    spot = f"{series['sweet_spot']} or more" if series["at_end"] else series["sweet_spot"]
    return [series["name"], spot, speed(there["events_per_s"]), f"{speed(most['events_per_s'])} with {most['workers']}",
            series["limit"]]


def series_of(found, point):
    """The name of a point's series: its values on the axes that vary."""
    names = {s["name"] for s in found["series"]}
    values = {point["strategy"], f"{point['ps']} ps", point["placement"], point["link"], f"input {point['input']}"}
    fits = [name for name in names if set(name.split(", ")) <= values]
    if len(fits) != 1:
        raise ValueError(f"{point['key']} is in the series {fits} of {sorted(names)}")
    return fits[0]


# ---- the MPI paper

# Processes, the steps to simulate, and the speedup that the paper reports between the first and the last.
PAPER = {"mpi-dnn": ([1, 2, 4, 8, 16, 32], 1000, 11.64), "mpi-cnn": ([16, 32, 64], 100, 1.41)}
# How fast a core is, relative to one on which the profile was measured.
SPEEDS = [1, 0.2]


def mpi():
    cluster = (LAB / "mpi-cluster.yaml").read_text(encoding="utf-8")
    rows = []
    for name, (counts, steps, reported) in PAPER.items():
        profile = LAB / f"{name}.profile.json"
        (batch,) = json.loads(profile.read_text(encoding="utf-8"))["batches"]
        for core in SPEEDS:
            found = []
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, "cluster.yaml")
                path.write_text(cluster.replace("cores: 16", f"cores: 16, speed: {core}"), encoding="utf-8")
                for count in counts:
                    if count == 1:  # nothing is reduced
                        found.append(core * batch["size"] / batch["compute_s"])
                        continue
                    out = run("simulate", LAB / f"{name}.yaml", "--data", data(), "--cluster", path, "--profile", profile, "--workers",
                              count, "--steps", steps, "--json")
                    found.append(json.loads(out.splitlines()[-1])["steady_events_per_s"])
            rows.append([name, f"{1000 * batch['compute_s'] / core:.2f} ms", f"{counts[0]} to {counts[-1]}", speed(found[0]),
                         speed(found[-1]), f"{found[-1] / found[0]:.2f}", reported])
    return table(["model", "a batch of 32", "processes", "events/s of the first", "of the last", "speedup, predicted", "in the paper"],
                 rows)


# ---- the cost of a reduction


def reduction():
    """A ring moves 2(n − 1)/n of the parameters over each link, in each direction."""
    job = (ROOT / "examples/mnist.yaml").read_text(encoding="utf-8")
    job = job.replace("strategy: async", "strategy: allreduce").replace("cluster: {workers: 2, ps: 1}", "cluster: {workers: 2}")
    parameters = (784 + 1) * 512 + (512 + 1) * 512 + (512 + 1) * 10
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "job.yaml")
        path.write_text(job, encoding="utf-8")
        for workers in [2, 3, 4, 8, 16, 32, 64]:
            out = json.loads(run("simulate", path, "--data", data(), "--workers", workers, "--link", "1gbit", "--latency", "50us",
                                 "--compute", "10us", "--steps", 100, "--json").splitlines()[-1])
            step = workers * 128 / out["steady_events_per_s"]
            ideal = 2 * (workers - 1) / workers * parameters * 4 * 8 / 1e9
            rows.append([workers, f"{2 * (workers - 1) / workers:.3f} K", f"{1000 * ideal:.1f} ms", f"{1000 * step:.1f} ms",
                         f"{step / ideal:.2f}"])
    return table(["workers", "2(n − 1)K/n", "at 1 Gbit/s", "a step, simulated", "ratio"], rows)


def calibrate():
    for name, (job, batches) in PROFILES.items():
        run("calibrate", job, "--data", data(), "--seconds", 3, "--batch", *batches, "--out", LAB / f"{name}.profile.json")
        print(f"docs/lab/{name}.profile.json")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", nargs="?", choices=[*STUDIES, "mpi", "reduction"])
    parser.add_argument("--calibrate", action="store_true")
    arguments = parser.parse_args()
    if arguments.calibrate:
        return calibrate()
    if arguments.experiment is None:
        parser.error("which experiment?")
    lines = {"mpi": mpi, "reduction": reduction}.get(arguments.experiment, lambda: study(arguments.experiment))()
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
