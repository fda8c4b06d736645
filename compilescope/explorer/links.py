"""Which kernel computes which node: the thread between graph, source and generated code."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from compilescope.facts import Code, Compile, Graph, Kernel, Node, Source

_BACKWARD = ("backward", "post_grad_backward")


@dataclass(frozen=True)
class Links:
    """The kernels of one compile, numbered from 0 through all its generated modules, and their nodes."""

    kernels: tuple[tuple[int, Kernel], ...] = ()
    """(index of its module in `Compile.code`, kernel)."""
    by_stage: dict[str, dict[str, tuple[int, ...]]] = field(default_factory=dict)
    """Stage to node name to kernel numbers."""

    def kernels_of(self, stage: str, node: str) -> tuple[int, ...]:
        """Numbers of the kernels that compute `node`."""
        return self.by_stage.get(stage, {}).get(node, ())


def link(compiled: Compile) -> Links:
    """Links of one compile, from what each kernel says it computes and from the provenance of the nodes."""
    kernels = tuple((i, kernel) for i, code in enumerate(compiled.code) for kernel in code.kernels)
    names: dict[bool, dict[str, list[int]]] = {False: {}, True: {}}
    dynamo: dict[str, list[int]] = {}
    for number, (module, kernel) in enumerate(kernels):
        backward = compiled.code[module].which == "backward"
        for name in kernel.nodes:
            names[backward].setdefault(name, []).append(number)
        for name in _dynamo_names(compiled, kernel):
            if not backward:
                dynamo.setdefault(name, []).append(number)
    by_stage = {
        graph.stage: _of_graph(graph, dynamo if graph.stage == "dynamo" else names[graph.stage in _BACKWARD], names)
        for graph in compiled.graphs
    }
    return Links(kernels, by_stage)


def _dynamo_names(compiled: Compile, kernel: Kernel) -> list[str]:
    found = [name for node in kernel.nodes for name in compiled.provenance.get(node, ())]
    return list(dict.fromkeys([*kernel.dynamo_nodes, *found]))


def _of_graph(
    graph: Graph, names: dict[str, list[int]], both: dict[bool, dict[str, list[int]]]
) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for node in graph.calls():
        numbers = names.get(node.name) or (both[True].get(node.name) if graph.stage == "joint" else None)
        if numbers:
            found[node.name] = tuple(dict.fromkeys(numbers))
        elif node.target.endswith("getitem") and node.inputs and node.inputs[0] in found:
            # Taking one of several results is no work: it belongs to the kernel that made them.
            found[node.name] = found[node.inputs[0]]
    return found


def code_lines(code: Code, kernel: Kernel) -> tuple[int, ...]:
    """1-based lines of `code.text` that define or launch `kernel`."""
    first, last = kernel.lines or (0, -1)
    return tuple(sorted({*range(first, last + 1), *kernel.call_lines}))


_MOST_CHARACTERS = 1_000_000
_LONGEST_LINE = 2_000


def first_lines(text: str) -> tuple[str, ...]:
    """The lines of the first million characters, each cut where it is longer than a reader follows."""
    return _split(text[:_MOST_CHARACTERS])


@lru_cache(maxsize=8)  # each kernel of a module looks at the same text
def _split(text: str) -> tuple[str, ...]:
    return tuple(line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + " …" for line in text.split("\n"))


def line_links(code: Code, kernel: Kernel) -> dict[int, tuple[str, ...]]:
    """Line of `code.text` to the nodes that it computes, where the compiler says so."""
    if not kernel.line_nodes or not kernel.lines or not kernel.source:
        return {}
    body = kernel.source.splitlines()
    text = first_lines(code.text)
    first, last = kernel.lines
    anchor = next((i for i, line in enumerate(body) if line.strip()), 0)
    found = (i for i in range(first, last + 1) if i <= len(text) and text[i - 1].strip() == body[anchor].strip())
    start = next(found, None)
    if start is None:
        return {}
    return {start - anchor + line - 1: nodes for line, nodes in kernel.line_nodes.items()}


def source_of(node: Node, compiled: Compile) -> Source | None:
    """The learner's line of `node`; a node that a pass made has that of the Dynamo node it was made from."""
    if node.source is not None:
        return node.source
    captured = compiled.graph("dynamo")
    if captured is None:
        return None
    names = node.origins or compiled.provenance.get(node.name, ())
    return next((one.source for one in captured.nodes if one.name in names and one.source is not None), None)
