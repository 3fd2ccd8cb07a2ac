/* One member of a shadow unit: from which memory it sends, to which it receives, and its call. Used
 * by shadow.c, in this order for all members of a unit: device_needs_begin, call_needs,
 * device_allocate, call_prepare, device_receive_again, call_make.
 */
#ifndef NCCL_JOIN_HOOKS_SHADOW_CALL_H
#define NCCL_JOIN_HOOKS_SHADOW_CALL_H

#include "hooks/shadow_device.h"

/* Whether this NCCL has the function of a member's kind, and its name. */
bool call_is_available(const struct nccl_calls *nccl, uint8_t kind, const char **name);

/* Asks for the memory. False if its device has too many kinds of that. */
bool call_needs(const struct member *member, const struct shadow_member *here);

/* What a plug-in is to write to in place of the pattern: in which memory, and how much. NULL: it
 * sends nothing, or something of its own. */
struct memory *call_lends(const struct member *member, const struct shadow_member *here,
                          uint64_t *pattern, size_t *bytes);

/* Bytes that it reads from its send buffer; 0: none. */
size_t call_send_bytes(const struct member *member, const struct shadow_member *here);

/* Registers what is to be registered, and lays down what is sent in place. *where: the function
 * that failed. Not in a group, and in the context of the first member's device. */
ncclResult_t call_prepare(const struct nccl_calls *nccl, const struct member *member,
                          const struct shadow_member *here, const char **where);

/* The call. reduction: the operator's handle. */
ncclResult_t call_make(const struct nccl_calls *nccl, const struct member *member,
                       const struct shadow_member *here, ncclRedOp_t reduction);

#endif
