/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens the device and says how that went. */
#include <infiniband/verbs.h>
#include <stdio.h>

int main(void)
{
	errno = 0;
	puts(ibv_open_device(ibv_get_device_list(NULL)[0]) ? "open" : strerror(errno));
	return 0;
}
