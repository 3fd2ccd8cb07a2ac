/* Sends and receives that tests post. Their place in a unit is none: they are not the same on all
 * ranks (core/p2p/peers.h).
 */
#ifndef TESTS_UNIT_OPERATION_H
#define TESTS_UNIT_OPERATION_H

#include "core/unit/unit.h"

/* Of float32. kind: MEMBER_SEND or MEMBER_RECEIVE. comm: the tag of the communicator. count:
 * elements. */
static inline struct member operation_member(uint8_t kind, uint32_t comm, uint32_t peer,
                                             uint64_t count) {
  return (struct member){.count = count,
                         .comm = comm,
                         .root = (int32_t)peer,
                         .reduction = REDUCTION_NONE,
                         .kind = kind,
                         .datatype = DATATYPE_FLOAT32};
}

#endif
