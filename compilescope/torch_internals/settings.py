"""Settings of torch that a compile is observed with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def observing(bypass_caches: bool) -> Iterator[None]:
    """Keep node-to-kernel provenance, compile the backward with the forward, and leave the graph caches aside.

    Leans on ``torch._inductor.config`` (``trace.provenance_tracking_level``, ``fx_graph_cache``,
    ``fx_graph_remote_cache``) and ``torch._functorch.config`` (``force_non_lazy_backward_lowering``,
    ``enable_autograd_cache``), 2.11 to 2.15. Compiled C++ libraries stay cached: only
    ``force_disable_caches`` would make g++ run again.
    """
    import torch._functorch.config as functorch_config
    import torch._inductor.config as inductor_config

    inductor: dict[str, object] = {"trace.provenance_tracking_level": 1}
    functorch: dict[str, object] = {"force_non_lazy_backward_lowering": True}
    if bypass_caches:
        inductor |= {"fx_graph_cache": False, "fx_graph_remote_cache": False}
        functorch |= {"enable_autograd_cache": False}
    with inductor_config.patch(inductor), functorch_config.patch(functorch):
        yield
