"""What depyf makes of Dynamo's bytecode on this pair of Python and torch, as JSON for `bytecode_pairs.py`.

For each program: its code before Dynamo, the code that Dynamo wrote, and the functions that resume after breaks.
``yes``: depyf writes Python, and that Python computes the same numbers when it runs in place of the bytecode.
"""

import ast
import contextlib
import io
import json
import logging
import re
import sys
import tempfile
import types
from pathlib import Path

import torch

from compilescope import bytecode
from compilescope.torch_internals import entries, functions

X = torch.linspace(-1, 1, 8)
SCALE = 2.0


def straight(x):
    y = torch.sin(x)
    return (y * SCALE).relu()


def print_between(x):
    y = torch.sin(x)
    print(end="")
    return y + 1


def branch_on_a_tensor(x):
    y = x * 2
    if y.sum() > 1:
        return y + 1
    return y - 1


def several_results(x):
    a, b = x.chunk(2)
    return [a.sin(), {"b": b.cos()}]


def list_of_layers(x):
    return sum([torch.sin(x * n) for n in range(3)])


def callee_with_a_break(x):
    return print_between(x) * 2


def with_no_grad(x):
    with torch.no_grad():
        y = x.sin()
    return y * 2


def break_in_a_try(x):
    try:
        y = print_between(x)
    except ValueError:
        y = x
    return y + 1


def break_in_a_loop(x):
    for _ in range(2):
        x = x.sin()
        print(end="")
    return x


PROGRAMS = (
    straight, several_results, list_of_layers, with_no_grad, print_between, branch_on_a_tensor, callee_with_a_break,
    break_in_a_try, break_in_a_loop,
)  # fmt: skip


def flat(value):
    """The tensors in a result, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [one for each in values for one in flat(each)]


def same(one, other):
    one, other = flat(one), flat(other)
    return len(one) == len(other) and all(torch.allclose(a, b) for a, b in zip(one, other, strict=True))


def decompiled(code):
    """Text of depyf, and why there is none."""
    import depyf

    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            text = str(depyf.decompile(code))
    except Exception as error:
        words = re.findall(r"\b[A-Z][A-Z]+(?:_[A-Z]+)*\b", str(error))
        return None, words[0] if words else type(error).__name__
    try:
        ast.parse(text)
    except SyntaxError:
        return None, "it is no Python"
    return text, ""


def read(code):
    text, why = decompiled(code)
    return "yes" if text else f"no: {why}"


def run_in_its_place(fn, code):
    """``yes`` if depyf's Python for `code`, run with the names that `fn` has, computes what `fn` computes."""
    text, why = decompiled(code)
    if text is None:
        return f"no: {why}"
    names = dict(fn.__globals__)
    try:
        exec(text, names)
        made = names[re.search(r"def (\w+)", text)[1]]
        got = types.FunctionType(made.__code__, fn.__globals__)(X.clone())
    except Exception as error:
        return f"wrong: raises {type(error).__name__}"
    return "yes" if same(got, fn(X.clone())) else "wrong: other numbers"


def worst(answers):
    order = [one for start in ("wrong", "no") for one in answers if one.startswith(start)]
    return order[0] if order else "yes"


def given(fn):
    """Part of the code to what depyf makes of it, and whether `bytecode` has something to show."""
    torch.compiler.reset()
    compiled = torch.compile(fn, backend="eager")
    compiled(X)
    code, names = functions.code_of(compiled)
    found = {"before": run_in_its_place(fn, code)}
    new = [entry.code for entry in entries.entries(code)]
    resumes = [names[one] for one in dict.fromkeys(n for c in new for n in c.co_names) if one.startswith("__resume_at")]
    if new:
        found["after"] = worst([run_in_its_place(fn, one) for one in new])
        shown = bytecode(compiled)
        found["bytecode()"] = "yes" if "the compiled graph" in shown else "**no**"
        if resumes:
            found["resumed"] = worst([read(one.__code__) for one in resumes])
            found["bytecode()"] = "yes" if "goes on after the graph break" in shown else "**no**"
    return found


def debugged():
    """Whether ``depyf.prepare_debug`` gets through a compile with a graph break, and writes its sources."""
    import depyf

    torch.compiler.reset()
    with tempfile.TemporaryDirectory() as folder:
        try:
            with contextlib.redirect_stdout(io.StringIO()), depyf.prepare_debug(folder):
                torch.compile(print_between, backend="eager")(X)
        except Exception as error:
            return f"no: {type(error).__name__}"
        files = list(Path(folder).rglob("*.py"))
    return "yes" if files else "no: nothing written"


def main():
    logging.disable(logging.CRITICAL)
    try:
        import depyf  # noqa: F401
    except Exception as error:
        print(json.dumps({"depyf": {"import": f"no: {type(error).__name__}"}}))
        return
    found = {"depyf": {"import": "yes", "prepare_debug": debugged()}}
    for fn in PROGRAMS:
        found[fn.__name__] = given(fn)
    print(json.dumps(found))


if __name__ == "__main__":
    sys.exit(main())
