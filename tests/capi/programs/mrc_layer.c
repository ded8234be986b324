/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A libibverbs.so.1 between a program and the library, as verbs shims are: it passes on what the program calls, to the
 * library that LAYER_OVER names. The library's own calls must not come here.
 */
#define _GNU_SOURCE
#include <infiniband/verbs.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *under(const char *name)
{
	void *library = dlopen(getenv("LAYER_OVER"), RTLD_NOW | RTLD_LOCAL), *found = library ? dlsym(library, name) : NULL;

	if (!found) {
		printf("%s: %s\n", name, dlerror());
		exit(1);
	}
	return found;
}

#define PASSES_ON(type, name, parameters, arguments)                                                                   \
	type name parameters                                                                                           \
	{                                                                                                              \
		static int entered;                                                                                    \
                                                                                                                       \
		if (entered++) {                                                                                       \
			printf("the library calls %s of another\n", #name);                                            \
			exit(1);                                                                                       \
		}                                                                                                      \
		type done = ((__typeof__(&name))under(#name))arguments;                                                \
                                                                                                                       \
		entered = 0;                                                                                           \
		return done;                                                                                           \
	}
#define NOT_CALLED(name)                                                                                               \
	void name##_is_not_called(void) __asm__(#name);                                                                \
	void name##_is_not_called(void)                                                                                \
	{                                                                                                              \
		printf("the library calls %s of another\n", #name);                                                    \
		exit(1);                                                                                               \
	}

PASSES_ON(struct ibv_device **, ibv_get_device_list, (int *number), (number))
PASSES_ON(struct ibv_context *, ibv_open_device, (struct ibv_device *device), (device))
PASSES_ON(int, ibv_close_device, (struct ibv_context *context), (context))
PASSES_ON(int, ibv_query_gid, (struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid),
	(context, port, index, gid))
PASSES_ON(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context *context), (context))
PASSES_ON(int, ibv_dealloc_pd, (struct ibv_pd *pd), (pd))
PASSES_ON(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd *pd, void *addr, size_t length, int access), (pd, addr, length, access))
PASSES_ON(int, ibv_dereg_mr, (struct ibv_mr *mr), (mr))
NOT_CALLED(ibv_reg_mr_iova2)
NOT_CALLED(ibv_create_cq)
NOT_CALLED(ibv_destroy_cq)
NOT_CALLED(ibv_create_qp)
NOT_CALLED(ibv_destroy_qp)
NOT_CALLED(ibv_query_qp)
NOT_CALLED(ibv_create_comp_channel)
NOT_CALLED(ibv_destroy_comp_channel)
