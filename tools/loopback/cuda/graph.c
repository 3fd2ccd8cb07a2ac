/* Graphs, their nodes and their launches. */
#include "tools/loopback/cuda/graph.h"

#include <stdlib.h>
#include <string.h>

#include "tools/loopback/cuda/capture.h"
#include "tools/loopback/cuda/event.h"
#include "tools/loopback/cuda/handle.h"
#include "tools/loopback/cuda/process.h"

/* Guarded by stream_lock. */
static struct handle_set graphs, execs;
static struct object_list discarded; /* references of graphs that are gone */

CUresult graph_create(CUgraph *made) {
  CUgraph graph = calloc(1, sizeof *graph);
  stream_lock();
  bool added = graph && handle_add(&graphs, graph);
  stream_unlock();
  if (!added) {
    free(graph);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *made = graph;
  return CUDA_SUCCESS;
}

/* Without memory the references stay for ever: better than a function of the program under a lock.
 */
static void discard_objects(struct object_list *list) {
  for (size_t i = 0; i < list->count; i++)
    objects_add(&discarded, list->objects[i], 1);
  free(list->objects);
}

void graph_release_discarded(void) {
  stream_lock();
  struct object_list objects = discarded;
  discarded = (struct object_list){0};
  stream_unlock();
  objects_release(&objects);
}

void graph_discard(CUgraph graph) {
  handle_remove(&graphs, graph);
  for (size_t i = 0; i < graph->count; i++) {
    free(graph->nodes[i]->dependencies);
    free(graph->nodes[i]);
  }
  free(graph->nodes);
  discard_objects(&graph->objects);
  free(graph);
}

CUresult graph_destroy(CUgraph graph) {
  stream_lock();
  bool live = handle_is_live(&graphs, graph);
  if (live)
    graph_discard(graph);
  stream_unlock();
  graph_release_discarded();
  return live ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult graph_check(CUgraph graph) {
  stream_lock();
  bool live = handle_is_live(&graphs, graph);
  stream_unlock();
  return live ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool has_room(CUgraph graph) {
  if (graph->count < graph->capacity)
    return true;
  size_t capacity = graph->capacity ? graph->capacity * 2 : 16;
  CUgraphNode *nodes = realloc(graph->nodes, capacity * sizeof(CUgraphNode));
  if (!nodes)
    return false;
  graph->nodes = nodes;
  graph->capacity = capacity;
  return true;
}

CUgraphNode graph_add(CUgraph graph, const struct work *work, const CUgraphNode *dependencies,
                      size_t count) {
  CUgraphNode node = has_room(graph) ? calloc(1, sizeof *node) : NULL;
  CUgraphNode *copy = malloc((count + 1) * sizeof(CUgraphNode));
  if (!node || !copy) {
    free(node);
    free(copy);
    return NULL;
  }
  if (count)
    memcpy(copy, dependencies, count * sizeof(CUgraphNode));
  *node = (struct CUgraphNode_st){
      .graph = graph, .work = *work, .dependencies = copy, .ndependencies = count};
  graph->nodes[graph->count++] = node;
  return node;
}

/* From the last node to the first: whoever depends on a node comes after it. */
bool graph_reaches_all(CUgraph graph, const CUgraphNode *tips, size_t count) {
  for (size_t i = 0; i < graph->count; i++)
    graph->nodes[i]->reached = false;
  for (size_t i = 0; i < count; i++)
    tips[i]->reached = true;
  for (size_t i = graph->count; i-- > 0;) {
    CUgraphNode node = graph->nodes[i];
    if (!node->reached)
      return false;
    for (size_t j = 0; j < node->ndependencies; j++)
      node->dependencies[j]->reached = true;
  }
  return true;
}

CUresult graph_instantiate(CUgraph graph, CUgraphExec *made) {
  CUgraphExec exec = calloc(1, sizeof *exec);
  struct work *nodes = malloc((graph->count + 1) * sizeof *nodes);
  stream_lock();
  bool added =
      exec && nodes && objects_copy(&exec->objects, &graph->objects) && handle_add(&execs, exec);
  stream_unlock();
  if (!added) {
    free(exec);
    free(nodes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (size_t i = 0; i < graph->count; i++)
    nodes[i] = graph->nodes[i]->work;
  exec->nodes = nodes;
  exec->count = graph->count;
  *made = exec;
  return CUDA_SUCCESS;
}

CUresult graph_exec_destroy(CUgraphExec exec) {
  stream_lock();
  bool live = handle_is_live(&execs, exec);
  if (live) {
    handle_remove(&execs, exec);
    marker_release(exec->last);
    discard_objects(&exec->objects);
    free(exec->nodes);
    free(exec);
  }
  stream_unlock();
  graph_release_discarded();
  return live ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A bound copy of the nodes, owned by the caller. */
static CUresult bind_nodes(CUgraphExec exec, struct work *launch) {
  struct work *nodes = malloc((exec->count + 1) * sizeof *nodes);
  if (!nodes)
    return CUDA_ERROR_OUT_OF_MEMORY;
  memcpy(nodes, exec->nodes, exec->count * sizeof *nodes);
  for (size_t i = 0; i < exec->count; i++) {
    CUresult result = work_bind(&nodes[i], NULL);
    if (result != CUDA_SUCCESS) {
      free(nodes);
      return result;
    }
  }
  *launch = (struct work){.kind = WORK_GRAPH, .graph = {.nodes = nodes, .count = exec->count}};
  if (!objects_copy(&launch->graph.objects, &exec->objects)) {
    free(nodes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return CUDA_SUCCESS;
}

/* "Only one instance of hGraphExec may be executing at a time. Each launch is ordered behind both
 * any previous work in hStream and any previous launches of hGraphExec": cuGraphLaunch. */
static CUresult await_last_launch(CUgraphExec exec, CUstream stream) {
  if (marker_is_past(exec->last) || exec->last.stream == stream)
    return CUDA_SUCCESS;
  struct recording *recording = calloc(1, sizeof *recording);
  if (!recording)
    return CUDA_ERROR_OUT_OF_MEMORY;
  marker_hold(exec->last);
  *recording = (struct recording){.references = 1, .marker = exec->last};
  struct work work = {.kind = WORK_AWAIT, .recording = recording};
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the entry takes it over */
  return stream_enqueue(stream, &work, NULL);
}

static CUresult launch(CUgraphExec exec, CUstream stream) {
  struct work work;
  CUresult result = await_last_launch(exec, stream);
  if (result == CUDA_SUCCESS)
    result = bind_nodes(exec, &work);
  if (result != CUDA_SUCCESS)
    return result;
  struct marker done = {0};
  result = stream_enqueue(stream, &work, &done);
  if (result == CUDA_SUCCESS && handle_is_live(&execs, exec)) {
    marker_release(exec->last);
    exec->last = done;
  } else {
    marker_release(done);
  }
  return result;
}

CUresult graph_launch(CUgraphExec exec, CUstream handle) {
  CUstream stream = NULL;
  stream_lock();
  CUresult result = handle_is_live(&execs, exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS)
    result = stream_find(handle, &stream);
  if (result == CUDA_SUCCESS)
    result = capture_allows(stream);
  if (result == CUDA_SUCCESS && stream->capture)
    result = process_unsupported("a graph launch inside a capture");
  else if (result == CUDA_SUCCESS)
    result = launch(exec, stream);
  stream_unlock();
  return result;
}
