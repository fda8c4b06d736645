"""What a student reads: the sentence, the picture of their own graph beside the wanted facts, hints; nothing else."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from urllib.parse import unquote
from xml.etree import ElementTree

import nbformat
import pytest
from nbformat.v4 import new_output
from playwright.sync_api import sync_playwright

from autograder.exercises import find
from autograder.grading import feedback, picture
from classroom import LESSON
from compilescope.facts import Compile, Graph, GraphBreak, Node, Origin, Run, Source
from graded import grade

ATTACK = '<script>document.title="owned"</script><img src=x onerror="document.title=1">"\'&'
ORIGIN = Origin("live", "CPU", "2.13.0")


def run_of(nodes=3, name="relu", compiles=1, breaks=(), sources=None, text="def f(): ..."):
    """A Run with `compiles` graphs of `nodes` operations in a row, all called `name`."""
    calls = [Node(f"n{i}", "call", name, (f"n{i - 1}",) if i else (), "float32", (2,)) for i in range(nodes)]
    graphs = [Graph("dynamo", f"{i}/0", tuple(calls), text) for i in range(compiles)]
    made = tuple(Compile(f"{i}/0", name, "cell 1", 1, graphs=(graph,)) for i, graph in enumerate(graphs))
    return Run(ORIGIN, compiles=made, breaks=tuple(breaks), sources=sources or {})


def broken(gb="GB0059"):
    where = Source("cell 1", 2, "print(x)", "f")
    return GraphBreak("0/0", gb, "a print", source=where, before="0/0")


def test_the_facts_of_the_answer_stand_beside_those_of_a_right_one():
    wanted = picture.facts_of(run_of())
    page = picture.picture_of({"run": run_of(compiles=2, breaks=[broken()])}, {"run": wanted})
    assert "<td" in page
    cells = [cell.split("<")[0] for cell in page.replace("&lt;", "‹").split("'>")[1:]]
    assert cells[cells.index("graphs") : cells.index("graphs") + 4] == ["graphs", "2", "1", "≠"]
    assert cells[cells.index("graph breaks") + 1] == "1 (GB0059)"
    assert 'src="data:image/svg+xml,' in page


def test_of_several_calls_the_first_that_differs_from_a_right_answer_is_drawn():
    good, bad = run_of(), run_of(nodes=5)
    wanted = {f"cases.{i}.run": picture.facts_of(good) for i in range(3)}
    page = picture.picture_of({"cases": [{"run": good}, {"run": bad}, {"run": bad}]}, wanted)
    assert "Your answer, call 2 of 3" in page


def test_where_no_run_crossed_there_is_no_picture():
    assert picture.picture_of({"values": [1.0, {"more": "text"}]}, {}) == ""
    assert picture.picture_of(None, {}) == ""


@pytest.mark.parametrize(
    "run",
    [
        run_of(name=ATTACK),
        run_of(breaks=[broken(ATTACK)]),
        run_of(sources={"cell 1": ATTACK * 5}),
        run_of(sources={ATTACK: "x"}),
        dataclasses.replace(run_of(), origin=Origin("live", ATTACK, ATTACK)),
    ],
)
def test_no_text_of_the_students_process_becomes_markup(run):
    page = picture.picture_of({"run": run}, {})
    tags, image = markup_of(page)
    assert tags <= {
        ("table", "style"),
        ("tr", ""),
        ("th", "style"),
        ("td", "style"),
        ("p", ""),
        ("img", "alt src style"),
    }
    drawn = {element.tag.partition("}")[2] for element in ElementTree.fromstring(image).iter()}
    assert drawn <= {"svg", "style", "rect", "text", "g", "path", "circle"}


def markup_of(page):
    """Each kind of tag with its attributes, and the SVG of the image."""
    seen, images = set(), []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            seen.add((tag, " ".join(sorted(name for name, _ in attrs))))
            images.extend(value for name, value in attrs if name == "src")

    Reader().feed(page)
    (image,) = images
    return seen, unquote(image.removeprefix("data:image/svg+xml,"))


@pytest.mark.parametrize(
    "run",
    [
        run_of(nodes=50_000),
        run_of(compiles=2_000),
        run_of(name="x" * 1_000_000),
        run_of(sources={"cell 1": "x = 1\n" * 500_000}),
        run_of(breaks=[broken("x" * 100_000)] * 500),
        dataclasses.replace(run_of(), compiles=(Compile("0/0", graphs=(Graph("dynamo", "0/0", (None, 3)),)),)),
    ],
    ids=["nodes", "compiles", "name", "source", "breaks", "nonsense"],
)
@pytest.mark.timeout(20)
def test_facts_too_large_to_draw_cost_no_time_and_no_room(run):
    page = picture.picture_of({"run": run}, {"run": picture.facts_of(run_of())})
    assert 0 < len(page) < picture.LARGEST + 5_000


def test_a_submission_cannot_put_scripts_pictures_or_links_to_scripts_into_a_page():
    safe = feedback.safe_markdown(f'{ATTACK}\n\n[a](javascript:alert(1)) <a href="https://example.org">b</a> `a < b`')
    assert "<script" not in safe
    assert "<img src=" not in safe.replace("<img alt", "<img")
    assert "javascript:" not in safe
    assert "<code>a &lt; b</code>" in safe
    assert 'href="https://example.org"' in safe
    outputs = [new_output("display_data", data={"text/html": ATTACK, "image/svg+xml": ATTACK, "text/plain": "7"})]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x", outputs=outputs)])
    cleaned, _ = feedback.SafeOutputs().preprocess(book, {})
    assert cleaned.cells[0].outputs[0].data == {"text/plain": "7"}


@pytest.fixture(scope="module")
def page(classroom):
    """The feedback of a student whose first two answers are wrong."""
    grade(classroom, {"ann": ["basic_3"]})
    classroom.nbgrader("generate_feedback", LESSON)
    return classroom.feedback("ann")


def test_nbgraders_feedback_holds_sentence_picture_and_hints_of_what_failed(page):
    at = page.index("basic_1 made 2 graphs; 1 is wanted. Look at line 2.")
    below = page[at : page.index("basic_2 made 2 graphs")]
    assert "What your answer compiled" in below
    assert 'src="data:image/svg+xml,' in below
    assert feedback.html.escape(find("basic_1").hints[0]) in below
    assert page.count("What your answer compiled") == 1
    assert feedback.html.escape(find("basic_3").hints[0]) not in page


def test_feedback_is_one_file_that_asks_nobody_and_runs_nothing(page, open_page_of):
    assert len(page.encode()) < feedback.LARGEST_PAGE
    assert "<script" not in page
    assert "cdnjs" not in page
    asked, title, width = open_page_of(page)
    assert asked == []
    assert title == "basic_compile"
    assert width > 100


def opened_in(chromium, page):
    """What a page asked the network for, its title, and the width of its first drawn picture."""
    asked = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--headless", "--no-sandbox"])
        tab = browser.new_page()
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(page.as_uri())
        width = tab.evaluate("document.querySelector('.course-feedback img').naturalWidth")
        title = tab.title()
        browser.close()
    return [url for url in asked if not url.startswith(("file:", "data:"))], title, width


@pytest.fixture
def open_page_of(tmp_path, chromium):
    """Opens HTML in Chromium, as `opened_in` does."""

    def opened(text):
        page = tmp_path / "page.html"
        page.write_text(text)
        with ThreadPoolExecutor(1) as thread:  # this process may have Playwright's loop running for other tests
            return thread.submit(opened_in, chromium, page).result()

    return opened


def test_a_sandbox_in_which_a_right_answer_gives_no_values_grades_nobody(tmp_path, monkeypatch):
    """Else a broken machine would give every student 0 points, and say that their code ended the process."""
    from types import SimpleNamespace

    from autograder.grading import warm
    from autograder.sandbox.limits import Limits
    from autograder.sandbox.required import SandboxError

    class NoBubble:
        def __init__(self, *_, **__):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(warm, "Bubble", NoBubble)
    monkeypatch.setattr(warm, "right_answers", lambda _, questions, *__: [(one, {}, None) for one in questions])
    question = SimpleNamespace(exercise=find("basic_1"))
    with pytest.raises(SandboxError, match="A right answer of ours to basic_1 gives no values"):
        warm.ready_cache(tmp_path / "grading" / "cache", [question], Limits())
