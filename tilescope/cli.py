"""The command `tilescope`: what memory accesses does the kernel in this file make?

Exit status: 0; 1 when --require-width is not met or --run found a fault; 2 for a usage error, in one clear line.
"""

import argparse
import itertools
import json
import sys

from .target import ARCHS

EPILOG = """examples:
  tilescope kernels.py --arg n=1048576
  tilescope kernels.py:add --arg n=1048576 --dtype float32,bfloat16 --arch sm_90a,sm_100a
  tilescope kernels.py:add --arg n=dynamic --no-sass --format json
  tilescope kernels.py:add --arg n=1000 --run
  tilescope kernels.py:add --arg n=1048576 --require-width 128     # one line in your CI
"""


def main(argv: list[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    # TileLang takes seconds to import; --help and usage errors should not.
    from .errors import ScopeError

    try:
        return _run(options)
    except (ScopeError, ValueError) as error:
        print(f"tilescope: {' '.join(str(error).split())}", file=sys.stderr)
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
        "--arg", action="append", default=[], metavar="NAME=VALUE", help="an argument; n=dynamic for T.dynamic('n')"
    )
    parser.add_argument("--dtype", help="value of the argument `dtype`; several with commas")
    parser.add_argument("--arch", help=f"architecture, several with commas: {', '.join(ARCHS)}")
    parser.add_argument("--format", choices=("table", "json", "markdown", "cuda", "sass"), default="table")
    parser.add_argument("--no-sass", action="store_true", help="skip nvcc: widths and sectors only")
    parser.add_argument("--require-width", type=int, metavar="BITS", help="exit 1 when the verdict is narrower")
    parser.add_argument("--run", action="store_true", help="run it on random inputs (emulated without a GPU) and report faults")
    return parser


def _run(options: argparse.Namespace) -> int:
    from .inspection import inspect_all
    from .program import factory_signature
    from .source_file import load_factories
    from .target import check_arch, default_arch

    archs = [check_arch(arch) for arch in options.arch.split(",")] if options.arch else [default_arch()]
    given = dict(_argument(text) for text in options.arg)
    factories = load_factories(options.file)
    several = len(factories) > 1
    known = {name for factory in factories for name in factory_signature(factory).parameters}
    if several and (unknown := [name for name in given if name not in known]):
        raise ValueError(f"--arg {unknown[0]}: no factory of {options.file} takes it")

    reports, failed = [], False
    for factory in factories:
        takes = factory_signature(factory).parameters
        args = {name: value for name, value in given.items() if not several or name in takes}
        variants = [{}]
        if options.dtype and (not several or "dtype" in takes):
            variants = [{"dtype": dtype} for dtype in options.dtype.split(",")]
        for variant, arch in itertools.product(variants, archs):
            if options.run:
                failed |= not _run_once(factory, arch, {**args, **variant})
            else:
                sass = not options.no_sass
                reports += inspect_all(factory, arch=arch, sass=sass, **args, **variant)
    if options.run:
        return int(failed)
    _print(reports, options.format)
    return int(_too_narrow(reports, options.require_width))


def _argument(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise ValueError(f"--arg {text}: write it as NAME=VALUE")
    if value == "dynamic":
        import tilelang.language as T

        return name, T.dynamic(name)
    if value in ("True", "False"):
        return name, value == "True"
    for number in (int, float):
        try:
            return name, number(value)
        except ValueError:
            pass
    return name, value


def _print(reports: list, form: str) -> None:
    from . import render

    if form == "json":
        print(json.dumps([report.to_json() for report in reports], indent=2))
    elif form == "markdown":
        print(render.table(reports).markdown())
    elif form in ("cuda", "sass"):
        for report in reports:
            print(f"// {report.kernel} {render.arguments(report)} {report.arch}")
            print(getattr(render, form)(report) + "\n")
    else:
        from .tables import console as make_console

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
    from .running import run_random

    result = run_random(factory, arch=arch, **args)
    print(result)
    return result.ok


if __name__ == "__main__":
    sys.exit(main())
