"""Sizes, docstrings, and what a package file may hold."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from support.source_tree import ROOT, Module, modules

MAX_FILE, MAX_FUNCTION, MEDIAN_FUNCTION = 240, 60, 12
# Files that may be longer, each with its reason.
LONGER_FILES: dict[str, str] = {}
LONGER_FUNCTIONS: dict[str, str] = {}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(module: Module) -> Iterator[Function]:
    return (node for node in ast.walk(module.tree) if isinstance(node, Function))


def length(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def test_files_are_short():
    lengths = {module.place: len(module.path.read_text(encoding="utf-8").splitlines()) for module in modules()}
    long = {place: lines for place, lines in lengths.items() if lines > MAX_FILE}
    assert long.keys() == LONGER_FILES.keys(), f"split by meaning, or drop an exception that is not needed: {long}"


def test_functions_are_short():
    lengths = []
    for module in modules():
        for function in functions(module):
            lengths.append(length(function))
            where = f"{module.place}:{function.name}"
            assert length(function) <= MAX_FUNCTION or where in LONGER_FUNCTIONS, (
                f"{where} has {length(function)} lines"
            )
    assert sorted(lengths)[len(lengths) // 2] <= MEDIAN_FUNCTION


def test_modules_and_public_names_have_docstrings():
    bare = [module.place for module in modules() if not ast.get_docstring(module.tree)]
    bare += [
        f"{module.place}: {node.name}"
        for module in modules()
        for node in module.tree.body
        if isinstance(node, (ast.ClassDef, Function)) and not node.name.startswith("_") and not ast.get_docstring(node)
    ]
    assert not bare


def test_package_files_are_documentation_only():
    packages = [module for module in modules() if module.path.name == "__init__.py" and module.room]
    assert packages
    assert not [module.place for module in packages if [type(node) for node in module.tree.body] != [ast.Expr]]


def test_the_exports_are_what_all_names():
    import paradraft

    assert len(set(paradraft.__all__)) == len(paradraft.__all__)
    for name in paradraft.__all__:
        assert getattr(paradraft, name) is not None


def test_source_is_ascii():
    for module in modules():
        text = module.path.read_text(encoding="utf-8")
        odd = {character for character in text if ord(character) > 127}
        assert not odd, f"{module.place} holds {odd}"


def test_no_file_names_a_registry_host():
    hosts = [
        ".".join(parts) for parts in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("debian", "org"))
    ]
    folders = ("src", "tests", "docs", "examples", "benchmarks", ".ci")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    for path in [*files, *ROOT.glob("*.*"), ROOT / "Makefile"]:
        if path.suffix in (".pyc", ".gguf", ".safetensors") or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        assert not [host for host in hosts if host in text], path
