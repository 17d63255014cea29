"""Temporary directories of this process."""

import os
import shutil
import tempfile
import weakref


class Directory:
    """A temporary directory that lives as long as this object. A forked child removes nothing."""

    def __init__(self):
        self.name = tempfile.mkdtemp(prefix="leat-")
        self.cleanup = weakref.finalize(self, _remove, self.name, os.getpid())


def _remove(path, owner):
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
