/* The turns of an agent, and what comes over its links (meeting.h). */
#include "tools/agent/meeting_private.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* How often is looked at what nobody rings for: that a rank has ended, and while any waits, that it
 * still does. */
#define AWAKE_MS 20
#define ASLEEP_MS 500

#define TURNS_MAX 8 /* in one, before it is looked at what nobody rings for */

int64_t meeting_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* ---- links, as core/agent numbers them ---- */

static int link_of(const struct meeting *meeting, uint32_t machine) {
  for (int link = 0; link < (int)AGENT_LINKS_MAX; link++)
    if (meeting->machines[link] == machine + 1)
      return link;
  return -1;
}

static int add_link(struct meeting *meeting, uint32_t machine) {
  for (uint32_t link = 0; link < AGENT_LINKS_MAX; link++) {
    if (meeting->machines[link] != 0)
      continue;
    meeting->machines[link] = machine + 1;
    if (agent_add_link(meeting->agent, link))
      return (int)link;
    meeting->machines[link] = 0;
    break;
  }
  return -1;
}

static void cut_link(struct meeting *meeting, uint32_t machine) {
  int link = link_of(meeting, machine);
  if (link < 0)
    return;
  meeting->machines[link] = 0;
  agent_cut_link(meeting->agent, (uint32_t)link);
}

static void send_told(void *context, uint32_t link, const void *message, size_t size) {
  struct meeting *meeting = context;
  const struct frame_head head = frame_head(FRAME_TOLD, LINKS_PARENT);
  if (link < AGENT_LINKS_MAX && meeting->machines[link] != 0)
    links_send(meeting->links, meeting->machines[link] - 1, &head, message, size);
}

/* ---- what happens on them ---- */

static void on_linked(void *context) {
  struct meeting *meeting = context;
  meeting->in_vain = false;
  if (meeting->links != NULL && link_of(meeting, LINKS_PARENT) < 0)
    meeting->failed = meeting->failed || add_link(meeting, LINKS_PARENT) < 0;
}

static void on_joined(void *context, uint32_t machine) {
  struct meeting *meeting = context;
  meeting->in_vain = false;
  if (add_link(meeting, machine) < 0)
    links_drop(meeting->links, machine);
  else
    communicators_repeat(meeting, machine);
}

static void on_received(void *context, uint32_t machine, const struct frame *frame) {
  struct meeting *meeting = context;
  int link = link_of(meeting, machine);
  char reason[FRAME_TEXT_BYTES];
  if (link < 0)
    return;
  if (frame->head.kind == FRAME_ANSWER && machine == LINKS_PARENT &&
      !links_is_root(meeting->links) && frame->head.detail >= BOARD_FOUND &&
      frame->head.detail <= BOARD_LOST) {
    frame_read_text(frame, reason, sizeof(reason));
    communicators_answered(meeting, frame->head.key, (enum board_answer)frame->head.detail, reason);
  } else if (frame->head.kind != FRAME_TOLD ||
             !agent_receive(meeting->agent, (uint32_t)link, (uint64_t)meeting_now_ms(), frame->body,
                            frame->size)) {
    links_drop(meeting->links, machine);
  }
}

static void on_lost(void *context, uint32_t machine) {
  struct meeting *meeting = context;
  cut_link(meeting, machine);
  if (machine != LINKS_PARENT || links_is_root(meeting->links))
    return;
  meeting->lost = true;
  communicators_lose_parent(meeting);
}

/* ---- turns ---- */

/* The address of NCCL_JOIN_RENDEZVOUS, as it is known here. A machine's own name may stand for a
 * loopback address in its hosts(5), at which no other reaches it: those come last. */
static bool resolve(const char *host, unsigned char address[RENDEZVOUS_ADDRESS_BYTES]) {
  struct addrinfo *found = NULL, hints = {.ai_family = AF_INET6,
                                          .ai_socktype = SOCK_STREAM,
                                          .ai_flags = AI_V4MAPPED | AI_ALL};
  if (getaddrinfo(host, NULL, &hints, &found) != 0)
    return false;
  bool better = false;
  for (const struct addrinfo *one = found; one != NULL && !better; one = one->ai_next) {
    const struct in6_addr *in6 =
        &((const struct sockaddr_in6 *)(const void *)one->ai_addr)->sin6_addr;
    better = !IN6_IS_ADDR_LOOPBACK(in6) && !(IN6_IS_ADDR_V4MAPPED(in6) && in6->s6_addr[12] == 127);
    if (better || one == found)
      memcpy(address, in6, RENDEZVOUS_ADDRESS_BYTES);
  }
  freeaddrinfo(found);
  return true;
}

struct meeting *meeting_begin(struct board *board, const char *host, char *reason) {
  struct meeting *meeting = calloc(1, sizeof(*meeting));
  const struct board_terms *terms = &board->words->terms;
  if (meeting != NULL) {
    meeting->board = board;
    meeting->begun_ms = meeting_now_ms();
    snprintf(meeting->host, sizeof(meeting->host), "%s", host);
    meeting->agent = agent_create(&(struct agent_owner){.context = meeting,
                                                        .send = send_told,
                                                        .introduced = communicators_introduced,
                                                        .ended = communicators_ended});
  }
  if (meeting == NULL || meeting->agent == NULL) {
    snprintf(reason, FRAME_TEXT_BYTES, "no memory");
    free(meeting);
    return NULL;
  }
  meeting->job = board->words->job;
  if (terms->host[0] != '\0' && !resolve(terms->host, meeting->job.address)) {
    snprintf(reason, FRAME_TEXT_BYTES, "NCCL_JOIN_RENDEZVOUS: nothing is known here of %.100s",
             terms->host);
    meeting_end(meeting);
    return NULL;
  }
  meeting->links = links_open(&meeting->job,
                              &(struct links_terms){.first_port = terms->first_port,
                                                    .last_port = terms->last_port,
                                                    .wait_s = terms->wait_s,
                                                    .silence_s = terms->silence_s,
                                                    .children = terms->children,
                                                    .host = host},
                              &(struct links_events){.context = meeting,
                                                     .linked = on_linked,
                                                     .joined = on_joined,
                                                     .received = on_received,
                                                     .lost = on_lost},
                              reason);
  if (meeting->links == NULL) {
    meeting_end(meeting);
    return NULL;
  }
  if (links_is_linked(meeting->links))
    on_linked(meeting);
  return meeting;
}

/* Who has children stays for as long as it has them: what they say goes through it. */
static bool is_needed(const struct meeting *meeting) {
  return board_has_ranks(meeting->board) || links_children(meeting->links) > 0;
}

static int patience_ms(const struct meeting *meeting) {
  return communicators_are_awake(meeting) ? AWAKE_MS : ASLEEP_MS;
}

void meeting_prepare(struct meeting *meeting, int file) {
  meeting->waits_ms = patience_ms(meeting);
  links_prepare(meeting->links, file, meeting->waits_ms);
}

void meeting_await(struct meeting *meeting) {
  links_await(meeting->links);
}

bool meeting_waits_too_long(const struct meeting *meeting) {
  return meeting->failed || links_are_used(meeting->links) ||
         patience_ms(meeting) < meeting->waits_ms;
}

/* False once there is nothing left to do. */
static bool work(struct meeting *meeting) {
  int64_t now = meeting_now_ms();
  bool all = now - meeting->looked_ms >= AWAKE_MS;
  bool needed = !all || is_needed(meeting); /* before the look: who has ended by then is told */
  atomic_fetch_add(&meeting->board->words->turns, 1);
  if (all)
    meeting->looked_ms = now;
  communicators_read_board(meeting, all);
  communicators_decide(meeting);
  communicators_look(meeting, all);
  agent_poll(meeting->agent, (uint64_t)meeting_now_ms());
  return !meeting->failed && (needed || is_needed(meeting));
}

/* What comes while it works may be told by no descriptor, where a link has been used. */
bool meeting_turn(struct meeting *meeting, bool awaited) {
  (void)links_hear(meeting->links, awaited);
  bool goes_on = work(meeting);
  for (int i = 0; goes_on && i < TURNS_MAX && links_hear(meeting->links, false); i++)
    goes_on = work(meeting);
  return goes_on;
}

bool meeting_has_failed(const struct meeting *meeting) {
  return meeting->failed;
}

void meeting_end(struct meeting *meeting) {
  communicators_end(meeting);
  links_close(meeting->links);
  agent_destroy(meeting->agent);
  free(meeting);
}
