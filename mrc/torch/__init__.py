# SPDX-License-Identifier: BSD-2-Clause
"""The backend "mrc" of torch.distributed, on `mrc.collectives` (docs/torch.md).

    import torch.distributed as dist

    dist.init_process_group("mrc")

torch finds the backend by its entry point; `import mrc.torch` registers it where torch loads no extensions
(TORCH_DEVICE_BACKEND_AUTOLOAD=0). Needs the extra `softmrc[torch]`.
"""

from mrc.torch.autoload import register

__all__ = ["register"]

register()
