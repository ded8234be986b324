/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints sizes and places of structures, with whichever header it is compiled. */
#include <infiniband/verbs.h>
#include <stdio.h>

#define SIZE(type) printf(#type " %zu\n", sizeof(struct type));
#define PLACE(type, name) printf(#type "." #name " %zu\n", offsetof(struct type, name));

int main(void)
{
	SIZE(ibv_device) PLACE(ibv_device, node_type) PLACE(ibv_device, transport_type) PLACE(ibv_device, name)
	PLACE(ibv_device, dev_name) PLACE(ibv_device, dev_path) PLACE(ibv_device, ibdev_path)
	SIZE(ibv_device_attr) PLACE(ibv_device_attr, node_guid) PLACE(ibv_device_attr, max_mr_size)
	PLACE(ibv_device_attr, max_qp) PLACE(ibv_device_attr, max_sge) PLACE(ibv_device_attr, max_cqe)
	PLACE(ibv_device_attr, max_pd) PLACE(ibv_device_attr, atomic_cap) PLACE(ibv_device_attr, max_srq_sge)
	PLACE(ibv_device_attr, max_pkeys) PLACE(ibv_device_attr, phys_port_cnt)
	SIZE(ibv_port_attr) PLACE(ibv_port_attr, max_mtu) PLACE(ibv_port_attr, gid_tbl_len)
	PLACE(ibv_port_attr, max_msg_sz) PLACE(ibv_port_attr, pkey_tbl_len) PLACE(ibv_port_attr, active_width)
	PLACE(ibv_port_attr, active_speed) PLACE(ibv_port_attr, phys_state) PLACE(ibv_port_attr, link_layer)
	PLACE(ibv_port_attr, port_cap_flags2)
	SIZE(ibv_global_route) PLACE(ibv_global_route, traffic_class) PLACE(ibv_global_route, sgid_index)
	SIZE(ibv_ah_attr) PLACE(ibv_ah_attr, is_global) PLACE(ibv_ah_attr, port_num)
	SIZE(ibv_qp_cap) SIZE(ibv_qp_attr) PLACE(ibv_qp_attr, path_mtu) PLACE(ibv_qp_attr, rq_psn)
	PLACE(ibv_qp_attr, sq_psn) PLACE(ibv_qp_attr, dest_qp_num) PLACE(ibv_qp_attr, qp_access_flags)
	PLACE(ibv_qp_attr, cap) PLACE(ibv_qp_attr, ah_attr) PLACE(ibv_qp_attr, pkey_index) PLACE(ibv_qp_attr, port_num)
	PLACE(ibv_qp_attr, timeout) PLACE(ibv_qp_attr, rate_limit)
	SIZE(ibv_pd) SIZE(ibv_mr) PLACE(ibv_mr, lkey) PLACE(ibv_mr, rkey) SIZE(ibv_comp_channel)
	PLACE(ibv_comp_channel, fd) PLACE(ibv_comp_channel, refcnt)
	SIZE(ibv_cq) PLACE(ibv_cq, cqe) PLACE(ibv_cq, comp_events_completed)
	SIZE(ibv_qp_init_attr) PLACE(ibv_qp_init_attr, cap) PLACE(ibv_qp_init_attr, sq_sig_all)
	SIZE(ibv_qp) PLACE(ibv_qp, qp_num) PLACE(ibv_qp, state) PLACE(ibv_qp, events_completed)
	SIZE(ibv_sge) SIZE(ibv_send_wr) PLACE(ibv_send_wr, opcode) PLACE(ibv_send_wr, imm_data) PLACE(ibv_send_wr, wr)
	PLACE(ibv_send_wr, wr.rdma.rkey) SIZE(ibv_recv_wr) SIZE(ibv_wc) PLACE(ibv_wc, byte_len) PLACE(ibv_wc, imm_data)
	PLACE(ibv_wc, qp_num) PLACE(ibv_wc, wc_flags) SIZE(ibv_async_event) PLACE(ibv_async_event, event_type)
	SIZE(ibv_context) PLACE(ibv_context, ops.poll_cq) PLACE(ibv_context, ops.req_notify_cq)
	PLACE(ibv_context, ops.post_srq_recv) PLACE(ibv_context, ops.post_send) PLACE(ibv_context, ops.post_recv)
	PLACE(ibv_context, async_fd) PLACE(ibv_context, num_comp_vectors) PLACE(ibv_context, abi_compat)
	SIZE(ibv_gid_entry) PLACE(ibv_gid_entry, gid_type) printf("gid %zu\n", sizeof(union ibv_gid));
	return 0;
}
