"""A small text for a small language model; the package ships it, so nothing is downloaded."""

from __future__ import annotations

from importlib.resources import files


def small_text() -> str:
    """The first pages of Lewis Carroll's Alice's Adventures in Wonderland (1865; in the public domain)."""
    return (files("autograder") / "alice.txt").read_text(encoding="utf-8")
