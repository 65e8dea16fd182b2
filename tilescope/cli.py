"""The command `tilescope`: what memory accesses does the kernel in this file make?

Exit status: 0; 1 when --require-width is not met or --run found a fault; 2 for a usage error, in one clear line.
"""

import argparse
import itertools
import json
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout

from .frontend.target import ARCHS

EPILOG = """examples:
  tilescope kernels.py --arg n=1048576
  tilescope kernels.py:add --arg n=1048576 --dtype float32,bfloat16 --arch sm_90a,sm_100a
  tilescope kernels.py:add --arg n=dynamic --no-sass --format json
  tilescope kernels.py:add --arg n=1000 --run
  tilescope kernels.py:add --arg n=1048576 --require-width 128     # one line in your CI
"""


def main(argv: list[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    if options.run and (options.format != "table" or options.require_width is not None):
        return _fail("--run prints how the kernel ran; it does not go with --format or --require-width")
    try:
        return _run(options)
    except KeyboardInterrupt:
        raise
    except (Exception, SystemExit) as error:
        plain = type(error).__name__ in ("ScopeError", "LoweringError", "NotEmulated", "ValueError")
        return _fail(str(error) if plain else f"{type(error).__name__}: {error}")


def _fail(message: str) -> int:
    """One line, whatever the message; exit status 2."""
    print(f"tilescope: {' '.join(message.split())}", file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tilescope",
        description="Show the CUDA, the SASS, the width and the sectors of a TileLang kernel's global accesses. No GPU needed.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE.py[:FACTORY]", help="a Python file, and which of its factories; all without")
    parser.add_argument(
        "--arg", action="append", default=[], metavar="NAME=VALUE", help="an argument; n=2**20, n=dynamic for T.dynamic('n')"
    )
    parser.add_argument("--dtype", help="value of the argument `dtype`; several with commas")
    parser.add_argument("--arch", help=f"architecture, several with commas: {', '.join(ARCHS)}")
    parser.add_argument("--format", choices=("table", "json", "markdown", "cuda", "sass"), default="table")
    parser.add_argument("--no-sass", action="store_true", help="skip nvcc: widths and sectors only")
    parser.add_argument("--require-width", type=int, metavar="BITS", help="exit 1 when an unguarded access is narrower")
    parser.add_argument("--run", action="store_true", help="run it on random inputs (emulated without a GPU) and report faults")
    return parser


def _run(options: argparse.Namespace) -> int:
    # TileLang takes seconds to import; --help and a mistyped option should not.
    from .analysis.inspection import inspect_all
    from .frontend.source_file import load_factories
    from .frontend.target import check_arch, default_arch

    archs = [check_arch(arch.strip()) for arch in options.arch.split(",")] if options.arch else [default_arch()]
    with redirect_stdout(sys.stderr):  # what the user's file prints is no part of a report
        factories = load_factories(options.file)
    runs = list(_variants(options, factories))
    if options.run:
        return int(not all([_run_once(factory, arch, args) for (factory, args), arch in itertools.product(runs, archs)]))
    reports, errors = [], []
    for (factory, args), arch in itertools.product(runs, archs):
        try:
            reports += inspect_all(factory, arch=arch, sass=not options.no_sass, **args)
        except (Exception, SystemExit) as error:
            if len(factories) == 1:
                raise
            errors.append(f"{type(error).__name__}: {error}")  # one bad factory does not hide the others
    _print(reports, options.format)
    narrow = _too_narrow(reports, options.require_width)
    return max([_fail(error) for error in errors], default=int(narrow))


def _variants(options: argparse.Namespace, factories: list) -> Iterator[tuple[object, dict[str, object]]]:
    """(factory, arguments) for each kernel that is asked for. Of several factories each gets the arguments that it takes."""
    from .frontend.program import factory_signature

    given = dict(_argument(text) for text in options.arg)
    takes = [factory_signature(factory).parameters for factory in factories]
    if len(factories) > 1 and (unknown := [name for name in given if not any(name in known for known in takes)]):
        raise ValueError(f"--arg {unknown[0]}: no factory of {options.file} takes it")
    for factory, known in zip(factories, takes, strict=True):
        args = {name: value for name, value in given.items() if len(factories) == 1 or name in known}
        if options.dtype and (len(factories) == 1 or "dtype" in known):
            for dtype in options.dtype.split(","):
                yield factory, {**args, "dtype": dtype.strip()}
        else:
            yield factory, args


def _argument(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise ValueError(f"--arg {text}: write it as NAME=VALUE")
    if value == "dynamic":
        import tilelang.language as T

        return name, T.dynamic(name)
    if value in ("True", "False"):
        return name, value == "True"
    if power := re.fullmatch(r"(\d+)(?:\*\*|\^)(\d+)", value):
        return name, int(power[1]) ** int(power[2])
    for number in (int, float):
        try:
            return name, number(value)
        except ValueError:
            pass
    return name, value


def _print(reports: list, form: str) -> None:
    from .display import render
    from .frontend.program import arguments_text

    if form == "json":
        print(json.dumps([report.to_json() for report in reports], indent=2))
    elif form == "markdown":
        print(render.table(reports).markdown())
    elif form in ("cuda", "sass"):
        for report in reports:
            print(f"// {report.kernel} {arguments_text(report.args)} {report.arch}")
            print(getattr(render, form)(report) + "\n")
    else:
        from .display.tables import console as make_console

        console = make_console()
        console.print(render.table(reports).rich())
        for report in reports:
            for note in (*report.notes, *(f"{a.buffer}: {a.unknown}" for a in report.accesses if a.unknown)):
                console.print(f"{report.kernel}: {note}", style="yellow", markup=False)


def _too_narrow(reports: list, bits: int | None) -> bool:
    narrow = [r for r in reports if bits is not None and (r.narrowest_bits or 0) < bits]
    for report in narrow:
        where = min(report.deciding, key=lambda a: a.bytes_per_lane, default=None)
        access = f": {where.op} of {where.buffer} at {where.file}:{where.line}" if where else ""
        message = f"{report.kernel} {report.arch}: {report.verdict}, narrower than {bits} bits{access}"
        print(f"tilescope: {message}", file=sys.stderr)
    return bool(narrow)


def _run_once(factory: object, arch: str, args: dict[str, object]) -> bool:
    from .checking.running import run_random
    from .frontend.program import arguments_text, factory_name

    result = run_random(factory, arch=arch, **args)
    print(f"{factory_name(factory)} {arguments_text(args)}".rstrip())
    print(result)
    return result.ok


if __name__ == "__main__":
    sys.exit(main())
