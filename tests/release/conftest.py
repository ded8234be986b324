# SPDX-License-Identifier: BSD-2-Clause
"""The tools' own modules are imported as the tools do."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
