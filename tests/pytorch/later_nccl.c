/* With the objects of the loopback's NCCL it is the same once more, and has the functions of NCCL
 * 2.29 and later that PyTorch's libraries are linked to. What is called of them says its name and
 * returns ncclInvalidUsage. None looks at its arguments. */
#include <stdio.h>

#define REFUSED(name)                                                                              \
  __attribute__((visibility("default"))) int name(void);                                           \
  int name(void) {                                                                                 \
    fprintf(stderr, "loopback: " #name ": not there before NCCL 2.29\n");                          \
    return 5; /* ncclInvalidUsage */                                                               \
  }
REFUSED(ncclCommGetUniqueId)
REFUSED(ncclCommGrow)
REFUSED(ncclCommMemStats)
REFUSED(ncclCommResume)
REFUSED(ncclCommSuspend)
REFUSED(ncclGetLsaMultimemDevicePointer)
REFUSED(ncclGetPeerDevicePointer)
REFUSED(ncclPutSignal)
REFUSED(ncclSignal)
REFUSED(ncclWaitSignal)
REFUSED(ncclWinGetUserPtr)
