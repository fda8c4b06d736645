"""Calls of compiled functions: what came of each, and why one was not compiled."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass, field

from compilescope.facts import Call, CallOutcome, Compile, NotCompiled, Refusal, Source
from compilescope.reading.skips import LIMIT_REASON, REMEDIES


@dataclass
class Seen:
    """One frame that Dynamo looked at during a call."""

    function: str
    source: Source
    compiled: bool
    skip_reason: str
    is_generator: bool = False
    is_learners: bool = True
    error: str = ""


@dataclass
class OpenCall:
    """One call of a compiled function, from its beginning on."""

    function: str
    source: Source | None = None
    stance: str = ""
    """Not empty: compiling is off for this call."""
    began: float = field(default_factory=time.perf_counter)
    seconds: float = 0.0
    raised: bool = False
    compile_ids: list[str] = field(default_factory=list)
    hits: int = 0
    misses: int = 0
    frames: list[Seen] = field(default_factory=list)
    disabled: list[NotCompiled] = field(default_factory=list)
    refusals: tuple[Refusal, ...] = ()

    def end(self, raised: bool) -> None:
        """The call is over."""
        self.seconds = time.perf_counter() - self.began
        self.raised = raised


class Outcomes:
    """Calls in the order they began, joined with what was compiled and what was given up."""

    def __init__(
        self,
        calls: list[OpenCall],
        compiles: tuple[Compile, ...],
        skipped: tuple[tuple[str, NotCompiled], ...],
        refused: dict[str, tuple[Refusal, ...]],
    ) -> None:
        self.calls = calls
        self.compiled = {one.compile_id: one for one in compiles}
        self.skipped: dict[str, list[NotCompiled]] = {}
        for compile_id, fact in skipped:
            self.skipped.setdefault(compile_id, []).append(fact)
        self.refused = refused

    def facts(self) -> tuple[tuple[Call, ...], tuple[NotCompiled, ...]]:
        """All calls, and each reason once for each function that ran as plain Python."""
        calls: list[Call] = []
        reasons: list[NotCompiled] = []
        for call in self.calls:
            outcome = self._outcome(call)
            ids = tuple(one for one in call.compile_ids if one in self.compiled)
            refusals = tuple(r for one in call.compile_ids for r in self.refused.get(one, ())) or call.refusals
            calls.append(
                Call(call.function, outcome, call.seconds, ids, () if outcome == "hit" else refusals, call.source)
            )
            found = self._reasons(call, outcome)
            if not found and outcome == "never compiled":
                found = [one for one in reasons if one.function.partition(".")[0] == call.function.partition(".")[0]]
                found = found or [self._skipped_before(call)]
            reasons.extend(found)
        of_no_call = [
            fact for compile_id, facts in self.skipped.items() for fact in facts
            if not any(compile_id in call.compile_ids for call in self.calls) and fact.kind != "no tensor"
        ]  # fmt: skip
        return tuple(calls), tuple(dict.fromkeys([*reasons, *of_no_call]))

    def _outcome(self, call: OpenCall) -> CallOutcome:
        compiled = [self.compiled[one] for one in call.compile_ids if one in self.compiled]
        if call.raised:
            return "error"
        if compiled:
            return "recompile" if any(one.refusals for one in compiled) else "first compile"
        if call.misses or any(fact.kind == "limit" for fact in self._skips(call)):
            return "gave up"
        return "hit" if call.hits else "never compiled"

    def _skips(self, call: OpenCall) -> list[NotCompiled]:
        return [fact for compile_id in call.compile_ids for fact in self.skipped.get(compile_id, ())]

    def _reasons(self, call: OpenCall, outcome: CallOutcome) -> list[NotCompiled]:
        if call.stance:
            reason = f"The stance {call.stance} is set: compiled functions run as plain Python."
            return [NotCompiled(call.function, reason, REMEDIES["stance"], call.source, "stance")]
        computes = any(self.compiled[one].graphs for one in call.compile_ids if one in self.compiled) or call.hits
        found = [fact for fact in self._skips(call) if fact.kind != "no tensor" or not computes]
        found = [
            dataclasses.replace(one, function=call.function, source=one.source or call.source)
            if one.kind == "limit" else one
            for one in found
        ]  # fmt: skip
        if outcome == "gave up" and not any(one.kind == "limit" for one in found):
            found.append(NotCompiled(call.function, LIMIT_REASON, REMEDIES["limit"], call.source, "limit"))
        found.extend(self._generators(call))
        if outcome == "never compiled" and not found and call.frames and not any(f.is_learners for f in call.frames):
            reason = "Only code of libraries runs in it, and Dynamo leaves library frames alone: 0 graphs."
            found.append(NotCompiled(call.function, reason, REMEDIES["library frame"], call.source, "library frame"))
        return found + call.disabled

    def _generators(self, call: OpenCall) -> list[NotCompiled]:
        reason = "It is a generator: Dynamo compiles no generator as a whole."
        return [
            NotCompiled(frame.function, reason, REMEDIES["generator"], frame.source, "generator")
            for frame in call.frames
            if frame.is_generator and not frame.compiled and frame.function == call.function
        ]

    def _skipped_before(self, call: OpenCall) -> NotCompiled:
        seen = [frame for frame in call.frames if frame.is_learners and frame.skip_reason]
        reason = seen[0].skip_reason.splitlines()[0] if seen else "Dynamo had given it up in an earlier call."
        remedy = "torch.compiler.reset(), then observe the first call: it tells the reason."
        return NotCompiled(call.function, reason, REMEDIES["skipped"] if seen else remedy, call.source, "skipped")
