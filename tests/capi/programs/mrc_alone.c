/* SPDX-License-Identifier: BSD-2-Clause */
/* lib_mrc.so without the libibverbs.so.1 that belongs to it: what knows no device answers, what needs one is refused. */
#include "mrc_pair.h"

int main(void)
{
	struct mrc_device_attr device;
	uint32_t current = 0;
	int supported = -1;

	mrc_query_version(&current, NULL, NULL, NULL), CHECK(current, MRC_API_CURRENT_VERSION);
	CHECK(mrc_query_device((struct ibv_context *)memory, &device, &supported) == -1 && errno == ENOSYS && !supported, 1);
	return wrong;
}
