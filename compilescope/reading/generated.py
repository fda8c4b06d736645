"""Inductor's generated module, read into `Code` and `Kernel`s: sources, launches, bytes moved."""

from __future__ import annotations

import ast
import dataclasses
import re
from dataclasses import dataclass, field
from typing import Any

from compilescope.facts import Code, Kernel
from compilescope.reading.buffers import Buffers

_WHICH = re.compile(r"# AOT ID: \['[^']*?(forward|backward|inference)'\]")
_HANDLE = re.compile(r"# \[Provenance debug handles\] (.+)$")
_ON_CUDA = "torch.cuda._DeviceGuard("
_LANGUAGES = {"cpp_pybinding": "cpp", "cpp": "cpp", "triton": "triton"}
_TRITON_KINDS = {
    "poi": "pointwise",
    "red": "reduction",
    "per": "persistent_reduction",
    "tem": "template",
    "for": "foreach",
}
_CPP_ITEM = {
    "float": 4, "double": 8, "bool": 1, "int64_t": 8, "int32_t": 4, "int16_t": 2, "int8_t": 1, "uint8_t": 1,
    "half": 2, "at::Half": 2, "bfloat16": 2, "at::BFloat16": 2,
}  # fmt: skip
_LIBRARY_CALL = re.compile(r"^(?:extern_kernels\.|torch\.ops\.|aten\.|mkldnn\.)")
_NOT_A_LAUNCH = re.compile(r"^torch\.ops\.(?:inductor\.|_c10d_functional\.wait)|\b_alloc_from_pool|_reinterpret_tensor")


def read_code(text: str, compile_id: str, target: str | None = None) -> Code:
    """`Code` with its kernels in launch order; handles of the provenance map come from `launch_handles`."""
    which = _WHICH.search(text)
    target = target or ("cuda" if _ON_CUDA in text else "cpu")
    try:
        tree = ast.parse(text)
    except (SyntaxError, RecursionError, ValueError):
        return Code(compile_id, which[1] if which else "inference", text, (), target)  # type: ignore[arg-type]
    kernels = _Module(text, tree).kernels()
    return Code(compile_id, which[1] if which else "inference", text, kernels, target)  # type: ignore[arg-type]


def with_loaded(code: Code, loaded: dict[str, dict[str, Any]]) -> Code:
    """`code` with what is known of its loaded binaries: kernel name to fields of `Kernel` (`gpu.loaded_kernels`)."""

    def filled(kernel: Kernel) -> Kernel:
        known = dict(loaded.get(kernel.name, {}))
        return dataclasses.replace(kernel, **{**known, "configs": tuple(known.get("configs", kernel.configs))})

    return dataclasses.replace(code, kernels=tuple(filled(kernel) for kernel in code.kernels))


def launch_handles(code: Code) -> dict[str, tuple[str, ...]]:
    """Kernel name to the provenance handles (``cpp_fused_add_0:1``) that the wrapper's comments give it."""
    lines = code.text.splitlines()
    handles: dict[str, tuple[str, ...]] = {}
    for kernel in code.kernels:
        found: list[str] = []
        for line in kernel.call_lines:
            # the comment stands just above the launch; a buffer's own lines may lie between
            for above in range(line - 2, max(line - 6, -1), -1):
                if match := _HANDLE.search(lines[above]):
                    found.extend(part.strip() for part in match[1].split(","))
                    break
        handles[kernel.name] = tuple(dict.fromkeys(found))
    return handles


@dataclass
class _Launch:
    """What is gathered about one kernel while its launches are read."""

    language: str
    source: str = ""
    lines: tuple[int, int] | None = None
    signature: tuple[str, ...] = ()
    call_lines: list[int] = field(default_factory=list)
    read: int | None = 0
    written: int | None = 0
    grid: tuple[int | str, ...] | None = None


class _Module:
    def __init__(self, text: str, tree: ast.Module) -> None:
        self.text = text
        self.tree = tree
        self.found: dict[str, _Launch] = {}
        self.buffers = Buffers(tree)

    def kernels(self) -> tuple[Kernel, ...]:
        for statement in self.tree.body:
            self._definition(statement)
        for function in self._wrappers():
            for statement in sorted(_statements(function), key=lambda part: part.lineno):
                self._statement(statement)
        launched = [(name, found) for name, found in self.found.items() if found.call_lines]
        launched.sort(key=lambda pair: pair[1].call_lines[0])
        return tuple(_kernel(name, found) for name, found in launched)

    def _definition(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Attribute(value=ast.Name(id="async_compile"), attr=how), args=arguments),
            ):
                strings = [part for part in arguments if isinstance(part, ast.Constant) and isinstance(part.value, str)]
                if not strings:
                    return
                body = strings[-1]
                opened_with_newline = str(body.value).startswith("\n")
                source = str(body.value).strip("\n")
                first = body.lineno + (1 if opened_with_newline else 0)
                signature: tuple[str, ...] = ()
                if arguments and isinstance(arguments[0], ast.List):
                    types = [str(part.value) for part in arguments[0].elts if isinstance(part, ast.Constant)]
                    signature = _cpp_signature(types, source)
                self.found[name] = _Launch(
                    _LANGUAGES.get(how, "triton" if "triton" in how else "extern"),
                    source,
                    (first, first + source.count("\n")),
                    signature or _triton_signature(source),
                )

    def _wrappers(self) -> list[ast.FunctionDef]:
        """``call``, its partitions, and the branches of ``torch.cond`` or the bodies of loops beside it."""
        functions = [part for part in ast.walk(self.tree) if isinstance(part, ast.FunctionDef)]
        return [
            part
            for part in functions
            if part.name == "call"
            or part.name.startswith("partition_")
            or (part in self.tree.body and [one.arg for one in part.args.args] == ["args"])
        ]

    def _statement(self, statement: ast.stmt) -> None:
        value = getattr(statement, "value", None)
        targets = [part.id for part in getattr(statement, "targets", []) if isinstance(part, ast.Name)]
        if isinstance(value, ast.Call):
            function = ast.unparse(value.func)
            name = function.removesuffix(".run")
            if name in self.found and self.found[name].lines:
                self._generated(self.found[name], value, statement.lineno)
            elif _LIBRARY_CALL.match(function) and not _NOT_A_LAUNCH.search(function):
                self._library(function, value, targets, statement.lineno)
        if isinstance(statement, ast.Assign):
            self.buffers.assign(targets, statement.value)

    def _generated(self, found: _Launch, call: ast.Call, line: int) -> None:
        found.call_lines.append(line)
        if len(found.call_lines) > 1:
            return
        read: dict[str, int | None] = {}
        written: dict[str, int | None] = {}
        for argument, role in zip(call.args, found.signature, strict=False):
            role, _, item = role.partition(":")
            if not role:
                continue
            key, size = self.buffers.size(argument, int(item) if item else None)
            if "r" in role:
                read[key] = size
            if "w" in role:
                written[key] = size
        found.read, found.written = _total(read), _total(written)

    def _library(self, function: str, call: ast.Call, targets: list[str], line: int) -> None:
        name = function.removeprefix("extern_kernels.").removeprefix("torch.ops.")
        known = self.found.get(name)
        number = 1
        while known is not None:  # each library call is its own kernel: they move different bytes
            number += 1
            known = self.found.get(f"{name}:{number}")
        key = name if number == 1 else f"{name}:{number}"
        found = self.found[key] = _Launch("extern", call_lines=[line])
        written: dict[str, int | None] = {}
        for keyword in call.keywords:
            if keyword.arg == "out":
                buffer, size = self.buffers.size(keyword.value)
                written[buffer] = size
        found.read = self._read_by_library(call)
        # a library call that allocates its own output: its size stands in the assert that follows, if anywhere
        found.written = _total(written) if written else self.buffers.asserted(targets)

    def _read_by_library(self, call: ast.Call) -> int | None:
        """Bytes of the arguments; of one buffer its different views, as query, key and value, up to all of it."""
        views: dict[str, dict[str, int | None]] = {}
        for argument in call.args:
            buffer, size = self.buffers.size(argument)
            if buffer:
                views.setdefault(buffer, {})[ast.unparse(argument)] = size
        read = {buffer: _total(sizes) for buffer, sizes in views.items()}
        for buffer, size in read.items():
            whole = self.buffers.size(ast.Name(id=buffer))[1]
            if len(views[buffer]) > 1 and size is not None and whole is not None:
                read[buffer] = min(size, whole)
        return _total(read)


def _total(sizes: dict[str, int | None]) -> int | None:
    total = 0
    for size in sizes.values():
        if size is None:
            return None
        total += size
    return total


def _statements(function: ast.FunctionDef) -> list[ast.stmt]:
    return [part for part in ast.walk(function) if isinstance(part, (ast.Assign, ast.Expr))]


def _kernel(name: str, found: _Launch) -> Kernel:
    return Kernel(
        name=name,
        language=found.language,  # type: ignore[arg-type]
        source=found.source,
        lines=found.lines,
        call_lines=tuple(found.call_lines),
        bytes_read=found.read,
        bytes_written=found.written,
        launches=len(found.call_lines),
        kind=_kind(name, found),
    )


def _kind(name: str, found: _Launch) -> str:
    if found.language == "triton":
        parts = name.split("_")
        return _TRITON_KINDS.get(parts[1], "") if len(parts) > 1 else ""
    if found.language == "cpp":
        if "CppMicroGemm" in found.source or "_micro_gemm" in found.source or "cpp_fused_template" in name:
            return "template"
        return "reduction" if re.search(r"\btmp_acc\d|tmp_acc\d+_vec|welford", found.source) else "pointwise"
    return ""


def _triton_signature(source: str) -> tuple[str, ...]:
    """For each parameter of the Triton kernel: ``r`` reads it, ``w`` writes it, ``rw`` both, or empty.

    After a colon the bytes of an element, as the kernel's own signature has them: ``r:4``.
    """
    match = re.search(r"^def \w+\(([^)]*)\)", source, re.M)
    if not match:
        return ()
    bits = dict(re.findall(r"'(\w+)': '\*[a-z]+(\d+)", source))
    items = {name: max(int(number) // 8, 1) for name, number in bits.items()}
    roles = {name: _role_of_triton(name) for name in (part.split(":")[0].strip() for part in match[1].split(","))}
    return tuple(role and f"{role}:{items.get(name, '')}" for name, role in roles.items())


def _role_of_triton(parameter: str) -> str:
    if parameter.startswith("in_out_ptr"):
        return "rw"
    if parameter.startswith("in_ptr") or parameter.startswith("arg_"):
        return "r"
    return "w" if parameter.startswith("out_ptr") else ""


def _cpp_signature(types: list[str], source: str) -> tuple[str, ...]:
    """For each parameter: ``r`` for a const pointer, ``rw`` for ``in_out_ptr``, ``w`` for another pointer.

    After a colon the bytes of an element, where they are known: ``r:4``.
    """
    match = re.search(r"\bkernel\(([^)]*)\)", source)
    names = [part.split()[-1] if part.split() else "" for part in match[1].split(",")] if match else []
    names += [""] * (len(types) - len(names))
    return tuple(_role_of_cpp(kind, name) for kind, name in zip(types, names, strict=False))


def _role_of_cpp(kind: str, name: str) -> str:
    if "*" not in kind:
        return ""
    item = _CPP_ITEM.get(kind.removeprefix("const ").rstrip("* "), "")
    role = "r" if kind.startswith("const") else "rw" if name.startswith("in_out_ptr") else "w"
    return f"{role}:{item}"
