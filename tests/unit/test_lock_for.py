"""A GPU node's lock: conditions are the node's Python's, whoever gathers."""

import runpy
from pathlib import Path

import pytest

ours = runpy.run_path(str(Path(__file__).parents[1] / "gpu" / "lock_for.py"))
LOCK = """# by uv
array==1.0 ; python_full_version < '3.12'
array==2.0 ; python_full_version >= '3.12'
soup==2.10 ; python_full_version < '3.11.5'
soup==4.1 ; python_full_version >= '3.11.5'
old==1.0 ; python_version < '3.12'
torch==2.13.0

plain==3.0
""".splitlines()


@pytest.mark.parametrize(
    ("version", "wanted"),
    [
        ("3.11", ["array==1.0", "soup==2.10", "old==1.0", "plain==3.0"]),  # any 3.11: nothing that 3.11.0 refuses
        ("3.11.7", ["array==1.0", "soup==4.1", "old==1.0", "plain==3.0"]),
        ("3.12", ["array==2.0", "soup==4.1", "plain==3.0"]),
        ("3.13.1", ["array==2.0", "soup==4.1", "plain==3.0"]),
    ],
)
def test_each_version_gets_what_the_lock_has_for_it(version, wanted):
    assert list(ours["lock_for"](version, LOCK, ["torch"])) == [f"# for Python {version}", *wanted]


def test_our_lock_has_one_version_of_each_package_for_each_python():
    lock = ours["LOCK"].read_text(encoding="utf-8").splitlines()
    for version in ("3.11", "3.12", "3.13"):
        names = [line.partition("==")[0] for line in ours["lock_for"](version, lock)]
        assert len(names) > 100
        assert len(names) == len(set(names)), version
