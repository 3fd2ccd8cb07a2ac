/* Sites: learnt by unwinding once, then found by comparing the stack (native_sites.h). */
#include "interpose/places/native/native_sites.h"

#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

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
  bool is_told;          /* its id ends with an object that tells who has called it */
  uint32_t nsteps;
  struct native_above above[NATIVE_SITE_FRAMES + 1]; /* the site's */
  struct native_then then[NATIVE_SITE_FRAMES + 1];
  struct step steps[STEPS_MAX];
};

struct native_site native_site_nowhere = {.next = &native_site_nowhere,
                                          .other = &native_site_nowhere};

/* Guards what is added; what has been added is only read, but for the atomic fields. */
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;
/* SITES_MAX of them, mapped with the first; MAP_FAILED: there is no memory. */
static struct record *records;
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

static bool is_at(const struct record *record, const struct native_caller *caller, bool is_told,
                  const struct readable *stack) {
  if (record->pc != caller->pc || record->is_told != is_told ||
      !atomic_load_explicit(&record->is_right, memory_order_relaxed))
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

/* Our own code calls the program's only to begin main (process.c), or where no place is asked for.
 * What lies above it is the same each time. */
static bool begins_program(const struct native_frame *frame) {
  return frame->pc != 0 && frame->module.owner == MODULE_OURS;
}

/* Walks the stack for the id, and notes how. False: it cannot be found again without a walk, as the
 * way may be another although all that is noted is the same. */
static bool native_learn(const struct native_caller *caller, native_tells *tells,
                         struct record *record) {
  struct native_caller at = *caller;
  struct native_frame frame = {.pc = 0};
  struct native_id id = {.tells = tells};
  enum native_end end = NATIVE_GOES_ON;
  uint32_t frames = 0;
  bool is_begun = false; /* the first frame that is trimmed is the one that begins main */
  while (end == NATIVE_GOES_ON && !id.is_made && frames < 2 * NATIVE_ID_FRAMES) {
    end = native_step(&at, &frame);
    native_id_add(&id, &frame);
    if (frames < STEPS_MAX)
      set_step(&record->steps[frames], &frame.rule, at.pc);
    if (id.left >= frames)
      is_begun = id.left == frames && begins_program(&frame);
    frames++;
  }
  record->pc = caller->pc;
  record->is_told = tells != NULL;
  record->site.id = native_id_of(&id, end == NATIVE_ENDED);
  if (end == NATIVE_ENDED && !id.is_made && is_begun)
    frames = id.left + 1;
  record->nsteps = frames - 1;
  return (id.is_made || end == NATIVE_ENDED || end == NATIVE_STOPPED) && frames <= STEPS_MAX + 1;
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

/* What native_site_is_at or native_site_is_chained_at need, if these frames are such. */
static enum shape native_flatten(struct record *record) {
  struct position to = {.pointer_at = NATIVE_POINTER_AT, .has_pointer = NATIVE_POINTER_AT != 0};
  enum shape shape = SHAPE_FLAT;
  int64_t slot, pointer_at;
  if (record->nsteps == 0 || record->nsteps > NATIVE_SITE_FRAMES || record->is_told)
    return SHAPE_OTHER;
  record->above[record->nsteps].at = NATIVE_NO_MORE;
  for (uint32_t i = 0; i < record->nsteps; i++) {
    if (!native_advance(&to, &record->steps[i], &slot, &pointer_at))
      return SHAPE_OTHER;
    if (pointer_at != NATIVE_NO_POINTER)
      shape = SHAPE_CHAINED;
    record->above[i] = (struct native_above){
        .pc = record->steps[i].above, .at = (int32_t)slot, .pointer_at = (int32_t)pointer_at};
  }
  return shape;
}

/* Where all that lies on this stack. The walk has just read it. */
static void note_then(struct record *record, const struct native_caller *caller) {
  uintptr_t base = caller->sp;
  struct native_then then = {.pointer_at = NATIVE_POINTER_AT,
                             .leads_to = (intptr_t)(caller->fp - caller->sp)};
  record->site.top = 0;
  record->then[record->nsteps].at = NATIVE_NO_MORE;
  for (uint32_t i = 0; i < record->nsteps; i++) {
    const struct native_above *above = &record->above[i];
    if (above->pointer_at != NATIVE_NO_POINTER) {
      uintptr_t slot = base + (uintptr_t)(intptr_t)above->pointer_at;
      base =
          slot == caller->sp + (uintptr_t)NATIVE_POINTER_AT ? caller->fp : *(const uintptr_t *)slot;
      then.pointer_at = (intptr_t)(slot - caller->sp);
      then.leads_to = (intptr_t)(base - caller->sp);
    }
    then.pc = above->pc;
    then.at = (intptr_t)(base - caller->sp) + above->at;
    record->then[i] = then;
    if ((uintptr_t)then.at + sizeof(uintptr_t) > record->site.top)
      record->site.top = (uintptr_t)then.at + sizeof(uintptr_t);
  }
}

static bool is_same(const struct record *a, const struct record *b) {
  return a->pc == b->pc && a->site.id == b->site.id && a->is_told == b->is_told &&
         a->nsteps == b->nsteps && memcmp(a->steps, b->steps, a->nsteps * sizeof(a->steps[0])) == 0;
}

/* What the fast comparisons need besides. Of a record where it stays. */
static void native_set_near(struct record *record) {
  struct native_site *site = &record->site;
  site->above = record->above;
  site->then = record->then;
  site->is_deep = record->nsteps > NATIVE_NEAR_FRAMES;
  for (uint32_t i = 0; i < NATIVE_NEAR_FRAMES && record->nsteps > 0; i++) {
    uint32_t of = i < record->nsteps ? i : record->nsteps - 1;
    site->near[i] = record->above[of];
    site->near_then[i] = record->then[of];
  }
}

static void set_right(struct record *record, bool is_right, enum shape shape) {
  uintptr_t key = shape == SHAPE_FLAT ? record->pc : shape == SHAPE_CHAINED ? ~record->pc : 0;
  if (key != 0 && atomic_load_explicit(&record->site.is_watched, memory_order_relaxed))
    key ^= NATIVE_WATCHED;
  atomic_store_explicit(&record->is_right, is_right, memory_order_relaxed);
  atomic_store_explicit(&record->site.key, is_right ? key : 0, memory_order_relaxed);
}

/* NULL: there is no room. With the lock. */
static struct record *native_sites_add(const struct native_caller *caller, struct record *learnt) {
  enum shape shape = native_flatten(learnt);
  if (shape == SHAPE_CHAINED)
    note_then(learnt, caller);
  _Atomic(struct record *) *bucket = bucket_of(learnt->pc);
  struct record *first = atomic_load_explicit(bucket, memory_order_relaxed);
  for (struct record *record = first; record != NULL; record = record->other)
    if (is_same(record, learnt)) {
      set_right(record, true, shape);
      return record;
    }
  if (records == NULL)
    records = mmap(NULL, SITES_MAX * sizeof(*records), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (records == MAP_FAILED || nrecords == SITES_MAX)
    return NULL;
  struct record *record = &records[nrecords++];
  memcpy(record, learnt, sizeof(*record));
  record->site.is_record = true;
  native_set_near(record);
  set_right(record, true, shape);
  atomic_store_explicit(&record->site.next, &record->site, memory_order_relaxed);
  atomic_store_explicit(&record->site.other, &record->site, memory_order_relaxed);
  atomic_store_explicit(&record->other, first, memory_order_relaxed);
  atomic_store_explicit(bucket, record, memory_order_release);
  return record;
}

/* A process that is forked while another thread adds must not wait for it. */
static struct record *find_by_walking(const struct native_caller *caller, native_tells *tells,
                                      uint32_t *id) {
  struct record learnt;
  memset(&learnt, 0, sizeof(learnt));
  bool is_certain = native_learn(caller, tells, &learnt);
  *id = learnt.site.id;
  if (!is_certain || pthread_mutex_trylock(&adding) != 0)
    return NULL;
  struct record *record = native_sites_add(caller, &learnt);
  pthread_mutex_unlock(&adding);
  return record;
}

/* ---- finding ---- */

static struct record *if_at(struct native_site *site, const struct native_caller *caller,
                            bool is_told, const struct readable *stack) {
  struct record *record = (struct record *)(void *)site;
  return site->is_record && is_at(record, caller, is_told, stack) ? record : NULL;
}

static struct record *find_by_comparing(const struct native_caller *caller,
                                        const struct native_site *after, bool is_told) {
  struct native_bounds bounds = native_stack_bounds();
  struct readable stack = {caller->sp, bounds.low + bounds.size};
  if (caller->sp - bounds.low >= bounds.size)
    return NULL;
  struct record *record =
      if_at(atomic_load_explicit(&after->next, memory_order_acquire), caller, is_told, &stack);
  if (record == NULL)
    record =
        if_at(atomic_load_explicit(&after->other, memory_order_acquire), caller, is_told, &stack);
  if (record != NULL)
    return record;
  record = atomic_load_explicit(bucket_of(caller->pc), memory_order_acquire);
  while (record != NULL && !is_at(record, caller, is_told, &stack))
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
                                     native_tells *tells, uint32_t *id) {
  struct record *record = find_by_comparing(caller, after, tells != NULL);
  if (record == NULL)
    record = find_by_walking(caller, tells, id);
  if (record == NULL)
    return NULL;
  *id = record->site.id;
  note_next(after, &record->site);
  return &record->site;
}

static void native_site_watch(struct native_site *site) {
  if (atomic_load_explicit(&site->is_watched, memory_order_relaxed) ||
      pthread_mutex_trylock(&adding) != 0)
    return;
  uintptr_t key = atomic_load_explicit(&site->key, memory_order_relaxed);
  if (!atomic_exchange_explicit(&site->is_watched, true, memory_order_relaxed) && key != 0)
    atomic_store_explicit(&site->key, key ^ NATIVE_WATCHED, memory_order_relaxed);
  pthread_mutex_unlock(&adding);
}

void native_site_tell(struct native_site *site, bool says_rounds) {
  if (site->is_record && says_rounds)
    native_site_watch(site);
  if (site->is_record)
    atomic_store_explicit(&site->is_described, true, memory_order_relaxed);
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
