/* <nccl.h> of whatever release is installed, 2.18 to 2.32, and the types of api.h that an older one
 * lacks.
 *
 * The object built against any of these headers runs in front of any of these libraries: structures
 * are only passed on by pointer, and what is declared here is laid out as in the release that
 * introduced it.
 */
#ifndef NCCL_JOIN_INTERPOSE_NCCL_COMPAT_H
#define NCCL_JOIN_INTERPOSE_NCCL_COMPAT_H

#include <nccl.h>
#include <stddef.h>

#if NCCL_VERSION_CODE < 21800
#error "nccl-join needs the nccl.h of NCCL 2.18 or later"
#endif

#if NCCL_VERSION_CODE < 22200
typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime;
} ncclSimInfo_t;
#endif

#if NCCL_VERSION_CODE < 22700
typedef struct ncclWindow *ncclWindow_t;
#endif

#if NCCL_VERSION_CODE < 22900
typedef struct {
  int opCnt;
  int peer;
  int sigIdx;
  int ctx;
} ncclWaitSignalDesc_t;
#endif

#if NCCL_VERSION_CODE < 23100
typedef struct ncclCollConfig ncclCollConfig_t;
#endif

/* Since 2.28 these are in nccl_device.h, which is C++. */
struct ncclDevComm;
struct ncclDevCommRequirements;

#endif
