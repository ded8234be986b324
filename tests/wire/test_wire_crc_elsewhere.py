# SPDX-License-Identifier: BSD-2-Clause
"""mrc/wire/octets.h on processors that lack the instructions it uses where they are."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from zlib import crc32

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.seconds
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_checksum_is_right_on_a_processor_without_the_fast_instructions(tmp_path: Path) -> None:
    """As on aarch64: octets.h without what it has for x86-64. CRC-32 of "123456789" is the catalogue's check value."""
    program = tmp_path / "crc.c"
    program.write_text(
        "#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
        "typedef ptrdiff_t Py_ssize_t;\n"
        "#ifdef ELSEWHERE\n#undef __x86_64__\n#endif\n"
        '#include "octets.h"\n'
        "int main(void)\n{\n"
        "    uint8_t many[1000];\n"
        "    for (int i = 0; i < 1000; i++)\n        many[i] = (uint8_t)(i * 7);\n"
        '    printf("%08x %08x\\n", mrc_crc32(0, (const uint8_t *)"123456789", 9), mrc_crc32(0, many, 1000));\n'
        "    return 0;\n}\n"
    )
    many = crc32(bytes(i * 7 & 0xFF for i in range(1000)))
    for flags in (["-DELSEWHERE"], []):
        command = ["cc", "-O1", *flags, f"-I{ROOT / 'mrc' / 'wire'}", "-o", str(tmp_path / "crc"), str(program)]
        subprocess.run(command, check=True)
        said = subprocess.run([str(tmp_path / "crc")], capture_output=True, text=True, check=True).stdout
        assert said == f"cbf43926 {many:08x}\n"
