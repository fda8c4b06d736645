"""``python tests/gpu/table.py gpu_report.json``: the report as a Markdown table."""

import json
import sys
from pathlib import Path


def table(report: dict) -> str:
    rows = [row for row in report["rows"] if "difference" in row]
    same = [row for row in rows if not row["difference"]]
    lines = [
        f"{len(same)} of {len(rows)} functions: pretended and real source are equal (torch {report['torch']}, "
        f"{rows[0]['gpu'] if rows else '?'}, {sum(row['kernels'] for row in rows)} kernels).",
        "",
        "| function | kernels | difference | explained |",
        "|---|---|---|---|",
    ]
    for row in rows:
        if row["difference"]:
            cell = "<br>".join(line.replace("|", "\\|")[:300] for line in row["difference"][2:12])
            lines.append(f"| {row['case']} | {row['kernels']} | {cell} | {row['explained']} |")
    machine = [row for row in report["rows"] if "assembled" in row]
    if machine:
        lines += ["", "| function | kernel | real registers, shared bytes | assembled |", "|---|---|---|---|"]
        lines += [f"| {row['case']} | {row['kernel']} | {row['real']} | {row['assembled']} |" for row in machine]
    return "\n".join(lines)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    print(table(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else "The tests wrote no report.")
