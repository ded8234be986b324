/* SPDX-License-Identifier: BSD-2-Clause */
/* The interpreter's lock, for compiled modules: interpreter.py in C. */
#ifndef MRC_INTERPRETER_H
#define MRC_INTERPRETER_H

#include <Python.h>

#include <stdint.h>

#define interpreter_let_go() ((long long)(uintptr_t)PyEval_SaveThread())
#define interpreter_take_back(state) PyEval_RestoreThread((PyThreadState *)(uintptr_t)(state))

#endif
