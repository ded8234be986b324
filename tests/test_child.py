# SPDX-License-Identifier: BSD-2-Clause
"""Programs that are started: what they print, what they are told, how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from mrc.child import Child, forked, listen
from mrc.errors import PeerError

PATIENCE_S = 30.0
ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"


def python(program: str, *, talks: bool = False) -> Child:
    return Child("it", [sys.executable, "-c", program], talks=talks)


def test_a_talk_in_lines() -> None:
    with python(ECHO, talks=True) as child:
        for number in range(3):
            child.say({"number": number})
            assert child.hear(PATIENCE_S) == {"number": number}
        assert child.next_line(0.0) is None
        with pytest.raises(PeerError, match="it said nothing for 0 s"):
            child.line(0.1)
        child.hang_up()
        assert child.rest(PATIENCE_S) == ""
    assert child.status() == 0


def test_lines_that_come_together_are_read_one_by_one() -> None:
    with python("print('{}\\n[1]\\n[2]\\n[3]'); print('rest', end='')") as child:
        assert child.hear(PATIENCE_S) == {}
        assert child.rest(PATIENCE_S) == "[1]\n[2]\n[3]\nrest"


def test_bytes_behind_a_line() -> None:
    size = 3 << 20  # more than a pipe takes
    with python(f"import sys; sys.stdout.buffer.write(b'1\\n' + b'x' * {size} + b'2\\n')") as child:
        assert child.hear(None) == 1
        assert child.exactly(size) == b"x" * size
        assert child.hear(None) == 2
        with pytest.raises(PeerError, match="it ended: exit status 0"):
            child.exactly(1)


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("import sys; sys.exit('no room')", "no room"),
        ("import sys; print('a note', file=sys.stderr); sys.exit('no room')", "no room"),
        ("import sys; sys.exit(3)", "exit status 3"),
        ("import os; os.kill(os.getpid(), 9)", "killed by signal 9"),
    ],
)
def test_why_it_ended(program: str, why: str) -> None:
    with python(program) as child, pytest.raises(PeerError, match=f"^it ended: {why}$"):
        child.line(PATIENCE_S)
    with python(program) as child, pytest.raises(PeerError, match=f"^it failed: {why}$"):
        child.rest(PATIENCE_S)
    with python(program) as child, pytest.raises(PeerError, match=f"^it did not start: {why}$"):
        child.started()
    with python(program) as child, pytest.raises(PeerError, match=f"^it failed: {why}$"):
        child.outcome(PATIENCE_S)
    # What was said is known afterwards, too.
    assert child.why() == why


def test_telling_one_that_has_ended() -> None:
    with python("import sys; sys.exit('no room')", talks=True) as child:
        child.rest(PATIENCE_S, None)
        with pytest.raises(PeerError, match="it ended: no room"):
            child.say({})


def test_the_sign_of_a_start() -> None:
    with python("print('\\nhello\\nport 7', flush=True); input()", talks=True) as child:
        assert child.started("port") == "port 7"
    with python("import time; print('hello', flush=True); time.sleep(60)") as child:
        with pytest.raises(PeerError, match="it did not start: it said nothing"):
            child.started("port", 0.5)
        assert child.ended


@pytest.mark.parametrize(
    ("program", "within_s", "text"),
    [
        ("print('[]')", PATIENCE_S, "it failed: exit status 0"),
        ("print('{')", PATIENCE_S, "it failed: exit status 0"),
        ("import sys; print('{}'); sys.exit(2)", PATIENCE_S, "it failed: exit status 2"),
        ('import sys; print(\'{"error": "no room"}\'); sys.exit(1)', PATIENCE_S, "it failed: no room"),
        ("import time; time.sleep(60)", 1.0, "it did not end within 1 s"),
    ],
)
def test_an_outcome_that_is_none(program: str, within_s: float, text: str) -> None:
    with python(program) as child, pytest.raises(PeerError, match=f"^{text}$"):
        child.outcome(within_s)


def test_an_outcome() -> None:
    with python("import sys; print('{\"size\": 1}'); sys.exit(143)") as child:
        assert child.outcome(PATIENCE_S, 143) == {"size": 1}


def test_who_talks_has_a_session_of_its_own_and_others_have_ours() -> None:
    asks = "import os; print(os.getsid(0), flush=True); input()"
    with python(asks, talks=True) as child:
        assert child.hear(PATIENCE_S) == child.process.pid
    with python("import os; print(os.getsid(0))") as child:
        assert child.hear(PATIENCE_S) == os.getsid(0)


STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); signal.pause()"


def test_one_that_will_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc.child._LET_GO_S", 0.1)
    monkeypatch.setattr("mrc.child._END_S", 0.1)
    for talks in (False, True):
        with python(STUBBORN, talks=talks) as child:
            child.line(PATIENCE_S)
        assert child.status() == -signal.SIGKILL


def test_sigterm_comes_once() -> None:
    """A second one would interrupt what the first one has begun."""
    # Not by print: the signal may come while the line before is still being printed.
    program = (
        "import os, signal, time\ndef count(*_):\n    os.write(1, b'term\\n'); time.sleep(0.5); raise SystemExit\n"
    )
    program += "signal.signal(signal.SIGTERM, count); print(1, flush=True); time.sleep(60)"
    with python(program) as child:
        child.line(PATIENCE_S)
        child.hang_up()
        child.hang_up()
        assert child.rest(PATIENCE_S) == "term\n"


def test_a_thread_that_waits_for_one_that_is_killed() -> None:
    with python("import time; time.sleep(60)") as child:
        killer = threading.Timer(0.2, child.process.kill)
        killer.start()
        with pytest.raises(PeerError, match="it ended: killed by signal 9"):
            child.line(None)
        killer.join()


def test_several_are_listened_to() -> None:
    with python(ECHO, talks=True) as one, python(ECHO, talks=True) as other:
        assert not listen([one, other], 0.1)
        other.say({"number": 1})
        assert listen([one, other], PATIENCE_S)
        assert (one.heard(), other.heard()) == ([], [{"number": 1}])
        other.hang_up()
        while not other.silent:
            assert listen([one, other], PATIENCE_S)
        assert not one.ended


def test_one_that_cannot_be_started_leaves_nothing_open() -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError):
        Child("it", ["/nowhere/at/all"])
    assert os.listdir("/proc/self/fd") == before


def test_it_ends_with_this_process() -> None:
    """However that ends: killed, it closes nothing itself."""
    parent = (
        "import sys, time; from mrc.child import Child\n"
        f"child = Child('it', [sys.executable, '-c', {ECHO!r}], talks=True)\n"
        "print(child.process.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
    deadline = time.monotonic() + PATIENCE_S
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not os.path.exists(f"/proc/{pid}")


@pytest.mark.parametrize("talks", [False, True])
def test_an_interrupted_start_leaves_nothing_at_work(talks: bool) -> None:
    """However long the start goes on after the interrupt: what it has started is ended before that is raised."""
    begun: list[subprocess.Popen[bytes]] = []
    before = os.listdir("/proc/self/fd")

    def start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(*arguments, **options)
        os.kill(os.getpid(), signal.SIGINT)
        # The interrupt is raised in the main thread as soon as that looks, long before this returns.
        time.sleep(0.3)
        begun.append(process)
        return process

    with pytest.raises(KeyboardInterrupt):
        Child("it", [sys.executable, "-c", "import time; time.sleep(60)"], start, talks=talks)
    (process,) = begun
    assert process.returncode is not None
    begun.clear()
    del process
    assert os.listdir("/proc/self/fd") == before


def fork(folder: Path, monkeypatch: pytest.MonkeyPatch, program: str, *arguments: str, **options: Any) -> Child:
    """A fork of this process that runs a program as a module."""
    (folder / "forked_program.py").write_text(program)
    monkeypatch.syspath_prepend(folder)
    argv = [sys.executable, "-m", "forked_program", *arguments]
    return Child("it", argv, forked, talks=True, **options)


LOOKS = """
import json, os, signal, sys
print(json.dumps({
    "argv": sys.argv[1:],
    "environment": dict(os.environ),
    "modules": "test_child" in sys.modules,
    "descriptors": sorted(map(int, os.listdir("/proc/self/fd")))[:3] + [len(os.listdir("/proc/self/fd"))],
    "session": os.getsid(0) == os.getpid(),
    "signals": [signal.getsignal(number) is signal.SIG_DFL for number in (signal.SIGTERM, signal.SIGHUP)],
    "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "ignored": [signal.getsignal(number) is signal.SIG_IGN for number in (signal.SIGPIPE, signal.SIGUSR1)],
    "name": __name__,
    "said": sys.stdin.readline(),
}))
"""


def test_a_fork_is_as_a_new_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for what is imported. It writes nothing that this process has yet to write, and has none of its handlers."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)}
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        print("of the parent", end="")
        with fork(tmp_path, monkeypatch, LOOKS, "one", "two words", env={"A": "b"}) as child:
            child.say("hello")
            told = child.outcome(PATIENCE_S)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert told == {
        "argv": ["one", "two words"],
        "environment": {"A": "b"},
        "modules": True,
        # The fourth is the folder that is looked at.
        "descriptors": [0, 1, 2, 4],
        "session": True,
        "signals": [True, True],
        "interrupt": True,
        "ignored": [True, True],
        "name": "__main__",
        "said": '"hello"\n',
    }


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("pass", "exit status 0"),
        ("import sys; sys.exit()", "exit status 0"),
        ("import sys; sys.exit(3)", "exit status 3"),
        ("import sys; sys.exit('no room')", "no room"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", "killed by signal 2"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "killed by signal 15"),
        ("import no_such_module_at_all", "ModuleNotFoundError: No module named 'no_such_module_at_all'"),
    ],
)
def test_a_fork_ends_as_a_new_interpreter_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, why: str
) -> None:
    with fork(tmp_path, monkeypatch, program) as child:
        assert child.rest(PATIENCE_S, None) == ""
        assert child.why() == why


def test_a_fork_writes_all_it_has_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fork(tmp_path, monkeypatch, "import sys; print('x' * 100_000, end=''); sys.exit(1)") as child:
        assert child.rest(PATIENCE_S, 1) == "x" * 100_000


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_a_fork_prints_waits_as_in_a_new_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unbuffered: str
) -> None:
    program = "import os, sys; print(1, end=''); sys.stdout.buffer.write(b'2'); os.kill(os.getpid(), 9)"
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with fork(tmp_path, monkeypatch, program, env=environment) as child:
        assert child.rest(PATIENCE_S, None) == ("12" if unbuffered else "")


def test_a_fork_ends_when_its_input_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside another one, which does not hold that open."""
    with (
        fork(tmp_path, monkeypatch, ECHO) as one,
        fork(tmp_path, monkeypatch, ECHO) as other,
    ):
        other.say({})
        assert other.hear(PATIENCE_S) == {}
        one.hang_up()
        assert one.rest(PATIENCE_S) == ""
        assert not other.ended
