/* SPDX-License-Identifier: BSD-2-Clause */
/* What people read: names of statuses, events and states. */
#include "objects.h"

EXPORT const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	switch ((int)status) {
	case IBV_WC_SUCCESS: return "success";
	case IBV_WC_LOC_LEN_ERR: return "local length error";
	case IBV_WC_LOC_QP_OP_ERR: return "local QP operation error";
	case IBV_WC_LOC_PROT_ERR: return "local protection error";
	case IBV_WC_WR_FLUSH_ERR: return "flushed: the QP is in the error state";
	case IBV_WC_REM_INV_REQ_ERR: return "the peer refused the request as invalid";
	case IBV_WC_REM_ACCESS_ERR: return "the peer refused access to its memory";
	case IBV_WC_REM_OP_ERR: return "the peer could not carry the request out";
	case IBV_WC_RETRY_EXC_ERR: return "no answer: retries are spent";
	case IBV_WC_RNR_RETRY_EXC_ERR: return "the peer had no receive: retries are spent";
	case IBV_WC_FATAL_ERR: return "fatal error";
	case IBV_WC_GENERAL_ERR: return "general error";
	default: return "unknown";
	}
}

EXPORT const char *ibv_event_type_str(enum ibv_event_type event)
{
	switch ((int)event) {
	case IBV_EVENT_CQ_ERR: return "CQ error";
	case IBV_EVENT_QP_FATAL: return "QP fatal error";
	case IBV_EVENT_DEVICE_FATAL: return "device fatal error";
	case IBV_EVENT_PORT_ACTIVE: return "port active";
	case IBV_EVENT_PORT_ERR: return "port error";
	default: return "unknown";
	}
}

EXPORT const char *ibv_node_type_str(enum ibv_node_type type) { return type == IBV_NODE_CA ? "channel adapter" : "unknown"; }

EXPORT const char *ibv_port_state_str(enum ibv_port_state state)
{
	static const char *const names[] = {"nop", "down", "init", "armed", "active"};

	return (unsigned)state < 5 ? names[state] : "unknown";
}
