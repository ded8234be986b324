# SPDX-License-Identifier: BSD-2-Clause
"""What a capture says about its connections: `mrc analyze`.

    collector = Collector()
    for columns in read_columns(stream, "capture.pcap"):
        collector.add(columns)
    analysis = collector.finish()

Packets become rows of numbers (`records`), sorted into flows (`flows`); of each flow it is worked out when every PSN
was acknowledged (`acknowledged`), what became of every transmission (`fates`), which states its paths went through
(`path_states`), and where the capture was taken (`capture_point`). `findings` are what a person should look at first.
"""

from mrc.capture.analysis.analysis import Analysis, Collector

__all__ = ["Analysis", "Collector"]
