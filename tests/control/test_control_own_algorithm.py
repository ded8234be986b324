# SPDX-License-Identifier: BSD-2-Clause
"""`mrc ctl` and the controller of docs/extending.md: a CC profile names the parameters of any algorithm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from control_served import Served, serving
from tutorials import DOCS, steps

from mrc.cli import main
from mrc.endpoint.congestion import registry


def test_mrc_ctl_gives_it_with_its_parameters_and_refuses_wrong_ones(
    tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    first, *_ = steps(DOCS / "extending.md")
    first.run({})
    profile = tmp_path / "aimd.yaml"
    served = Served()

    def ctl(*argv: str) -> Result:
        result = serving(served, lambda: CliRunner().invoke(main, ["ctl", "profile", *argv]))
        assert isinstance(result, Result), result
        return result

    try:
        profile.write_text("cc_profiles: {7: {algorithm: aimd, aimd: {first_packets: 16}}}")
        assert "CC profile 7 ONLINE" in ctl("load", str(profile)).stdout
        shown = json.loads(ctl("show", "--json").stdout)["endpoints"][0]["cc_profiles"]["7"]
        assert (shown["algorithm"], shown["aimd"]) == ("aimd", {"first_packets": 16, "least_packets": 2})
        qp, _ = served.pair.connect(cc_profile_id=7)
        controller = qp.figures.controller
        assert controller is not None
        assert type(controller).__name__ == "Aimd"
        assert controller.shown() == {"rtt_ns": 0}
        profile.write_text("cc_profiles: {8: {algorithm: aimd, aimd: {first_packets: 65537}}}")
        refused = ctl("load", str(profile))
        assert refused.exit_code == 1
        assert "CC profile 8: first_packets must be 1..65536, got 65537" in refused.stderr
    finally:
        served.close()
