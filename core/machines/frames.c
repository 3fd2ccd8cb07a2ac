/* What agents send each other (frames.h). */
#include "core/machines/frames.h"

#include <ctype.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "numbers of frames are little-endian"
#endif

bool frame_read(const void *message, size_t size, struct frame *frame) {
  if (size < sizeof(frame->head) || size > FRAME_BYTES_MAX)
    return false;
  memcpy(&frame->head, message, sizeof(frame->head));
  frame->body = (const unsigned char *)message + sizeof(frame->head);
  frame->size = size - sizeof(frame->head);
  return frame->head.version == FRAMES_VERSION && frame->head.kind >= FRAME_HELLO &&
         frame->head.kind < FRAME_KINDS && frame->head.machine < FRAME_MACHINES_MAX;
}

struct frame_head frame_head(enum frame_kind kind, uint32_t machine) {
  return (struct frame_head){.version = FRAMES_VERSION, .kind = (uint8_t)kind, .machine = machine};
}

static void end_text(char *text, size_t size) {
  text[size - 1] = '\0';
  for (char *at = text; *at != '\0'; at++)
    if (!isprint((unsigned char)*at))
      *at = '?';
}

uint32_t frame_other_version(const void *message, size_t size, char *host) {
  struct frame frame = {.body = (const unsigned char *)message + sizeof(frame.head)};
  host[0] = '\0';
  if (size < sizeof(frame.head) || size > FRAME_BYTES_MAX)
    return 0;
  memcpy(&frame.head, message, sizeof(frame.head));
  frame.size = size - sizeof(frame.head);
  if (frame.head.version == FRAMES_VERSION || frame.head.kind < FRAME_HELLO ||
      frame.head.kind > FRAME_REFUSED)
    return 0;
  if (frame.head.kind == FRAME_HELLO)
    frame_read_text(&frame, host, FRAME_HOST_BYTES);
  return frame.head.version;
}

void frame_read_text(const struct frame *frame, char *text, size_t size) {
  size_t length = frame->size < size - 1 ? frame->size : size - 1;
  memcpy(text, frame->body, length);
  text[length] = '\0';
  end_text(text, size);
}

bool frame_read_place(const struct frame *frame, struct frame_place *place) {
  static const unsigned char nowhere[RENDEZVOUS_ADDRESS_BYTES];
  if (frame->size != sizeof(*place))
    return false;
  memcpy(place, frame->body, sizeof(*place));
  end_text(place->host, sizeof(place->host));
  return place->port > 0 && place->port <= UINT16_MAX &&
         memcmp(place->address, nowhere, sizeof(nowhere)) != 0;
}

bool frame_read_slot(const void *said, size_t size, uint64_t key, uint32_t number,
                     struct frame_slot *slot) {
  if (size != sizeof(*slot))
    return false;
  memcpy(slot, said, sizeof(*slot));
  end_text(slot->name, sizeof(slot->name));
  end_text(slot->host, sizeof(slot->host));
  slot->introduction.tells[INTRODUCTION_TELLS_SIZE - 1] = '\0';
  return slot->version == FRAMES_VERSION && slot->slots >= 2 && slot->slots <= PLANE_RANKS_MAX &&
         slot->ranks >= 2 && slot->ranks <= slot->slots && number < slot->slots &&
         slot->introduction.ncomms <= INTRODUCTION_COMMS_MAX && key != 0 &&
         frame_key(slot->name) == key;
}

uint64_t frame_key(const char *name) {
  uint64_t key = 0;
  size_t length = strlen(name);
  if (length != ATTACHMENT_NAME_SIZE - 1 || strspn(name, "0123456789abcdef") != length)
    return 0;
  for (int i = 0; i < 16; i++)
    key = key << 4 | (uint64_t)(name[i] <= '9' ? name[i] - '0' : name[i] - 'a' + 10);
  return key;
}
