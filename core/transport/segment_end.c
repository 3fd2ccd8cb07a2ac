/* How the processes of a segment have ended (segment.h), or that one is stopped, or the agent is. A
 * process says how it ends itself where it sees that coming. Of one that is killed, or crashes, the
 * kernel tells in /proc/PID/stat, as long as its parent has not waited for it, and to those of the
 * same user (proc_pid_stat(5): state, exit_code). */
#include "core/transport/segment.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STAT_SIZE 2048
#define FIELD_STATE 3
#define FIELD_EXIT_CODE 52

static uint64_t pid_space(void) {
  struct stat status;
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

void segment_fill_process(struct segment_slot *slot) {
  slot->pid = getpid();
  slot->pid_space = pid_space();
}

/* The fields behind the name, which may have any character; field 3 is the first. */
static const char *field_of(const char *text, int number) {
  const char *at = strrchr(text, ')');
  for (int field = FIELD_STATE - 1; at != NULL && field < number; field++) {
    at = strchr(at, ' ');
    at += at != NULL;
  }
  return at;
}

/* What the kernel says of a slot's process; false if that is not to be known here. */
static bool read_process(const struct segment_slot *of, char text[STAT_SIZE]) {
  char path[32];
  if (of->pid_space == 0 || of->pid_space != pid_space())
    return false;
  snprintf(path, sizeof(path), "/proc/%d/stat", (int)of->pid);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t size = file < 0 ? -1 : read(file, text, STAT_SIZE - 1);
  if (file >= 0)
    close(file);
  if (size <= 0)
    return false;
  text[size] = '\0';
  return true;
}

/* As the kernel calls it. 'Z': a zombie; 'T': stopped; 't': stopped by a debugger; 0: unknown. */
static char state_of(const char *text) {
  const char *state = field_of(text, FIELD_STATE);
  return (char)(state == NULL ? 0 : *state);
}

void segment_reach_beyond(struct segment_map *map, const struct attachment_beyond *beyond) {
  map->beyond.turns = beyond->turns;
  map->beyond.silence_ms = beyond->silence_ms;
  atomic_store(&map->beyond.still_ms, 0);
  atomic_store(&map->beyond.looked_ms, (uint64_t)segment_now() / 1000000);
  atomic_store(&map->beyond.bell, beyond->bell);
}

bool segment_beyond_is_still(struct segment_map *map, uint64_t now_ms) {
  struct segment_beyond *beyond = &map->beyond;
  if (atomic_load(&beyond->bell) == NULL || beyond->turns == NULL)
    return false;
  uint32_t turn = atomic_load(beyond->turns);
  uint64_t looked_ms = atomic_exchange(&beyond->looked_ms, now_ms);
  uint64_t since_ms = now_ms > looked_ms ? now_ms - looked_ms : 0, most_ms = beyond->silence_ms / 2;
  if (atomic_exchange(&beyond->turn, turn) != turn) {
    atomic_store(&beyond->still_ms, 0);
    return false;
  }
  since_ms = since_ms < most_ms ? since_ms : most_ms;
  return atomic_fetch_add(&beyond->still_ms, since_ms) + since_ms >= beyond->silence_ms;
}

bool segment_slot_is_stopped(const struct segment_map *map, uint32_t slot) {
  char text[STAT_SIZE];
  if (!read_process(segment_slot(map, slot), text))
    return false;
  return state_of(text) == 'T' || state_of(text) == 't';
}

void segment_look_how_it_ended(const struct segment_map *map, uint32_t slot) {
  struct segment_slot *of = segment_slot(map, slot);
  char text[STAT_SIZE];
  if (atomic_load(&of->ended) != 0 || !read_process(of, text))
    return;
  const char *code = field_of(text, FIELD_EXIT_CODE);
  if (state_of(text) != 'Z' || code == NULL)
    return;
  unsigned status = (unsigned)strtoul(code, NULL, 10); /* as of wait(2) */
  uint32_t nothing = 0, ended = (status & 0x7f) != 0
                                    ? (uint32_t)END_SIGNAL << 16 | (status & 0x7f)
                                    : (uint32_t)END_STATUS << 16 | (status >> 8 & 0xff);
  atomic_compare_exchange_strong(&of->ended, &nothing, ended);
}

struct plane_fate segment_fate(const struct segment_map *map, uint32_t slot) {
  uint32_t ended = atomic_load(&segment_slot(map, slot)->ended);
  enum plane_end how = (enum plane_end)(ended >> 16);
  return how == END_STATUS || how == END_SIGNAL ? (struct plane_fate){how, (int)(ended & 0xffff)}
                                                : (struct plane_fate){.how = END_UNKNOWN};
}
