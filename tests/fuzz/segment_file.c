/* See segment_file.h. One file for all inputs: a child process holds locks on it, as other ranks
 * would, and closing any of its descriptors would lose this process's own. */
#include "tests/fuzz/segment_file.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/transport/segment.h"

static const char name[] = "00112233445566778899aabbccddeeff";

static char kept[300], named[SEGMENT_PATH_SIZE]; /* two names of the file; only one stays */
static int file = -1;
static unsigned char *base;

void segment_file_hold(int locked, uint32_t first, uint32_t count) {
  int parent[2], child[2];
  char byte = 0;
  FUZZ_CHECK(pipe2(parent, O_CLOEXEC) == 0 && pipe2(child, O_CLOEXEC) == 0);
  pid_t pid = fork();
  FUZZ_CHECK(pid >= 0);
  if (pid == 0) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = first, .l_len = count};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bool held = fcntl(locked, F_SETLK, &lock) == 0 && write(child[1], &byte, 1) == 1;
    close(parent[1]);
    while (held && read(parent[0], &byte, 1) > 0) /* until the parent has ended */
      ;
    _exit(0);
  }
  FUZZ_CHECK(read(child[0], &byte, 1) == 1);
  close(child[0]);
  close(child[1]);
  close(parent[0]);
}

static void make_file(void) {
  if (file >= 0)
    return;
  segment_folder = fuzz_folder();
  snprintf(kept, sizeof kept, "%s/kept", segment_folder);
  snprintf(named, sizeof named, "%s/nccl-join-%u-%s", segment_folder, (unsigned)geteuid(), name);
  file = open(kept, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  FUZZ_CHECK(file >= 0);
  segment_file_hold(file, 2, SEGMENT_GATE - 2); /* 0 and 1 are those of dead processes */
  base = mmap(NULL, segment_bytes(SEGMENT_FILE_SLOTS), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  FUZZ_CHECK(base != MAP_FAILED);
}

static struct segment_slot *slot_at(uint32_t slot) {
  return (struct segment_slot *)(void *)(base + SEGMENT_HEADER_BYTES) + slot;
}

/* The file with all slots but the rank's own taken, and what the input does to it. */
static void lay_out(struct input *input, uint8_t spoilt, uint32_t rank, uint32_t nranks) {
  FUZZ_CHECK(nranks > 0);
  struct segment_header header = {.magic = SEGMENT_MAGIC,
                                  .version = PLANE_VERSION,
                                  .slots = nranks,
                                  .bytes = segment_bytes(nranks)};
  FUZZ_CHECK(ftruncate(file, 0) == 0);
  FUZZ_CHECK(ftruncate(file, (off_t)segment_bytes(SEGMENT_FILE_SLOTS)) == 0);
  header.magic ^= spoilt & 1 ? input_long(input) : 0;
  header.version ^= spoilt & 2 ? input_word(input) : 0;
  header.slots ^= spoilt & 4 ? input_word(input) : 0;
  header.bytes ^= spoilt & 8 ? input_long(input) : 0;
  off_t size = (off_t)segment_bytes(nranks);
  if (spoilt & 16)
    size = (off_t)(input_word(input) % (segment_bytes(SEGMENT_FILE_SLOTS) + 1));
  memcpy(base, &header, sizeof header);
  for (uint32_t slot = 0; slot < nranks; slot++)
    atomic_store(&slot_at(slot)->ready, slot != rank && !(spoilt & 128));
  for (int i = 0; spoilt & 32 && i < 8; i++) {
    uint32_t at = input_word(input) % (nranks * (uint32_t)sizeof(struct segment_slot));
    ((unsigned char *)slot_at(0))[at] = input_byte(input);
  }
  FUZZ_CHECK(ftruncate(file, size) == 0);
  unlink(named);
  FUZZ_CHECK(link(kept, named) == 0);
}

/* What is read of the slots is within its bounds. */
static void check_introductions(const struct segment *segment, uint32_t nranks) {
  struct introduction introduction;
  FUZZ_CHECK(segment_attached(segment) <= nranks);
  FUZZ_CHECK(!segment_introduction(segment, nranks, &introduction));
  for (uint32_t slot = 0; slot < nranks; slot++)
    if (segment_introduction(segment, slot, &introduction))
      FUZZ_CHECK(introduction.ncomms <= INTRODUCTION_COMMS_MAX);
}

struct plane *segment_file_attach(struct input *input, uint32_t rank, uint32_t nranks,
                                  struct segment **segment) {
  make_file();
  uint8_t spoilt = input_byte(input);
  lay_out(input, spoilt, rank, nranks);
  struct introduction me = {.identity = 1, .ncomms = 1};
  char reason[ATTACHMENT_REASON_SIZE];
  uint32_t slots[SEGMENT_FILE_SLOTS];
  *segment = segment_attach(name, nranks, rank, nranks, &me, reason);
  FUZZ_CHECK((*segment == NULL) == (reason[0] != '\0'));
  FUZZ_CHECK(memchr(reason, '\0', sizeof reason) != NULL);
  FUZZ_CHECK(*segment != NULL || spoilt != 0 || rank >= 2);
  if (*segment == NULL)
    return NULL;
  check_introductions(*segment, nranks);
  for (uint32_t i = 0; i < nranks; i++)
    slots[i] = spoilt & 64 ? input_byte(input) % SEGMENT_FILE_SLOTS : i;
  struct plane *plane = segment_plane(*segment, rank, nranks, slots);
  FUZZ_CHECK(plane != NULL || spoilt != 0);
  for (uint32_t i = 0; i < nranks; i++) /* ranks that share a log cannot all be honest */
    for (uint32_t j = 0; j < i; j++)
      if (slots[i] == slots[j])
        return NULL;
  return plane;
}

void segment_file_detach(struct segment *segment) {
  segment_detach(segment);
  unlink(named);
}
