/* SPDX-License-Identifier: BSD-2-Clause */
/* Versions of the controller's interface in mrc_ctl.h: a major and a minor number of 8 bits, a subminor of 16. */
#ifndef _MRC_CTL_API_VER_H_
#define _MRC_CTL_API_VER_H_

#define MRC_CTL_API_VER_MAJOR_OFFSET 24
#define MRC_CTL_API_VER_MINOR_OFFSET 16
#define MRC_CTL_API_VER(major, minor, subminor)                                                                        \
	((major) << MRC_CTL_API_VER_MAJOR_OFFSET | (minor) << MRC_CTL_API_VER_MINOR_OFFSET | (subminor))
/* For MRC_CTL_API_VER_USED: whichever this header has. */
#define MRC_CTL_API_VER_LATEST MRC_CTL_API_VER(0xFF, 0xFF, 0xFFFF)

#define MRC_CTL_API_CURRENT_VERSION MRC_CTL_API_VER(1, 0, 1)
#define MRC_CTL_API_LAST_SUPPORTED_VERSION MRC_CTL_API_VER(1, 0, 0)

/* A program may define the version it is written for before it includes mrc_ctl.h. */
#ifndef MRC_CTL_API_VER_USED
#define MRC_CTL_API_VER_USED MRC_CTL_API_CURRENT_VERSION
#elif MRC_CTL_API_VER_USED == MRC_CTL_API_VER_LATEST
#undef MRC_CTL_API_VER_USED
#define MRC_CTL_API_VER_USED MRC_CTL_API_CURRENT_VERSION
#endif
#if MRC_CTL_API_VER_USED > MRC_CTL_API_CURRENT_VERSION
#error "MRC_CTL_API_VER_USED is newer than this mrc_ctl.h"
#endif

#endif
