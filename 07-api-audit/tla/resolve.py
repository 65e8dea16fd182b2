"""What does each name in a file mean? From statements to uses of TileLang, with no release in mind.

Python's scoping rules are followed: a name means what its scope binds it to, and a name that is bound to anything
this module does not understand means nothing, so nothing is said about it. The result is a list of `Use`, each with
a `Ref` (or several, where branches import differently) and the circumstances that the rules need:

- `guards`: the use only happens if these exist, or do not (`if hasattr(T, "x"):` ... `else:` ...);
- `silent`: kinds of failure the code itself handles (`try: ... except ImportError:`, `pytest.raises`);
- `mangled`: the class whose body rewrites `T.__exp` to `T._Class__exp`.
"""

import ast
from typing import NamedTuple

from .surface import Ref

IMPORT, ATTRIBUTE, CALL = "import", "attribute", "call"
EVERYTHING = frozenset([IMPORT, ATTRIBUTE, CALL])
CAUGHT = {
    "ImportError": frozenset([IMPORT]),
    "ModuleNotFoundError": frozenset([IMPORT]),
    "AttributeError": frozenset([ATTRIBUTE]),
    "TypeError": frozenset([CALL]),
}
ROOTS = ("tilelang", "tvm")
RAISES = frozenset(["raises", "assertRaises", "assertRaisesRegex", "suppress", "deprecated_call"])
# TileLang reads the source of these functions and compiles it anew, outside of any class: no mangling there.
RECOMPILED = frozenset(["prim_func", "macro", "jit", "lazy_jit"])
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


class Context:
    """The circumstances of a statement. Never changed: `but` makes another."""

    __slots__ = ("tests", "silent", "mangled", "fallback", "resolved")

    def __init__(self, tests=(), silent=frozenset(), mangled="", fallback=False):
        self.tests, self.silent, self.mangled, self.fallback = tests, silent, mangled, fallback
        self.resolved = None

    def but(self, **changes):
        values = {key: changes.get(key, getattr(self, key)) for key in ("tests", "silent", "mangled", "fallback")}
        return Context(**values)


class Scope:
    __slots__ = ("kind", "parent", "names", "outer", "known")

    def __init__(self, kind, parent):
        self.kind, self.parent = kind, parent
        self.names = {}  # name -> list of bindings
        self.outer = {}  # names declared global or nonlocal -> "global" or "nonlocal"
        self.known = {}  # name -> tuple of Refs or None, once looked up

    def bind(self, name, what, value=None, fallback=False):
        scope = self
        declared = self.outer.get(name)
        if declared == "global":
            while scope.parent is not None:
                scope = scope.parent
        elif declared == "nonlocal":
            scope = scope.parent
            while scope.parent is not None and (scope.kind == "class" or name not in scope.names):
                scope = scope.parent
        scope.names.setdefault(name, []).append((what, value, fallback))


class Resolver:
    """One pass over the statements binds names and notes candidates; `finish` then says what they mean."""

    def __init__(self, assume_t=False):
        self.scopes = []
        self.module = self.scope("module", None)
        self.candidates = []  # (node, scope, how, call, context)
        self.imports = []  # (Ref, node, context)
        self.stored = []  # (node of the owner, name, scope)
        self.asked = []  # (node of the owner, name, scope)
        self.modules_stored = set()
        self.assume_t = assume_t
        self.imports_tilelang = False
        self.foreign = False

    def scope(self, kind, parent):
        self.scopes.append(Scope(kind, parent))
        return self.scopes[-1]

    # --- statements

    def block(self, statements, scope, context):
        """Statements in order; after `if hasattr(T, "x"): return`, the rest happens only without T.x."""
        for node in statements:
            handler = STATEMENTS.get(type(node))
            if handler is not None:
                handler(self, node, scope, context)
            else:
                self.children(node, scope, context)
            if type(node) is ast.If and not node.orelse and leaves(node.body):
                context = context.but(tests=context.tests + ((node.test, scope, False),))

    def children(self, node, scope, context):
        for field in node._fields:
            child = getattr(node, field, None)
            if type(child) is list:
                for each in child:
                    if type(each) not in LEAVES:
                        self.visit(each, scope, context)
            elif type(child) not in LEAVES:
                self.visit(child, scope, context)

    def visit(self, node, scope, context):
        handler = HANDLERS.get(type(node))
        if handler is not None:
            handler(self, node, scope, context)
        else:
            self.children(node, scope, context)

    def visit_all(self, nodes, scope, context):
        for node in nodes:
            if node is not None:
                self.visit(node, scope, context)

    def do_import(self, node, scope, context):
        for alias in node.names:
            parts = alias.name.split(".")
            if parts[0] not in ROOTS:
                scope.bind(alias.asname or parts[0], "opaque", None, context.fallback)
                self.foreign = self.foreign or parts[0] == "bitblas"
                continue
            self.imports_tilelang = self.imports_tilelang or parts[0] == "tilelang"
            self.imports.append((Ref(alias.name), node, context))
            if alias.asname:
                scope.bind(alias.asname, "ref", Ref(parts[0], tuple(parts[1:])), context.fallback)
            else:
                scope.bind(parts[0], "ref", Ref(parts[0]), context.fallback)

    def do_import_from(self, node, scope, context):
        ours = not node.level and (node.module or "").split(".")[0] in ROOTS
        self.imports_tilelang = self.imports_tilelang or (ours and node.module.split(".")[0] == "tilelang")
        self.foreign = self.foreign or (not node.level and (node.module or "").split(".")[0] == "bitblas")
        if ours:
            self.imports.append((Ref(node.module), node, context))
        for alias in node.names:
            name = alias.asname or alias.name
            if not ours:
                scope.bind(name, "opaque", None, context.fallback)
            elif alias.name != "*":
                ref = Ref(node.module, (alias.name,))
                place = alias if hasattr(alias, "lineno") else node  # Python 3.9 does not say where an alias stands
                self.imports.append((ref, place, context))
                scope.bind(name, "ref", ref, context.fallback)

    def do_function(self, node, scope, context):
        self.visit_all(node.decorator_list, scope, context)
        scope.bind(node.name, "def", (node, scope), context.fallback)
        self.arguments_outside(node.args, scope, context)
        self.visit_all([node.returns], scope, context)
        decorators = {last_name(decorator) for decorator in node.decorator_list}
        if decorators & RECOMPILED:
            context = context.but(mangled="")
        if "xfail" in decorators:
            context = context.but(silent=EVERYTHING)
        inner = self.scope("function", scope)
        self.arguments_inside(node.args, inner)
        for statement in node.body:
            collect_outer(statement, inner)
        self.block(node.body, inner, context)

    def do_lambda(self, node, scope, context):
        self.arguments_outside(node.args, scope, context)
        inner = self.scope("function", scope)
        self.arguments_inside(node.args, inner)
        self.visit(node.body, inner, context)

    def arguments_outside(self, arguments, scope, context):
        self.visit_all([*arguments.defaults, *arguments.kw_defaults], scope, context)
        for each in all_arguments(arguments):
            if each.annotation is not None:
                self.visit(each.annotation, scope, context)

    @staticmethod
    def arguments_inside(arguments, scope):
        for each in all_arguments(arguments):
            scope.bind(each.arg, "opaque")

    def do_class(self, node, scope, context):
        self.visit_all([*node.decorator_list, *node.bases, *(k.value for k in node.keywords)], scope, context)
        scope.bind(node.name, "opaque", None, context.fallback)
        mangled = node.name.lstrip("_")
        self.block(node.body, self.scope("class", scope), context.but(mangled=mangled))

    def do_if(self, node, scope, context):
        self.visit(node.test, scope, context)
        self.block(node.body, scope, context.but(tests=context.tests + ((node.test, scope, True),)))
        self.block(node.orelse, scope, context.but(tests=context.tests + ((node.test, scope, False),)))

    def do_if_expression(self, node, scope, context):
        self.visit(node.test, scope, context)
        self.visit(node.body, scope, context.but(tests=context.tests + ((node.test, scope, True),)))
        self.visit(node.orelse, scope, context.but(tests=context.tests + ((node.test, scope, False),)))

    def do_try(self, node, scope, context):
        caught = frozenset()
        for handler in node.handlers:
            if not (handler.body and type(handler.body[-1]) is ast.Raise):
                caught |= caught_by(handler.type)
        self.block(node.body, scope, context.but(silent=context.silent | caught))
        for handler in node.handlers:
            self.visit_all([handler.type], scope, context)
            if handler.name:
                scope.bind(handler.name, "opaque", None, True)
            self.block(handler.body, scope, context.but(silent=EVERYTHING, fallback=True))
        self.block(node.orelse, scope, context)
        self.block(node.finalbody, scope, context)

    def do_with(self, node, scope, context):
        inner = context
        for item in node.items:
            call = item.context_expr
            if isinstance(call, ast.Call) and last_name(call.func) in RAISES:
                inner = inner.but(silent=EVERYTHING)
            self.visit(call, scope, context)
            if item.optional_vars is not None:
                self.visit(item.optional_vars, scope, context)
        self.block(node.body, scope, inner)

    def do_for(self, node, scope, context):
        self.visit_all([node.iter, node.target], scope, context)
        self.block(node.body, scope, context)
        self.block(node.orelse, scope, context)

    def do_while(self, node, scope, context):
        self.visit(node.test, scope, context)
        self.block(node.body, scope, context)
        self.block(node.orelse, scope, context)

    def do_match(self, node, scope, context):
        self.visit(node.subject, scope, context)
        for case in node.cases:
            for part in ast.walk(case.pattern):
                name = getattr(part, "rest", None) or (getattr(part, "name", None) if part is not case else None)
                if isinstance(name, str):
                    scope.bind(name, "opaque")
            self.children(case.pattern, scope, context)
            self.visit_all([case.guard], scope, context)
            self.block(case.body, scope, context)

    def do_assign(self, node, scope, context):
        value = getattr(node, "value", None)
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if isinstance(node, ast.AnnAssign):
            self.visit(node.annotation, scope, context)
        if value is not None:
            self.visit(value, scope, context)
        for target in targets:
            if isinstance(target, ast.Name) and not isinstance(node, ast.AugAssign):
                if value is None:
                    continue  # `T: Any` binds nothing
                if nothing(value):
                    scope.bind(target.id, "nothing")
                else:
                    scope.bind(target.id, "expression", (value, scope), context.fallback)
            else:
                self.visit(target, scope, context)

    # --- expressions

    def do_name(self, node, scope, context):
        if type(node.ctx) is not ast.Load:
            scope.bind(node.id, "opaque", None, context.fallback)

    def do_named_expression(self, node, scope, context):
        self.visit(node.value, scope, context)
        while scope.kind == "comprehension":
            scope = scope.parent
        scope.bind(node.target.id, "expression", (node.value, scope))

    def do_comprehension(self, node, scope, context):
        inner = self.scope("comprehension", scope)
        for index, generator in enumerate(node.generators):
            self.visit(generator.iter, scope if index == 0 else inner, context)
            self.visit(generator.target, inner, context)
            self.visit_all(generator.ifs, inner, context)
        if isinstance(node, ast.DictComp):
            self.visit_all([node.key, node.value], inner, context)
        else:
            self.visit(node.elt, inner, context)

    def do_attribute(self, node, scope, context, how=ATTRIBUTE, call=None):
        if type(node.ctx) is not ast.Load:
            self.stored.append((node.value, node.attr, scope))
            self.visit(node.value, scope, context)
            return
        base = node.value
        while type(base) is ast.Attribute:
            base = base.value
        if type(base) is ast.Name:
            self.candidates.append((node, scope, how, call, context))
        else:
            if type(base) is ast.Call:
                self.candidates.append((node, scope, how, call, context))
            self.visit(base, scope, context)

    def do_call(self, node, scope, context):
        function = node.func
        kind = type(function)
        if kind is ast.Attribute:
            self.do_attribute(function, scope, context, CALL, node)
        elif kind is ast.Name:
            self.candidates.append((function, scope, CALL, node, context))
        else:
            self.visit(function, scope, context)
        name = function.attr if kind is ast.Attribute else function.id if kind is ast.Name else ""
        if name in WATCHED:
            self.watch(name, node, scope, context)
        for argument in node.args:
            self.visit(argument, scope, context)
        for keyword in node.keywords:
            self.visit(keyword.value, scope, context)

    def watch(self, name, node, scope, context):
        """Calls that say something about names: hasattr, getattr, setattr, inspect.signature."""
        constant = node.args[1].value if len(node.args) > 1 and isinstance(node.args[1], ast.Constant) else None
        if name == "signature" and node.args:
            self.asked.append((node.args[0], "()", scope))
        elif isinstance(constant, str):
            if name == "setattr":
                self.stored.append((node.args[0], constant, scope))
            elif name == "hasattr" or (name == "getattr" and (len(node.args) > 2 or node.keywords)):
                self.asked.append((node.args[0], constant, scope))
            elif name == "getattr" and len(node.args) == 2:
                self.candidates.append((node, scope, ATTRIBUTE, None, context))

    def do_compare(self, node, scope, context):
        """`"x" in dir(T)` asks for T.x."""
        left = node.left
        if isinstance(left, ast.Constant) and isinstance(left.value, str):
            for right in node.comparators:
                if isinstance(right, ast.Call) and last_name(right.func) in ("dir", "vars") and right.args:
                    self.asked.append((right.args[0], left.value, scope))
                elif isinstance(right, ast.Attribute) and right.attr in ("__dict__", "__members__", "__all__"):
                    self.asked.append((right.value, left.value, scope))
        self.children(node, scope, context)

    def do_subscript(self, node, scope, context):
        if type(node.value) is ast.Attribute and type(node.ctx) is ast.Load:
            self.do_attribute(node.value, scope, context, "subscript")
        else:
            if type(node.ctx) is not ast.Load and last_name(node.value) == "modules":
                if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                    self.modules_stored.add(node.slice.value)
            self.visit(node.value, scope, context)
        self.visit(node.slice, scope, context)

    # --- meaning

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
                    return self.module.names.get(name)
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
        if name in ("import_module", "importorskip", "__import__") and len(node.args) >= 1:
            path = getattr(node.args[0], "value", None)
            if isinstance(path, str) and path.split(".")[0] in ROOTS and name != "__import__":
                return (Ref(path),)
            return None
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
        uses = []
        for ref, node, context in self.imports:
            guards, silent = self.circumstances(context)
            uses.append(Use((ref,), 0, IMPORT, node.lineno, node.col_offset + 1, None, guards, silent, "", node))
        for node, scope, how, call, context in self.candidates:
            use = self.use_of(node, scope, how, call, context)
            if use is not None:
                uses.append(use)
        stores = {owner.dot(name) for owner, name in self.owned(self.stored)} | {Ref(m) for m in self.modules_stored}
        tested = {owner.dot(name) for owner, name in self.owned(self.asked)}
        for scope in self.scopes:  # bindings lead back to their scopes: cut the circles, and the memory is free at once
            scope.names.clear()
        return Resolved(uses, stores, tested, self.imports_tilelang or self.assume_t, self.foreign)

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


# --- helpers ---------------------------------------------------------------------------------------------------


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


def shape_of(node):
    starred = any(isinstance(argument, ast.Starred) for argument in node.args)
    plain = tuple(argument for argument in node.args if not isinstance(argument, ast.Starred))
    keywords = tuple(
        (k.arg, getattr(k, "lineno", k.value.lineno), getattr(k, "col_offset", k.value.col_offset) + 1)
        for k in node.keywords
        if k.arg
    )
    return Call(len(plain), starred, keywords, any(k.arg is None for k in node.keywords), plain)


LEAVES = frozenset([str, int, float, bool, bytes, complex, type(None), type(...), ast.Constant, ast.Load, ast.Store])
WATCHED = frozenset(["hasattr", "getattr", "setattr", "signature"])
STATEMENTS = {
    ast.Import: Resolver.do_import,
    ast.ImportFrom: Resolver.do_import_from,
    ast.FunctionDef: Resolver.do_function,
    ast.AsyncFunctionDef: Resolver.do_function,
    ast.ClassDef: Resolver.do_class,
    ast.If: Resolver.do_if,
    ast.Try: Resolver.do_try,
    ast.With: Resolver.do_with,
    ast.AsyncWith: Resolver.do_with,
    ast.For: Resolver.do_for,
    ast.AsyncFor: Resolver.do_for,
    ast.While: Resolver.do_while,
    ast.Assign: Resolver.do_assign,
    ast.AnnAssign: Resolver.do_assign,
    ast.AugAssign: Resolver.do_assign,
}
if hasattr(ast, "TryStar"):
    STATEMENTS[ast.TryStar] = Resolver.do_try
if hasattr(ast, "Match"):
    STATEMENTS[ast.Match] = Resolver.do_match
HANDLERS = {
    ast.Name: Resolver.do_name,
    ast.Attribute: Resolver.do_attribute,
    ast.Call: Resolver.do_call,
    ast.Subscript: Resolver.do_subscript,
    ast.Compare: Resolver.do_compare,
    ast.Lambda: Resolver.do_lambda,
    ast.NamedExpr: Resolver.do_named_expression,
    ast.IfExp: Resolver.do_if_expression,
    ast.ListComp: Resolver.do_comprehension,
    ast.SetComp: Resolver.do_comprehension,
    ast.DictComp: Resolver.do_comprehension,
    ast.GeneratorExp: Resolver.do_comprehension,
}


def resolve(source):
    """The Resolved of a Source. In Markdown, a `T` that no fence binds is taken for tilelang.language."""
    resolver = Resolver(assume_t=source.kind == ".md")
    resolver.block(source.body, resolver.module, Context())
    return resolver.finish()
