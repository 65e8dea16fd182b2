"""The first pass over a file: which scope binds which name to what, and what may be a use of TileLang.

Python's scoping rules are followed: functions, classes, comprehensions, lambdas, `global` and `nonlocal`. Each
candidate is noted with its Context: what is tested around it, what is caught, which class rewrites its names.
"""

import ast

from .surface import Ref
from .syntax import (
    ATTRIBUTE,
    CALL,
    EVERYTHING,
    all_arguments,
    caught_by,
    collect_outer,
    last_name,
    leaves,
    nothing,
)

ROOTS = ("tilelang", "tvm")
RAISES = frozenset(["raises", "assertRaises", "assertRaisesRegex", "suppress", "deprecated_call"])
# TileLang reads the source of these functions and compiles it anew, outside of any class: no mangling there.
RECOMPILED = frozenset(["prim_func", "macro", "jit", "lazy_jit"])


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


class Walker:
    """One pass: names are bound, and what may be a use is noted; nothing is understood yet."""

    def __init__(self):
        self.scopes = []
        self.module = self.scope("module", None)
        self.candidates = []  # (node, scope, how, call, context)
        self.imports = []  # (Ref, node, context)
        self.stored = []  # (node of the owner, name, scope)
        self.asked = []  # (node of the owner, name, scope)
        self.modules_stored = set()
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


LEAVES = frozenset([str, int, float, bool, bytes, complex, type(None), type(...), ast.Constant, ast.Load, ast.Store])
WATCHED = frozenset(["hasattr", "getattr", "setattr", "signature"])
STATEMENTS = {
    ast.Import: Walker.do_import,
    ast.ImportFrom: Walker.do_import_from,
    ast.FunctionDef: Walker.do_function,
    ast.AsyncFunctionDef: Walker.do_function,
    ast.ClassDef: Walker.do_class,
    ast.If: Walker.do_if,
    ast.Try: Walker.do_try,
    ast.With: Walker.do_with,
    ast.AsyncWith: Walker.do_with,
    ast.For: Walker.do_for,
    ast.AsyncFor: Walker.do_for,
    ast.While: Walker.do_while,
    ast.Assign: Walker.do_assign,
    ast.AnnAssign: Walker.do_assign,
    ast.AugAssign: Walker.do_assign,
}
if hasattr(ast, "TryStar"):
    STATEMENTS[ast.TryStar] = Walker.do_try
if hasattr(ast, "Match"):
    STATEMENTS[ast.Match] = Walker.do_match
HANDLERS = {
    ast.Name: Walker.do_name,
    ast.Attribute: Walker.do_attribute,
    ast.Call: Walker.do_call,
    ast.Subscript: Walker.do_subscript,
    ast.Compare: Walker.do_compare,
    ast.Lambda: Walker.do_lambda,
    ast.NamedExpr: Walker.do_named_expression,
    ast.IfExp: Walker.do_if_expression,
    ast.ListComp: Walker.do_comprehension,
    ast.SetComp: Walker.do_comprehension,
    ast.DictComp: Walker.do_comprehension,
    ast.GeneratorExp: Walker.do_comprehension,
}
