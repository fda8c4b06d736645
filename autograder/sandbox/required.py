"""Whether this machine can make a sandbox; imports no torch."""

from __future__ import annotations

import shutil
import subprocess

from autograder.errors import CourseError

INSTALL = "Install bubblewrap (Debian, Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap)"


class SandboxError(CourseError):
    """No sandbox on this machine, or it broke."""


def require_sandbox(flag: str = "--no-sandbox") -> None:
    """SandboxError, with the remedy, unless bubblewrap is here and may make its namespaces."""
    remedy = f"Or grade answers that you trust with {flag}"
    if shutil.which("bwrap") is None:
        raise SandboxError(f"There is no sandbox on this machine. {INSTALL}. {remedy}.")
    command = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        allow = (
            "Allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, or Ubuntu's AppArmor profile for bwrap)"
        )
        if "mount proc" in said:
            allow = "Unmask /proc in this container (Docker: --security-opt systempaths=unconfined; podman: unmask=ALL)"
        raise SandboxError(f"bubblewrap may not make a sandbox here ({said}). {allow}. {remedy}.")
