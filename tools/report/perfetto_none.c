/* In the place of perfetto.c where protobuf-c was missing when this was built. */
#include <stdio.h>

#include "tools/report/perfetto.h"

bool perfetto_write(const char *path, const struct tracks *tracks) {
  (void)tracks;
  fprintf(stderr,
          "nccl-join: cannot write %s: this nccl-join was built without protobuf-c (Debian's "
          "libprotobuf-c-dev and protobuf-c-compiler; run make again with them)\n",
          path);
  return false;
}
