/* User objects: something of the program with a reference count, which graphs keep alive (CUDA
 * Programming Guide, CUDA User Objects). An executable graph, and each launch of it until it has
 * ended, hold what their graph held when they were made.
 *
 * No lock is needed; the program's function must not be called with a lock held. */
#ifndef LOOPBACK_CUDA_OBJECT_H
#define LOOPBACK_CUDA_OBJECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <cuda.h>

struct CUuserObject_st {
  void *pointer;
  CUhostFn destroy;
  atomic_uint references;
};

/* References, one entry each. Zeroed is empty. */
struct object_list {
  CUuserObject *objects; /* owned */
  size_t count;
};

CUuserObject object_create(void *pointer, CUhostFn destroy, unsigned references);
void object_retain(CUuserObject object, unsigned references);

/* Calls the program's function with the last reference. */
void object_release(CUuserObject object, unsigned references);

/* Enters references that the caller has already, or takes entries out without giving them up.
 * False if there is no memory, or are not so many. */
bool objects_add(struct object_list *list, CUuserObject object, unsigned references);
bool objects_take_out(struct object_list *list, CUuserObject object, unsigned references);

/* A copy with references of its own; false if there is no memory. */
bool objects_copy(struct object_list *copy, const struct object_list *list);

/* Gives up all references, and the list's memory. */
void objects_release(struct object_list *list);

#endif
