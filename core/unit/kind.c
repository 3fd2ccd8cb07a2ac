/* The table of kinds: the collectives from their rows, the others by hand (kind.h). Names are those
 * of NCCL's documentation.
 */
#include "core/unit/kind.h"

#define KIND_ROW(with, KIND, NAME, ROOT, REDUCTION, TEXT, SINCE, CONFIG, SENDS, RECEIVES,          \
                 IN_PLACE, ...)                                                                    \
  [MEMBER_##KIND] = {.name = TEXT,                                                                 \
                     .function = "nccl" #NAME,                                                     \
                     .root = KIND_##ROOT,                                                          \
                     .sends = KIND_##SENDS,                                                        \
                     .receives = KIND_##RECEIVES,                                                  \
                     .in_place = KIND_##IN_PLACE,                                                  \
                     .reduces = COLLECTIVE_IF_##REDUCTION(true, false)},

const struct kind_traits kind_table[MEMBER_KINDS] = {
    [MEMBER_NONE] = {.name = "unknown", .function = "unknown"},
    [MEMBER_SEND] = {.name = "send",
                     .function = "ncclSend",
                     .root = KIND_ROOTED,
                     .sends = KIND_ONE},
    [MEMBER_RECEIVE] = {.name = "recv",
                        .function = "ncclRecv",
                        .root = KIND_ROOTED,
                        .receives = KIND_ONE},
    [MEMBER_EXCHANGE] = {.name = "exchange", .function = "ncclGroupEnd"},
    [MEMBER_SPLIT] = {.name = "split", .function = "ncclCommSplit"},
    [MEMBER_STATE] = {.name = "state",
                      .function = "ncclBroadcast",
                      .root = KIND_ROOTED,
                      .sends = KIND_ROOT_ONE,
                      .receives = KIND_ONE},
    [MEMBER_MARK] = {.name = "mark", .function = "unknown"},
    NCCL_COLLECTIVES(KIND_ROW, )};
