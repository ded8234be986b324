/* SPDX-License-Identifier: BSD-2-Clause */
/* mrc_ctl.h. What a structure says is read and written by Python (mrc/capi/control.py): here are pointers alone. */
#include "ctl_api.h"

EXPORT mrc_libmrc_ctl_function mrc_libmrc_ctl;

static int ask(const char *function, struct ibv_context *context, enum control what, uint64_t number, void *attr, int mask)
{
	word words[CALL_WORDS] = {0};
	int error;

	if ((error = mrc_check_place_of(function, attr)) || (error = mrc_checked(function, context_of(context), CONTEXT)))
		return error;
	words[CONTROL_CONTEXT] = context_of(context)->handle;
	words[CONTROL_WHAT] = what;
	words[CONTROL_NUMBER] = (word)number;
	words[CONTROL_ATTR] = (word)(uintptr_t)attr;
	words[CONTROL_MASK] = (uint32_t)mask;
	return mrc_call(CALL_CONTROL, words);
}

static int ask_over(const char *function, struct mrc_context *context, enum control what, uint64_t number, void *attr, int mask)
{
	int error = mrc_checked(function, context, MRC_CONTEXT);

	return mrc_minus_one(error ? error : ask(function, context->ibv, what, number, attr, mask));
}

int mrc_ctl_query_device(struct ibv_context *context, struct mrc_ctl_device_attr *ctl_attr)
{
	if (ctl_attr)
		memset(ctl_attr, 0, sizeof *ctl_attr);
	return mrc_minus_one(ask(__func__, context, CONTROL_QUERY_DEVICE, 0, ctl_attr, 0));
}

int mrc_ctl_query_device_ex(
	struct ibv_context *context, struct mrc_context *mcontext, struct mrc_ctl_device_attr *ctl_attr, int *supported)
{
	int error = mrc_check_context(mcontext);

	if (supported)
		*supported = 0;
	if (!error && !(error = mrc_check_place(supported)) && mcontext->ibv != context)
		error = REFUSE(REFUSED_OTHER_CONTEXT, "context of mrc.h");
	if (error)
		return mrc_minus_one(error);
	if (mrc_ctl_query_device(context, ctl_attr))
		return -1;
	*supported = 1;
	return 0;
}

int mrc_ctl_query_port(struct mrc_context *context, uint8_t port_num, struct mrc_ctl_port_attr *attr, int attr_mask)
{
	return ask_over(__func__, context, CONTROL_QUERY_PORT, port_num, attr, attr_mask);
}

int mrc_ctl_modify_port(struct mrc_context *context, uint8_t port_num, struct mrc_ctl_port_attr *attr, int attr_mask)
{
	return ask_over(__func__, context, CONTROL_MODIFY_PORT, port_num, attr, attr_mask);
}

#define ASKS(name, what, type)                                                                                         \
	int name(struct mrc_context *mrc_ctx, uint64_t id, type *attr, int attr_mask)                                  \
	{                                                                                                              \
		return ask_over(__func__, mrc_ctx, what, id, attr, attr_mask);                                                   \
	}

ASKS(mrc_ctl_modify_ev_fmt_profile, CONTROL_MODIFY_FORMAT, struct mrc_ctl_ev_fmt_profile_attr)
ASKS(mrc_ctl_query_ev_fmt_profile, CONTROL_QUERY_FORMAT, struct mrc_ctl_ev_fmt_profile_attr)
ASKS(mrc_ctl_modify_ev_profile, CONTROL_MODIFY_EV, struct mrc_ctl_ev_profile_attr)
ASKS(mrc_ctl_query_ev_profile, CONTROL_QUERY_EV, struct mrc_ctl_ev_profile_attr)
ASKS(mrc_ctl_modify_cc_profile, CONTROL_MODIFY_CC, struct mrc_ctl_cc_profile_attr)
ASKS(mrc_ctl_query_cc_profile, CONTROL_QUERY_CC, struct mrc_ctl_cc_profile_attr)

#define PLACED(name) name,

const struct mrc_ctl_api *mrc_libmrc_ctl(size_t size)
{
	static const struct mrc_ctl_api api = {MRC_CTL_API_FUNCTIONS(PLACED)};

	return size == sizeof api ? &api : NULL;
}
