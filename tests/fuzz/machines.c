/* What comes to an agent from elsewhere, as it comes: frames of other agents, ids, and the board's
 * file, which other processes of the user write.
 *
 * Input: a byte that says which, modulo 3:
 *   0  a frame: a number (a slot's), and the bytes
 *   1  an id: its bytes; what is missing is zero
 *   2  a board: a byte, of which bit 0 says that it has another size, bit 1 that it is one but for what follows:
 *      pairs of a word, where, and a byte, what; else the bytes of its file
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/machines/board.h"
#include "core/machines/frames.h"
#include "core/machines/rendezvous.h"
#include "tests/fuzz/fuzz.h"

static bool is_printable(const char *text, size_t size) {
  size_t length = strnlen(text, size);
  for (size_t i = 0; i < length; i++)
    if (text[i] < ' ' || text[i] > '~')
      return false;
  return length < size;
}

/* ---- frames ---- */

static void read_slot(const struct frame *frame, uint32_t number) {
  struct frame_slot slot;
  if (!frame_read_slot(frame->body, frame->size, frame->head.key, number, &slot))
    return;
  FUZZ_CHECK(frame->head.key != 0 && number < slot.slots && slot.slots <= PLANE_RANKS_MAX &&
             slot.ranks <= slot.slots);
  FUZZ_CHECK(slot.introduction.ncomms <= INTRODUCTION_COMMS_MAX);
  FUZZ_CHECK(is_printable(slot.name, sizeof slot.name) &&
             is_printable(slot.host, sizeof slot.host));
  FUZZ_CHECK(strnlen(slot.introduction.tells, sizeof slot.introduction.tells) <
             sizeof slot.introduction.tells);
  FUZZ_CHECK(frame_key(slot.name) == frame->head.key);
}

static void read_place(const struct frame *frame) {
  struct frame_place place;
  if (!frame_read_place(frame, &place))
    return;
  FUZZ_CHECK(place.port > 0 && place.port <= UINT16_MAX);
  FUZZ_CHECK(is_printable(place.host, sizeof place.host));
}

static void read_frame(struct input *input) {
  struct frame frame;
  char text[FRAME_TEXT_BYTES];
  uint32_t number = input_word(input);
  uint8_t *bytes = malloc(input->size > 0 ? input->size : 1); /* exactly, for the sanitizer */
  FUZZ_CHECK(bytes != NULL);
  if (input->size > 0)
    memcpy(bytes, input->bytes, input->size);
  bool other = frame_other_version(bytes, input->size, text) != 0;
  FUZZ_CHECK(memchr(text, '\0', FRAME_HOST_BYTES) != NULL);
  if (frame_read(bytes, input->size, &frame)) {
    FUZZ_CHECK(!other);
    FUZZ_CHECK(frame.body + frame.size == bytes + input->size);
    FUZZ_CHECK(frame.head.kind > 0 && frame.head.kind < FRAME_KINDS);
    FUZZ_CHECK(frame.head.machine < FRAME_MACHINES_MAX);
    frame_read_text(&frame, text, sizeof text);
    FUZZ_CHECK(is_printable(text, sizeof text));
    read_slot(&frame, number);
    read_place(&frame);
    frame.head.key = UINT64_C(0x0123456789abcdef);
    read_slot(&frame, number % PLANE_RANKS_MAX);
  }
  free(bytes);
}

/* ---- ids ---- */

static void read_id(struct input *input) {
  unsigned char id[RENDEZVOUS_ID_BYTES] = {0}, before[RENDEZVOUS_ID_BYTES];
  struct rendezvous job, own = {.job = 7}, read;
  char text[RENDEZVOUS_ADDRESS_TEXT];
  memcpy(id, input->bytes, input->size < sizeof id ? input->size : sizeof id);
  memcpy(before, id, sizeof id);
  if (rendezvous_read(id, &job)) {
    rendezvous_address(job.address, text);
    FUZZ_CHECK(strlen(text) < sizeof text);
    FUZZ_CHECK(!rendezvous_write(id, &own) && memcmp(id, before, sizeof id) == 0);
  } else if (rendezvous_write(id, &own)) {
    FUZZ_CHECK(memcmp(id, before, 64) == 0); /* NCCL's part */
    FUZZ_CHECK(rendezvous_read(id, &read) && memcmp(&read, &own, sizeof own) == 0);
    rendezvous_address(own.address, text);
    FUZZ_CHECK(text[0] != '\0');
  } else {
    FUZZ_CHECK(memcmp(id, before, sizeof id) == 0);
  }
}

/* ---- boards ---- */

static const struct rendezvous job = {.job = 0x1234};

static bool start_none(const char *path) {
  (void)path;
  return false;
}

static void spoil(struct board_words *words, struct input *input) {
  words->magic = BOARD_MAGIC;
  words->version = BOARD_VERSION;
  words->job = job;
  while (input->size > 0) {
    uint32_t at = input_word(input) % (uint32_t)sizeof *words;
    ((unsigned char *)words)[at] = input_byte(input);
  }
}

static void write_file(const char *path, struct input *input) {
  static struct board_words words;
  uint8_t what = input_byte(input);
  size_t size = sizeof words;
  memset(&words, 0, sizeof words);
  if (what & 1)
    size = input_word(input) % (2 * sizeof words);
  if (what & 2)
    spoil(&words, input);
  else
    memcpy(&words, input->bytes, input->size < sizeof words ? input->size : sizeof words);
  int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  FUZZ_CHECK(file >= 0 && ftruncate(file, (off_t)size) == 0);
  FUZZ_CHECK(pwrite(file, &words, size < sizeof words ? size : sizeof words, 0) >= 0);
  close(file);
}

static void close_board(struct board *board) {
  board_tidy(board);
  FUZZ_CHECK(board_retire(board, true));
  munmap(board->words, sizeof *board->words);
  close(board->file);
  free(board);
}

/* As an agent opens it, and as a rank does that comes later. */
static void read_board(struct input *input) {
  char path[300], reason[BOARD_REASON_SIZE] = "";
  board_folder = fuzz_folder();
  snprintf(path, sizeof path, "%s/nccl-join-machines-%u-%016llx", board_folder, (unsigned)geteuid(),
           (unsigned long long)job.job);
  write_file(path, input);
  struct board *board = board_serve(path, reason);
  FUZZ_CHECK((board == NULL) == (reason[0] != '\0'));
  if (board == NULL) {
    board = board_open(&job, &(struct board_terms){.wait_s = 1}, start_none, reason);
    FUZZ_CHECK((board == NULL) == (reason[0] != '\0'));
    FUZZ_CHECK(memchr(reason, '\0', sizeof reason) != NULL);
  }
  if (board != NULL)
    close_board(board);
  (void)unlink(path);
}

void fuzz_machines(const uint8_t *bytes, size_t size) {
  struct input input = {bytes, size};
  switch (input_byte(&input) % 3) {
  case 0:
    read_frame(&input);
    break;
  case 1:
    read_id(&input);
    break;
  default:
    read_board(&input);
  }
}
