"""What does each name in a file mean? From the first pass to uses of TileLang, with no release in mind.

A name means what its scope binds it to, and a name that is bound to anything not understood here means nothing, so
nothing is said about it. The result is a list of `Use`, each with a `Ref` (or several, where branches import
differently) and the circumstances that the rules need:

- `guards`: the use only happens if these exist, or do not (`if hasattr(T, "x"):` ... `else:` ...);
- `silent`: kinds of failure the code itself handles (`try: ... except ImportError:`, `pytest.raises`);
- `mangled`: the class whose body rewrites `T.__exp` to `T._Class__exp`.
"""

import ast
from typing import NamedTuple

from .scopes import ROOTS, Context, Walker
from .surface import Ref
from .syntax import EVERYTHING, IMPORT, last_name, mentions_version

JIT_KERNEL, PROFILER = Ref("#JITKernel"), Ref("#Profiler")
COMPILERS = frozenset([Ref("tilelang", ("compile",)), Ref("tilelang.jit", ("compile",))])
JIT_DECORATORS = frozenset([Ref("tilelang", ("jit",)), Ref("tilelang.jit", ("jit",))])
TUNERS = frozenset([Ref("tilelang", ("autotune",)), Ref("tilelang.autotuner", ("autotune",))])


class Call(NamedTuple):
    """The shape of a call: what can be compared with a signature."""

    positional: int
    starred: bool
    keywords: tuple  # (name, line, col)
    double_starred: bool
    arguments: tuple  # the positional nodes


class Use(NamedTuple):
    refs: tuple  # the Refs it may mean; it is wrong only if it is wrong for each
    given: int  # how many attributes came with the name, and were judged where it was bound
    how: str  # import, attribute, call, subscript
    line: int
    col: int
    call: object
    guards: tuple
    silent: frozenset
    mangled: str
    node: object  # the Attribute, the Name or the import statement


class Resolved(NamedTuple):
    uses: list
    stores: set  # Refs that the file assigns to, `T.x = ...`
    tested: set  # Refs whose existence (or, with "()", whose signature) the file asks for
    tilelang: bool  # whether the file imports TileLang itself
    foreign: bool  # whether it brings a tvm of its own


class Meaning:
    """What the names mean that a Walker has bound."""

    def __init__(self, walker, assume_t):
        self.walker = walker
        self.assume_t = assume_t

    def lookup(self, name, scope):
        """The Refs a name may mean in a scope; None if it may mean anything else."""
        known = scope.known
        if name in known:
            return known[name]
        known[name] = None  # a name defined by itself means nothing
        known[name] = result = self._lookup(name, scope)
        return result

    def _lookup(self, name, scope):
        bindings = self.bindings(name, scope)
        if bindings is None:
            if name == "T" and self.assume_t:
                return (Ref("tilelang.language"),)
            return None
        chosen = [b for b in bindings if b[0] != "nothing" and not (b[2] and b[0] != "ref")]
        refs = []
        for what, value, _ in chosen:
            if what == "ref":
                found = (value,)
            elif what == "expression":
                found = self.evaluate(*value)
            else:
                found = None
            if found is None:
                return None
            refs += [ref for ref in found if ref not in refs]
        return tuple(refs) or None

    def bindings(self, name, scope):
        """The bindings of the nearest scope that binds a name, seen from `scope`; None if none does."""
        first = True
        while scope is not None:
            if scope.kind != "class" or first:
                declared = scope.outer.get(name)
                if declared == "global":
                    return self.walker.module.names.get(name)
                if declared is None and name in scope.names:
                    return scope.names[name]
            first = False
            scope = scope.parent
        return None

    def evaluate(self, node, scope):
        """The Refs an expression may mean, or None."""
        kind = type(node)
        if kind is ast.Name:
            return self.lookup(node.id, scope)
        if kind is ast.Attribute:
            owners = self.evaluate(node.value, scope)
            return owners and tuple(owner.dot(node.attr) for owner in owners)
        if kind is ast.Call:
            return self.evaluate_call(node, scope)
        return None

    def evaluate_call(self, node, scope):
        name = last_name(node.func)
        if name in ("import_module", "importorskip") and node.args:
            path = getattr(node.args[0], "value", None)
            return (Ref(path),) if isinstance(path, str) and path.split(".")[0] in ROOTS else None
        if name == "getattr" and len(node.args) == 2 and isinstance(getattr(node.args[1], "value", None), str):
            owners = self.evaluate(node.args[0], scope)
            return owners and tuple(owner.dot(node.args[1].value) for owner in owners)
        if type(node.func) is ast.Name:
            bindings = self.bindings(node.func.id, scope)
            if bindings and len(bindings) == 1 and bindings[0][0] == "def" and self.makes_kernels(*bindings[0][1]):
                return (JIT_KERNEL,)
        functions = self.evaluate(node.func, scope)
        if functions and all(f in COMPILERS for f in functions):
            return (JIT_KERNEL,)
        if functions and all(f == JIT_KERNEL.dot("get_profiler") for f in functions):
            return (PROFILER,)
        return None

    def makes_kernels(self, node, scope):
        """Whether calling a function gives a JITKernel: decorated by tilelang.jit alone, it returns a prim_func."""
        if not node.decorator_list:
            return False
        for decorator in node.decorator_list:
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            refs = self.evaluate(target, scope)
            if not refs or not all(ref in JIT_DECORATORS or ref in TUNERS for ref in refs):
                return False
        inner = {
            each.name
            for each in node.body
            if isinstance(each, ast.FunctionDef) and "prim_func" in {last_name(d) for d in each.decorator_list}
        }
        returned = [each.value for each in node.body if isinstance(each, ast.Return)]
        return bool(returned) and all(isinstance(value, ast.Name) and value.id in inner for value in returned)

    def conditions(self, test, scope, wanted, depth=0):
        """What a test says when it is `wanted`: ((Ref, exists), ...); None where it hangs on what cannot be known."""
        kind = type(test)
        if kind is ast.UnaryOp and type(test.op) is ast.Not:
            return self.conditions(test.operand, scope, not wanted, depth)
        if kind is ast.BoolOp:
            together = (type(test.op) is ast.And) is wanted
            found = [self.conditions(value, scope, wanted, depth) for value in test.values]
            if any(each is None for each in found):
                return None
            return tuple(pair for each in found for pair in each) if together else ()
        if kind is ast.Call and last_name(test.func) == "hasattr" and len(test.args) == 2:
            owners = self.evaluate(test.args[0], scope)
            name = getattr(test.args[1], "value", None)
            if owners and len(owners) == 1 and isinstance(name, str):
                return ((owners[0].dot(name), wanted),)
            return ()
        if mentions_version(test) or (wanted and last_name(test) == "TYPE_CHECKING"):
            return None
        if kind in (ast.Name, ast.Call, ast.Compare) and depth < 3:
            name = test if kind is ast.Name else test.func if kind is ast.Call else test.left
            bindings = self.bindings(name.id, scope) if type(name) is ast.Name else None
            for what, value, _ in bindings or ():
                if what == "def" and mentions_version(value[0]):
                    return None
                if what == "expression" and len(bindings) == 1 and kind is ast.Name:
                    return self.conditions(value[0], value[1], wanted, depth + 1)
                if what == "expression" and mentions_version(value[0]):
                    return None
        return ()

    def circumstances(self, context):
        """(guards, silent) of a context, worked out once."""
        if context.resolved is None:
            guards, silent = [], context.silent
            for test, scope, wanted in context.tests:
                found = self.conditions(test, scope, wanted)
                if found is None:
                    silent = EVERYTHING
                else:
                    guards += found
            context.resolved = (tuple(guards), silent)
        return context.resolved

    def finish(self):
        walker, uses = self.walker, []
        for ref, node, context in walker.imports:
            guards, silent = self.circumstances(context)
            uses.append(Use((ref,), 0, IMPORT, node.lineno, node.col_offset + 1, None, guards, silent, "", node))
        for node, scope, how, call, context in walker.candidates:
            use = self.use_of(node, scope, how, call, context)
            if use is not None:
                uses.append(use)
        stores = {owner.dot(name) for owner, name in self.owned(walker.stored)}
        stores |= {Ref(module) for module in walker.modules_stored}
        tested = {owner.dot(name) for owner, name in self.owned(walker.asked)}
        for scope in walker.scopes:  # bindings lead back to their scopes: cut the circles, and memory is free at once
            scope.names.clear()
        return Resolved(uses, stores, tested, walker.imports_tilelang or self.assume_t, walker.foreign)

    def owned(self, pairs):
        for node, name, scope in pairs:
            for owner in self.evaluate(node, scope) or ():
                yield owner, name

    def use_of(self, node, scope, how, call, context):
        kind = type(node)
        if kind is ast.Name:
            bindings = self.bindings(node.id, scope)
            if bindings is None:
                return None
            refs = self.lookup(node.id, scope)
            given = min((len(ref.attrs) for ref in refs), default=0) if refs else 0
        else:
            base, depth = node, 0
            while type(base) is ast.Attribute:
                base, depth = base.value, depth + 1
            if type(base) is ast.Name and self.lookup(base.id, scope) is None:
                return None
            refs = self.evaluate(node, scope)
            if kind is ast.Call:  # getattr(T, "x")
                depth = 1
            given = min((len(ref.attrs) for ref in refs), default=0) - depth if refs else 0
        if not refs:
            return None
        guards, silent = self.circumstances(context)
        line, col = node.lineno, node.col_offset + 1
        if kind is ast.Attribute and type(base) is not ast.Name:  # far below the start of a long chain of calls
            line, col = node.end_lineno, node.end_col_offset - len(node.attr) + 1
        return Use(refs, given, how, line, col, call and shape_of(call), guards, silent, context.mangled, node)


def shape_of(node):
    starred = any(isinstance(argument, ast.Starred) for argument in node.args)
    plain = tuple(argument for argument in node.args if not isinstance(argument, ast.Starred))
    keywords = tuple(
        (k.arg, getattr(k, "lineno", k.value.lineno), getattr(k, "col_offset", k.value.col_offset) + 1)
        for k in node.keywords
        if k.arg
    )
    return Call(len(plain), starred, keywords, any(k.arg is None for k in node.keywords), plain)


def resolve(source):
    """The Resolved of a Source. In Markdown, a `T` that no fence binds is taken for tilelang.language."""
    walker = Walker()
    walker.block(source.body, walker.module, Context())
    return Meaning(walker, assume_t=source.kind == ".md").finish()
