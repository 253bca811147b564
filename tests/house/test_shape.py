"""The shape of the code: functions a person can hold in mind, and one meaning for every dotted name."""

from __future__ import annotations

import ast
import graphlib
import importlib
import inspect
import io
import pkgutil
import re
import textwrap
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import privfunnel

PACKAGE = Path(privfunnel.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))

MOST_LINES = 60
MOST_PARAMETERS = 10
MOST_PARAMETERS_COMPILED = 8

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST) -> Iterator[Function]:
    """Every function of a module, those inside classes and functions included."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def code_lines(node: Function, source: list[str]) -> int:
    """Lines with code in the body: no signature, no docstring, no comment, no blank line."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    if not body:
        return 0
    begin = min([body[0].lineno, *(d.lineno for d in getattr(body[0], "decorator_list", []))])
    text = "\n".join(source[begin - 1 : node.end_lineno]) + "\n"
    quiet = {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
    }  # fmt: skip
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(textwrap.dedent(text)).readline):
        if token.type not in quiet:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines)


def parameters(node: Function) -> int:
    """Parameters that a caller can give, ``self`` and ``cls`` not counted."""
    given = node.args
    names = [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return (
        len([name for name in names if name not in {"self", "cls"}]) + bool(given.vararg) + bool(given.kwarg)
    )


def decorators(node: Function) -> str:
    return " ".join(ast.unparse(decorator) for decorator in node.decorator_list)


def is_compiled(node: Function) -> bool:
    return any(word in decorators(node) for word in ("jit", "compiled"))


def may_have_many(path: Path, node: Function) -> bool:
    """Commands of the command line, constructors, the two front doors, whose parameters are what can be asked for, and
    the fused kernel of a GPU, whose parameters are its registers.
    """
    return (
        "command" in decorators(node).replace("_command", "")
        or "click." in decorators(node)
        or node.name in {"__init__", "__new__"}
        or (path.name, node.name) in {("point.py", "solve"), ("tracing.py", "trace")}
        or path.name == "kernel_fused.py"
    )


@cache
def parsed() -> list[tuple[Path, list[str], list[Function]]]:
    """Every module: where it is, its lines and its functions."""
    texts = [(path, path.read_text("utf-8")) for path in SOURCES]
    return [(path, text.splitlines(), list(functions(ast.parse(text)))) for path, text in texts]


@cache
def trees() -> list[tuple[Path, ast.Module]]:
    """Every module, parsed."""
    return [(path, ast.parse("\n".join(lines))) for path, lines, _ in parsed()]


def offenders(check) -> list[str]:  # type: ignore[no-untyped-def]
    found = []
    for path, lines, nodes in parsed():
        for node in nodes:
            if (trouble := check(path, node, lines)) is not None:
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name}: {trouble}")
    return found


def test_the_measures_measure() -> None:
    source = '''
def f(self, a, *rest, b=1, **options):
    """A docstring
    of two lines."""

    # a comment
    x = (1,
         2)
    return x
'''
    (node,) = functions(ast.parse(source))
    assert code_lines(node, source.splitlines()) == 3
    assert parameters(node) == 4


def test_no_function_is_too_long() -> None:
    def check(path: Path, node: Function, lines: list[str]) -> str | None:
        length = code_lines(node, lines)
        return f"{length} lines of code" if length > MOST_LINES else None

    assert offenders(check) == []


def test_no_function_has_too_many_parameters() -> None:
    def check(path: Path, node: Function, lines: list[str]) -> str | None:
        count = parameters(node)
        return f"{count} parameters" if count > MOST_PARAMETERS and not may_have_many(path, node) else None

    assert offenders(check) == []


def test_no_compiled_function_has_too_many_parameters() -> None:
    def check(path: Path, node: Function, lines: list[str]) -> str | None:
        count = parameters(node)
        many = count > MOST_PARAMETERS_COMPILED and is_compiled(node) and path.name != "kernel_fused.py"
        return f"{count} parameters" if many else None

    assert offenders(check) == []


def module_names() -> list[str]:
    walked = pkgutil.walk_packages([str(PACKAGE)], "privfunnel.", onerror=lambda name: None)
    return [info.name for info in walked if not info.name.endswith("__main__")]


@pytest.mark.parametrize("name", module_names())
def test_a_dotted_name_means_one_thing(name: str) -> None:
    """Nothing but the module itself answers to its name in the package above it."""
    try:
        module = importlib.import_module(name)
    except ImportError as error:  # an optional dependency that is not here
        pytest.skip(f"cannot be imported here: {error}")
    parent, _, last = name.rpartition(".")
    seen = getattr(importlib.import_module(parent), last)
    assert isinstance(seen, ModuleType)
    assert seen is module
    assert not inspect.isfunction(seen)


def test_no_algorithm_hides_behind_an_underscore() -> None:
    every = [path for path in SOURCES if "algorithms" in path.relative_to(PACKAGE).parts]
    assert len(every) > 100
    assert [path for path in every if path.name.startswith("_") and path.name != "__init__.py"] == []


def test_the_root_holds_four_modules() -> None:
    """Everything else is on one of the floors that import-linter knows."""
    assert {path.name for path in PACKAGE.glob("*.py")} == {
        "__init__.py",
        "__main__.py",
        "_version.py",
        "errors.py",
    }


def test_no_file_of_a_floor_asks_which_variant_it_has() -> None:
    """Only the model, the certificates and the front door know kinds of questions, answers and proofs."""
    variants = re.compile(
        r"(Certificate|Solution|Answer|Guarded|TaskFunnel|ClassChannel|Guarantee|Diversity)$"
    )
    found = []
    for path, tree in trees():
        if path.relative_to(PACKAGE).parts[0] in {"model", "certificate", "solving"}:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                kinds = [ast.unparse(kind).rpartition(".")[2] for kind in ast.walk(node.args[1])
                         if isinstance(kind, ast.Name | ast.Attribute)]  # fmt: skip
                found += [
                    f"{path.relative_to(PACKAGE)}:{node.lineno} {kind}"
                    for kind in kinds
                    if variants.search(kind)
                ]
    assert found == []


def test_one_place_decides_the_status_of_a_solution() -> None:
    calls = [
        path.relative_to(PACKAGE).as_posix()
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "final_status"
    ]
    assert calls == ["solving/judging.py"]


def test_no_modules_import_each_other_in_a_circle() -> None:
    """At their tops: what is imported inside functions is for what is rarely needed."""
    names = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in SOURCES
    }
    uses: dict[str, set[str]] = {name: set() for name in names}
    for name, path in names.items():
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.module:
                inside = {f"{node.module}.{alias.name}" for alias in node.names}
                uses[name] |= (inside & names.keys()) or ({node.module} & names.keys())
    order = graphlib.TopologicalSorter({name: found - {name} for name, found in uses.items()})
    order.prepare()  # raises CycleError


def test_time_is_divided_in_plans() -> None:
    """A share of the time limit, or seconds for a unit of work, is a field of an algorithm's plan."""
    others = {
        "GPU_MEMORY_SHARE",
        "ENTRY_SECONDS",
    }  # of memory; of any channel, in the pool of several algorithms
    found = [
        f"{path.relative_to(PACKAGE)}: {name.id}"
        for path in SOURCES
        if {"algorithms", "solving"} & set(path.relative_to(PACKAGE).parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign)
        for name in ast.walk(node.targets[0])
        if isinstance(name, ast.Name) and {"SHARE", "SHARES", "SECONDS"} & set(name.id.split("_"))
        if name.id not in others
    ]
    assert not found


def test_the_smallest_number_has_one_home() -> None:
    homes = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.Constant)
        and node.value.value == 1e-300
    ]
    assert len(homes) <= 1, homes
