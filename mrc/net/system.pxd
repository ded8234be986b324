# What compiled modules use in place of system.py.
cdef extern from "system.h" nogil:
    int send "system_send"(int fd, long long messages, unsigned int count)
    int receive "system_receive"(int fd, long long messages, unsigned int count)
    long long clock "system_clock"()
    void sleep "system_sleep"(long long ns)
    void yield_processor "system_yield"()
    long long wait "system_wait_view"(const long long[::1] fds, int count, long long ns)
    long long waiting "system_waiting"(int fd)

cdef extern from "system.h":
    int raise_signal "system_raise_signal"() except -1
    long long let_go "system_let_go"()
    void take_back "system_take_back"(long long state)
