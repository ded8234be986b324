/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of libibverbs that are there to be found and refuse: what MRC has not, and what only drivers of kernel devices
 * call. Programs that are linked with those drivers' libraries do not load without them.
 */
#include "objects.h"

#include <stdbool.h>

#define REFUSES(name)                                                                                                  \
	EXPORT int name(void) { return mrc_refused(#name); }
#define REFUSES_WITH_MINUS_ONE(name)                                                                                   \
	EXPORT int name(void) { return mrc_refused(#name), -1; }
#define REFUSES_WITH_NULL(name)                                                                                        \
	EXPORT void *name(void) { return mrc_refused(#name), NULL; }

EXPORT bool verbs_allow_disassociate_destroy;

/* Drivers register when their library is loaded: there is no device of theirs. */
EXPORT void verbs_register_driver_34(const void *ops) { (void)ops; }
EXPORT void __verbs_log(void *context, uint32_t level, const char *format, ...) { (void)context, (void)level, (void)format; }
/* Memory may be forked as it is: see start.c. */
EXPORT int ibv_dontfork_range(void *base, size_t size) { return (void)base, (void)size, 0; }
EXPORT int ibv_dofork_range(void *base, size_t size) { return (void)base, (void)size, 0; }
/* The kernel knows nothing of the device. */
EXPORT const char *ibv_get_sysfs_path(void) { return "/sys"; }
EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	return (void)dir, (void)file, (void)buf, (void)size, -1;
}
EXPORT int ibv_read_ibdev_sysfs_file(char *buf, size_t size, void *device, const char *format, ...)
{
	return (void)buf, (void)size, (void)device, (void)format, -1;
}
EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, int opcode, uint32_t flags)
{
	return (void)qp, (void)opcode, (void)flags, 0;
}
EXPORT int ibv_rate_to_mult(int rate) { return (void)rate, -1; }
EXPORT int ibv_rate_to_mbps(int rate) { return (void)rate, -1; }
EXPORT int mult_to_ibv_rate(int mult) { return (void)mult, 0; }
EXPORT int mbps_to_ibv_rate(int mbps) { return (void)mbps, 0; }

REFUSES_WITH_NULL(_verbs_init_and_alloc_context)
REFUSES_WITH_NULL(ibv_create_ah)
REFUSES_WITH_NULL(ibv_create_ah_from_wc)
REFUSES_WITH_NULL(ibv_create_srq)
REFUSES_WITH_NULL(ibv_import_device)
REFUSES_WITH_NULL(ibv_import_dm)
REFUSES_WITH_NULL(ibv_import_mr)
REFUSES_WITH_NULL(ibv_import_pd)
REFUSES_WITH_NULL(ibv_reg_dmabuf_mr)
REFUSES_WITH_NULL(verbs_open_device)
REFUSES_WITH_MINUS_ONE(ibv_init_ah_from_wc)
REFUSES_WITH_MINUS_ONE(ibv_rereg_mr)
REFUSES_WITH_MINUS_ONE(ibv_resolve_eth_l2_from_gid)
REFUSES(__ioctl_final_num_attrs)
REFUSES(execute_ioctl)
REFUSES(ibv_attach_mcast)
REFUSES(ibv_cmd_advise_mr)
REFUSES(ibv_cmd_alloc_dm)
REFUSES(ibv_cmd_alloc_mw)
REFUSES(ibv_cmd_alloc_pd)
REFUSES(ibv_cmd_attach_mcast)
REFUSES(ibv_cmd_close_xrcd)
REFUSES(ibv_cmd_create_ah)
REFUSES(ibv_cmd_create_counters)
REFUSES(ibv_cmd_create_cq)
REFUSES(ibv_cmd_create_cq_ex)
REFUSES(ibv_cmd_create_flow)
REFUSES(ibv_cmd_create_flow_action_esp)
REFUSES(ibv_cmd_create_qp)
REFUSES(ibv_cmd_create_qp_ex)
REFUSES(ibv_cmd_create_qp_ex2)
REFUSES(ibv_cmd_create_rwq_ind_table)
REFUSES(ibv_cmd_create_srq)
REFUSES(ibv_cmd_create_srq_ex)
REFUSES(ibv_cmd_create_wq)
REFUSES(ibv_cmd_dealloc_mw)
REFUSES(ibv_cmd_dealloc_pd)
REFUSES(ibv_cmd_dereg_mr)
REFUSES(ibv_cmd_destroy_ah)
REFUSES(ibv_cmd_destroy_counters)
REFUSES(ibv_cmd_destroy_cq)
REFUSES(ibv_cmd_destroy_flow)
REFUSES(ibv_cmd_destroy_flow_action)
REFUSES(ibv_cmd_destroy_qp)
REFUSES(ibv_cmd_destroy_rwq_ind_table)
REFUSES(ibv_cmd_destroy_srq)
REFUSES(ibv_cmd_destroy_wq)
REFUSES(ibv_cmd_detach_mcast)
REFUSES(ibv_cmd_free_dm)
REFUSES(ibv_cmd_get_context)
REFUSES(ibv_cmd_modify_cq)
REFUSES(ibv_cmd_modify_flow_action_esp)
REFUSES(ibv_cmd_modify_qp)
REFUSES(ibv_cmd_modify_qp_ex)
REFUSES(ibv_cmd_modify_srq)
REFUSES(ibv_cmd_modify_wq)
REFUSES(ibv_cmd_open_qp)
REFUSES(ibv_cmd_open_xrcd)
REFUSES(ibv_cmd_poll_cq)
REFUSES(ibv_cmd_post_recv)
REFUSES(ibv_cmd_post_send)
REFUSES(ibv_cmd_post_srq_recv)
REFUSES(ibv_cmd_query_context)
REFUSES(ibv_cmd_query_device_any)
REFUSES(ibv_cmd_query_mr)
REFUSES(ibv_cmd_query_port)
REFUSES(ibv_cmd_query_qp)
REFUSES(ibv_cmd_query_srq)
REFUSES(ibv_cmd_read_counters)
REFUSES(ibv_cmd_reg_dm_mr)
REFUSES(ibv_cmd_reg_dmabuf_mr)
REFUSES(ibv_cmd_reg_mr)
REFUSES(ibv_cmd_req_notify_cq)
REFUSES(ibv_cmd_rereg_mr)
REFUSES(ibv_cmd_resize_cq)
REFUSES(ibv_copy_ah_attr_from_kern)
REFUSES(ibv_copy_path_rec_from_kern)
REFUSES(ibv_copy_path_rec_to_kern)
REFUSES(ibv_copy_qp_attr_from_kern)
REFUSES(ibv_destroy_ah)
REFUSES(ibv_destroy_srq)
REFUSES(ibv_detach_mcast)
REFUSES(ibv_modify_srq)
REFUSES(ibv_query_srq)
REFUSES(ibv_resize_cq)
REFUSES(ibv_unimport_dm)
REFUSES(ibv_unimport_mr)
REFUSES(ibv_unimport_pd)
REFUSES(verbs_init_cq)
REFUSES(verbs_set_ops)
REFUSES(verbs_uninit_context)
