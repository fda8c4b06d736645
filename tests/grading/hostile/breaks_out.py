"""Mounts, unshares, traces, and looks at other processes.

exercise: basic_3
answer: right
gets: 2
prints: done: []
never prints: opened
"""
import ctypes, os
libc = ctypes.CDLL(None)
tries = {
    "umount": libc.umount2(b"/tmp", 2), "mount": libc.mount(b"tmpfs", b"/course", b"tmpfs", 0, None),
    "user namespace": libc.unshare(0x10000000), "ptrace": libc.ptrace(16, 1, 0, 0), "chroot": libc.chroot(b"/tmp"),
    "setuid": libc.setuid(0),
}
print("done:", [name for name, result in tries.items() if result == 0])
print("others:", [pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) not in (1, os.getpid())])
for path in ("/proc/1/mem", "/proc/1/environ", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger"):
    try:
        open(path, "r+b").close()
        print("opened", path)
    except OSError:
        pass
