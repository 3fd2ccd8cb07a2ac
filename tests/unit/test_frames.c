/* What agents send each other is checked before it is used (core/machines/frames.h). */
#include "core/machines/frames.h"

#include <criterion/criterion.h>
#include <string.h>

static const char name[] = "0123456789abcdef0123456789abcdef";

static bool read_of(struct frame_head head, size_t size) {
  static unsigned char message[FRAME_BYTES_MAX + 2];
  struct frame frame;
  memcpy(message, &head, sizeof head);
  return frame_read(message, size, &frame);
}

Test(frames, a_head_of_this_version_is_read) {
  unsigned char message[64] = {0};
  struct frame_head head = frame_head(FRAME_ANSWER, 3);
  struct frame frame;
  memcpy(message, &head, sizeof head);
  cr_assert(frame_read(message, sizeof message, &frame));
  cr_assert_eq(frame.head.machine, 3);
  cr_assert_eq(frame.size, sizeof message - sizeof head);
  cr_assert_eq(frame.body, message + sizeof head);
}

Test(frames, what_is_none_is_refused) {
  struct frame_head right = frame_head(FRAME_TOLD, 1), wrong = right;
  cr_assert(read_of(right, sizeof right) && read_of(right, FRAME_BYTES_MAX));
  cr_assert_not(read_of(right, sizeof right - 1));
  cr_assert_not(read_of(right, FRAME_BYTES_MAX + 1));
  wrong.version++;
  cr_assert_not(read_of(wrong, 64));
  wrong = right, wrong.kind = 0;
  cr_assert_not(read_of(wrong, 64));
  wrong.kind = FRAME_KINDS;
  cr_assert_not(read_of(wrong, 64));
  wrong = right, wrong.machine = FRAME_MACHINES_MAX;
  cr_assert_not(read_of(wrong, 64));
}

static uint32_t version_of(uint16_t version, uint8_t kind, size_t size, char *host) {
  unsigned char message[sizeof(struct frame_head) + 8] = {0};
  struct frame_head head = frame_head(FRAME_HELLO, 0);
  head.version = version;
  head.kind = kind;
  memcpy(message, &head, sizeof head);
  memcpy(message + sizeof head, "no\ne", sizeof "no\ne");
  return frame_other_version(message, size, host);
}

/* So an agent that carries logs with other words is refused, too. */
Test(frames, the_version_is_of_the_logs_in_them_as_well) {
  cr_assert_eq(FRAMES_VERSION % 256, PLANE_VERSION);
}

Test(frames, another_version_is_told_of) {
  enum { WHOLE = sizeof(struct frame_head) + 8 };
  char host[FRAME_HOST_BYTES];
  cr_assert_eq(version_of(FRAMES_VERSION + 1, FRAME_HELLO, WHOLE, host), FRAMES_VERSION + 1);
  cr_assert_str_eq(host, "no?e");
  cr_assert_eq(version_of(0xffff, FRAME_REFUSED, WHOLE, host), 0xffff);
  cr_assert_str_eq(host, "");
  cr_assert_eq(version_of(FRAMES_VERSION, FRAME_HELLO, WHOLE, host), 0);
  cr_assert_eq(version_of(FRAMES_VERSION + 1, FRAME_TOLD, WHOLE, host), 0);
  cr_assert_eq(version_of(FRAMES_VERSION + 1, FRAME_HELLO, 4, host), 0);
}

Test(frames, a_text_is_ended_and_can_be_printed) {
  char text[8];
  struct frame frame = {.body = (const unsigned char *)"a\033bcdefghijk", .size = 12};
  frame_read_text(&frame, text, sizeof text);
  cr_assert_str_eq(text, "a?bcdef");
  frame.size = 0;
  frame_read_text(&frame, text, sizeof text);
  cr_assert_str_eq(text, "");
}

Test(frames, a_communicator_is_called_by_half_of_its_name) {
  cr_assert_eq(frame_key(name), UINT64_C(0x0123456789abcdef));
  cr_assert_eq(frame_key("0123456789abcdef"), 0);
  cr_assert_eq(frame_key("0123456789abcdef0123456789abcdeg"), 0);
}

static bool place_is_read(struct frame_place said, size_t size, struct frame_place *place) {
  return frame_read_place(&(struct frame){.body = (const unsigned char *)&said, .size = size},
                          place);
}

Test(frames, a_place_is_read_and_its_host_is_ended) {
  struct frame_place said = {.address = {[15] = 1}, .port = 65535}, place;
  memset(said.host, 'h', sizeof said.host);
  said.host[1] = '\n';
  cr_assert(place_is_read(said, sizeof said, &place));
  cr_assert_eq(strlen(place.host), FRAME_HOST_BYTES - 1);
  cr_assert_eq(place.host[1], '?');
  cr_assert_eq(place.port, 65535);
  cr_assert_eq(memcmp(place.address, said.address, sizeof place.address), 0);
}

Test(frames, a_place_that_cannot_be_is_refused) {
  struct frame_place right = {.address = {[15] = 1}, .port = 61000}, wrong, place;
  cr_assert(place_is_read(right, sizeof right, &place));
  cr_assert_not(place_is_read(right, sizeof right - 1, &place));
  wrong = right, wrong.port = 0;
  cr_assert_not(place_is_read(wrong, sizeof wrong, &place));
  wrong.port = 65536;
  cr_assert_not(place_is_read(wrong, sizeof wrong, &place));
  wrong = right, wrong.address[15] = 0;
  cr_assert_not(place_is_read(wrong, sizeof wrong, &place));
}

static struct frame_slot slot_of_4(void) {
  struct frame_slot slot = {.version = FRAMES_VERSION, .slots = 4, .ranks = 4};
  strcpy(slot.name, name);
  memset(slot.host, 'h', sizeof slot.host);
  slot.introduction.identity = 7;
  memset(slot.introduction.tells, 't', sizeof slot.introduction.tells);
  return slot;
}

static bool slot_is_read(struct frame_slot said, size_t size, uint64_t key, uint32_t number) {
  struct frame_slot slot;
  return frame_read_slot(&said, size, key, number, &slot);
}

Test(frames, a_slot_is_read_and_its_texts_are_ended) {
  struct frame_slot said = slot_of_4(), slot;
  cr_assert(frame_read_slot(&said, sizeof said, frame_key(name), 3, &slot));
  cr_assert_eq(strlen(slot.host), FRAME_HOST_BYTES - 1);
  cr_assert_eq(strlen(slot.introduction.tells), INTRODUCTION_TELLS_SIZE - 1);
  cr_assert_eq(slot.introduction.identity, 7);
}

Test(frames, a_slot_that_cannot_be_is_refused) {
  struct frame_slot right = slot_of_4(), wrong;
  uint64_t key = frame_key(name);
  cr_assert_not(slot_is_read(right, sizeof right - 1, key, 0));
  cr_assert_not(slot_is_read(right, sizeof right, key + 1, 0), "another communicator's");
  cr_assert_not(slot_is_read(right, sizeof right, key, 4));
  wrong = right, wrong.version++;
  cr_assert_not(slot_is_read(wrong, sizeof wrong, key, 0));
  wrong = right, wrong.slots = wrong.ranks = 1;
  cr_assert_not(slot_is_read(wrong, sizeof wrong, key, 0));
  wrong = right, wrong.slots = PLANE_RANKS_MAX + 1;
  cr_assert_not(slot_is_read(wrong, sizeof wrong, key, 0));
  wrong = right, wrong.ranks = 5;
  cr_assert_not(slot_is_read(wrong, sizeof wrong, key, 0));
  wrong = right, wrong.ranks = 1;
  cr_assert_not(slot_is_read(wrong, sizeof wrong, key, 0));
  wrong = right, wrong.introduction.ncomms = INTRODUCTION_COMMS_MAX + 1;
  cr_assert_not(slot_is_read(wrong, sizeof wrong, key, 0));
  wrong = right, wrong.name[0] = 'f';
  cr_assert_not(slot_is_read(wrong, sizeof wrong, key, 0));
}
