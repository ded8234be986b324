# SPDX-License-Identifier: BSD-2-Clause
# What compiled modules use in place of interpreter.py.
cdef extern from *:
    """
    #define mrc_let_go() ((long long)(uintptr_t)PyEval_SaveThread())
    #define mrc_take_back(state) PyEval_RestoreThread((PyThreadState *)(uintptr_t)(state))
    """
    long long let_go "mrc_let_go"()
    void take_back "mrc_take_back"(long long state)
