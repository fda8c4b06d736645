"""How much of the GPU's memory processes hold, as the driver counts it: rlimits do not reach there."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterable

QUERY = ("--query-compute-apps=pid,used_gpu_memory", "--format=csv,noheader,nounits")
_MIB = 1 << 20


def taken_by(pids: Iterable[int]) -> int:
    """Bytes of GPU memory that these processes hold together; 0 where the driver does not know them by these pids."""
    program, wanted, total = shutil.which("nvidia-smi"), set(pids), 0
    if program is None:
        return 0
    try:
        said = subprocess.run([program, *QUERY], capture_output=True, text=True, timeout=10).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    for line in said.splitlines():
        with contextlib.suppress(ValueError):
            pid, mebibytes = (int(part) for part in line.split(","))
            total += mebibytes * _MIB if pid in wanted else 0
    return total
