/* A program that asks by weak references which functions its NCCL has, and calls one that is there.
 */
#include "interpose/nccl/nccl_compat.h"
#include "tests/interpose/parts/say.h"

#pragma weak ncclAllReduce
#pragma weak ncclCommShrink
ncclResult_t ncclCommShrink(ncclComm_t comm, int *excludeRanksList, int excludeRanksCount,
                            ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags);

static const void *const table[] = {(const void *)ncclCommShrink};

static const char *word(const void *function) {
  return function == NULL ? "missing" : "there";
}

int main(void) {
  if (ncclAllReduce != NULL)
    ncclAllReduce(NULL, NULL, 1, ncclFloat, ncclSum, NULL, NULL);
  say("AllReduce %s", word((const void *)ncclAllReduce));
  say("CommShrink %s", word((const void *)ncclCommShrink));
  say("CommShrink in a table %s", word(table[0]));
  return 0;
}
