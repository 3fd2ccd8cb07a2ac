/* The agreed sequence beside peers that are hostile or dying: what is in their logs, claims, texts
 * and marks is the input's, and so is a segment's file before a rank attaches to it.
 *
 * All ranks run here in turn. Those that are honest run the core as programs do; once the input has
 * written to a rank's log, that rank is hostile and no longer runs. Whatever it has written, the
 * honest ones must not read out of bounds, run for ever, or be handed a unit that nobody has
 * published. While all are honest, they agree.
 *
 * Input: a byte for where the plane is (bit 0: in a file) and the number of ranks, what the file
 * holds (segment_file.h), then steps (run_step).
 */
#include <string.h>

#include "tests/fuzz/segment_job.h"

enum { STEPS_MAX = 256, ROUNDS_MAX = 1024, POLLS_MAX = 16, MEMBERS = 4096 };

/* ---- units ---- */

struct unit segment_units[SEGMENT_UNITS];

static void make_units(void) {
  static struct member members[MEMBERS];
  static const uint32_t sizes[SEGMENT_UNITS] = {
      1, 1, 1, 2, 2, 7, UNIT_MEMBERS_MAX, UNIT_MEMBERS_MAX + 1};
  uint32_t used = 0;
  for (uint32_t i = 0; i < SEGMENT_UNITS && segment_units[i].nmembers == 0; i++) {
    segment_units[i] = (struct unit){&members[used], sizes[i]};
    bool gathers = i == 2 || i == 3;
    for (uint32_t j = 0; j < sizes[i]; j++)
      members[used++] = (struct member){
          .count = 100 * i + j % 3 + 1,
          .root = ROOT_NONE,
          .kind = gathers ? MEMBER_ALLGATHER : MEMBER_ALLREDUCE,
          .reduction = gathers ? REDUCTION_NONE : 0,
          .datatype = (uint8_t)(5 * i),
      };
  }
}

static bool spoils(void *context, struct unit unit, uint32_t rank) {
  (void)context;
  return unit.members[0].kind == MEMBER_ALLGATHER && rank % 2 == 0;
}

/* ---- ranks ---- */

static void no_ring(struct plane *plane) {
  atomic_fetch_add(&plane->team->bell, 1);
}

static bool no_spin(struct plane *plane, uint64_t *since) {
  (void)plane;
  (void)since;
  return false;
}

static void no_wait(struct plane *plane, uint32_t seen, unsigned milliseconds) {
  (void)plane;
  (void)seen;
  (void)milliseconds;
}

static bool odd_ones_live(struct plane *plane, uint32_t rank) {
  (void)plane;
  return rank % 2 == 1;
}

static bool job_begin(struct segment_job *job, struct input *input) {
  uint8_t kind = input_byte(input);
  bool in_file = kind & 1;
  job->nranks = 1 + (kind >> 1) % SEGMENT_FILE_SLOTS;
  job->all_honest = true;
  /* In a file, slots 0 and 1 are free for a rank. */
  uint32_t mine = (uint32_t)(kind >> 4) % (job->nranks < 2 ? job->nranks : 2);
  struct plane *plane;
  if (in_file) {
    plane = segment_file_attach(input, mine, job->nranks, &job->segment);
  } else {
    job->memory = plane_memory_create(job->nranks);
    FUZZ_CHECK(job->memory != NULL);
    plane = plane_memory_rank(job->memory, mine);
    for (uint32_t rank = 0; rank < job->nranks; rank++) /* as new memory of a segment is */
      memset((void *)plane->logs[rank], 0, sizeof(struct plane_log));
  }
  if (plane == NULL)
    return false;
  for (uint32_t rank = 0; rank < job->nranks; rank++) {
    struct plane other = *plane;
    other.rank = rank;
    other.ring = no_ring;
    other.spin = no_spin;
    other.wait = no_wait;
    other.alive = odd_ones_live;
    job->ranks[rank].plane = rank == mine ? *plane : other;
    struct team *team = team_create(rank == mine ? plane : &job->ranks[rank].plane);
    FUZZ_CHECK(team != NULL);
    team->owner.is_lossy = spoils;
    job->ranks[rank].team = team;
  }
  return true;
}

static void job_end(struct segment_job *job) {
  for (uint32_t rank = 0; rank < job->nranks; rank++)
    team_destroy(job->ranks[rank].team);
  segment_file_detach(job->segment);
  plane_memory_destroy(job->memory);
}

/* ---- what must hold ---- */

/* Somebody has published the unit at an index: passed it, or claims it there. */
static bool is_published(const struct team *team, uint64_t index, uint64_t hash) {
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    const struct plane_log *log = team->plane->logs[rank];
    if (rank == team->plane->rank)
      continue;
    if (atomic_load(&log->head) > index &&
        atomic_load(&log->entries[index % PLANE_RING].hash) == hash)
      return true;
    if (atomic_load(&log->claim) == index + 1 && atomic_load(&log->claim_hash) == hash)
      return true;
  }
  return false;
}

static uint64_t own_hash(const struct team *team, uint64_t index) {
  return atomic_load(&team->own->entries[index % PLANE_RING].hash);
}

static void check_shadow(const struct team *team, struct unit unit) {
  FUZZ_CHECK(unit.nmembers >= 1 && unit.nmembers <= UNIT_MEMBERS_MAX);
  uint64_t hash = unit_hash(unit);
  FUZZ_CHECK(hash == own_hash(team, team_index(team)));
  FUZZ_CHECK(is_published(team, team_index(team), hash));
}

/* Sends and receives between this rank and others. */
static void check_mirrors(const struct team *team, struct unit unit) {
  FUZZ_CHECK(unit.nmembers >= 1 && unit.nmembers <= UNIT_MEMBERS_MAX);
  for (uint32_t i = 0; i < unit.nmembers; i++) {
    const struct member *member = &unit.members[i];
    FUZZ_CHECK(member->kind == MEMBER_SEND || member->kind == MEMBER_RECEIVE);
    FUZZ_CHECK(member->root >= 0 && (uint32_t)member->root < team->plane->nranks);
    FUZZ_CHECK((uint32_t)member->root != team->plane->rank);
  }
}

/* Honest ranks that have only met honest ones have the same unit at every index that both logs
 * hold. */
static void check_agreement(const struct segment_job *job) {
  const struct team *first = job->ranks[0].team;
  for (uint32_t rank = 1; job->all_honest && rank < job->nranks; rank++) {
    const struct team *other = job->ranks[rank].team;
    uint64_t end = first->head < other->head ? first->head : other->head;
    uint64_t ahead = first->head > other->head ? first->head : other->head;
    uint64_t begin = ahead > PLANE_RING ? ahead - PLANE_RING : 0;
    for (uint64_t index = begin; index < end; index++)
      FUZZ_CHECK(own_hash(first, index) == own_hash(other, index));
  }
}

/* ---- a rank's program ---- */

static void rank_fail(struct segment_rank *rank) {
  FUZZ_CHECK(rank->team->failed.how != FAILURE_NONE);
  FUZZ_CHECK(rank->team->failed.rank < rank->plane.nranks);
  team_find_culprit(rank->team);
  FUZZ_CHECK(rank->team->failed.rank < rank->plane.nranks);
  team_give_up(rank->team);
  team_end(rank->team, RANK_FAILED);
  rank->ended = true;
}

static void rank_poll(struct segment_rank *rank, bool waits) {
  struct team *team = rank->team;
  for (int i = 0; i < POLLS_MAX && !rank->ended; i++) {
    struct unit unit;
    bool claimed = team->claim.open;
    enum team_verdict verdict = waits ? team_wait(team, &unit, 0) : team_poll(team, &unit);
    FUZZ_CHECK(team_is_valid(team));
    switch (verdict) {
    case TEAM_PARKED:
      return;
    case TEAM_SHADOW:
      check_shadow(team, unit);
      break;
    case TEAM_MIRROR:
      check_mirrors(team, unit);
      break;
    case TEAM_REAL:
    case TEAM_OUTSIDE:
    case TEAM_REFUSED:
      FUZZ_CHECK(verdict == TEAM_REAL || team_refused_for(team) < team->plane->nranks);
      FUZZ_CHECK(claimed && !team->claim.open && rank->claim.nmembers > 0);
      FUZZ_CHECK(own_hash(team, team_index(team)) == unit_hash(rank->claim));
      return;
    case TEAM_STOPPED:
      FUZZ_CHECK(claimed && !team->claim.open && team->stop.rank < team->plane->nranks);
      FUZZ_CHECK(team->stop.exhausted == (own_hash(team, team_index(team)) != team->claim.hash));
      return;
    case TEAM_LEFT:
      FUZZ_CHECK(claimed && rank->claim.nmembers == 0);
      team_end(team, RANK_DONE);
      rank->ended = true;
      return;
    case TEAM_FAILED:
      rank_fail(rank);
      return;
    }
  }
}

static void rank_claim(struct segment_rank *rank, struct unit unit, uint32_t flags) {
  rank->claim = unit;
  if (unit.nmembers == 0)
    team_claim_leave(rank->team);
  else
    team_claim(rank->team, unit, flags, NULL);
  rank_poll(rank, false);
}

/* Issues a unit, or waits for the one before. */
static bool rank_issue(struct segment_rank *rank, struct unit unit, uint32_t flags) {
  if (rank->ended || rank->team == NULL)
    return false;
  if (rank->team->claim.open)
    rank_poll(rank, false);
  if (rank->ended || rank->team->claim.open)
    return false;
  if (!team_commit(rank->team, unit))
    rank_claim(rank, unit, flags);
  return true;
}

/* Sends to another rank and receives from it, as one. */
static void rank_post(struct segment_rank *rank, struct input *input) {
  struct member members[4];
  struct team *team = rank->team;
  uint8_t what = input_byte(input);
  uint32_t n = 1 + what % 4, nranks = team->plane->nranks;
  if (nranks == 1)
    return;
  for (uint32_t i = 0; i < n; i++) {
    uint8_t which = input_byte(input);
    members[i] = (struct member){
        .count = 1 + which / 64u,
        .comm = which / 32 % 2,
        .root = (int32_t)((team->plane->rank + 1 + which / 2 % (nranks - 1)) % nranks),
        .reduction = REDUCTION_NONE,
        .kind = which & 1 ? MEMBER_SEND : MEMBER_RECEIVE,
        .datatype = 7,
    };
  }
  int lossy = peers_find_lossy(team->peers, members, n, team_passed(team), false);
  FUZZ_CHECK(lossy >= -1 && lossy < (int)n);
  (void)team_post_later(team, &(struct posts){.members = members, .nmembers = n}, 0);
  if (what & 128)
    team_stop_answering(team);
  FUZZ_CHECK(team_is_valid(team));
}

/* Everything else that a rank may ask or say. */
static void rank_ask(struct segment_rank *rank, struct input *input) {
  struct team *team = rank->team;
  struct lossy_event event;
  bool active[SEGMENT_FILE_SLOTS];
  uint64_t back = input_byte(input);
  switch (input_byte(input) % 8) {
  case 0:
    team_report_lossy(team, MEMBER_ALLGATHER);
    break;
  case 1:
    for (uint32_t i = 0; team_events(team, &event); i++)
      FUZZ_CHECK(event.rank < team->plane->nranks && i < team->plane->nranks);
    FUZZ_CHECK(!team_must_attend(team));
    break;
  case 2:
    if (back < team->head)
      (void)team_active(team, team->head - 1 - back, active);
    break;
  case 3:
    team_wait_others(team, team->head, 0);
    break;
  case 4:
    team_look_for_the_dead(team);
    break;
  case 5:
    team_say_leaving(team, back & 1);
    (void)team_all_leaving(team);
    break;
  case 6:
    (void)team_is_between_iterations(team);
    (void)team_refused_for(team);
    break;
  default:
    rank_poll(rank, true);
    break;
  }
}

/* ---- steps ---- */

/* All honest ranks run a loop together, each as far as it comes: what learners learn from. */
static void run_loop(struct segment_job *job, struct input *input) {
  uint32_t rounds = input_byte(input), first = input_byte(input), length = 1 + first / 8 % 4;
  for (uint32_t i = 0; i < job->nranks; i++)
    job->ranks[i].position = 0;
  for (uint32_t round = 0; round < rounds && job->rounds < ROUNDS_MAX; round++, job->rounds++)
    for (uint32_t i = 0; i < job->nranks; i++) {
      struct segment_rank *rank = &job->ranks[i];
      rank->position += rank_issue(rank, segment_units[(first + rank->position % length) % 6], 0);
    }
}

static void run_step(struct segment_job *job, struct input *input) {
  uint8_t step = input_byte(input);
  struct segment_rank *rank = &job->ranks[step / 16 % job->nranks];
  uint8_t which = step % 16;
  if (which == 0) {
    run_loop(job, input);
  } else if (which == 1) {
    segment_spoil(job, input);
  } else if (which == 2) {
    segment_spoil_posts(job, input);
  } else if (which == 3) {
    segment_flood(job, input);
  } else if (rank->team == NULL || rank->ended) {
    return;
  } else if (which <= 8) {
    uint8_t unit = input_byte(input);
    rank_issue(rank, segment_units[unit % SEGMENT_UNITS],
               (unit & 64 ? CLAIM_STRICT : 0) | (unit & 128 ? CLAIM_TOGETHER : 0));
  } else if (which <= 11) {
    rank_poll(rank, false);
  } else if (which == 12) {
    rank_ask(rank, input);
  } else if (which == 13) {
    rank_post(rank, input);
  } else if (!rank->team->claim.open && which == 14) {
    rank_claim(rank, (struct unit){NULL, 0}, 0);
  } else if (which == 15) {
    team_give_up(rank->team);
    team_end(rank->team, RANK_FAILED);
    rank->ended = true;
  }
}

void fuzz_segment(const uint8_t *bytes, size_t size) {
  struct input input = {bytes, size};
  struct segment_job job = {0};
  make_units();
  if (job_begin(&job, &input)) {
    for (int step = 0; step < STEPS_MAX && input.size > 0; step++)
      run_step(&job, &input);
    check_agreement(&job);
  }
  job_end(&job);
}
