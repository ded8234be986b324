# SPDX-License-Identifier: BSD-2-Clause
"""What a reduction has to come to, by torch alone, in double precision."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

# Of one rounding.
EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def given(rank: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    """What a rank brings to a job that reduces."""
    import torch

    random = torch.Generator().manual_seed(1000 * rank + count)
    if dtype.is_floating_point:
        values = torch.randn(count, generator=random)
        # Away from 0: products of subnormal numbers have no relative error to hold them to.
        return (values + torch.copysign(torch.tensor(0.5), values)).to(dtype)
    return torch.randint(0, 5, (count,), generator=random).to(dtype)


def reduced(values: list[torch.Tensor], op: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The result, and what its error is measured by: the sum, or product, of the absolute values."""
    import torch

    if values[0].dtype.is_floating_point:
        values = [value.double() for value in values]
    combine = {"SUM": torch.add, "PRODUCT": torch.mul, "MIN": torch.minimum, "MAX": torch.maximum}[op]
    return reduce(combine, values), reduce(combine, [value.abs() for value in values])
