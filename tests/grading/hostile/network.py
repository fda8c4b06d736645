"""Calls out, and listens.

exercise: basic_3
answer: wrong
gets: 0
prints: no network
never prints: reached
"""
import socket, urllib.request
for address in ("1.1.1.1", "127.0.0.1", "169.254.169.254"):
    try:
        socket.create_connection((address, 80), timeout=2)
        print("reached", address)
    except OSError as error:
        print(type(error).__name__)
try:
    urllib.request.urlopen("https://pypi.org", timeout=2)
    print("reached the net")
except OSError:
    print("no network")
