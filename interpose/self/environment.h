/* The settings of this process. */
#ifndef NCCL_JOIN_INTERPOSE_ENVIRONMENT_H
#define NCCL_JOIN_INTERPOSE_ENVIRONMENT_H

#include "core/settings/settings.h"

/* Read from the environment at first use. NULL if they are wrong: the error has been logged, and
 * communicators must not be created. Any thread. */
const struct settings *join_settings(void);

#endif
