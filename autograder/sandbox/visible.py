"""What a sandbox may see of this package: probes, and what they need, without answers and expected values."""

from __future__ import annotations

import ast
import importlib.util
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from autograder.exercise import Exercise

PACKAGE = Path(__file__).parents[1]
_SANDBOX = ("__init__", "zygote", "inside", "kernel_inside", "laps", "namespaces", "limits")
ALWAYS = ("wire", "exercise", "judge", "judging", "quiet", "errors", "texts", *(f"sandbox.{name}" for name in _SANDBOX))
"""Modules of this package that a sandbox sees whole, with those that they import; none of them holds an answer."""

LEARNERS_PACKAGE = '''"""What a lesson calls while it is graded: checks are judged outside, after the cells have run."""


def check(name, namespace=None):
    print(f"{name} is judged by the grader.")


def hint(name):
    pass


def doctor():
    pass


def predict(question, choices, compute):
    print(question)


def progress(folder=None):
    pass
'''


class NotSeparableError(ValueError):
    """A probe that is no function at the top of its module; the message names it."""


def write_library(folder: Path, exercises: Iterable[Exercise]) -> None:
    """Write the package ``autograder`` as a sandbox sees it into `folder`."""
    package = folder / "autograder"
    for name in whole_modules():
        _copy(PACKAGE / f"{name.replace('.', '/')}.py", package / f"{name.replace('.', '/')}.py")
    for shipped in PACKAGE.glob("*.txt"):
        _copy(shipped, package / shipped.name)
    (package / "__init__.py").write_text(LEARNERS_PACKAGE)
    wanted: dict[str, set[str]] = {}
    for exercise in exercises:
        module, name = probe_of(exercise)
        wanted.setdefault(module, set()).add(name)
        if exercise.bonus:
            prepare = exercise.bonus.prepare
            wanted.setdefault(prepare.__module__, set()).add(prepare.__name__)
    for module, text in sorted(visible_modules(wanted).items()):
        path = package.joinpath(*module.split(".")[1:]).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        for above in path.parents:
            if above == package.parent:
                break
            if not (above / "__init__.py").exists():
                (above / "__init__.py").write_text("")
        path.write_text(text)


def whole_modules() -> set[str]:
    """`ALWAYS`, and what these import of this package; never an exercise."""
    left, done = set(ALWAYS), set[str]()
    while left:
        name = left.pop()
        done.add(name)
        used = {other.removeprefix("autograder.") for other, _ in ours(source_of(f"autograder.{name}"))}
        left |= {other for other in used - done if not other.startswith("exercises")}
    return done


def probe_of(exercise: Exercise) -> tuple[str, str]:
    """Module and name of the exercise's probe. Raises NotSeparableError if it is no function at a module's top."""
    probe = getattr(exercise.check, "probe", None)
    name = getattr(probe, "__qualname__", "")
    if not name.isidentifier():
        raise NotSeparableError(f"The probe of {exercise.name} must be a function at the top of its module.")
    return str(getattr(probe, "__module__", "")), name


def visible_modules(wanted: dict[str, set[str]]) -> dict[str, str]:
    """Module to the text of what is visible of it: the wanted names, and, in other modules too, what these need."""
    done: dict[str, set[str]] = {}
    texts: dict[str, str] = {}
    left = {module: set(names) for module, names in wanted.items()}
    while left:
        module, names = left.popitem()
        if names <= done.get(module, set()):
            continue
        done[module] = done.get(module, set()) | names
        source = source_of(module)
        secret = module.startswith("autograder.exercises.")
        texts[module] = visible_part(source, done[module]) if secret else source
        for other, more in ours(texts[module]):
            if other.removeprefix("autograder.") not in ALWAYS:
                left[other] = left.get(other, set()) | more
    return texts


def source_of(module: str) -> str:
    """The text of a module. Raises NotSeparableError if there is none."""
    path = file_of(module)
    if path is None:
        raise NotSeparableError(f"There is no module {module}.")
    return path.read_text(encoding="utf-8")


def file_of(module: str) -> Path | None:
    """Where a module's source lies; of this package found without importing anything, torch least of all."""
    first, *inner = module.split(".")
    if first != PACKAGE.name:
        spec = importlib.util.find_spec(module)
        return Path(spec.origin) if spec and spec.origin else None
    path = PACKAGE.joinpath(*inner)
    return next((one for one in (path.with_name(f"{path.name}.py"), path / "__init__.py") if one.is_file()), None)


def ours(text: str) -> Iterator[tuple[str, set[str]]]:
    """Modules of this package that a text imports, with the names it takes from them."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE.name:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if file_of(inner):
                    yield inner, {"*"}
                elif node.module != PACKAGE.name:
                    yield str(node.module), {alias.name}


def visible_part(source: str, names: set[str]) -> str:
    """The statements at the top of `source` that define `names`, and all that these use; imports as far as used.

    With ``"*"`` among the names everything but exercises themselves.
    """
    statements = ast.parse(source).body
    needed = set(names)
    if "*" in needed:
        for statement in statements:
            if not _mentions_exercise(statement):
                needed |= binds(statement)
    kept: set[int] = set()
    grown = True
    while grown:
        grown = False
        for place, statement in enumerate(statements):
            if place not in kept and (binds(statement) & needed) and not isinstance(statement, ast.Expr):
                kept.add(place)
                needed |= uses(statement)
                grown = True
    lines = [ast.unparse(_pruned(statements[place], needed)) for place in sorted(kept)]
    return "\n\n".join(["from __future__ import annotations", *lines]) + "\n"


def _mentions_exercise(statement: ast.stmt) -> bool:
    return bool({"Exercise", "KnownMistake", "EXERCISE", "EXERCISES"} & uses(statement))


def _pruned(statement: ast.stmt, needed: set[str]) -> ast.stmt:
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        statement.names = [name for name in statement.names if _bound(name) in needed]
    return statement


def _bound(alias: ast.alias) -> str:
    return (alias.asname or alias.name).split(".")[0]


def binds(statement: ast.stmt) -> set[str]:
    """Names that a statement defines, or changes: ``x``, ``x.y = …``, ``x[0] = …``."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {_bound(name) for name in statement.names} - {"annotations"}
    found = set()
    for node in ast.walk(statement):
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            root: ast.AST = node
            while isinstance(root, (ast.Attribute, ast.Subscript)):
                root = root.value
            if isinstance(root, ast.Name):
                found.add(root.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {_bound(name) for name in node.names}
    return found


def uses(statement: ast.stmt) -> set[str]:
    """Names that a statement mentions."""
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
