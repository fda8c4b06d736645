"""A machine that may not make a sandbox: one sentence with the remedy for what bubblewrap itself said."""

import pytest

from autograder.sandbox.required import SandboxError, require_sandbox


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("bwrap: No permissions to create new namespace", "Allow user namespaces (sysctl "),
        (
            "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
            "Unmask /proc in this container (Docker: ",
        ),
    ],
)
def test_a_sandbox_that_is_not_permitted_is_one_sentence_with_its_own_remedy(tmp_path, monkeypatch, said, remedy):
    stand_in = tmp_path / "bwrap"
    stand_in.write_text(f'#!/bin/sh\necho "{said}" >&2\nexit 1\n')
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(SandboxError) as refused:
        require_sandbox()
    assert said in str(refused.value)
    assert remedy in str(refused.value)
    assert str(refused.value).endswith("--no-sandbox.")
