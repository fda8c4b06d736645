"""Settings of torch that a compile is observed with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType

_INDUCTOR = {"trace.provenance_tracking_level": 1}
_FUNCTORCH = {"force_non_lazy_backward_lowering": True}
_CACHES_OFF = ({"fx_graph_cache": False, "fx_graph_remote_cache": False}, {"enable_autograd_cache": False})


@contextlib.contextmanager
def observing(bypass_caches: bool) -> Iterator[dict[str, str]]:
    """Keep node-to-kernel provenance, compile the backward with the forward, and leave the graph caches aside.

    Gives facts that this torch cannot tell for want of a setting, with the reason.
    Leans on ``torch._inductor.config`` (``trace.provenance_tracking_level``, ``fx_graph_cache``,
    ``fx_graph_remote_cache``), ``torch._functorch.config`` (``force_non_lazy_backward_lowering``,
    ``enable_autograd_cache``) and ``torch.compiler.config.cache_key_tag``, 2.11 to 2.15. Compiled C++ libraries stay
    cached: only ``force_disable_caches`` would make g++ run again. With the caches in use, the tag keeps the
    entries of observed compiles apart: an entry made without provenance would have none to give.
    """
    import torch._functorch.config as functorch_config
    import torch._inductor.config as inductor_config
    import torch.compiler.config as compiler_config

    missing: dict[str, str] = {}
    off = _CACHES_OFF if bypass_caches else ({}, {})
    wanted = (
        (inductor_config, {**_INDUCTOR, **off[0]}),
        (functorch_config, {**_FUNCTORCH, **off[1]}),
        (compiler_config, {} if bypass_caches else {"cache_key_tag": "observed"}),
    )
    with contextlib.ExitStack() as stack:
        for config, values in wanted:
            known = {name: value for name, value in values.items() if _has(config, name)}
            for name in values.keys() - known.keys():
                missing[name] = f"this torch has no setting {config.__name__}.{name}."
            if known:
                stack.enter_context(config.patch(known))
        yield missing


def _has(config: ModuleType, name: str) -> bool:
    try:
        for part in name.split("."):
            config = getattr(config, part)
    except AttributeError:
        return False
    return True
