# What compiled modules use in place of system.py. Without `nogil`: both give up the interpreter's lock themselves.
cdef extern from "system.h":
    int send "system_send"(int fd, long long messages, unsigned int count) except -100000
    int receive "system_receive"(int fd, long long messages, unsigned int count)
