"""Linux namespaces for one job: called by a fresh fork of the zygote, single-threaded; raises OSError."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import socket
import struct
from pathlib import Path

from autograder.sandbox.limits import Limits

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEW_MOUNTS, _NEW_IPC, _NEW_USERS, _NEW_PIDS, _NEW_NET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1
_MS_NOSUID, _MS_NODEV, _MS_REC, _MS_PRIVATE = 2, 4, 0x4000, 0x40000
_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_SET_PDEATHSIG = 4, 24, 38, 1
_CAPABILITY_VERSION_3 = 0x20080522

CACHE = "/tmp/cache"
"""Where a job finds its compile caches: the trusted one below, what it adds above in its own scratch."""
TRUSTED = "/cache"
"""The trusted compile cache as the outer sandbox shows it, read-only."""


def _must(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare() -> None:
    """New user, mount, pid, ipc and network namespaces; the pid namespace begins with the next fork."""
    user, group = os.getuid(), os.getgid()
    _must(_LIBC.unshare(_NEW_USERS | _NEW_MOUNTS | _NEW_PIDS | _NEW_IPC | _NEW_NET), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    loopback_up()


def loopback_up() -> None:
    """The job's own 127.0.0.1, which ends in its network namespace: ranks of one job find each other there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(any_socket, _GET_FLAGS, request))[1]
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", b"lo", flags | _UP))


def mount_scratch(limits: Limits) -> None:
    """A fresh /proc, and /tmp and /dev/shm that nobody else sees; the trusted cache under a layer of its own."""
    _must(_LIBC.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None), "mount /")
    _must(_LIBC.mount(b"proc", b"/proc", b"proc", 0, None), "mount /proc")
    for place, size in (("/tmp", limits.scratch), ("/dev/shm", limits.scratch // 4)):
        flags = _MS_NOSUID | _MS_NODEV
        _must(_LIBC.mount(b"tmpfs", place.encode(), b"tmpfs", flags, f"size={size}".encode()), f"mount {place}")
    for folder in ("home", "work", "cache", "layer/up", "layer/work"):
        Path("/tmp", folder).mkdir(parents=True)
    layers = f"lowerdir={TRUSTED},upperdir=/tmp/layer/up,workdir=/tmp/layer/work,userxattr".encode()
    # Where the kernel has no overlay for users, a job compiles everything itself.
    _LIBC.mount(b"overlay", CACHE.encode(), b"overlay", 0, layers)
    for setting, value in (("kernel/pid_max", limits.processes + 301), ("user/max_user_namespaces", 0)):
        with contextlib.suppress(OSError):  # second lines of defense, not everywhere to be had
            Path("/proc/sys", setting).write_text(str(value))


def give_up_power() -> None:
    """No capability is left, and no program can bring one back."""
    for capability in range(64):
        _LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _must(_LIBC.capset(header, (ctypes.c_uint32 * 6)()), "capset")
    _must(_LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def set_limits(limits: Limits, gpu: bool) -> None:
    """Rlimits of each process of the job."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits.file, limits.file))
    resource.setrlimit(resource.RLIMIT_NPROC, (limits.processes, limits.processes))
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
    cpu = int(limits.cpu) + 2  # whoever watches all processes together comes first, and can say it
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
    if not gpu:  # CUDA reserves address space by the terabyte
        data = int(1.5 * limits.memory) + 2_000_000_000
        resource.setrlimit(resource.RLIMIT_DATA, (data, data))


def die_with_parent() -> None:
    """Killed when the process that forked this one ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0)


def hide_memory(hidden: bool = True) -> None:
    """Whether other processes of the same user are kept from tracing this one and from reading its memory.

    A process that is hidden cannot write its own files in /proc either.
    """
    _LIBC.prctl(_PR_SET_DUMPABLE, int(not hidden), 0, 0, 0)
