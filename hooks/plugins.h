/* The plug-ins of this process (nccl_join_hook.h): loading them, and calling them in order.
 */
#ifndef NCCL_JOIN_HOOKS_PLUGINS_H
#define NCCL_JOIN_HOOKS_PLUGINS_H

#include <nccl.h>
#include <stdbool.h>

#include "hooks/include/nccl_join_hook.h"

/* Loads and initialises the plug-ins named in `paths` (separated by commas; "": none) at the first
 * call; later ones return the same. False after an error, which has been logged with what to do;
 * those that had been initialised are finalised. Any thread. */
bool plugins_load(const char *paths);

/* Whether any plug-in has a mainHook that has not failed; whether one of them wants to fill. */
bool plugins_observe(void);
bool plugins_fill(void);

/* Whether any has a postHook. */
bool plugins_have_post(void);

/* Calls the mainHooks. False if one fails (logged): it is not called again. */
bool plugins_main(const ncclJoinUnit_v1_t *unit);

/* Calls the postHooks, all of them. The first error of any (logged). */
ncclResult_t plugins_post(const ncclJoinReunion_v1_t *reunion);

/* Calls finalize of each that has been initialised, once. */
void plugins_finalize(void);

#endif
