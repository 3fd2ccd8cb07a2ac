/* A job's ranks, for programs (job.h). */
#include "tools/json_text.h"
#include "tools/status/job.h"

/* In another communicator. */
static json_t *waits_in(const struct job_rank *rank) {
  char tag[16];
  snprintf(tag, sizeof tag, "%08x", rank->elsewhere);
  json_t *out = json_object();
  json_object_set_new(out, "communicator", json_string(tag));
  json_object_set_new(out, "rank", json_integer((json_int_t)rank->rank_elsewhere));
  return out;
}

/* The ranks that it waits for. */
static json_t *waits_for(const struct job *job) {
  json_t *out = json_array();
  for (uint32_t number = 0; number < job->nranks; number++)
    if (job->ranks[number].holds)
      json_array_append_new(out, json_integer((json_int_t)number));
  return out;
}

static json_t *rank_to_json(const struct job *job, uint32_t number) {
  const struct job_rank *rank = &job->ranks[number];
  static const char *const doings[] = {"runs", "waits", "left", "ended"};
  json_t *out = json_object();
  json_object_set_new(out, "rank", json_integer((json_int_t)number));
  if (rank->machine[0] != '\0')
    json_object_set_new(out, "machine", json_of(rank->machine));
  else
    json_object_set_new(out, "pid", json_integer(rank->pid));
  json_object_set_new(out, "state", json_string(doings[rank->doing]));
  json_object_set_new(out, "collectives", json_integer((json_int_t)rank->passed));
  json_object_set_new(out, "waits_s", json_integer((json_int_t)rank->waits_s));
  json_object_set_new(out, "stopped", json_boolean(rank->stopped));
  json_object_set_new(out, "program", json_of(rank->program));
  json_object_set_new(out, "joined", json_boolean(rank->joined));
  if (rank->joined)
    json_object_set_new(out, "joined_since", json_integer((json_int_t)rank->joined_since));
  if (rank->unit[0] != '\0')
    json_object_set_new(out, "collective", json_of(rank->unit));
  if (rank->place[0] != '\0')
    json_object_set_new(out, "place", json_of(rank->place));
  if (rank->held)
    json_object_set_new(out, "waits_for", waits_for(job));
  if (rank->elsewhere != 0)
    json_object_set_new(out, "waits_in", waits_in(rank));
  if (rank->warning[0] != '\0') {
    json_object_set_new(out, "last_warning", json_of(rank->warning));
    json_object_set_new(out, "last_warning_s", json_integer((json_int_t)rank->warned_s));
  }
  if (rank->fate.how != END_UNKNOWN)
    json_object_set_new(out, rank->fate.how == END_STATUS ? "status" : "signal",
                        json_integer(rank->fate.number));
  return out;
}

json_t *job_to_json(const struct job *job) {
  char tag[16];
  snprintf(tag, sizeof tag, "%08x", job->tag);
  json_t *out = json_object(), *ranks = json_array();
  json_object_set_new(out, "communicator", json_string(tag));
  for (uint32_t rank = 0; rank < job->nranks; rank++)
    json_array_append_new(ranks, rank_to_json(job, rank));
  json_object_set_new(out, "ranks", ranks);
  return out;
}
