/* Reading a segment's ranks, and writing them for people and programs (job.h). */
#include "tools/status/job.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/team/team.h"
#include "core/transport/plane_view.h"

/* ---- reading ---- */

/* As endpoints order the ranks of a communicator (interpose/comm/activation.c). */
static int by_key_then_slot(const void *a, const void *b, void *context) {
  const struct segment_seen *seen = context;
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  if (seen[x].mark.key != seen[y].mark.key)
    return seen[x].mark.key < seen[y].mark.key ? -1 : 1;
  return (x > y) - (x < y);
}

static uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void read_last(struct team *team, uint32_t rank, struct job_rank *out) {
  struct team_last last;
  if (!team_last_unit(team, rank, &last))
    return;
  unit_describe(last.unit, out->unit, sizeof out->unit);
  snprintf(out->place, sizeof out->place, "%s", last.place);
}

static void read_rank(struct team *team, uint32_t rank, enum rank_state state,
                      const struct segment_seen *seen, struct job_rank *out) {
  const struct plane *plane = team->plane;
  *out =
      (struct job_rank){.pid = seen->pid, .fate = seen->fate, .passed = plane_passed(plane, rank)};
  bool parked = plane_is_parked(plane, rank);
  out->doing = !seen->alive || state == RANK_FAILED ? DOING_ENDED
               : state == RANK_DONE                 ? DOING_LEFT
               : parked                             ? DOING_WAITS
                                                    : DOING_RUNS;
  uint64_t since = plane_parked_since(plane, rank), now = now_ms();
  out->waits_s = parked && since != 0 && now > since ? (now - since) / 1000 : 0;
  if (out->passed > 0) {
    uint32_t flags = plane_flags(plane, rank, out->passed - 1);
    out->joined = parked && !(flags & (ENTRY_REAL | ENTRY_NO_UNIT | ENTRY_REFUSED));
    out->joined_since = out->joined ? team_joined_since(team, out->passed - 1, rank) : 0;
  }
  read_last(team, rank, out);
}

/* A team of our own over a copy of the logs, for what core/team knows to read in them. Making it
 * writes to that of rank 0, whose state is therefore read before. */
static bool read_ranks(struct job *job, struct segment_view *view, const struct segment_seen *seen,
                       const uint32_t *slot_of) {
  struct plane *plane = segment_view_plane(view, 0, job->nranks, slot_of);
  enum rank_state state = plane != NULL ? plane_state(plane, 0) : RANK_ABSENT;
  struct team *team = plane != NULL ? team_create(plane) : NULL;
  job->ranks = calloc(job->nranks, sizeof *job->ranks);
  for (uint32_t rank = 0; team != NULL && job->ranks != NULL && rank < job->nranks; rank++)
    read_rank(team, rank, rank == 0 ? state : plane_state(plane, rank), &seen[slot_of[rank]],
              &job->ranks[rank]);
  bool read = team != NULL && job->ranks != NULL;
  team_destroy(team);
  return read;
}

bool job_read(struct job *job, const char *path, const char *name, char *reason) {
  reason[0] = '\0';
  *job = (struct job){.tag = attachment_tag(name)};
  struct segment_view *view = segment_view_open(path, reason);
  if (view == NULL)
    return false;
  uint32_t slots = segment_view_slots(view);
  struct segment_seen *seen = calloc(slots, sizeof *seen);
  uint32_t *slot_of = calloc(slots, sizeof *slot_of);
  bool alive = false;
  for (uint32_t slot = 0; seen != NULL && slot_of != NULL && slot < slots; slot++)
    if (segment_view_slot(view, slot, &seen[slot])) {
      slot_of[job->nranks++] = slot;
      alive |= seen[slot].alive;
    }
  if (alive)
    qsort_r(slot_of, job->nranks, sizeof *slot_of, by_key_then_slot, seen);
  job->expected = slots;
  bool read = alive && read_ranks(job, view, seen, slot_of);
  free(seen);
  free(slot_of);
  segment_view_close(view);
  return read;
}

void job_free(struct job *job) {
  free(job->ranks);
}

/* ---- for people ---- */

static void write_fate(const struct job_rank *rank, char *text, size_t size) {
  if (rank->fate.how == END_STATUS)
    snprintf(text, size, "ended with status %d", rank->fate.number);
  else if (rank->fate.how == END_SIGNAL)
    snprintf(text, size, "ended by signal %d (%s)", rank->fate.number,
             strsignal(rank->fate.number));
  else
    snprintf(text, size, "failed");
}

static void write_doing(const struct job_rank *rank, char *text, size_t size) {
  char fate[96] = "", joined[64] = "";
  if (rank->doing == DOING_ENDED)
    write_fate(rank, fate, sizeof fate);
  if (rank->joined)
    snprintf(joined, sizeof joined, "; joined since collective %llu",
             (unsigned long long)rank->joined_since);
  const char *what = rank->doing == DOING_RUNS    ? "runs its program"
                     : rank->doing == DOING_WAITS ? "waits"
                     : rank->doing == DOING_LEFT  ? "has left"
                                                  : fate;
  snprintf(text, size, "%s%s%s%s%s%s", what,
           rank->unit[0] == '\0'        ? ""
           : rank->doing == DOING_WAITS ? " in "
                                        : ", last ",
           rank->unit, rank->place[0] == '\0' ? "" : " at ", rank->place, joined);
}

/* "0, 2": the ranks that wait, or those that run their programs. */
static int write_ranks(const struct job *job, enum rank_doing doing, char *text, size_t size) {
  int count = 0;
  size_t used = 0;
  text[0] = '\0';
  for (uint32_t rank = 0; rank < job->nranks; rank++)
    if (job->ranks[rank].doing == doing && used < size)
      used += (size_t)snprintf(text + used, size - used, "%s%u", count++ == 0 ? "" : ", ", rank);
  return count;
}

void job_print(FILE *out, const struct job *job) {
  char waiting[256], running[256];
  fprintf(out, "communicator %08x, %u ranks here\n", job->tag, job->nranks);
  fprintf(out, "  rank      pid  collectives  waits for\n");
  for (uint32_t i = 0; i < job->nranks; i++) {
    const struct job_rank *rank = &job->ranks[i];
    char doing[512], since[24] = "";
    write_doing(rank, doing, sizeof doing);
    if (rank->doing == DOING_WAITS)
      snprintf(since, sizeof since, "%llu s", (unsigned long long)rank->waits_s);
    fprintf(out, "  %4u  %7d  %11llu  %9s  %s\n", i, rank->pid, (unsigned long long)rank->passed,
            since, doing);
  }
  int waits = write_ranks(job, DOING_WAITS, waiting, sizeof waiting);
  int runs = write_ranks(job, DOING_RUNS, running, sizeof running);
  if (waits > 0 && runs > 0)
    fprintf(out, "  rank%s %s wait%s for rank%s %s\n", waits == 1 ? "" : "s", waiting,
            waits == 1 ? "s" : "", runs == 1 ? "" : "s", running);
  fputc('\n', out);
}

/* ---- for programs ---- */

static json_t *rank_to_json(const struct job_rank *rank, uint32_t number) {
  static const char *const doings[] = {"runs", "waits", "left", "ended"};
  json_t *out = json_object();
  json_object_set_new(out, "rank", json_integer((json_int_t)number));
  json_object_set_new(out, "pid", json_integer(rank->pid));
  json_object_set_new(out, "state", json_string(doings[rank->doing]));
  json_object_set_new(out, "collectives", json_integer((json_int_t)rank->passed));
  json_object_set_new(out, "waits_s", json_integer((json_int_t)rank->waits_s));
  json_object_set_new(out, "joined", json_boolean(rank->joined));
  if (rank->joined)
    json_object_set_new(out, "joined_since", json_integer((json_int_t)rank->joined_since));
  if (rank->unit[0] != '\0')
    json_object_set_new(out, "collective", json_of(rank->unit));
  if (rank->place[0] != '\0')
    json_object_set_new(out, "place", json_of(rank->place));
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
    json_array_append_new(ranks, rank_to_json(&job->ranks[rank], rank));
  json_object_set_new(out, "ranks", ranks);
  return out;
}
