/* Packages: the shared objects of installed Python packages, and of those that they require, by
 * what pip and others have written down of them (*.dist-info, *.egg-info). */
#ifndef NCCL_JOIN_TOOLS_CHECK_PACKAGES_H
#define NCCL_JOIN_TOOLS_CHECK_PACKAGES_H

#include "tools/check/python.h"

/* Adds to `modules` the files of all shared objects of the packages that python imports. With
 * `extras`, packages that these require only for some of their uses are followed as well, where
 * they are installed. To `libraries` the folders are added from which packages load NVIDIA's
 * libraries before they need them. */
void packages_find(const struct python *python, bool extras, struct names *modules,
                   struct names *libraries);

#endif
