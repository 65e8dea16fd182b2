"""Small questions about syntax trees."""

import ast

IMPORT, ATTRIBUTE, CALL = "import", "attribute", "call"
EVERYTHING = frozenset([IMPORT, ATTRIBUTE, CALL])
CAUGHT = {
    "ImportError": frozenset([IMPORT]),
    "ModuleNotFoundError": frozenset([IMPORT]),
    "AttributeError": frozenset([ATTRIBUTE]),
    "TypeError": frozenset([CALL]),
}


def all_arguments(arguments):
    found = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return found + [each for each in (arguments.vararg, arguments.kwarg) if each is not None]


def collect_outer(node, scope):
    """`global T` and `nonlocal T` hold for the whole function, so they are collected before it is read."""
    stack = [node]
    while stack:
        each = stack.pop()
        if isinstance(each, (ast.Global, ast.Nonlocal)):
            for name in each.names:
                scope.outer[name] = "global" if isinstance(each, ast.Global) else "nonlocal"
        elif isinstance(each, ast.stmt) and not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for field in ("body", "orelse", "finalbody"):
                stack += getattr(each, field, ())
            for handler in getattr(each, "handlers", ()):
                stack += handler.body


def last_name(node):
    """`raises` of `pytest.raises(...)`."""
    while isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def leaves(body):
    """Whether a block never falls through to what comes after it."""
    last = body[-1]
    if isinstance(last, (ast.Return, ast.Raise, ast.Continue, ast.Break)):
        return True
    return isinstance(last, ast.Expr) and last_name(last.value) in ("skip", "exit", "fail", "xfail")


def nothing(node):
    """`None` and stand-ins for a missing module."""
    if isinstance(node, ast.Constant) and node.value is None:
        return True
    return isinstance(node, ast.Call) and last_name(node.func) in ("MagicMock", "Mock", "NonCallableMock", "AsyncMock")


def caught_by(node):
    if node is None:
        return EVERYTHING
    if isinstance(node, ast.Tuple):
        return frozenset().union(*(caught_by(each) for each in node.elts))
    return CAUGHT.get(last_name(node), EVERYTHING if last_name(node) in ("Exception", "BaseException") else frozenset())


def mentions_version(node):
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and each.attr == "__version__":
            return True
        if isinstance(each, ast.Call) and last_name(each.func) in ("version", "find_spec", "Version", "parse_version"):
            return True
    return False
