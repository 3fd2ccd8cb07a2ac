/* Who may come (RFC 27, ZAP): whoever has the children's key. */
#include "tools/agent/links_private.h"

#include <string.h>

static bool part(void *socket, unsigned char *bytes, size_t size, int *length) {
  int more = 0;
  size_t more_size = sizeof(more);
  *length = zmq_recv(socket, bytes, size, ZMQ_DONTWAIT);
  (void)zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &more_size);
  return more != 0;
}

/* Whether there was anybody. */
static bool admit(struct links *links) {
  unsigned char parts[8][256] = {{0}};
  unsigned char wanted[32];
  int lengths[8] = {0}, count = 0;
  while (count < 7 && part(links->door, parts[count], sizeof(parts[0]), &lengths[count]))
    count++;
  if (lengths[0] < 0)
    return false;
  /* version, request, domain, address, identity, mechanism, key */
  bool known = count == 6 && lengths[5] == 5 && memcmp(parts[5], "CURVE", 5) == 0 &&
               lengths[6] == 32 && zmq_z85_decode(wanted, links->keys.child_public) != NULL &&
               memcmp(parts[6], wanted, 32) == 0;
  int id_size = lengths[1] < 0 || lengths[1] > (int)sizeof(parts[1]) ? 0 : lengths[1];
  (void)zmq_send(links->door, "1.0", 3, ZMQ_SNDMORE);
  (void)zmq_send(links->door, parts[1], (size_t)id_size, ZMQ_SNDMORE);
  (void)zmq_send(links->door, known ? "200" : "400", 3, ZMQ_SNDMORE);
  (void)zmq_send(links->door, "", 0, ZMQ_SNDMORE);
  (void)zmq_send(links->door, "", 0, ZMQ_SNDMORE);
  (void)zmq_send(links->door, "", 0, 0);
  return true;
}

void links_admit(struct links *links) {
  int count = 0;
  while (count < ADMIT_MOST && admit(links))
    count++;
  links->door_used = count == ADMIT_MOST;
}

bool links_open_door(struct links *links) {
  links->door = zmq_socket(links->context, ZMQ_REP);
  links_set(links->door, ZMQ_LINGER, 0);
  links->door_file = links_file_of(links->door);
  links->door_used = true;
  return zmq_bind(links->door, "inproc://zeromq.zap.01") == 0;
}
