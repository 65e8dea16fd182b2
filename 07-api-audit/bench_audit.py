#!/usr/bin/env python3
"""How fast is the audit? Files looked at and files parsed per second, and peak memory, over a folder.

    python3 bench_audit.py [FOLDER]      default: the site-packages of the running interpreter

The tree is read once before, so that the disk is not what is measured. Each figure is the best of three runs; the
first is the whole audit, the second takes only the files that mention tilelang, the third the memory of one run over
the tree against one over the tree twice as long.
"""

import os
import resource
import subprocess
import sys
import sysconfig
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from tla import run  # noqa: E402
from tla.sources import NEEDLE  # noqa: E402
from tla.surface import DEFAULT, load  # noqa: E402


def best(action, times=3):
    durations = []
    for _ in range(times):
        start = time.perf_counter()
        value = action()
        durations.append(time.perf_counter() - start)
    return min(durations), value


def parse_all(pairs, surface):
    for path, data in pairs:
        _, resolved = run.understood(path, data)
        run.check(resolved, surface, path)
    return len(pairs)


def peak(folder, copies):
    """Peak memory in MiB of a process that audits a folder so many times over, one after another."""
    code = (
        "import resource, sys; sys.path.insert(0, sys.argv[1]); import api_audit; from tla import run; "
        "from tla.surface import load, DEFAULT\n"
        "for _ in range(int(sys.argv[3])): run.audit([sys.argv[2]], load(DEFAULT))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    here = os.path.dirname(os.path.abspath(__file__))
    command = [sys.executable, "-c", code, here, folder, str(copies)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / 1024


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else sysconfig.get_paths()["purelib"]
    surface = load(DEFAULT)
    pairs = [(path, data) for path, data in run.read([folder], None, []) if NEEDLE in data]
    seconds, result = best(lambda: run.audit([folder], surface))
    print(f"{folder}: {result.files} files, {result.parsed} mention tilelang")
    print(f"all:    {seconds:6.2f} s  {result.files / seconds:8.0f} files/s")
    if pairs:
        seconds, count = best(lambda: parse_all(pairs, surface))
        lines = sum(data.count(b"\n") for _, data in pairs)
        print(f"parsed: {seconds:6.2f} s  {count / seconds:8.0f} files/s  {lines / seconds:8.0f} lines/s")
    print(f"peak memory: {peak(folder, 1):.0f} MiB once, {peak(folder, 2):.0f} MiB twice")
    print(f"this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
