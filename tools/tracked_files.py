"""The files of the project, for the checks that read all of them."""

import os
import subprocess
from pathlib import Path


def tracked_files(root):
    """Paths of all tracked and untracked files that git does not ignore; outside a checkout, of all files except builds."""
    words = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if (root / ".git").exists():
        listed = subprocess.run(words, capture_output=True, check=False)
        if listed.returncode == 0:
            return sorted({path for path in os.fsdecode(listed.stdout).split("\0") if path and (root / path).is_file()})
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in ("build", ".git", "__pycache__")]
        found += [(Path(folder) / name).relative_to(root).as_posix() for name in names]
    return sorted(found)
