"""Write the golden traces anew: ``python tests/unit/traces/record.py`` with the torch whose trace you want.

Each program runs under TORCH_TRACE; its trace is then made small and free of this machine: whole records that no
fact is read from are left out, paths and process numbers are replaced, and torch's signature of each text is set anew.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from compilescope.reading.build import GRAPH_RECORDS, record_name
from compilescope.reading.trace_file import TraceFile

HERE = Path(__file__).parent
KEPT = {
    "str",
    "dynamo_start",
    "dynamo_graph_break_reason",
    "recompile_reasons",
    "dynamo_cpp_guards_str",
    "inductor_output_code",
    "inductor_provenance_tracking_node_mappings",
    "inductor_provenance_tracking_kernel_stack_traces",
    "create_symbol",
    "guard_added_fast",
    "guard_added",
    "chromium_event",
    "compilation_metrics",
    "bwd_compilation_metrics",
    "fx_graph_runnable",
    *GRAPH_RECORDS,
}
PHASES = {
    "dynamo",
    "entire_frame_compile",
    "backend_compile",
    "create_aot_dispatcher_function",
    "inductor_compile",
    "compile_fx_inner",
    "fx_codegen_and_compile",
    "async_compile.wait",
    "compile_file",
}
CACHES = re.compile(r"^(fx_graph|aotautograd)_cache_(hit|miss|bypass)")


def main() -> None:
    version = torch.__version__.split("+")[0]
    record("program.py", HERE / version)
    if version == "2.13.0":
        record("ranks.py", HERE / f"{version}_two_ranks")


def record(program: str, into: Path) -> None:
    into.mkdir(exist_ok=True)
    for old in into.glob("*.log"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "TORCH_TRACE": f"{folder}/trace",
            "INDUCTOR_PROVENANCE": "1",
            "TORCHINDUCTOR_CACHE_DIR": f"{folder}/cache",
            "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
        }
        subprocess.run([sys.executable, str(HERE / program)], env=os.environ | settings, check=True)
        for number, path in enumerate(sorted(Path(folder, "trace").glob("*.log"))):
            rank = re.search(r"_rank_\d+", path.name)
            name = f"dedicated_log_torch_trace{rank[0] if rank else ''}_{number}.log"
            into.joinpath(name).write_text(small(path, folder), newline="\n")
    print(into, sum(path.stat().st_size for path in into.glob("*.log")), "bytes")


def small(path: Path, folder: str) -> str:
    text = []
    for meta, payload in TraceFile(path).records():
        name = record_name(meta) or ""
        if name not in KEPT and not CACHES.match(name):
            continue
        if CACHES.match(name):
            payload = "{}"
        if name == "chromium_event":
            event = json.loads(payload)
            if event["name"] not in PHASES:
                continue
            args = {k: v for k, v in (event.get("args") or {}).items() if k == "compile_id"}
            payload = json.dumps({**event, "args": args}, indent=0)
        if name == "fx_graph_runnable":
            payload = "\n".join(line for line in payload.splitlines() if line.startswith("# "))
        for key in ("compilation_metrics", "bwd_compilation_metrics"):
            if key in meta:
                meta[key] = {k: v for k, v in meta[key].items() if v is not None and not k.endswith("_config")}
        meta = json.loads(neutral(json.dumps(meta), folder))
        lines = ""
        if payload is not None:
            payload = neutral(payload, folder)
            meta["has_payload"] = hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()
            lines = "".join(f"\t{line}\n" for line in payload.split("\n"))
        text.append(f"V1129 12:00:00.000000 1 torch/trace.py:1] {json.dumps(meta)}\n{lines}")
    return "".join(text)


def neutral(text: str, folder: str) -> str:
    packages = str(Path(torch.__file__).parents[1])
    for machine, name in ((folder, "/scratch"), (packages, "/env/site-packages"), (str(HERE), "/course")):
        text = text.replace(machine, name)
    text = re.sub(r"(?:[/\w.-]*/)?lib/python3\.\d+/(?!site-packages)", "/python/", text)
    # guards print the end of a path only
    end = str(HERE)[-40:]
    for cut in range(len(end)):
        text = text.replace(end[cut:] + "/", "/course/") if len(end) - cut > 12 else text
    return text


if __name__ == "__main__":
    main()
