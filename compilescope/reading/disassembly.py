"""A printed disassembly, without what teaches nothing and with marks where Dynamo's code calls its own."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Up to Python 3.12 each line has an offset; from 3.13 on only labels of jump targets.
_OFFSETS = re.compile(
    r"^\s*(?:(?P<line>\d+)\s+)?(?:-->\s+)?(?P<target>>>)?\s*(?P<place>\d+)\s+(?P<name>[A-Z][A-Z_0-9]+)\s*(?P<rest>.*)$"
)
_LABELS = re.compile(r"^\s*(?P<line>\d+)?\s*(?P<target>)(?P<place>L\d+:)?\s*(?P<name>[A-Z][A-Z_0-9]+)\s*(?P<rest>.*)$")
_GRAPH = re.compile(r"__compiled_fn_\d+\w*")
_RESUME = re.compile(r"__resume_at_\d+_\d+")
_SILENT = frozenset({"RESUME", "PRECALL", "CACHE", "NOP", "PUSH_NULL", "COPY_FREE_VARS", "MAKE_CELL", "KW_NAMES"})
_MOVES = frozenset(
    {"SWAP", "COPY", "POP_TOP", "DELETE_FAST", "BUILD_SLICE", "BUILD_LIST", "BUILD_TUPLE", "LIST_EXTEND", "LIST_APPEND"}
    | {"BINARY_SUBSCR", "STORE_SUBSCR", "DELETE_SUBSCR", "BINARY_SLICE", "STORE_SLICE", "ROT_TWO", "ROT_THREE"}
)
_PLUMBING = re.compile(r"record_pregraph_bytecode|dynamo_dot_utils|\((?:tmp_\d+|is_tracing_resume_prologue)\)")


def marked(text: str, compile_id: str, names: Mapping[str, str] | None = None, new: bool = False) -> str:
    """`text` as `dis` prints it, one instruction a line: line of the source, offset, operation, argument, mark.

    `names` gives a resume function's readable name. Instructions that only prepare a call are left out; with `new`,
    for code that Dynamo wrote, also those that only move values about: a line says how many.
    """
    kept: list[str] = []
    moves, own_call = 0, False
    for line in text.splitlines():
        match = _OFFSETS.match(line) or _LABELS.match(line)
        if match is None or match["name"] in _SILENT:
            continue
        if _PLUMBING.search(match["rest"]):
            own_call = own_call or "record_pregraph" in match["rest"]
            continue
        if own_call and match["name"] == "CALL":
            own_call = False  # the call of Dynamo's own bookkeeping
            continue
        if new and (match["name"] in _MOVES or _is_constant_index(match["name"], match["rest"])):
            moves += 1
            continue
        if moves:
            kept.append(f"{'':>12} … values are moved: {moves} instruction{'s' if moves > 1 else ''}")
            moves = 0
        argument, mark = _argument(match["rest"], compile_id, names or {})
        where = f"{match['line'] or '':>4} {match['target'] or '':2} {match['place'] or '':>4}"
        kept.append(f"{where} {match['name']:<20} {argument}{mark}".rstrip())
    return "\n".join(kept)


def _is_constant_index(name: str, rest: str) -> bool:
    return name == "LOAD_CONST" and bool(re.search(r"\((?:-?\d+|None)\)\s*$", rest))


def _argument(rest: str, compile_id: str, names: Mapping[str, str]) -> tuple[str, str]:
    shown = re.search(r"\((.*)\)\s*$", rest)
    argument = (shown[1] if shown else rest).replace("NULL + ", "").strip()
    if _GRAPH.search(argument):
        return _GRAPH.sub(f"graph {compile_id}", argument), "   ← the compiled graph"
    if found := _RESUME.search(argument):
        return names.get(found[0], found[0]), "   ← goes on after the graph break"
    return argument, ""
