"""Each lesson in JupyterLab: the solved notebook from top to bottom, every picture there, whole and readable."""

import re

import nbformat
import pytest

from autograder.build import lessons, solved_notebook
from autograder.exercises import of_lesson

LESSONS = {lesson.name: lesson for lesson in lessons()}
PICTURES = ".jp-OutputArea-output :is(.cs, .cv), .jp-RenderedImage img"
BUSY = "[...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].some(e => e.textContent.includes('*'))"
LOG_LINE = re.compile(r"[WI]\d{4} \d\d:\d\d:\d\d")  # what a lesson lets torch log, and announces
CONTRAST = 4.5  # of WCAG AA

CELLS = """() => [...document.querySelectorAll(".jp-CodeCell")].map(cell => ({
  text: cell.querySelector(".cm-content").textContent,
  ran: /\\d/.test(cell.querySelector(".jp-InputPrompt").textContent),
  said: cell.querySelector(".jp-OutputArea").textContent,
  red: [...cell.querySelectorAll("[data-mime-type$='jupyter.stderr'], [data-mime-type$='jupyter.error']")]
    .map(e => e.textContent),
  questions: [...cell.querySelectorAll(".jupyter-widgets")].filter(e => e.textContent.startsWith("Predict:")).length,
}))"""

LOOK = """picture => {
  const parse = color => color.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  let behind = picture;
  const opaque = e => { const c = parse(getComputedStyle(e).backgroundColor); return c.length < 4 || c[3] > 0.9 };
  while (behind.parentElement && !opaque(behind)) behind = behind.parentElement;
  const [a, b] = [parse(getComputedStyle(behind).backgroundColor), parse(getComputedStyle(picture).color)].map(light);
  const box = picture.getBoundingClientRect(), room = picture.closest(".jp-OutputArea-child").getBoundingClientRect();
  return {
    name: (picture.querySelector("b")?.textContent || picture.tagName) + " · " + picture.className,
    width: box.width, height: box.height,
    over: box.right - room.right, hidden: picture.scrollWidth - picture.clientWidth,
    contrast: (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), dark: a < 0.2,
    broken: [picture, ...picture.querySelectorAll("img")].filter(e => e.tagName == "IMG" && !e.naturalWidth).length,
  };
}"""


def choose(page, *entries):
    """Click through JupyterLab's menu."""
    page.locator(".lm-MenuBar-itemLabel", has_text=re.compile(f"^{entries[0]}$")).click()
    for entry in entries[1:]:
        found = page.locator(".lm-Menu-itemLabel", has_text=re.compile(f"^{entry}$"))
        found.hover() if entry != entries[-1] else found.click()


def run_all(page):
    page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=60_000)
    page.wait_for_selector("text=/ipykernel.*Idle/", timeout=60_000)
    choose(page, "Run", "Run All Cells")
    page.wait_for_timeout(500)
    page.wait_for_function(f"!({BUSY})", timeout=500_000)


def looks(page, name, shot):
    """What there is of each picture, in order; a screenshot of each is kept."""
    found, pictures = [], page.locator(PICTURES)
    for number in range(pictures.count()):
        picture = pictures.nth(number)
        picture.scroll_into_view_if_needed()
        found.append(picture.evaluate(LOOK))
        shot(picture, f"{name}_picture_{number + 1:02}")
    return found


def unfit(found):
    """Names of pictures that are missing, cut off or unreadable."""
    return [
        one
        for one in found
        if one["broken"] or one["width"] < 200 or one["height"] < 30
        or one["over"] > 1 or one["hidden"] > 1 or one["contrast"] < CONTRAST
    ]  # fmt: skip


@pytest.mark.parametrize("name", LESSONS)
def test_the_solved_lesson_runs_from_top_to_bottom_and_each_picture_is_whole_and_readable(
    name, own_lab, open_page, shot
):
    folder, address = own_lab
    path = folder / name / "lesson.ipynb"
    path.parent.mkdir()
    notebook = solved_notebook(LESSONS[name])
    nbformat.write(notebook, path)
    page = open_page(address(f"{name}/lesson.ipynb"), 1400, 1000)
    run_all(page)

    cells = page.evaluate(CELLS)
    assert [red for cell in cells for red in cell["red"] if not LOG_LINE.match(red.strip())] == []
    assert [cell["text"] for cell in cells if not cell["ran"]] == []
    checks = {one.name: f'check("{one.name}")' for one in of_lesson(name)}
    passed = [check for check, text in checks.items() for cell in cells
              if cell["text"] == text and cell["said"].strip().startswith("✓") and not cell["red"]]  # fmt: skip
    assert passed == list(checks)
    asked = [cell["text"] for cell in cells if re.match(r"predict\(|.*[^\w]predict\(", cell["text"], re.S)]
    assert [cell["text"] for cell in cells if cell["text"] in asked and not cell["questions"]] == []

    light = looks(page, name, shot)
    assert len(light) >= 3
    assert unfit(light) == []
    question = page.locator(".jupyter-widgets", has_text=re.compile("^Predict:")).first
    question.locator("button").first.click()
    question.get_by_text("it ran, and the answer is").wait_for(timeout=60_000)

    choose(page, "Settings", "Theme", "JupyterLab Dark")
    page.wait_for_function("document.body.dataset.jpThemeLight == 'false'")
    page.wait_for_timeout(500)
    dark = looks(page, f"{name}_dark", shot)
    assert unfit(dark) == []
    assert all(one["dark"] for one in dark if "IMG" not in one["name"])
    assert page.asked == []
    assert page.complaints == []
