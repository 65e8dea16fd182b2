"""Inline PTX in CUDA text, rewritten as C++ for the emulator.

Each `asm` statement is replaced by what it does, when the table below knows it, and else by a call that stops the program
with the instruction's name: nothing is skipped.
"""

import json
import re
from collections.abc import Iterator

_ASM = re.compile(r"\b(?:asm|__asm__)\s*(?:volatile|__volatile__)?\s*\(")
_OPERAND = re.compile(r'(?:\[\w+\]\s*)?"[^"]*"\s*\(')
_WORDS = {
    "u32": "unsigned",
    "b32": "unsigned",
    "f32": "float",
    "u64": "unsigned long long",
    "b64": "unsigned long long",
}
_ADDRESS = r"\[%(\d+)\]"
_REGISTERS = r"\{?((?:%\d+(?:, ?)?)+)\}?"


def rewrite_asm(source: str) -> str:
    """Return `source` with every asm statement replaced. Line breaks inside a statement are kept."""
    out: list[str] = []
    at = 0
    while found := _ASM.search(source, at):
        end = _closing(source, found.end() - 1)
        out.append(source[at : found.start()])
        statement = source[found.start() : end]
        out.append(_replacement(source[found.end() : end - 1]) + "\n" * statement.count("\n"))
        at = end
    out.append(source[at:])
    return "".join(out)


def _outside_strings(text: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """(index, character) of what is not in a string literal, quotes included in the literal."""
    for found in re.compile(r'"(?:[^"\\]|\\.)*"|[^"]', re.S).finditer(text, start):
        if len(found[0]) == 1:
            yield found.start(), found[0]


def _closing(text: str, opening: int) -> int:
    """Index after the bracket that closes the one at `opening`; brackets in strings do not count."""
    depth = 0
    for i, char in _outside_strings(text, opening):
        depth += (char in "([") - (char in ")]")
        if depth == 0:
            return i + 1
    raise ValueError("unbalanced brackets in an asm statement")


def _parts(body: str) -> list[str]:
    """Split at the colons between template, outputs, inputs and clobbers."""
    parts, depth, start = [], 0, 0
    for i, char in _outside_strings(body):
        depth += (char in "([{") - (char in ")]}")
        if char == ":" and depth == 0:
            parts.append(body[start:i])
            start = i + 1
    return [*parts, body[start:]]


def _operands(text: str) -> list[str]:
    operands, at = [], 0
    while found := _OPERAND.search(text, at):
        end = _closing(text, found.end() - 1)
        operands.append(" ".join(text[found.end() : end - 1].split()))
        at = end
    return operands


def _replacement(body: str) -> str:
    # TL_ENABLE_L2_PREFETCH only adds a cache hint, so the #else branch says the same.
    body = re.sub(r"#if\b[^\n]*\n(.*?)(?:#else\n(.*?))?#endif[^\n]*", lambda m: m[2] or "", body, flags=re.S)
    parts = _parts(body)
    literals = re.findall(r'"((?:[^"\\]|\\.)*)"', parts[0])
    ptx = " ".join("".join(literals).replace("\\n", " ").replace("\\t", " ").split())
    operands = [operand for part in parts[1:3] for operand in _operands(part)]
    return translate(ptx, operands)


def translate(ptx: str, operands: list[str]) -> str:
    """C++ for one asm statement. ptx: its text in one line. operands: C++ expressions, %0 first."""
    if not ptx:  # a barrier for the compiler only
        return "((void)0)"

    def value(number: str) -> str:
        return f"({operands[int(number)]})"

    def words(registers: str) -> str:
        return ", ".join(value(number) for number in re.findall(r"%(\d+)", registers))

    text = ptx.rstrip("; ")
    if found := re.fullmatch(r"(?:bar|barrier)\.sync(?:\.aligned)? %(\d+), %(\d+)", text):
        return f"emulator_barrier({value(found[1])}, {value(found[2])}, false)"
    if found := re.fullmatch(r"(?:bar|barrier)\.arrive(?:\.aligned)? %(\d+), %(\d+)", text):
        return f"emulator_barrier_arrive({value(found[1])}, {value(found[2])})"
    if re.fullmatch(r"(?:bar|barrier)\.sync(?:\.aligned)? 0", text):
        return "emulator_barrier(0, 0, true)"
    if found := re.fullmatch(r"bar\.warp\.sync %(\d+)", text):
        return f"__syncwarp({value(found[1])})"
    if re.fullmatch(r"cp\.async\.(commit_group|wait_all|wait_group (%\d+|\d+))", text):
        return "((void)0)"  # copies are done at once
    if found := re.fullmatch(rf"cp\.async\.c[ag]\.shared\.global(?:\.L2::\w+)? {_ADDRESS}, {_ADDRESS}, %(\d+)", text):
        size = value(found[3])
        return f"emulator::copy_async({value(found[1])}, {value(found[2])}, {size}, {size})"
    if found := re.fullmatch(rf"cp\.async\.c[ag]\.shared\.global(?:\.L2::\w+)? {_ADDRESS}, {_ADDRESS}, %(\d+), %(\d+)", text):
        return f"emulator::copy_async({', '.join(value(found[i]) for i in range(1, 5))})"
    if found := re.fullmatch(r"(?:membar|fence)\.(?:sc\.|acq_rel\.)?(?:cta|gl|gpu|sys)", text):
        return "((void)0)"
    if found := re.fullmatch(r"(rcp|rsqrt|sqrt|ex2|lg2|tanh|sin|cos)\.approx(\.ftz)?\.f32 %(\d+), %(\d+)", text):
        return _approximate(found[1], bool(found[2]), value(found[3]), value(found[4]))
    if found := re.fullmatch(r"cvt\.rn\.bf16\.f16 %(\d+), %(\d+)", text):
        return f"{value(found[1])} = emulator::bf16_of_fp16({value(found[2])})"
    if found := re.fullmatch(r"sub\.rn\.f32x2 %(\d+), %(\d+), %(\d+)", text):
        return f"{value(found[1])} = emulator::sub2({value(found[2])}, {value(found[3])})"
    if found := re.fullmatch(r"red\.\w+\.gpu\.global\.(or|and|xor|add|min|max)\.(b32|u32|s32|b64|u64|f32) " + _ADDRESS
                             + r", %(\d+)", text):  # fmt: skip
        kind = {"b32": "unsigned", "s32": "int", **_WORDS}.get(found[2], "int")
        name = f"atomic{found[1].capitalize()}"
        return f"{name}(({kind} *)({value(found[3])}), ({kind})({value(found[4])}))"
    return _load_or_store(text, value, words) or f"emulator_missing({json.dumps('PTX ' + ptx)})"


def _approximate(name: str, flushes: bool, out: str, x: str) -> str:
    """MUFU instructions; computed in double and rounded, subnormals flushed where the instruction says so."""
    formula = {
        "rcp": "1.0 / double(emulator_x)",
        "rsqrt": "1.0 / sqrt(double(emulator_x))",
        "sqrt": "sqrt(double(emulator_x))",
        "ex2": "exp2(double(emulator_x))",
        "lg2": "log2(double(emulator_x))",
        "tanh": "tanh(double(emulator_x))",
        "sin": "sin(double(emulator_x))",
        "cos": "cos(double(emulator_x))",
    }[name]
    source = f"emulator::flush({x})" if flushes else x
    result = f"emulator::flush(float({formula}))" if flushes else f"float({formula})"
    return f"do {{ float emulator_x = {source}; {out} = {result}; }} while (0)"


def _load_or_store(text: str, value, words) -> str | None:
    """ld.global and st.global, plain or in the form `{ .reg .pred p; setp.ne.b32 p, %c, 0; ... @p ld.global ...; }`."""
    condition, statements = "true", [text]
    if text.startswith("{"):
        statements = [part.strip() for part in text.strip("{} ").split(";") if part.strip()]
        if text.count("{") > 1:  # strip() took the closing brace of a register list with it
            statements = [part.strip() for part in re.sub(r"^\{|\}$", "", text.strip()).split(";") if part.strip()]
    body: list[str] = []
    for statement in statements:
        if statement.startswith((".reg", "mov.b")):  # mov gives the register its old value, which it has already
            continue
        if found := re.fullmatch(r"setp\.ne\.b32 p, %(\d+), 0", statement):
            condition = value(found[1])
            continue
        move = r"(?:@p )?{}\.(?:volatile\.)?global(?:\.\w+::\w+)*(?:\.n[ca])?(?:\.v[24])?\.([ubf]\d+) "
        if found := re.fullmatch(move.format("ld") + rf"{_REGISTERS}, {_ADDRESS}", statement):
            body.append(f"emulator::load<{_WORDS[found[1]]}>((const void *)({value(found[3])}), {words(found[2])});")
        elif found := re.fullmatch(move.format("st") + rf"{_ADDRESS}, {_REGISTERS}", statement):
            body.append(f"emulator::store<{_WORDS[found[1]]}>((void *)({value(found[2])}), {words(found[3])});")
        else:
            return None
    return f"do {{ if ({condition}) {{ {' '.join(body)} }} }} while (0)" if body else None
