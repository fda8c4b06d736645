"""``python tests/gpu/table.py REPORT.json…``: what the GPU tests found, as Markdown tables."""

import json
import sys
from pathlib import Path


def table(reports: list[dict]) -> str:
    rows = [row for report in reports for row in report["rows"]]
    torch = ", ".join(sorted({report["torch"] for report in reports}))
    return "\n".join(
        [
            *_sources(rows, torch),
            *_lessons(rows),
            *_machine_code(rows),
            *_kernels(rows),
            *_placements(rows),
            *_clocks(rows, torch),
        ]
    )


def _sources(rows: list[dict], torch: str) -> list[str]:
    rows = [row for row in rows if "difference" in row]
    if not rows:
        return []
    same = [row for row in rows if not row["difference"]]
    lines = [
        f"{len(same)} of {len(rows)} functions: pretended and real source are equal (torch {torch}, "
        f"{rows[0]['gpu']}, {sum(row['kernels'] for row in rows)} kernels).",
        "",
        "| function | kernels | difference | explained |",
        "|---|---|---|---|",
    ]
    for row in rows:
        if row["difference"]:
            cell = "<br>".join(line.replace("|", "\\|")[:300] for line in row["difference"][2:12])
            lines.append(f"| {row['case']} | {row['kernels']} | {cell} | {row['explained']} |")
    return lines


def _lessons(rows: list[dict]) -> list[str]:
    lines = []
    for row in rows:
        if "lesson" in row:
            cases = [one for one in rows if one.get("case", "").startswith(f"{row['lesson']}/")]
            same = sum(not one["difference"] for one in cases)
            exercises = ", ".join(f"{name} {count}" for name, count in row["exercises"].items())
            problems = "; ".join(row["problems"]).replace("|", "\\|").replace("\n", " ")
            lines.append(f"| {row['lesson']} | {same} of {len(cases)} | {exercises} | {problems} |")
    head = [
        "",
        "| lesson | different graphs, equal | graphs of each exercise's check | cells and checks that failed |",
        "|---|---|---|---|",
    ]
    return [*head, *lines] if lines else []


def _machine_code(rows: list[dict]) -> list[str]:
    rows = [row for row in rows if "assembled" in row]
    head = ["", "| function | kernel | real registers, shared bytes | assembled |", "|---|---|---|---|"]
    lines = [f"| {row['case']} | {row['kernel']} | {row['real']} | {row['assembled']} |" for row in rows]
    return [*head, *lines] if lines else []


def _kernels(rows: list[dict]) -> list[str]:
    rows = [row for row in rows if "kernel of a learner" in row]
    head = ["", "| kernel of a learner | on the GPU | in the interpreter |", "|---|---|---|"]
    lines = [
        f"| {row['kernel of a learner']} | {', '.join(row['there']) or 'right'} | {', '.join(row['here']) or 'right'} |"
        for row in rows
    ]
    return [*head, *lines] if lines else []


def _placements(rows: list[dict]) -> list[str]:
    rows = [row for row in rows if "placement" in row]
    names = list(dict.fromkeys(row["placement"] for row in rows))
    head = ["", "| placement on two ranks | graphs, pieces, breaks | off from one process |", "|---|---|---|"]
    lines = []
    for name in names:
        ways = [row for row in rows if row["placement"] == name]
        made = dict.fromkeys("{graphs}, {pieces}, {breaks}".format(**row) for row in ways)
        off = ", ".join(f"{row['off']:.0e} over {row['backend']}" for row in ways)
        lines.append(f"| {name} | {'; '.join(made)} | {off} |")
    return [*head, *lines] if lines else []


def _clocks(rows: list[dict], torch: str) -> list[str]:
    said = [f"| {row.get('exercise', row['test'])} | {row['sentence']} |" for row in rows if "sentence" in row]
    head = ["", f"| measured on the GPU itself, torch {torch} | what it came to |", "|---|---|"]
    return [*head, *said] if said else []


if __name__ == "__main__":
    paths = [path for path in map(Path, sys.argv[1:]) if path.exists()]
    reports = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    print(table(reports) if reports else "The tests wrote no report.")
