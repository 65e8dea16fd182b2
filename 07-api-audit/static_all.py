#!/usr/bin/env python3
"""Read `tilelang.language.__all__` from the files of a release, without importing any of them.

    python3 static_all.py SITE-PACKAGES

The vendored surfaces come from imports. This reads the same names a second way, from the syntax alone, so that a
mistake of one does not go unseen: a test compares the two. It evaluates only what the lists are made of (constants,
sums, tuple(), sorted(), dict.fromkeys(), a filter, names imported from other modules) and refuses anything else.
"""

import ast
import sys
from pathlib import Path


class Unreadable(Exception):
    pass


class Reader:
    def __init__(self, roots):
        self.roots = [Path(root) for root in roots]
        self.trees = {}
        self.values = {}

    def file(self, module):
        for root in self.roots:
            for path in (
                root.joinpath(*module.split("."), "__init__.py"),
                root.joinpath(*module.split(".")).with_suffix(".py"),
            ):
                if path.is_file():
                    return path
        raise Unreadable(f"no file for {module}")

    def tree(self, module):
        if module not in self.trees:
            path = self.file(module)
            self.trees[module] = (ast.parse(path.read_text(encoding="utf-8")), path.name == "__init__.py")
        return self.trees[module]

    def value(self, module, name):
        """What a name of a module is bound to at its top level, the last binding counting."""
        key = module, name
        if key not in self.values:
            self.values[key] = self._value(module, name)
        return self.values[key]

    def _value(self, module, name):
        body, package = self.tree(module)
        result = None
        for node in body.body:
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(isinstance(t, ast.Name) and t.id == name for t in targets):
                    result = (self.evaluate, node.value, module)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
                result = (self.added, result, node.value, module)
            elif isinstance(node, ast.ImportFrom):
                source = absolute(node, module, package)
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        result = (self.imported, source, alias.name)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.asname == name:
                        result = (lambda path: ("module", path), alias.name)
        if result is None:
            raise Unreadable(f"{module} does not bind {name} in a way that can be read")
        return result[0](*result[1:])

    def added(self, before, node, module):
        return list(before[0](*before[1:])) + list(self.evaluate(node, module))

    def imported(self, module, name):
        try:
            self.file(f"{module}.{name}")
            return ("module", f"{module}.{name}")
        except Unreadable:
            return self.value(module, name)

    def evaluate(self, node, module, local=None):
        kind = type(node)
        if kind is ast.Constant:
            return node.value
        if kind in (ast.List, ast.Tuple, ast.Set):
            items = []
            for each in node.elts:
                if isinstance(each, ast.Starred):
                    items += list(self.evaluate(each.value, module, local))
                else:
                    items.append(self.evaluate(each, module, local))
            return items
        if kind is ast.Name:
            return local[node.id] if local and node.id in local else self.value(module, node.id)
        if kind is ast.Attribute:
            owner = self.evaluate(node.value, module, local)
            return self.imported(owner[1], node.attr)
        if kind is ast.BinOp and isinstance(node.op, (ast.Add, ast.BitOr)):
            return list(self.evaluate(node.left, module, local)) + list(self.evaluate(node.right, module, local))
        if kind is ast.BinOp and isinstance(node.op, ast.Sub):
            gone = set(self.evaluate(node.right, module, local))
            return [each for each in self.evaluate(node.left, module, local) if each not in gone]
        if kind is ast.Call and ast.unparse(node.func) in (
            "tuple",
            "list",
            "set",
            "frozenset",
            "sorted",
            "dict.fromkeys",
        ):
            return list(dict.fromkeys(self.evaluate(node.args[0], module, local))) if node.args else []
        if kind in (ast.GeneratorExp, ast.ListComp, ast.SetComp) and len(node.generators) == 1:
            return self.filtered(node, module)
        raise Unreadable(f"{module}: {ast.unparse(node)[:60]}")

    def filtered(self, node, module):
        generator = node.generators[0]
        items = []
        for each in self.evaluate(generator.iter, module):
            local = {generator.target.id: each}
            if all(self.holds(test, module, local) for test in generator.ifs):
                items.append(self.evaluate(node.elt, module, local))
        return items

    def holds(self, test, module, local):
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.In, ast.NotIn)):
            inside = self.evaluate(test.left, module, local) in set(self.evaluate(test.comparators[0], module, local))
            return inside is isinstance(test.ops[0], ast.In)
        raise Unreadable(f"{module}: {ast.unparse(test)[:60]}")


def absolute(node, module, package):
    """The module that an ImportFrom names."""
    if not node.level:
        return node.module
    parts = module.split(".") if package else module.split(".")[:-1]
    parts = parts[: len(parts) - node.level + 1]
    return ".".join(parts + ([node.module] if node.module else []))


def language_all(site):
    """The names that `tilelang.language` exports, in order."""
    site = Path(site)
    return list(Reader([site, site / "tilelang/3rdparty/tvm/python"]).value("tilelang.language", "__all__"))


if __name__ == "__main__":
    names = language_all(sys.argv[1])
    print("\n".join(names))
    print(f"{len(names)} names", file=sys.stderr)
