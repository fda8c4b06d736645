"""Text that torch writes about a compile, read into facts: graphs, breaks, guards, generated code.

No torch here: the same readers serve a live `observe` and a `TORCH_TRACE` folder from another machine.
"""
