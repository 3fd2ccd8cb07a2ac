/* A plug-in for a version that there is not yet. */
extern const int ncclJoinHook_v2;
const int ncclJoinHook_v2 = 2;
