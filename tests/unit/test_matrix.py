"""The tables of `make matrix`, and the sentences of the lessons that they quote."""

import ast
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
import matrix
import matrix_tables as tables

ROOT = matrix.ROOT
SAID = tables.said_sentences()
CLAIMS = sorted(ROOT.glob(matrix.CLAIMS))


def words(text):
    """Without line breaks, comment signs and the marks of Markdown."""
    return " ".join(re.sub(r"[*`]|^# ?", "", text, flags=re.MULTILINE).split())


def claims_of(path):
    nodes = ast.parse(path.read_text()).body
    tests = [node.name for node in nodes if isinstance(node, ast.FunctionDef)]
    return {name.removeprefix("test_") for name in tests if name.startswith("test_row_")}


@pytest.mark.parametrize("lesson", sorted({path.stem.split("_")[3] for path in CLAIMS}))
def test_each_claim_of_a_lesson_has_the_sentence_that_would_be_false(lesson):
    claims = {claim for path in CLAIMS if path.stem.split("_")[3] == lesson for claim in claims_of(path)}
    unsaid = claims ^ SAID.get(lesson, {}).keys()
    assert not unsaid, f"tests/claims/said.toml, lesson {lesson}: add the lesson's sentence, or remove: {unsaid}"


@pytest.mark.parametrize("lesson", SAID)
def test_each_sentence_stands_in_the_lesson(lesson):
    (source,) = ROOT.glob(f"solutions/{lesson}_*/*.py")
    text = words(source.read_text())
    assert [said for said in SAID[lesson].values() if words(said) not in text] == []


FOUND = {
    "2.13.0": {
        "test_claims_lesson_01: test_row_05_the_rest_reuse[a]": "passed",
        "test_breaks: test_two_graphs": "passed",
    },
    "2.15.0": {
        "test_claims_lesson_01: test_row_05_the_rest_reuse[a]": "failed",
        "test_breaks: test_two_graphs": "failed",
    },
}


def test_a_claim_that_became_false_names_the_sentence_of_its_lesson():
    said = {"01": {"row_05_the_rest_reuse": "The rest reuse."}}
    lines = tables.syllabus_table(FOUND, said)
    assert "| 5 | the rest reuse (a) | yes | **no**: lesson 1 says: “The rest reuse.” |" in lines
    assert not any("two graphs" in line for line in lines)


def test_a_claim_whose_test_asks_for_the_version_is_marked():
    lines = tables.syllabus_table(FOUND, {}, ["test_row_05_the_rest_reuse"])
    assert any("the rest reuse (a) †" in line for line in lines)
    assert "test_row_10_in_place_compiles_nothing_on_a_built_in_module_before_2_14" in tables.tests_that_differ(CLAIMS)


def test_other_tests_have_a_table_for_each_module():
    assert tables.tests_table(FOUND)[1:] == [
        "## breaks", "", "| fact | 2.13.0 | 2.15.0 |", "|---|---|---|", "| two graphs | yes | **no** |",
    ]  # fmt: skip


def test_results_of_several_runs_make_one_table(tmp_path):
    first = {"facts": {"calls": "yes"}, "tests": {"test_a: test_x": "passed", "test_b: test_y": "failed"}}
    matrix.merged(tmp_path, "2.13.0", first)
    both = matrix.merged(tmp_path, "2.13.0", {"facts": {}, "tests": {"test_b: test_z": "passed"}})
    assert matrix.kept(tmp_path) == {"2.13.0": both}
    assert both["facts"] == {"calls": "yes"}
    assert both["tests"] == {"test_a: test_x": "passed", "test_b: test_z": "passed"}
    assert both["commits"] == dict.fromkeys(["facts_given", "test_a", "test_b"], matrix.commit())
    assert f"| a | {matrix.commit()} |" in tables.commits_table({"2.13.0": both["commits"]})
