/* What a hostile rank writes into its log (segment_job.h). */
#include "tests/fuzz/segment_job.h"

/* A value that is likely to do harm: near an index, a hash, a position. */
static uint64_t some_value(const struct segment_job *job, struct input *input) {
  uint8_t kind = input_byte(input);
  int8_t delta = (int8_t)input_byte(input);
  const struct plane *plane = &job->ranks[kind % job->nranks].plane;
  const struct plane_log *log = plane->logs[plane->rank];
  uint64_t head = atomic_load(&log->head);
  switch (kind / 32) {
  case 0:
    return head + (uint64_t)delta;
  case 1:
    return unit_hash(segment_units[(uint8_t)delta % SEGMENT_UNITS]);
  case 2:
    return (uint64_t)delta;
  case 3:
    return atomic_load(&log->claim_text) + (uint64_t)delta;
  case 4:
    return head + (uint64_t)delta * 256;
  case 5:
    return atomic_load(&log->entries[(head + (uint64_t)delta) % PLANE_RING].hash);
  case 6:
    return segment_units[(uint8_t)delta % SEGMENT_UNITS].nmembers + (uint64_t)(delta < 0);
  default:
    return input_long(input);
  }
}

static void become_hostile(struct segment_job *job, uint32_t number) {
  job->all_honest = false;
  team_destroy(job->ranks[number].team);
  job->ranks[number].team = NULL;
}

void segment_spoil(struct segment_job *job, struct input *input) {
  uint32_t number = input_byte(input) % job->nranks;
  uint8_t field = input_byte(input);
  uint64_t value = some_value(job, input);
  struct segment_rank *rank = &job->ranks[number];
  struct plane_log *log = rank->plane.logs[number];
  if (field % 32 >= 30) {
    atomic_store(&rank->plane.team->attention, value);
    job->all_honest = false;
    return;
  }
  become_hostile(job, number);
  uint64_t at = atomic_load(&job->ranks[field / 32 % job->nranks].plane.logs[number]->head);
  struct plane_entry *entry = &log->entries[at % PLANE_RING];
  switch (field % 32) {
  case 0:
  case 1:
    atomic_store(&log->head, value);
    break;
  case 2:
    atomic_store(&log->claim, value);
    break;
  case 3:
    atomic_store(&log->claim_hash, value);
    break;
  case 4:
    atomic_store(&log->claim_bytes, value);
    break;
  case 5:
    atomic_store(&log->claim_text, (uint32_t)value);
    break;
  case 6:
    atomic_store(&log->claim_flags, (uint32_t)value);
    break;
  case 7:
    atomic_store(&log->state, (uint32_t)value);
    break;
  case 8:
    atomic_store(&log->leaving, (uint32_t)value);
    break;
  case 9:
    atomic_store(&log->lossy_count, (uint32_t)value);
    break;
  case 10:
    atomic_store(&log->lossy_index, value);
    break;
  case 11:
    atomic_store(&log->lossy_kind, (uint32_t)value);
    break;
  case 12:
    atomic_store(&log->refused_for, (uint32_t)value);
    break;
  case 13:
    atomic_store(&log->failed_index, value);
    break;
  case 14:
  case 15:
    atomic_store(&entry->hash, value);
    break;
  case 16:
    atomic_store(&entry->reals, (uint32_t)value);
    break;
  case 17:
    atomic_store(&entry->run_start, (uint32_t)value);
    break;
  case 18:
  case 19:
    atomic_store(&entry->flags, (uint32_t)value);
    break;
  default:
    atomic_store(&log->text[(atomic_load(&log->claim_text) + field % 32 - 20) % (PLANE_TEXT / 8)],
                 value);
    break;
  }
}

void segment_spoil_posts(struct segment_job *job, struct input *input) {
  uint32_t number = input_byte(input) % job->nranks;
  uint8_t field = input_byte(input);
  uint64_t value = some_value(job, input);
  const struct plane *plane = &job->ranks[number].plane;
  struct plane_log *log = plane->logs[number];
  become_hostile(job, number);
  uint64_t end = atomic_load(&log->operations_end);
  struct plane_operation *post = &log->operations[(end - 1 - field / 64) % PLANE_OPERATIONS];
  struct plane_pair *pair = &log->pairs[(field / 16 + end) % PLANE_PAIRS];
  for (uint32_t i = 0; i < PLANE_PAIRS && atomic_load(&pair->key) == 0; i++)
    pair = &log->pairs[i];
  switch (field % 16) {
  case 0:
  case 1:
    atomic_store(&log->operations_end, end + (uint64_t)(int8_t)value);
    break;
  case 2:
    atomic_store(&log->operations_end, value);
    break;
  case 3:
    atomic_store(&log->operations_begin, value);
    break;
  case 4:
    atomic_store(&log->answering, value);
    break;
  case 5:
    atomic_store(&log->mirrored, value);
    break;
  case 6:
    atomic_store(&pair->key, value);
    break;
  case 7:
    atomic_store(&pair->issued, value);
    break;
  case 8:
    for (uint32_t i = 0; i < PLANE_PAIRS; i++) /* no free place, and none with any key asked for */
      atomic_store(&log->pairs[i].key, value | 1);
    break;
  case 9:
    atomic_store(&post->count, value);
    break;
  case 10:
    atomic_store(&post->index, value);
    break;
  case 11:
    atomic_store(&post->comm, (uint32_t)value);
    break;
  case 12:
    atomic_store(&post->ordinal, (uint32_t)value);
    break;
  case 13:
    atomic_store(&post->group, (uint32_t)value);
    break;
  case 14:
    atomic_store(&post->what, (uint32_t)value);
    break;
  default:
    atomic_store(&plane->team->point_to_point, (uint32_t)value);
    break;
  }
}

void segment_flood(struct segment_job *job, struct input *input) {
  uint32_t number = input_byte(input) % job->nranks;
  struct segment_rank *rank = &job->ranks[number];
  struct plane_log *log = rank->plane.logs[number];
  uint64_t hash = some_value(job, input), head = some_value(job, input);
  uint32_t flags = input_word(input);
  become_hostile(job, number);
  for (uint32_t i = 0; i < PLANE_RING; i++) {
    atomic_store(&log->entries[i].hash, hash);
    atomic_store(&log->entries[i].flags, flags);
  }
  atomic_store(&log->head, head);
}
