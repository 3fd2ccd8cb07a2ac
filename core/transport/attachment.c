/* Attachments (attachment.h): each goes to the transport that it was made with. */
#include "core/transport/attachment.h"

#include <stddef.h>

static const struct transport *transport_used = &transport_shm;

void attachment_use(const struct transport *transport) {
  transport_used = transport;
}

struct attachment *attachment_make(const char *name, uint32_t slots, uint32_t slot,
                                   uint32_t expected, const struct introduction *me, char *reason) {
  return transport_used->make(name, slots, slot, expected, me, reason);
}

bool attachment_read(const struct attachment *attachment, uint32_t slot,
                     struct introduction *introduction) {
  return attachment->transport->read(attachment, slot, introduction);
}

bool attachment_stranger(const struct attachment *attachment, char *reason) {
  return attachment->transport->stranger(attachment, reason);
}

void attachment_complete(struct attachment *attachment) {
  attachment->transport->complete(attachment);
}

struct plane *attachment_plane(struct attachment *attachment, uint32_t rank, uint32_t nranks,
                               const uint32_t *slot_of) {
  return attachment->transport->plane(attachment, rank, nranks, slot_of, false);
}

struct plane *attachment_plane_early(struct attachment *attachment, uint32_t rank, uint32_t nranks,
                                     const uint32_t *slot_of) {
  return attachment->transport->plane(attachment, rank, nranks, slot_of, true);
}

bool attachment_is_beyond(const struct attachment *attachment) {
  return attachment->transport->is_beyond != NULL && attachment->transport->is_beyond(attachment);
}

void attachment_reach_beyond(struct attachment *attachment,
                             const struct attachment_beyond *beyond) {
  if (attachment->transport->reach_beyond != NULL)
    attachment->transport->reach_beyond(attachment, beyond);
}

void attachment_detach(struct attachment *attachment) {
  if (attachment != NULL)
    attachment->transport->detach(attachment);
}

uint32_t attachment_tag(const char *name) {
  uint64_t hash = 0;
  for (int i = 0; i < ATTACHMENT_NAME_SIZE - 1; i++) {
    hash = (hash ^ (unsigned char)name[i]) * UINT64_C(0xff51afd7ed558ccd);
    hash ^= hash >> 32;
  }
  return (uint32_t)hash == 0 ? 1 : (uint32_t)hash;
}

void attachment_say_end(int status) {
  if (transport_used->say_end != NULL)
    transport_used->say_end(status);
}

void attachment_forget_all(void) {
  transport_used->forget_all();
}
