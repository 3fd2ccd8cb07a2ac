/* What an agent gets from the agents of other machines: frames of logs (core/transport/mirror.h),
 * and messages (core/agent/agent.h). Whatever it gets, nothing is written but the logs and teams
 * that it has been given, and who reads those afterwards comes to an end.
 *
 * Input: a byte that says which, modulo 3:
 *   0  frames: each a word (its size), and the bytes; applied to one log
 *   1  frames that a log has made, of which some bytes are changed: see damage_frames
 *   2  messages: each a byte (the link; 2: its version, too, is as it stands there), a word (its size), and the bytes
 */
#include <stdlib.h>
#include <string.h>

#include "core/agent/agent_private.h"
#include "core/transport/logs.h"
#include "core/transport/mirror.h"
#include "core/transport/operations.h"
#include "core/transport/plane_memory.h"
#include "core/transport/texts.h"
#include "core/transport/words.h"
#include "tests/fuzz/fuzz.h"

enum { RANKS = 4, FRAMES_MAX = 64, FRAME_SIZE = 1024 };

static struct plane_log *new_log(void) {
  struct plane_log *log = aligned_alloc(64, sizeof(*log));
  FUZZ_CHECK(log != NULL);
  memset(log, 0, sizeof(*log));
  return log;
}

/* As those do who agree. */
static void read_log(const struct plane_log *log) {
  struct log_claim claim;
  struct operation operation;
  uint64_t text[8], head = log_passed(log);
  (void)log_entry(log, head);
  if (log_read_claim(log, log_claimed(log) - 1, &claim))
    (void)text_read(log, claim.text, 0, text, sizeof(text));
  (void)pair_issued(log, pair_key(1, 2, true));
  operation_read(log, log_operations_begin(log), &operation);
  FUZZ_CHECK(log_operations_end(log) - log_operations_begin(log) <= PLANE_OPERATIONS);
  FUZZ_CHECK(log_state(log) <= RANK_FAILED);
}

/* A copy exactly as large, for the address sanitizer. */
static uint8_t *take_bytes(struct input *input, size_t most, size_t *size) {
  *size = input_word(input) % (most + 1);
  if (*size > input->size)
    *size = input->size;
  uint8_t *bytes = malloc(*size > 0 ? *size : 1);
  FUZZ_CHECK(bytes != NULL);
  if (*size > 0)
    memcpy(bytes, input->bytes, *size);
  input->bytes += *size;
  input->size -= *size;
  return bytes;
}

static void apply_frames(struct input *input) {
  struct plane_log *log = new_log();
  for (uint32_t frames = 0; input->size > 0 && frames < FRAMES_MAX; frames++) {
    size_t size;
    uint8_t *frame = take_bytes(input, 65536, &size);
    uint64_t head = log_passed(log);
    (void)mirror_apply(log, 1000, frame, size);
    FUZZ_CHECK(log_passed(log) >= head);
    read_log(log);
    free(frame);
  }
  free(log);
}

/* ---- frames that a log has made ---- */

static void move_log(struct plane_log *log, struct input *input, uint64_t *text_end) {
  uint64_t text[4] = {input_long(input), 0, 7, 0}, index = log_passed(log);
  switch (input_byte(input) % 4) {
  case 0:
    log_pass(log, index,
             &(struct log_entry){.hash = input_byte(input) % 4, .flags = input_byte(input)});
    break;
  case 1:
    *text_end = text_begin(*text_end, sizeof(text));
    text_write(log, *text_end, 0, text, sizeof(text));
    log_write_claim(log, &(struct log_claim){.hash = text[0], .text = text_position(*text_end)});
    text_show(log, *text_end += sizeof(text));
    log_claim(log, index);
    break;
  case 2:
    log_say_busy(log, input_byte(input));
    log_say_asks(log, input_byte(input) & 1);
    break;
  default:
    log_write_operation(log, log_operations_end(log),
                        &(struct operation){.count = text[0], .peer = input_byte(input)});
    log_show_operations(log, log_operations_end(log) + 1);
  }
}

/* Input, while there is any: a byte that says how many moves, the moves; a byte, of which one bit
 * says whether the frame is damaged, a byte where, and a byte with what. */
static void damage_frames(struct input *input) {
  struct plane_log *log = new_log(), *copy = new_log();
  struct mirror *mirror = mirror_create();
  uint8_t *frame = malloc(FRAME_SIZE);
  uint64_t text_end = 0;
  bool damaged = false;
  FUZZ_CHECK(mirror != NULL && frame != NULL);
  for (uint32_t frames = 0; input->size > 0 && frames < FRAMES_MAX; frames++) {
    for (uint32_t moves = input_byte(input) % 8; moves > 0; moves--)
      move_log(log, input, &text_end);
    while (!mirror_read(mirror, log))
      ;
    size_t size = mirror_write(mirror, log, UINT64_MAX, 1000, frame, FRAME_SIZE);
    FUZZ_CHECK(size <= FRAME_SIZE);
    bool now = input_byte(input) & 1;
    if (now && size > 0)
      frame[input_byte(input) % size] ^= input_byte(input);
    damaged |= now;
    if (size > 0 && mirror_apply(copy, 2000, frame, size) == MIRROR_MALFORMED)
      FUZZ_CHECK(damaged);
    FUZZ_CHECK(damaged || !mirror_is_written(mirror) || log_passed(copy) == log_passed(log));
    read_log(copy);
  }
  free(frame);
  mirror_destroy(mirror);
  free(log);
  free(copy);
}

/* ---- messages ---- */

static void send_message(void *context, uint32_t link, const void *message, size_t size) {
  (void)context;
  (void)message;
  FUZZ_CHECK(link < AGENT_LINKS_MAX && size > 0 && size <= AGENT_MESSAGE_MAX);
}

static void introduced(void *context, uint64_t team, uint32_t slot, const void *said, size_t size) {
  (void)context;
  (void)team;
  (void)said;
  FUZZ_CHECK(slot < PLANE_RANKS_MAX && size <= AGENT_INTRODUCTION_MAX);
}

static void ended(void *context, uint64_t team, uint32_t slot, struct plane_fate fate, bool lost) {
  (void)context;
  (void)team;
  (void)lost;
  FUZZ_CHECK(slot < PLANE_RANKS_MAX && fate.how <= END_SIGNAL);
}

/* An agent with two links, and one team: its first slot is this machine's. */
static void hear_messages(struct input *input) {
  struct agent_owner owner = {NULL, 0, send_message, introduced, ended};
  struct agent *agent = agent_create(&owner);
  struct plane_memory *memory = plane_memory_create(RANKS);
  FUZZ_CHECK(agent != NULL && memory != NULL);
  struct plane *plane = plane_memory_rank(memory, 0);
  bool cut[2] = {!agent_add_link(agent, 0), !agent_add_link(agent, 1)};
  FUZZ_CHECK(agent_add_team(agent, &(struct agent_team){1, plane}));
  FUZZ_CHECK(agent_introduce(agent, 1, 0, 7, "me", 2));
  log_begin(log_of(plane, 0));
  for (uint32_t messages = 0; input->size > 0 && messages < FRAMES_MAX; messages++) {
    uint8_t how = input_byte(input);
    uint32_t link = how & 1;
    size_t size;
    uint8_t *message = take_bytes(input, AGENT_MESSAGE_MAX, &size);
    if (size > 0 && !(how & 2))
      message[0] = AGENT_VERSION; /* what was written for another one is still heard */
    if (!cut[link] && !agent_receive(agent, link, 1000, message, size)) {
      agent_cut_link(agent, link);
      cut[link] = true;
    }
    free(message);
    agent_poll(agent, 1000);
    FUZZ_CHECK(log_state(log_of(plane, 0)) == RANK_PRESENT);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      read_log(log_of(plane, rank));
  }
  agent_destroy(agent);
  plane_memory_destroy(memory);
}

void fuzz_mirror(const uint8_t *bytes, size_t size) {
  struct input input = {bytes, size};
  switch (input_byte(&input) % 3) {
  case 0:
    apply_frames(&input);
    break;
  case 1:
    damage_frames(&input);
    break;
  default:
    hear_messages(&input);
  }
}
