/* Graphs: work described once, launched many times.
 *
 * Graphs come from stream capture (capture.h); there is no way to build one by hand. A launch runs
 * the nodes one after the other on the stream's worker, in the order in which they were captured,
 * which satisfies their dependencies. A real device may run independent nodes at the same time;
 * that is never guaranteed there.
 *
 * A graph belongs to one thread at a time ("graph objects are not thread-safe": CUDA Programming
 * Guide). Launches of one executable graph are ordered among themselves. */
#ifndef LOOPBACK_CUDA_GRAPH_H
#define LOOPBACK_CUDA_GRAPH_H

#include <stdbool.h>
#include <stddef.h>

#include <cuda.h>

#include "tools/loopback/cuda/object.h"
#include "tools/loopback/cuda/stream.h"
#include "tools/loopback/cuda/work.h"

struct CUgraphNode_st {
  CUgraph graph;
  struct work work; /* not bound; work_is_node holds */
  CUgraphNode *dependencies;
  size_t ndependencies;
  bool reached; /* scratch of graph_reaches_all */
};

struct CUgraph_st {
  CUgraphNode *nodes; /* dependencies come before what depends on them */
  size_t count, capacity;
  struct object_list objects;
};

struct CUgraphExec_st {
  struct work *nodes;
  size_t count;
  struct object_list objects;
  struct marker last; /* its last launch; guarded by stream_lock */
};

/* Functions take stream_lock themselves, unless they say that it is held. */

CUresult graph_create(CUgraph *graph);

/* For graphs that a program names; CUDA_ERROR_INVALID_VALUE if there is no such graph. */
CUresult graph_destroy(CUgraph graph);
CUresult graph_check(CUgraph graph);

/* The same for a graph that no program has seen yet. stream_lock held; what it holds is released by
 * graph_release_discarded, without the lock. */
void graph_discard(CUgraph graph);
void graph_release_discarded(void);

/* Appends a node; NULL if there is no memory. stream_lock held. */
CUgraphNode graph_add(CUgraph graph, const struct work *work, const CUgraphNode *dependencies,
                      size_t count);

/* Whether every node of the graph is one of these or comes before one of them. stream_lock held. */
bool graph_reaches_all(CUgraph graph, const CUgraphNode *tips, size_t count);

CUresult graph_instantiate(CUgraph graph, CUgraphExec *exec);
CUresult graph_exec_destroy(CUgraphExec exec);

/* Binds the nodes now, so CUDA_ERROR_INVALID_VALUE if memory of one of them is gone. */
CUresult graph_launch(CUgraphExec exec, CUstream stream);

#endif
