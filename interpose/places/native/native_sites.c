/* Sites: learnt by unwinding once, then found by comparing the stack (native_sites.h). */
#include "interpose/places/native/native_sites.h"

#include <link.h>
#include <pthread.h>
#include <string.h>

#include "interpose/places/native/native_frames.h"

#define SITES_MAX 2048u
#define BUCKETS 1024u /* a power of two */

/* Frames that are compared: those of the id, one less as the caller is known by itself, and a few
 * of our own in between. */
#define STEPS_MAX (NATIVE_SITE_FRAMES + 3u)

/* From one frame to the next. */
struct step {
  enum frame_base base;
  enum frame_pointer pointer;
  int32_t cfa_offset, cfa_saved_at, fp_at, return_at;
  uintptr_t above; /* the return address found there */
};

struct record {
  struct native_site site; /* first */
  uintptr_t pc;
  _Atomic(struct record *) other;
  _Atomic bool is_right; /* until an object is closed */
  uint32_t nsteps;
  struct step steps[STEPS_MAX];
};

struct native_site native_site_nowhere = {.next = &native_site_nowhere,
                                          .other = &native_site_nowhere};

/* Guards what is added; what has been added is only read, but for the atomic fields. */
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;
static struct record records[SITES_MAX];
static _Atomic uint32_t nrecords;
static _Atomic(struct record *) buckets[BUCKETS];

static _Atomic(struct record *) *bucket_of(uintptr_t pc) {
  return &buckets[(uint64_t)pc * UINT64_C(0x9e3779b97f4a7c15) >> 54];
}
_Static_assert(BUCKETS == 1u << (64 - 54), "bucket_of");

/* ---- comparing ---- */

/* The part of the stack that may be read without a question: where words may begin. */
struct readable {
  uintptr_t low, high;
};

static bool native_load(const struct readable *stack, uintptr_t at, uintptr_t *word) {
  if (at < stack->low || at >= stack->high || at % sizeof(*word) != 0)
    return false;
  *word = *(const uintptr_t *)at;
  return true;
}

/* One frame outward, in place; false: not where the step leads. */
static bool native_follows(const struct readable *stack, const struct step *step,
                           struct native_caller *at) {
  uintptr_t cfa = step->base == FRAME_BASE_STACK ? at->sp : at->fp, old_fp = at->fp;
  if (step->base == FRAME_BASE_SAVED) {
    if (!native_load(stack, cfa + (uintptr_t)(intptr_t)step->cfa_saved_at, &cfa))
      return false;
  } else
    cfa += (uintptr_t)(intptr_t)step->cfa_offset;
  if (cfa <= at->sp || !native_load(stack, cfa + (uintptr_t)(intptr_t)step->return_at, &at->pc) ||
      at->pc != step->above)
    return false;
  at->sp = cfa;
  if (step->pointer == FRAME_POINTER_SAME)
    return true;
  uintptr_t from = step->pointer == FRAME_POINTER_AT_CFA ? cfa : old_fp;
  at->fp = 0;
  return step->pointer == FRAME_POINTER_LOST ||
         native_load(stack, from + (uintptr_t)(intptr_t)step->fp_at, &at->fp);
}

static bool is_at(const struct record *record, const struct native_caller *caller,
                  const struct readable *stack) {
  if (record->pc != caller->pc || !atomic_load_explicit(&record->is_right, memory_order_relaxed))
    return false;
  struct native_caller at = *caller;
  for (uint32_t i = 0; i < record->nsteps; i++)
    if (!native_follows(stack, &record->steps[i], &at))
      return false;
  return true;
}

/* ---- learning ---- */

static void set_step(struct step *step, const struct frame_rule *rule, uintptr_t above) {
  *step = (struct step){
      .base = rule->base,
      .pointer = rule->pointer,
      .cfa_offset = rule->cfa_offset,
      .cfa_saved_at = rule->cfa_saved_at,
      .fp_at = rule->fp_at,
      .return_at = rule->return_at,
      .above = above,
  };
}

/* A walk, with what is compared of it: also the address at its end, in no object. */
struct walk {
  struct native_frame frames[STEPS_MAX + 8];
  uintptr_t above[STEPS_MAX + 8]; /* return addresses as they lie on the stack */
  size_t nframes, nknown;
  enum native_end end;
};

static void walk_from(const struct native_caller *caller, struct walk *walk) {
  struct native_caller at = *caller;
  walk->nframes = 0;
  do {
    walk->end = native_step(&at, &walk->frames[walk->nframes]);
    walk->above[walk->nframes++] = at.pc;
  } while (walk->end == NATIVE_GOES_ON && walk->nframes < STEPS_MAX + 8);
  walk->nknown = walk->nframes - (walk->frames[walk->nframes - 1].pc == 0);
}

/* How many frames decide on the id. *is_certain: not if another time the way may be another
 * although all that is compared is the same. */
static size_t frames_that_matter(const struct walk *walk, bool *is_certain) {
  size_t frames = 0, of_program = 0;
  while (frames < walk->nframes && of_program < NATIVE_SITE_FRAMES) {
    const struct native_frame *frame = &walk->frames[frames++];
    of_program += frame->pc != 0 && frame->module.owner != MODULE_OURS;
  }
  *is_certain =
      of_program == NATIVE_SITE_FRAMES || walk->end == NATIVE_ENDED || walk->end == NATIVE_STOPPED;
  return frames;
}

/* Our own code calls the program's only to begin main (process.c), or where no place is asked for.
 * What lies above it is the same each time. */
static bool begins_program(const struct native_frame *frame) {
  return frame->pc != 0 && frame->module.owner == MODULE_OURS;
}

/* Walks the stack for the id, and notes how. False: it cannot be found again without a walk. */
static bool native_learn(const struct native_caller *caller, struct record *record) {
  struct walk walk;
  bool is_certain;
  walk_from(caller, &walk);
  size_t known = walk.end == NATIVE_ENDED ? native_trim(walk.frames, walk.nknown) : walk.nknown;
  record->pc = caller->pc;
  record->site.id = native_frames_id(walk.frames, known);
  size_t frames = frames_that_matter(&walk, &is_certain);
  if (walk.end == NATIVE_ENDED && known + 1 < frames && begins_program(&walk.frames[known]))
    frames = known + 1;
  if (!is_certain || frames > STEPS_MAX + 1)
    return false;
  record->nsteps = (uint32_t)frames - 1;
  for (uint32_t i = 0; i < record->nsteps; i++)
    set_step(&record->steps[i], &walk.frames[i].rule, walk.above[i]);
  return true;
}

/* Where a walk along the steps has come to, by what is known of it beforehand: how far above the
 * CFA, or above the frame pointer that led there, and where there the next pointer is saved. */
struct position {
  int64_t at, pointer_at;
  bool has_pointer;
};

/* Where the frame's return address is, and by *pointer_at, the pointer that leads to it;
 * NATIVE_NO_POINTER: none is needed. False: it cannot be said beforehand. */
static bool native_advance(struct position *to, const struct step *step, int64_t *slot,
                           int64_t *pointer_at) {
  *pointer_at = NATIVE_NO_POINTER;
  if (step->base == FRAME_BASE_POINTER && to->has_pointer) {
    *pointer_at = to->pointer_at;
    *to = (struct position){.at = 0};
  } else if (step->base != FRAME_BASE_STACK)
    return false;
  to->at += step->cfa_offset;
  *slot = to->at + step->return_at;
  if (step->pointer == FRAME_POINTER_AT_CFA) {
    to->has_pointer = true;
    to->pointer_at = to->at + step->fp_at;
  } else if (step->pointer != FRAME_POINTER_SAME)
    to->has_pointer = false;
  return *slot >= 0 && *slot <= INT32_MAX && to->pointer_at < *slot &&
         to->pointer_at > NATIVE_NO_POINTER;
}

enum shape { SHAPE_OTHER, SHAPE_FLAT, SHAPE_CHAINED };

/* What native_site_is_at or native_site_is_chained_at need, if these frames are such. Where there
 * are fewer of them, the last one is compared several times. */
static enum shape native_flatten(struct record *record) {
  struct position to = {.pointer_at = NATIVE_POINTER_AT, .has_pointer = NATIVE_POINTER_AT != 0};
  uint32_t nsteps = record->nsteps;
  enum shape shape = SHAPE_FLAT;
  int64_t slot = 0, pointer_at = NATIVE_NO_POINTER;
  if (nsteps == 0 || nsteps > NATIVE_SITE_FRAMES - 1)
    return SHAPE_OTHER;
  for (uint32_t i = 0; i < NATIVE_SITE_FRAMES - 1; i++) {
    bool is_step = i < nsteps;
    if (is_step && !native_advance(&to, &record->steps[i], &slot, &pointer_at))
      return SHAPE_OTHER;
    if (is_step && pointer_at != NATIVE_NO_POINTER)
      shape = SHAPE_CHAINED;
    record->site.at[i] = (int32_t)slot;
    record->site.pointer_at[i] = is_step ? (int32_t)pointer_at : NATIVE_NO_POINTER;
    record->site.above[i] = record->steps[is_step ? i : nsteps - 1].above;
  }
  return shape;
}

/* Where all that lies on this stack. The walk has just read it. */
static void note_then(struct native_site *site, const struct native_caller *caller) {
  struct native_then *then = &site->then;
  uintptr_t base = caller->sp;
  intptr_t pointer_at = NATIVE_POINTER_AT, leads = (intptr_t)(caller->fp - caller->sp);
  then->top = 0;
  for (uint32_t i = 0; i < NATIVE_SITE_FRAMES - 1; i++) {
    if (site->pointer_at[i] != NATIVE_NO_POINTER) {
      uintptr_t slot = base + (uintptr_t)(intptr_t)site->pointer_at[i];
      base =
          slot == caller->sp + (uintptr_t)NATIVE_POINTER_AT ? caller->fp : *(const uintptr_t *)slot;
      pointer_at = (intptr_t)(slot - caller->sp);
      leads = (intptr_t)(base - caller->sp);
    }
    then->pointer_at[i] = pointer_at;
    then->base[i] = leads;
    then->at[i] = (intptr_t)(base - caller->sp) + site->at[i];
    if ((uintptr_t)then->at[i] + sizeof(uintptr_t) > then->top)
      then->top = (uintptr_t)then->at[i] + sizeof(uintptr_t);
  }
}

static bool is_same(const struct record *a, const struct record *b) {
  return a->pc == b->pc && a->site.id == b->site.id && a->nsteps == b->nsteps &&
         memcmp(a->steps, b->steps, a->nsteps * sizeof(a->steps[0])) == 0;
}

static void set_right(struct record *record, bool is_right, enum shape shape) {
  uintptr_t key = shape == SHAPE_FLAT ? record->pc : shape == SHAPE_CHAINED ? ~record->pc : 0;
  atomic_store_explicit(&record->is_right, is_right, memory_order_relaxed);
  atomic_store_explicit(&record->site.key, is_right ? key : 0, memory_order_relaxed);
}

/* NULL: there is no room. With the lock. */
static struct record *native_sites_add(const struct native_caller *caller, struct record *learnt) {
  enum shape shape = native_flatten(learnt);
  if (shape == SHAPE_CHAINED)
    note_then(&learnt->site, caller);
  _Atomic(struct record *) *bucket = bucket_of(learnt->pc);
  struct record *first = atomic_load_explicit(bucket, memory_order_relaxed);
  for (struct record *record = first; record != NULL; record = record->other)
    if (is_same(record, learnt)) {
      set_right(record, true, shape);
      return record;
    }
  if (nrecords == SITES_MAX)
    return NULL;
  struct record *record = &records[nrecords++];
  memcpy(record, learnt, sizeof(*record));
  record->site.is_record = true;
  set_right(record, true, shape);
  atomic_store_explicit(&record->site.next, &record->site, memory_order_relaxed);
  atomic_store_explicit(&record->site.other, &record->site, memory_order_relaxed);
  atomic_store_explicit(&record->other, first, memory_order_relaxed);
  atomic_store_explicit(bucket, record, memory_order_release);
  return record;
}

/* A process that is forked while another thread adds must not wait for it. */
static struct record *find_by_walking(const struct native_caller *caller, uint32_t *id) {
  struct record learnt;
  memset(&learnt, 0, sizeof(learnt));
  bool is_certain = native_learn(caller, &learnt);
  *id = learnt.site.id;
  if (!is_certain || pthread_mutex_trylock(&adding) != 0)
    return NULL;
  struct record *record = native_sites_add(caller, &learnt);
  pthread_mutex_unlock(&adding);
  return record;
}

/* ---- finding ---- */

static struct record *if_at(struct native_site *site, const struct native_caller *caller,
                            const struct readable *stack) {
  struct record *record = (struct record *)(void *)site;
  return site->is_record && is_at(record, caller, stack) ? record : NULL;
}

static struct record *find_by_comparing(const struct native_caller *caller,
                                        const struct native_site *after) {
  struct native_bounds bounds = native_stack_bounds();
  struct readable stack = {caller->sp, bounds.low + bounds.size};
  if (caller->sp - bounds.low >= bounds.size)
    return NULL;
  struct record *record =
      if_at(atomic_load_explicit(&after->next, memory_order_acquire), caller, &stack);
  if (record == NULL)
    record = if_at(atomic_load_explicit(&after->other, memory_order_acquire), caller, &stack);
  if (record != NULL)
    return record;
  record = atomic_load_explicit(bucket_of(caller->pc), memory_order_acquire);
  while (record != NULL && !is_at(record, caller, &stack))
    record = atomic_load_explicit(&record->other, memory_order_relaxed);
  return record;
}

/* What came after it last, and before that. */
static void note_next(struct native_site *after, struct native_site *site) {
  struct native_site *next = atomic_load_explicit(&after->next, memory_order_relaxed);
  if (next == site || atomic_load_explicit(&after->other, memory_order_relaxed) == site)
    return;
  atomic_store_explicit(&after->other, next, memory_order_release);
  atomic_store_explicit(&after->next, site, memory_order_release);
}

struct native_site *native_site_find(const struct native_caller *caller, struct native_site *after,
                                     uint32_t *id) {
  struct record *record = find_by_comparing(caller, after);
  if (record == NULL)
    record = find_by_walking(caller, id);
  if (record == NULL)
    return NULL;
  *id = record->site.id;
  note_next(after, &record->site);
  return &record->site;
}

/* ---- what is closed ---- */

/* How many objects have been closed so far. */
static int count_closed(struct dl_phdr_info *object, size_t size, void *closed) {
  (void)size;
  *(unsigned long long *)closed = object->dlpi_subs;
  return 1;
}

void native_sites_expect_opening(void) {
  static unsigned long long known; /* with the lock */
  unsigned long long closed = 0;
  if (atomic_load_explicit(&nrecords, memory_order_relaxed) == 0)
    return;
  dl_iterate_phdr(count_closed, &closed);
  pthread_mutex_lock(&adding);
  for (uint32_t i = 0; closed != known && i < nrecords; i++)
    set_right(&records[i], false, SHAPE_OTHER);
  known = closed;
  pthread_mutex_unlock(&adding);
}
