#!/usr/bin/env python3
"""Does this code use only names, keywords and forms that a TileLang release has?

    api_audit.py PATH...                         check .py files, Markdown fences, notebooks, and folders of these
    api_audit.py --tilelang 0.1.9 PATH...        against another release
    api_audit.py --compat PATH...                under which releases is each file clean, and what limits it
    api_audit.py --diff 0.1.9 0.1.15 [PATH...]   what changed between two releases, or what of it the files use
    api_audit.py --names PATH...                 the distinct names of T that are used
    api_audit.py --fix PATH...                   rewrite what is a mere renaming

Needs Python 3.9 and nothing else; never imports what it reads. README.md lists the codes.
Exit status: 0 clean or warnings only, 1 errors, 2 wrong usage or nothing to read.
"""

import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from tla import compare, config, report, run  # noqa: E402
from tla.findings import CODES  # noqa: E402
from tla.fix import fix_all  # noqa: E402
from tla.sources import Ignored  # noqa: E402
from tla.surface import DEFAULT, find_release, load, releases  # noqa: E402


def parser():
    p = argparse.ArgumentParser(prog="api_audit.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("paths", nargs="*", metavar="PATH", help="a file, a folder, or - for standard input")
    p.add_argument("--tilelang", metavar="RELEASE", help=f"the release to compare with (default {DEFAULT})")
    p.add_argument("--format", choices=sorted(report.FORMATS), default="text")
    p.add_argument("--select", metavar="CODES", help="only these codes or prefixes, comma-separated")
    p.add_argument("--ignore", metavar="CODES", help="not these codes or prefixes, comma-separated")
    p.add_argument("--exclude", action="append", default=[], metavar="PATTERN", help="as in .gitignore; repeatable")
    p.add_argument("--baseline", metavar="FILE", help="leave out the findings that FILE counts")
    p.add_argument("--write-baseline", metavar="FILE", help="write what is found now to FILE, and exit 0")
    p.add_argument("--fix", action="store_true", help="rewrite one-to-one renames, then report what is left")
    mode = p.add_mutually_exclusive_group()
    mode.add_argument("--compat", action="store_true", help="the releases under which each file is clean")
    mode.add_argument("--diff", nargs=2, metavar=("OLD", "NEW"), help="what changed between two releases")
    mode.add_argument("--names", action="store_true", help="the distinct names of T, with counts")
    mode.add_argument("--releases", action="store_true", help="the releases this tool knows")
    return p


def fail(message):
    print(f"api_audit.py: {message}", file=sys.stderr)
    return 2


def release_of(text):
    release = find_release(text)
    if release is None:
        raise config.BadConfig(f"no TileLang {text} here; there are {', '.join(releases())}")
    return release


def codes(text, settings):
    """Codes from the command line, else from the settings; an unknown one is an error and not a silent nothing."""
    chosen = [each.strip().upper() for each in text.split(",") if each.strip()] if text is not None else settings
    for each in chosen:
        if not any(code.startswith(each) for code in CODES):
            raise config.BadConfig(f"no code {each}; there are {', '.join(CODES)}")
    return chosen


def main(argv=None):
    options = parser().parse_args(argv)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 6000))
    try:
        return dispatch(options)
    except config.BadConfig as reason:
        return fail(reason)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def dispatch(options):
    if options.releases:
        print("\n".join(releases()))
        return 0
    if not options.paths and not options.diff:
        return fail("no PATH given; `api_audit.py .` reads the current folder")
    for path in options.paths:
        if path != "-" and not os.path.exists(path):
            return fail(f"{path}: no such file or folder")
    settings, root = config.find(options.paths)
    ignored = Ignored(".", options.exclude, Ignored(root, settings.get("exclude", [])))
    surface = load(release_of(options.tilelang or settings.get("tilelang") or DEFAULT))
    as_json = options.format == "json"

    if options.diff:
        old, new = (release_of(each) for each in options.diff)
        changes = compare.diff(old, new, options.paths, ignored)
        show(as_json and [c._asdict() for c in changes], compare.diff_text(changes, old, new))
        return 0
    if options.names:
        found, files = compare.names(options.paths, surface, ignored)
        show(as_json and {"files": files, "names": dict(sorted(found.items()))}, compare.names_text(found, files))
        return 0
    if options.compat:
        results, whole = compare.compat(options.paths, ignored, run.Progress())
        show(as_json and compare.compat_json(results, whole), compare.compat_text(results, whole))
        return 0 if whole.clean else 1

    arguments = (
        ignored,
        codes(options.select, settings.get("select", [])),
        codes(options.ignore, settings.get("ignore", [])),
    )
    result = run.audit(options.paths, surface, *arguments)
    if options.fix:
        written, left = fix_all(result.findings)
        for path in written:
            print(f"rewritten: {path}", file=sys.stderr)
        for path, reason in left:
            print(f"left as it is: {path}: {reason}", file=sys.stderr)
        if written:
            result = run.audit(options.paths, surface, *arguments)
    if options.write_baseline:
        config.write_baseline(options.write_baseline, result.findings)
        print(f"{options.write_baseline}: {len(result.findings)} findings", file=sys.stderr)
        return 0
    if options.baseline:
        result = result._replace(findings=config.without_known(options.baseline, result.findings))
    sys.stdout.write(report.FORMATS[options.format](result, surface.release))
    for path, reason in result.unreadable:
        print(f"api_audit.py: {path}: {reason}", file=sys.stderr)
    if not result.files:
        return fail("nothing to read")
    return 1 if any(f.severity == "error" for f in result.findings) else 0


def show(content, text):
    sys.stdout.write(json.dumps(content, indent=2) + "\n" if content is not False else text)


if __name__ == "__main__":
    sys.exit(main())
