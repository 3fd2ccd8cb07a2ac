/* Reading a segment's ranks (job.h). */
#include "tools/status/job.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/team/team.h"
#include "core/transport/plane_view.h"

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

/* The command line, with blanks between its words; what is no character becomes '?'. */
static void read_program(struct job_rank *rank) {
  char path[32];
  snprintf(path, sizeof path, "/proc/%d/cmdline", rank->pid);
  FILE *file = fopen(path, "r");
  size_t size = file != NULL ? fread(rank->program, 1, sizeof rank->program - 1, file) : 0;
  bool is_cut = size == sizeof rank->program - 1 && fgetc(file) != EOF;
  if (file != NULL)
    fclose(file);
  while (size > 0 && rank->program[size - 1] == '\0')
    size--;
  for (size_t i = 0; i < size; i++) {
    unsigned char c = (unsigned char)rank->program[i];
    if (c == '\0')
      rank->program[i] = ' ';
    else if (c < ' ' || c >= 0x7f)
      rank->program[i] = '?';
  }
  rank->program[size] = '\0';
  if (is_cut)
    memcpy(rank->program + size - 3, "...", 3);
}

static void read_last(struct team *team, uint32_t rank, struct job_rank *out) {
  struct team_last last;
  if (!team_last_unit(team, rank, &last))
    return;
  unit_describe(last.unit, out->unit, sizeof out->unit);
  snprintf(out->place, sizeof out->place, "%s", last.place);
}

/* What a rank has said of its end. */
struct said {
  enum rank_state state;
  bool followed;
};

static struct said read_said(const struct plane *plane, uint32_t rank) {
  return (struct said){plane_state(plane, rank), plane_has_followed(plane, rank)};
}

static void read_rank(struct team *team, uint32_t rank, struct said said,
                      const struct segment_seen *seen, struct job_rank *out) {
  const struct plane *plane = team->plane;
  *out = (struct job_rank){.pid = seen->pid,
                           .identity = seen->mark.identity,
                           .stopped = seen->stopped,
                           .fate = seen->fate,
                           .failed = said.state == RANK_FAILED,
                           .followed = said.followed,
                           .passed = plane_passed(plane, rank)};
  memcpy(out->machine, seen->machine, sizeof out->machine);
  bool parked = plane_is_parked(plane, rank);
  out->doing = !seen->alive || out->failed ? DOING_ENDED
               : said.state == RANK_DONE   ? DOING_LEFT
               : parked                    ? DOING_WAITS
                                           : DOING_RUNS;
  uint64_t since = plane_parked_since(plane, rank), now = now_ms();
  out->waits_s = parked && since != 0 && now > since ? (now - since) / 1000 : 0;
  if (out->passed > 0) {
    uint32_t flags = plane_flags(plane, rank, out->passed - 1);
    out->joined = parked && !(flags & (ENTRY_REAL | ENTRY_NO_UNIT | ENTRY_REFUSED));
    out->joined_since = out->joined ? team_joined_since(team, out->passed - 1, rank) : 0;
  }
  out->parked = parked;
  read_last(team, rank, out);
  if (seen->alive && seen->machine[0] == '\0') {
    job_read_warning(out, now);
    read_program(out);
  }
}

/* A team of our own over a copy of the logs, for what core/team knows to read in them. Making it
 * writes to that of rank 0, which is therefore read before. */
static bool read_ranks(struct job *job, struct segment_view *view, const struct segment_seen *seen,
                       const uint32_t *slot_of) {
  struct plane *plane = segment_view_plane(view, 0, job->nranks, slot_of);
  struct said said = plane != NULL ? read_said(plane, 0) : (struct said){RANK_ABSENT, false};
  struct team *team = plane != NULL ? team_create(plane) : NULL;
  job->ranks = calloc(job->nranks, sizeof *job->ranks);
  for (uint32_t rank = 0; team != NULL && job->ranks != NULL && rank < job->nranks; rank++)
    read_rank(team, rank, rank == 0 ? said : read_said(plane, rank), &seen[slot_of[rank]],
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
  if (read)
    job_find_waits(job);
  free(seen);
  free(slot_of);
  segment_view_close(view);
  return read;
}

void job_free(struct job *job) {
  free(job->ranks);
}

/* ---- several ---- */

static void find_elsewhere(struct job_rank *rank, const struct job *job) {
  for (uint32_t other = 0; other < job->nranks && rank->elsewhere == 0; other++) {
    if (job->ranks[other].identity != rank->identity || job->ranks[other].doing != DOING_WAITS)
      continue;
    rank->elsewhere = job->tag;
    rank->rank_elsewhere = other;
  }
}

void jobs_link(struct job *jobs, size_t njobs) {
  for (size_t i = 0; i < njobs; i++)
    for (uint32_t rank = 0; rank < jobs[i].nranks; rank++)
      for (size_t j = 0; j < njobs && jobs[i].ranks[rank].doing == DOING_RUNS; j++)
        if (j != i)
          find_elsewhere(&jobs[i].ranks[rank], &jobs[j]);
}
