#!/usr/bin/env python3
"""Draws docs/demo.svg: the terminal display of `./leat demo` after nine tenths of the job.

    tools/demo_picture.py [--to FILE] [DEMO OPTION...]

LEAT_PROGRAM replaces the program ./leat. The demo runs in a temporary directory and takes about a minute.
"""

import argparse
import fcntl
import html
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios

ROOT = pathlib.Path(__file__).resolve().parents[1]
COLUMNS, LINES = 100, 40
FONT_WIDTH, LINE_HEIGHT, MARGIN = 8.43, 19, 16

# The escape codes of the display, their colours in the picture, and colours that the picture adds.
BOLD, DIM = "\x1b[1m", "\x1b[2m"
STYLES = {BOLD: 'fill="#ffffff" font-weight="bold"', DIM: 'fill="#7d8590"', "": 'fill="#d7dae0"'}
COMMAND, CURVE, BACKGROUND = "#7ee787", "#58a6ff", "#16191f"


def terminal_output(options, folder):
    """Runs `leat demo` in `folder` and returns its output to a terminal."""
    program = pathlib.Path(os.environ.get("LEAT_PROGRAM", ROOT / "leat")).absolute()
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    with subprocess.Popen([program, "demo", *options], cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs) as demo:
        os.close(theirs)
        output = b""
        try:
            while block := os.read(ours, 65536):
                output += block
        except OSError:  # end of file, on Linux
            pass
        finally:
            demo.terminate()
            os.close(ours)
    text = output.decode().replace("\r\n", "\n")
    if demo.returncode != 0:
        sys.exit(f"demo_picture: the demo ended with status {demo.returncode}: {text[-2000:]}")
    return text


def late_frame(text):
    """The lines of the display at full speed, before the frames in which the job ends."""
    frames = re.split(r"\x1b\[\d+A\x1b\[J", text)
    running = [frame for frame in frames if frame.startswith(f"{BOLD}leat · ") and "· running ·" in frame]
    if not running:
        sys.exit("demo_picture: the demo ended before its display showed a running job")
    return running[len(running) * 9 // 10].splitlines()


def svg(frame):
    lines = [(f'fill="{COMMAND}"', "$ ./leat demo")]
    for line in frame:
        code = next(code for code in STYLES if line.startswith(code))
        text = html.escape(line.removeprefix(code).removesuffix("\x1b[0m").rstrip(), quote=False)
        lines.append((STYLES[code], re.sub("[▁-█]+", rf'<tspan fill="{CURVE}">\g<0></tspan>', text)))
    width = round(2 * MARGIN + 90 * FONT_WIDTH)  # the display uses 90 columns
    height = 2 * MARGIN + LINE_HEIGHT * len(lines) + 5
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
           'font-family="DejaVu Sans Mono,Menlo,Consolas,monospace" font-size="14">',
           f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>']
    for number, (style, text) in enumerate(lines):
        y = MARGIN + 13 + LINE_HEIGHT * number
        out.append(f'<text x="{MARGIN}" y="{y}" {style} xml:space="preserve">{text}</text>')
    return "\n".join([*out, "</svg>\n"])


def draw(options):
    with tempfile.TemporaryDirectory() as folder:
        text = terminal_output(options, folder)
        return svg(late_frame(text.replace(str(pathlib.Path(folder).resolve()) + "/", "")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", metavar="FILE", type=pathlib.Path, default=ROOT / "docs/demo.svg")
    arguments, options = parser.parse_known_args()
    arguments.to.write_text(draw(options), encoding="utf-8")


if __name__ == "__main__":
    main()
