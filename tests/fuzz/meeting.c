/* An agent as a whole but for its links (tools/agent/meeting.h): whatever the agents of other
 * machines send it, and in which order they come and go, it writes nothing but the logs of a
 * segment that it was asked for, keeps no more than it may, and a peer that says what is no message
 * is dropped.
 *
 * Input: a byte, of which bit 0 says that it is the root, bit 1 that it does not wait for others;
 * then steps: a byte that says which, modulo 8, and whose, and what it takes (see step). Who is not
 * the root has a parent and children.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/agent/agent_private.h"
#include "core/transport/segment.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/segment_file.h"
#include "tools/agent/meeting_private.h"

enum { SLOTS = 4, PEERS = 4, STEPS_MAX = 64 };

static const char name[] = "0123456789abcdef0123456789abcdef";
static const uint64_t key = UINT64_C(0x0123456789abcdef);

/* ---- links that are the input's ---- */

struct links {
  struct links_events events;
  bool root, linked, lost_parent;
  bool present[PEERS + 1], dropped[PEERS + 1]; /* by machine */
};
static struct links all;

struct links *links_open(const struct rendezvous *job, const struct links_terms *terms,
                         const struct links_events *events, char *reason) {
  (void)job;
  (void)terms;
  (void)reason;
  all.events = *events;
  return &all;
}
bool links_is_root(const struct links *links) {
  return links->root;
}
bool links_is_linked(const struct links *links) {
  return links->linked;
}
const struct frame_place *links_unreachable(const struct links *links) {
  static const struct frame_place there = {.address = {[15] = 1}, .port = 61000, .host = "there"};
  return links->linked ? NULL : &there;
}
uint32_t links_other_version(const struct links *links, const char **host) {
  (void)links;
  *host = "";
  return 0;
}
uint32_t links_children(const struct links *links) {
  uint32_t count = 0;
  for (int machine = 1; machine <= PEERS; machine++)
    count += links->present[machine];
  return count;
}
void links_send(struct links *links, uint32_t machine, const struct frame_head *head,
                const void *body, size_t size) {
  struct frame frame;
  unsigned char *message = malloc(sizeof *head + size);
  FUZZ_CHECK(message != NULL && machine <= PEERS && (!links->root || machine != LINKS_PARENT));
  memcpy(message, head, sizeof *head);
  if (size > 0)
    memcpy(message + sizeof *head, body, size);
  FUZZ_CHECK(frame_read(message, sizeof *head + size, &frame));
  free(message);
}
void links_drop(struct links *links, uint32_t machine) {
  FUZZ_CHECK(machine <= PEERS);
  links->dropped[machine] = true;
}
static void lose(uint32_t machine) {
  if (!all.present[machine])
    return;
  all.present[machine] = all.dropped[machine] = false;
  all.linked = all.linked && machine != LINKS_PARENT;
  all.lost_parent |= machine == LINKS_PARENT;
  all.events.lost(all.events.context, machine);
}
void links_prepare(struct links *links, int file, int milliseconds) {
  (void)links;
  (void)file;
  (void)milliseconds;
}
void links_await(struct links *links) {
  (void)links;
}
bool links_are_used(const struct links *links) {
  (void)links;
  return false;
}
bool links_hear(struct links *links, bool awaited) {
  (void)awaited;
  bool any = false;
  for (uint32_t machine = 0; machine <= PEERS; machine++)
    if (links->dropped[machine]) {
      lose(machine);
      any = true;
    }
  return any;
}
void links_close(struct links *links) {
  (void)links;
}

/* ---- a segment with two ranks of this machine ---- */

static char kept[300], named[SEGMENT_PATH_SIZE];
static int segment_file = -1;

static void make_segment(void) {
  segment_folder = fuzz_folder();
  if (segment_file < 0) {
    snprintf(kept, sizeof kept, "%s/meeting", segment_folder);
    snprintf(named, sizeof named, "%s/nccl-join-%u-%s", segment_folder, (unsigned)geteuid(), name);
    segment_file = open(kept, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FUZZ_CHECK(segment_file >= 0);
    segment_file_hold(segment_file, 0, 2);
  }
  struct segment_header header = {.magic = SEGMENT_MAGIC,
                                  .version = PLANE_VERSION,
                                  .slots = SLOTS,
                                  .bytes = segment_bytes(SLOTS)};
  struct segment_slot slot = {.introduction = {.identity = 7}, .ready = 1};
  FUZZ_CHECK(ftruncate(segment_file, 0) == 0);
  FUZZ_CHECK(ftruncate(segment_file, (off_t)header.bytes) == 0);
  FUZZ_CHECK(pwrite(segment_file, &header, sizeof header, 0) == sizeof header);
  for (int i = 0; i < 2; i++)
    FUZZ_CHECK(pwrite(segment_file, &slot, sizeof slot,
                      (off_t)(SEGMENT_HEADER_BYTES + (size_t)i * sizeof slot)) == sizeof slot);
  unlink(named);
  FUZZ_CHECK(link(kept, named) == 0);
}

/* ---- steps ---- */

static struct board_words words;

static void ask(struct input *input) {
  struct board_communicator *one = &words.communicators[input_byte(input) % 3];
  uint8_t how = input_byte(input);
  memset(one, 0, sizeof *one);
  snprintf(one->name, sizeof one->name, "%s", name);
  if (how & 1) /* of no segment, or no name at all */
    one->name[how >> 4] = (char)input_byte(input);
  one->slots = how & 2 ? input_word(input) : SLOTS;
  one->ranks = how & 4 ? input_word(input) : SLOTS;
  one->answer = BOARD_ASKED;
  words.asked++;
}

static void receive(uint32_t machine, const unsigned char *bytes, size_t size) {
  struct frame frame;
  unsigned char *copy = malloc(size > 0 ? size : 1);
  FUZZ_CHECK(copy != NULL);
  if (size > 0)
    memcpy(copy, bytes, size);
  if (all.present[machine] && !all.dropped[machine]) {
    if (!frame_read(copy, size, &frame)) /* links.c does as much */
      all.dropped[machine] = true;
    else if (frame.head.kind == FRAME_TOLD || frame.head.kind == FRAME_ANSWER)
      all.events.received(all.events.context, machine, &frame);
  }
  free(copy);
}

static void receive_kind(uint32_t machine, enum frame_kind kind, uint32_t detail,
                         const unsigned char *body, size_t size) {
  static unsigned char bytes[sizeof(struct frame_head) + 2048];
  struct frame_head head = frame_head(kind, machine);
  head.key = key;
  head.detail = detail;
  size = size < 2048 ? size : 2048;
  memcpy(bytes, &head, sizeof head);
  if (size > 0)
    memcpy(bytes + sizeof head, body, size);
  receive(machine, bytes, sizeof head + size);
}

/* A rank of another machine, of that communicator. */
static void introduce(uint32_t machine, struct input *input) {
  unsigned char body[sizeof(struct frame_slot) + 32];
  struct frame_slot slot = {
      .version = FRAMES_VERSION, .slots = SLOTS, .ranks = SLOTS, .host = "there"};
  uint8_t number = input_byte(input) % 8, how = input_byte(input);
  snprintf(slot.name, sizeof slot.name, "%s", name);
  slot.slots += how & 1;
  slot.ranks -= how >> 1 & 1;
  slot.introduction.ncomms = how & 4 ? input_byte(input) : 0;
  body[0] = AGENT_VERSION;
  body[1] = ITEM_TEAM;
  memcpy(body + 2, &key, sizeof key);
  body[10] = ITEM_INTRODUCE;
  body[11] = number;
  body[12] = (unsigned char)(sizeof slot | 0x80);
  body[13] = (unsigned char)(sizeof slot >> 7);
  memcpy(body + 14, &slot, sizeof slot);
  receive_kind(machine, FRAME_TOLD, 0, body, 14 + sizeof slot);
}

static void receive_input(uint32_t machine, bool told, struct input *input) {
  size_t size = input_word(input) % 2048;
  size = size < input->size ? size : input->size;
  if (told)
    receive_kind(machine, FRAME_TOLD, 0, input->bytes, size);
  else
    receive(machine, input->bytes, size);
  input->bytes += size;
  input->size -= size;
}

static void come(uint32_t machine) {
  if (all.present[machine])
    return;
  if (machine == LINKS_PARENT && all.lost_parent)
    return; /* it is lost for good */
  all.present[machine] = true;
  if (machine != LINKS_PARENT) {
    all.events.joined(all.events.context, machine);
    return;
  }
  all.linked = true;
  all.events.linked(all.events.context);
}

static void step(struct meeting *meeting, struct input *input) {
  uint8_t which = input_byte(input);
  uint32_t machine = all.root ? 1U + (which >> 3) % PEERS : (which >> 3) % (PEERS + 1U);
  switch (which % 8) {
  case 0:
    come(machine);
    break;
  case 1:
    receive_input(machine, false, input);
    break;
  case 2:
    receive_input(machine, true, input);
    break;
  case 3:
    introduce(machine, input);
    break;
  case 4:
    ask(input);
    break;
  case 5:
    lose(machine);
    break;
  case 6:
    receive_kind(machine, FRAME_ANSWER, input_byte(input) % 7, (const unsigned char *)"why", 3);
    break;
  default:
    (void)meeting_turn(meeting, true);
  }
}

static void check_answers(void) {
  for (int i = 0; i < 3; i++) {
    FUZZ_CHECK(words.communicators[i].answer <= BOARD_LOST);
    FUZZ_CHECK(memchr(words.communicators[i].reason, '\0', BOARD_REASON_SIZE) != NULL);
  }
}

void fuzz_meeting(const uint8_t *bytes, size_t size) {
  struct input input = {bytes, size};
  struct board board = {.words = &words, .path = "/nowhere"};
  char reason[FRAME_TEXT_BYTES];
  uint8_t how = input_byte(&input);
  memset(&words, 0, sizeof words);
  words.terms.wait_s = how & 2 ? 0 : 1000;
  all = (struct links){.root = how & 1};
  board.file = memfd_create("board", MFD_CLOEXEC);
  make_segment();
  struct meeting *meeting = meeting_begin(&board, "here", reason);
  FUZZ_CHECK(meeting != NULL && board.file >= 0);
  for (int steps = 0; steps < STEPS_MAX && input.size > 0 && !meeting_has_failed(meeting);
       steps++) {
    step(meeting, &input);
    check_answers();
    FUZZ_CHECK(meeting->agent->nteams <= AGENT_TEAMS_MAX &&
               meeting->agent->nslots <= AGENT_SLOTS_MAX);
  }
  if (!meeting_has_failed(meeting))
    (void)meeting_turn(meeting, true);
  meeting_end(meeting);
  close(board.file);
}
