"""The rules of the house (DESIGN in the README's map), each as a test."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PACKAGES = ("compilescope", "autograder")
DRAWS = ("compilescope.views", "compilescope.explorer")
PRIVATE = re.compile(r"(torch|triton)(\.\w+)*\._(?!_version__)\w+")

# Layer: what of our own and of torch it may import. The first prefix that fits counts.
LAYERS = {
    "compilescope.torch_internals": {"compilescope.torch_internals", "torch", "triton", "torch._"},
    "compilescope.facts_kernels": set(),
    "compilescope.facts_reading": set(),
    "compilescope.facts_ranks": {"compilescope.facts"},
    "compilescope.facts_contract": {"compilescope.facts"},
    "compilescope.facts": {"compilescope.facts_kernels", "compilescope.facts_reading"},
    "compilescope.facts_timing": {"compilescope.facts", "compilescope.text"},
    "compilescope.facts_modes": {"compilescope.facts"},
    "compilescope.text": {
        "compilescope.facts",
        "compilescope.facts_reading",
        "compilescope.verdicts",
        "compilescope.text",
    },
    "compilescope.views": {
        "compilescope.facts",
        "compilescope.facts_timing",
        "compilescope.facts_modes",
        "compilescope.facts_contract",
        "compilescope.text",
        "compilescope.views",
        "compilescope.explorer",
        "compilescope.facts_ranks",
    },
    "compilescope.explorer": {"compilescope.facts", "compilescope.text", "compilescope.views", "compilescope.explorer"},
    "compilescope.widgets": {"compilescope", "torch"},
    "compilescope.__main__": {"compilescope", "torch"},
    "compilescope": {"compilescope", "torch", "triton", "not views"},
    "autograder": {"autograder", "compilescope", "torch", "triton"},
}


def modules():
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports_of(tree, module, is_package):
    """Absolute names of everything imported, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                parts = parts[: len(parts) - node.level + is_package]
                base = ".".join([*parts, base] if base else parts)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def layer_of(module):
    return next(allowed for prefix, allowed in LAYERS.items() if module == prefix or module.startswith(prefix + "."))


def broken_imports(module, path):
    tree = ast.parse(path.read_text())
    allowed = layer_of(module)
    for name in imports_of(tree, module, path.name == "__init__.py"):
        top = name.split(".")[0]
        if top in ("torch", "triton") and top not in allowed:
            yield f"{module} imports {name}"
        if PRIVATE.match(name) and "torch._" not in allowed:
            yield f"{module} imports the private {name}: that is the door's work, compilescope/torch_internals"
        if "not views" in allowed and module != "compilescope" and name.startswith(DRAWS):
            yield f"{module} imports {name}: facts are drawn from outside"
        if top in PACKAGES and name.count(".") and not any(name == a or name.startswith(a + ".") for a in allowed):
            yield f"{module} imports {name}"


def private_names(module, path):
    """Private torch names reached by attribute, ``torch._dynamo.reset()``, outside the door."""
    if "torch._" in layer_of(module):
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and PRIVATE.fullmatch(name := ast.unparse(node)):
            yield f"{module}:{node.lineno} uses {name}"


@pytest.mark.parametrize(("module", "path"), list(modules()), ids=lambda v: v if isinstance(v, str) else "")
def test_arrows_point_one_way_and_private_torch_has_one_door(module, path):
    assert not [*broken_imports(module, path), *private_names(module, path)]


def test_the_import_rule_catches_what_it_is_for(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("import torch\nfrom torch._dynamo import utils\nfrom autograder import check\n")
    assert len([*broken_imports("compilescope.views.bad", bad)]) >= 3
    bad.write_text("import torch\ntorch._dynamo.reset()\n")
    assert [*private_names("compilescope.observe", bad)]


def pins(lock):
    lines = (ROOT / "requirements" / lock).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_every_line_of_the_locks_is_an_exact_version():
    for lock in ("course.lock", "test.lock"):
        loose = [line for line in pins(lock) if not re.match(r"[\w.-]+(\[\w+\])?==\S+", line)]
        assert not loose, f"{lock}: {loose}; run: make lock"


def test_both_locks_and_the_constraints_agree():
    versions = {line.split(" ")[0] for line in pins("test.lock")}
    assert {line.split(" ")[0] for line in pins("course.lock")} <= versions
    course = {line.split(" ")[0] for line in pins("course.lock")}
    wanted = {line.split(" ")[0] for line in pins("constraints.txt")}
    assert wanted <= course


def test_environment_yml_takes_only_python_and_compiler_from_conda_and_the_rest_from_the_lock():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    *conda, last = environment["dependencies"]
    assert {re.split("[=<>]", name)[0] for name in conda} == {"python", "pip", "make", "cxx-compiler"}
    assert last == {"pip": ["-r requirements/course.lock", "-e ."]}


def test_every_declared_dependency_is_in_the_lock():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = {re.split("[=\\[]", line)[0].lower() for line in pins("course.lock")}
    declared = {re.split("[<>=\\[]", name)[0].lower() for name in project["dependencies"]}
    assert declared <= locked, f"run: make lock  # {declared - locked}"


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) < 150


def tracked(*patterns):
    listing = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / line for line in listing.stdout.splitlines()]


def test_no_file_of_ours_is_too_long_to_read():
    code = [p for p in tracked("*.py") if "solutions" not in p.parts]  # a lesson has budgets of its own
    long = {str(p.relative_to(ROOT)): n for p in code if (n := len(p.read_text().splitlines())) > 400}
    assert not long


def test_committed_notebooks_hold_no_outputs():
    assert not [p for p in tracked("*.ipynb") if '"output_type"' in p.read_text()]


def test_python_of_this_environment_is_supported():
    assert sys.version_info >= (3, 11)
