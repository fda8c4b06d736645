"""What Dynamo did to a function's bytecode, readable: Python again where depyf can, else a marked disassembly."""

from __future__ import annotations

import ast
import contextlib
import dis
import io
import logging
import re
from collections.abc import Callable
from types import CodeType
from typing import Any

from compilescope.facts import Compile
from compilescope.reading.disassembly import marked
from compilescope.torch_internals import entries, functions

_GRAPH = re.compile(r"__compiled_fn_\d+\w*")
_RESUME = re.compile(r"__resume_at_\d+_\d+")
_PLUMBING = re.compile(r"record_pregraph_bytecode|__is_tracing_resume_prologue")


def bytecode(what: Callable[..., Any] | Compile) -> str:
    """The code of a function before and after Dynamo, with marks where it calls a compiled graph or a resume function.

    `what` is a compiled function or module after a call: the text goes on through the functions that resume after
    graph breaks. Or it is a `Compile` of a run: one frame, always as a disassembly, for the code itself is not kept.
    ValueError with a sentence if there is nothing to show.
    """
    if isinstance(what, Compile):
        if not what.bytecode_after:
            raise ValueError(f"{what.function or 'This frame'} has no new bytecode: Dynamo did not compile it.")
        before, after = marked(what.bytecode_before, ""), marked(what.bytecode_after, what.compile_id, new=True)
        title = f"# {what.function}, after Dynamo, entry {what.compile_id}"
        return f"# {what.function}, before Dynamo\n{before}\n\n{title}\n{after}"
    return "\n\n".join(_of_function(what))


def _of_function(fn: Callable[..., Any]) -> list[str]:
    code, module_globals = functions.code_of(fn)
    name = functions.readable_name(fn)
    if code is None:
        raise ValueError(f"{name} has no Python code of its own.")
    found = entries.entries(code)
    if not found:
        raise ValueError(f"{name} has no compiled code: call torch.compile({name}) once, then ask.")
    parts = [f"# {name}, before Dynamo\n{_readable(code, '', {})}"]
    waiting, shown = [(name, entry) for entry in found], {code}
    while waiting:
        name, entry = waiting.pop(0)
        new, compile_id = entry.code, str(entry.compile_id)
        resumes = {one: module_globals[one] for one in new.co_names if _RESUME.match(one) and one in module_globals}
        names = {one: resume.__code__.co_name for one, resume in resumes.items()}
        parts.append(f"# {name}, after Dynamo, entry {compile_id}\n{_readable(new, compile_id, names)}")
        for resume in resumes.values():
            if resume.__code__ not in shown:
                shown.add(resume.__code__)
                waiting.extend((resume.__code__.co_name, one) for one in entries.entries(resume.__code__))
    return parts


def _readable(code: CodeType, compile_id: str, names: dict[str, str]) -> str:
    """Python through depyf, where it works; else the disassembly."""
    python = _decompiled(code)
    if python is not None:
        return _named(_without_plumbing(python), compile_id, names)
    return marked(dis.Bytecode(code).dis(), compile_id, names, new=bool(compile_id))


def _decompiled(code: CodeType) -> str | None:
    """Python from depyf for this code; None where it is not installed, fails, or writes what is no Python.

    depyf 0.20.0 on torch 2.11 to 2.15 (tests/bytecode.md): on Python 3.11 and 3.12 all but a branch on a tensor (SWAP)
    and, on 3.12, ``try`` and comprehensions; on Python 3.13 next to nothing.
    """
    try:
        with contextlib.redirect_stdout(io.StringIO()), _quiet_logging():
            import depyf

            text = str(depyf.decompile(code))
        ast.parse(text)
    except Exception:  # DecompilationError, or whatever a decompiler meets in bytecode it does not know
        return None
    return text


@contextlib.contextmanager
def _quiet_logging() -> Any:
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _without_plumbing(python: str) -> str:
    """Without Dynamo's own bookkeeping, and without expressions that are computed for nothing."""
    tree = ast.parse(python)
    useless: set[int] = set()
    for statement in ast.walk(tree):
        if not isinstance(statement, ast.Expr | ast.Assign):
            continue
        text = ast.unparse(statement)
        for_nothing = isinstance(statement, ast.Expr) and not any(isinstance(p, ast.Call) for p in ast.walk(statement))
        documentation = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if _PLUMBING.search(text) or (for_nothing and not documentation):
            useless.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    return "\n".join(line for number, line in enumerate(python.strip().splitlines(), 1) if number not in useless)


def _named(python: str, compile_id: str, names: dict[str, str]) -> str:
    lines = []
    for line in python.splitlines():
        mark = ""
        if _GRAPH.search(line):
            line, mark = _GRAPH.sub(f"graph_{compile_id.replace('/', '_')}", line), "  # the compiled graph"
        for one, shown in names.items():
            if one in line:
                line, mark = line.replace(one, shown), "  # goes on after the graph break"
        lines.append(line + mark)
    return "\n".join(lines)
