/* Calls that a compiler has made several of: see native_graph.h. */
#include "interpose/places/native/native_graph.h"

#include <stdlib.h>
#include <string.h>

#include "interpose/places/flow/flow_rounds.h"
#include "interpose/places/native/native_operands.h"
#include "interpose/places/native/native_twins.h"

enum {
  SITES_MAX = 1024, /* calls of a function; of more nothing is found */
  STEPS_MAX = 64,   /* instructions from a call to the next branch or call */
  VISITS_MAX = 16,  /* blocks that begin there */
  DEPTH_MAX = 8,    /* branches and calls that are followed */
  WORK_MAX = 20000, /* such ways of one function, a pair of calls counted as PAIR_WORK of them */
  PAIR_WORK = 10,
};

struct copying {
  const struct native_graph *graph;
  const struct native_code *code;
  const uint32_t *block_at;
  struct flow_rounds *rounds;
  uint32_t *stack; /* of blocks */
  bool *marked;    /* blocks */
  struct native_call *sites;
  uint32_t nsites;
  uint32_t work;
  bool keeps; /* native_twins.h */
};

/* push of rbx, or of r12 to r15 */
static bool saves_kept(const struct native_cursor *cursor) {
  const uint8_t *at = cursor->at;
  return (cursor->is.length == 1 && at[0] == 0x53) ||
         (cursor->is.length == 2 && at[0] == 0x41 && at[1] >= 0x54 && at[1] <= 0x57);
}

static bool find_sites(struct copying *copying) {
  const struct native_code *code = copying->code;
  struct native_passing passing;
  struct native_cursor cursor;
  bool failed;
  for (bool more = native_first(code, &cursor, &failed); more;
       more = native_next(code, &cursor, &failed)) {
    if (code->marks[cursor.position] & NATIVE_LEADS)
      native_passing_begin(&passing);
    copying->keeps |= saves_kept(&cursor);
    if (cursor.is.kind != NATIVE_CALL) {
      native_passing_step(&passing, cursor.at, cursor.is.length);
      continue;
    }
    if (copying->nsites == SITES_MAX)
      return false;
    struct native_call *site = &copying->sites[copying->nsites++];
    *site = (struct native_call){.position = (uint32_t)cursor.position,
                                 .next = (uint32_t)cursor.position + cursor.is.length,
                                 .part = cursor.part,
                                 .passed = native_passing_call(&passing, &cursor)};
  }
  return !failed;
}

/* A callee that some call sets an argument for has it in the others from before their blocks. */
static void find_takers(struct copying *copying) {
  struct native_call *sites = copying->sites;
  for (uint32_t i = 0; i < copying->nsites; i++)
    for (uint32_t j = 0; j < copying->nsites && !sites[i].passed.takes_some; j++)
      sites[i].passed.takes_some =
          sites[i].passed.callee == sites[j].passed.callee && native_passes_some(&sites[j].passed);
}

static uint32_t block_of(const struct copying *copying, const struct native_call *site) {
  return copying->block_at[site->position];
}

static uint32_t loop_of(const struct copying *copying, const struct native_call *site) {
  return flow_rounds_loop(copying->rounds, block_of(copying, site));
}

/* ---- what comes next ---- */

struct way {
  struct native_cursor at;
  bool goes_round; /* a loop around both calls */
};

struct visit {
  uint32_t block;
  bool goes_round;
};

struct visits {
  struct visit of[VISITS_MAX];
  uint32_t count;
};

static bool set_cursor(const struct copying *copying, uint32_t position, uint32_t part,
                       struct native_cursor *cursor) {
  const struct native_code *code = copying->code;
  if (position >= code->begins[part + 1])
    return false;
  *cursor = (struct native_cursor){.part = part,
                                   .position = position,
                                   .at = code->parts[part].begin + (position - code->begins[part])};
  return code->decode(cursor->at, (size_t)(code->parts[part].end - cursor->at), &cursor->is);
}

/* Goes on to the next branch, call or return. loop: the innermost one around both. False: there is
 * none, or it is too far. */
static bool go_on(const struct copying *copying, struct way *way, uint32_t loop,
                  struct visits *visits) {
  const struct native_code *code = copying->code;
  bool failed = false;
  for (uint32_t steps = 0; steps < STEPS_MAX; steps++) {
    uint32_t block = copying->block_at[way->at.position];
    if (copying->graph->blocks[block].position == way->at.position) {
      uint32_t around = flow_rounds_loop(copying->rounds, block);
      way->goes_round |= flow_rounds_begins(copying->rounds, around, block) &&
                         flow_rounds_around(copying->rounds, around, loop);
      if (visits->count < VISITS_MAX)
        visits->of[visits->count++] = (struct visit){block, way->goes_round};
    }
    if (way->at.is.kind == NATIVE_JUMP) {
      if (!native_jump(code, &way->at, &failed))
        return false;
    } else if (way->at.is.kind != NATIVE_PLAIN) {
      return true;
    } else if (!native_next(code, &way->at, &failed)) {
      return false;
    }
  }
  return false;
}

static bool do_meet(const struct visits *a, const struct visits *b) {
  for (uint32_t i = 0; i < a->count; i++)
    for (uint32_t j = 0; j < b->count; j++)
      if (a->of[i].block == b->of[j].block && a->of[i].goes_round == b->of[j].goes_round)
        return true;
  return false;
}

/* The condition of a branch: of two opposite ones only the lowest bit differs. */
static bool condition_of(const struct native_cursor *cursor, uint32_t *condition) {
  struct native_operands is;
  if (!native_operands_read(&is, cursor->at, cursor->is.length) ||
      (is.opcode & 0xF0) != (is.two ? 0x80 : 0x70))
    return false;
  *condition = is.opcode & 0xF;
  return true;
}

static bool native_copies_take(const struct copying *copying, struct way *way, bool taken) {
  bool failed;
  return taken ? native_jump(copying->code, &way->at, &failed)
               : native_next(copying->code, &way->at, &failed);
}

static const struct native_call *site_at(const struct copying *copying, size_t position) {
  uint32_t low = 0, high = copying->nsites;
  while (high - low > 1) {
    uint32_t middle = (low + high) / 2;
    if (copying->sites[middle].position <= position)
      low = middle;
    else
      high = middle;
  }
  return &copying->sites[low];
}

static bool goes_as(struct copying *copying, struct way copy, struct way way, uint32_t loop,
                    uint32_t depth);

/* Both are at branches: whether they lead on alike, each its own way. */
static bool branches_as(struct copying *copying, const struct way *copy, const struct way *way,
                        uint32_t loop, uint32_t depth) {
  uint32_t of_copy, of_way;
  if (!condition_of(&copy->at, &of_copy) || !condition_of(&way->at, &of_way) ||
      (of_copy ^ of_way) > 1)
    return false;
  for (uint32_t taken = 0; taken < 2; taken++) {
    struct way left = *copy, right = *way;
    if (!native_copies_take(copying, &left, taken) ||
        !native_copies_take(copying, &right, taken != ((of_copy ^ of_way) == 1)) ||
        !goes_as(copying, left, right, loop, depth))
      return false;
  }
  return true;
}

/* Both are at calls. */
static bool calls_as(struct copying *copying, const struct way *copy, const struct way *way,
                     uint32_t loop, uint32_t depth) {
  const struct native_call *left = site_at(copying, copy->at.position),
                           *right = site_at(copying, way->at.position);
  struct way after_left = *copy, after_right = *way;
  return copy->goes_round == way->goes_round &&
         native_passes_alike(&left->passed, &right->passed) &&
         set_cursor(copying, left->next, left->part, &after_left.at) &&
         set_cursor(copying, right->next, right->part, &after_right.at) &&
         goes_as(copying, after_left, after_right, loop, depth);
}

/* Whether a branch out of a loop is for something that the loop does not count: an error, mostly.
 * No compiler knows which round is the last one by it. */
static bool gives_up(const struct copying *copying, const struct way *branch,
                     const struct way *taken) {
  uint32_t from = copying->block_at[branch->at.position],
           to = copying->block_at[taken->at.position],
           loop = flow_rounds_loop(copying->rounds, from);
  return loop != FLOW_NONE &&
         !flow_rounds_around(copying->rounds, loop, flow_rounds_loop(copying->rounds, to)) &&
         !flow_rounds_is_counted(copying->rounds, loop, from);
}

/* Whether control goes on from `copy` as it may from `way`. */
static bool goes_as(struct copying *copying, struct way copy, struct way way, uint32_t loop,
                    uint32_t depth) {
  struct visits of_copy = {.count = 0}, of_way = {.count = 0};
  struct way begin = copy;
  if (depth == DEPTH_MAX || ++copying->work > WORK_MAX)
    return false;
  bool left = go_on(copying, &copy, loop, &of_copy), right = go_on(copying, &way, loop, &of_way);
  if (do_meet(&of_copy, &of_way))
    return true;
  if (!left || !right)
    return false;
  if (way.at.is.kind == NATIVE_BRANCH) {
    if (copy.at.is.kind == NATIVE_BRANCH && branches_as(copying, &copy, &way, loop, depth + 1))
      return true;
    for (uint32_t taken = 0; taken < 2; taken++) {
      struct way known = way;
      if (native_copies_take(copying, &known, taken) && !gives_up(copying, &way, &known) &&
          goes_as(copying, begin, known, loop, depth + 1))
        return true;
    }
    return false;
  }
  if (copy.at.is.kind != way.at.is.kind)
    return false;
  return way.at.is.kind == NATIVE_CALL && calls_as(copying, &copy, &way, loop, depth + 1);
}

/* ---- what comes before ---- */

/* The last call in a block, before a position; NULL: there is none. */
static const struct native_call *last_before(const struct copying *copying, uint32_t block,
                                             size_t end) {
  const struct native_graph *graph = copying->graph;
  if (block + 1 < graph->nblocks && end > graph->blocks[block + 1].position)
    end = graph->blocks[block + 1].position;
  const struct native_call *site = end == 0 ? NULL : site_at(copying, end - 1);
  return site != NULL && site->position < end && block_of(copying, site) == block ? site : NULL;
}

/* What is found on the way back from a copy. */
enum before {
  BEFORE_BOTH, /* what leads to the original, too, in the same round */
  BEFORE_COPY, /* what is of the copy's own way */
  BEFORE_NONE, /* neither: it leads to the original in another round, say */
};

/* Of a call to which a copy behind the loop of its original is come from. Where no call is between,
 * nothing tells a copy that a round is left for from what stands behind the loop in the source. */
static enum before before_behind(struct copying *copying, const struct native_call *site,
                                 const struct native_call *original) {
  uint32_t from = block_of(copying, site), to = block_of(copying, original);
  if (from == to ? site->position < original->position
                 : flow_rounds_leads(copying->rounds, from, to))
    return BEFORE_BOTH;
  return flow_rounds_around(copying->rounds, loop_of(copying, original), loop_of(copying, site))
             ? BEFORE_NONE
             : BEFORE_COPY;
}

/* Goes back over the calls of a block, from a position in it. */
static enum before look_back(struct copying *copying, uint32_t block, size_t end,
                             const struct native_call *original, bool *own) {
  const struct native_call *last;
  for (; (last = last_before(copying, block, end)) != NULL; end = last->position) {
    enum before before = before_behind(copying, last, original);
    if (before != BEFORE_COPY)
      return before;
    *own = true;
  }
  return block == 0 ? BEFORE_NONE : BEFORE_COPY;
}

/* Whether control leaves the loop of the original between two blocks, not by what the loop counts,
 * and may come to the original in this round yet where it does: a compiler has put what it knows of
 * the last round behind the loop. */
static bool parts_here(const struct copying *copying, uint32_t from, uint32_t to,
                       const struct native_call *original) {
  const struct flow_rounds *rounds = copying->rounds;
  uint32_t loop = loop_of(copying, original);
  return flow_rounds_around(rounds, loop, flow_rounds_loop(rounds, from)) &&
         !flow_rounds_around(rounds, loop, flow_rounds_loop(rounds, to)) &&
         !flow_rounds_is_counted(rounds, loop, from) &&
         flow_rounds_leads(copying->rounds, from, block_of(copying, original));
}

/* Whether control comes to a copy, but for what is called on its own way, from where it leads to
 * the original in the same round. Where nothing is called on that way, it may as well be the way to
 * what is left over behind the loop. */
static bool comes_as(struct copying *copying, const struct native_call *copy,
                     const struct native_call *original) {
  const struct flow_lists *previous = flow_rounds_previous(copying->rounds);
  uint32_t block = block_of(copying, copy), depth = 0;
  size_t end = copy->position;
  bool own = false;
  memset(copying->marked, 0, copying->graph->nblocks * sizeof *copying->marked);
  for (;; block = copying->stack[--depth], end = SIZE_MAX) {
    enum before before = look_back(copying, block, end, original, &own);
    if (before == BEFORE_NONE)
      return false;
    for (uint32_t i = previous->start[block]; i < previous->start[block + 1]; i++) {
      uint32_t from = previous->items[i];
      if (before == BEFORE_BOTH || copying->marked[from] ||
          (own && parts_here(copying, from, block, original)))
        continue;
      copying->marked[from] = true;
      copying->stack[depth++] = from;
    }
    if (depth == 0)
      return own;
  }
}

/* ---- copies ---- */

/* Whether a call stands in all loops of the other one but for the innermost of those, which control
 * leaves to come to it. */
static bool stands_behind(const struct copying *copying, const struct native_call *site,
                          const struct native_call *other) {
  uint32_t outer = loop_of(copying, site), inner = loop_of(copying, other);
  return inner != outer && inner != FLOW_NONE &&
         (outer == FLOW_NONE || flow_rounds_around(copying->rounds, outer, inner)) &&
         flow_rounds_leads_in(copying->rounds, inner, block_of(copying, site));
}

static bool goes_on_as(struct copying *copying, const struct native_call *copy,
                       const struct native_call *site) {
  struct way left = {.goes_round = false}, right = {.goes_round = false};
  return set_cursor(copying, copy->next, copy->part, &left.at) &&
         set_cursor(copying, site->next, site->part, &right.at) &&
         goes_as(copying, left, right, loop_of(copying, copy), 0);
}

/* That there are sites, and that they are freed, the analyzer forgets where goes_as calls itself:
 * NOLINTBEGIN(clang-analyzer-core.NullDereference,clang-analyzer-unix.Malloc) */

static bool is_copy(struct copying *copying, const struct native_call *copy,
                    const struct native_call *site) {
  if (copy->part != 0 || site->part != 0 || !native_passes_same(&copy->passed, &site->passed) ||
      (copying->work += PAIR_WORK) > WORK_MAX)
    return false;
  struct native_calls calls = {copying->sites, copying->nsites, copying->block_at, copying->keeps};
  if (native_are_duplicates(copying->graph, &calls, copying->rounds,
                            (uint32_t)(copy - copying->sites), (uint32_t)(site - copying->sites)))
    return !native_passes_otherwise(&copy->passed, &site->passed);
  return stands_behind(copying, copy, site) && comes_as(copying, copy, site) &&
         goes_on_as(copying, copy, site);
}

static bool add_copy(struct native_graph *graph, const struct native_call *copy,
                     const struct native_call *of) {
  struct native_copy *copies =
      realloc(graph->copies, ((size_t)graph->ncopies + 1) * sizeof *copies);
  if (copies == NULL)
    return false;
  graph->copies = copies;
  copies[graph->ncopies++] = (struct native_copy){copy->next - 1, of->next - 1};
  return true;
}

/* Whose copy it is; NULL: it is none. */
static const struct native_call *find_original(struct copying *copying,
                                               const struct native_call *copy) {
  const struct native_call *sites = copying->sites;
  for (uint32_t i = 0; i < copying->nsites; i++)
    if (is_copy(copying, copy, &sites[i]))
      return &sites[i];
  return NULL;
}

void native_find_copies(struct native_graph *graph, const struct native_code *code,
                        const uint32_t *block_at) {
  struct copying copying = {.graph = graph, .code = code, .block_at = block_at};
  struct flow_graph flow = {graph->blocks, graph->edges, graph->nblocks, graph->nedges,
                            graph->values};
  copying.sites = malloc(SITES_MAX * sizeof *copying.sites);
  copying.stack = malloc(((size_t)graph->nblocks + 1) * sizeof *copying.stack);
  copying.marked = malloc(((size_t)graph->nblocks + 1) * sizeof *copying.marked);
  bool found = code->decode == native_decode_x86_64 && copying.sites != NULL &&
               copying.stack != NULL && copying.marked != NULL && find_sites(&copying) &&
               (copying.rounds = flow_rounds_make(&flow)) != NULL;
  const struct native_call *sites = copying.sites;
  if (found)
    find_takers(&copying);
  for (uint32_t i = 0; found && i < copying.nsites; i++) {
    const struct native_call *original = find_original(&copying, &sites[i]);
    found = original == NULL || add_copy(graph, &sites[i], original);
  }
  if (found)
    native_find_twins(graph, &(struct native_calls){sites, copying.nsites, block_at, copying.keeps},
                      copying.rounds);
  flow_rounds_free(copying.rounds);
  free(copying.marked);
  free(copying.stack);
  free(copying.sites);
}

/* NOLINTEND(clang-analyzer-core.NullDereference,clang-analyzer-unix.Malloc) */
