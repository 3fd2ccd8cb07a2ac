/* An NCCL for the tests of nccl-join check: functions of its names, and the texts by which the real
 * one is known (found in 2.27.3 and 2.28.9). SHOWN: whether others can use the functions. */
#ifndef VERSION
#define VERSION "2.28.9"
#endif
#ifdef SHOWN
#define API __attribute__((visibility("default")))
#else
#define API __attribute__((visibility("hidden")))
#endif

const char *nccl_texts(int which);

API __attribute__((noinline)) int ncclCommInitRank(void) {
  __asm__("");
  return nccl_texts(1) == nccl_texts(2);
}
API __attribute__((noinline)) int ncclAllReduce(void) {
  __asm__("");
  return 0;
}
API int ncclGetVersion(void) {
  return ncclAllReduce();
}

#ifdef WITHOUT_TEXTS
const char *nccl_texts(int which) {
  return which ? "" : "a";
}
#else
const char *nccl_texts(int which) {
  return which == 1   ? "NCCL version " VERSION "+cuda13.0"
         : which == 2 ? "NCCL_GRAPH_DUMP_FILE"
                      : "NCCL version mismatch";
}
#endif
