# SPDX-License-Identifier: BSD-2-Clause
# What compiled modules use in place of system.py.
cdef extern from "system.h" nogil:
    int send "system_send"(int fd, long long messages, unsigned int count)
    int receive "system_receive"(int fd, long long messages, unsigned int count)
    long long clock "system_clock"()
    void sleep "system_sleep"(long long ns)
    void yield_processor "system_yield"()
    long long wait "system_wait_view"(const long long[::1] fds, int count, long long ns)
    long long waiting "system_waiting"(int fd)
    void ring "system_ring"(int bell)
    void hear "system_hear"(int bell)
    bint try_hold "system_try_hold_view"(long long[::1] lock)
    void give_back "system_give_back_view"(long long[::1] lock)
    void ask "system_ask_view"(long long[::1] lock, long long more)
    bint is_asked_for "system_is_asked_for_view"(long long[::1] lock)

cdef extern from "system.h":
    int raise_signal "system_raise_signal"() except -1
