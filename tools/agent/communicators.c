/* The communicators of a meeting (meeting.h): from what ranks have written down to the answer, and
 * what becomes of their ranks. */
#include "tools/agent/descriptors.h"
#include "tools/agent/meeting_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STILL_WAITS_MS 100 /* a rank that waits wakes in between: not each time it is told */

/* For machines that are missing, where others have been waited for in vain: those that take part
 * have an agent, which is quick. Else a job of many communicators would wait for each. */
#define AGAIN_S 1

_Static_assert(FRAME_TEXT_BYTES == BOARD_REASON_SIZE, "a reason is a text");

static struct communicator *find(const struct meeting *meeting, uint64_t key) {
  struct communicator *one = meeting->first;
  while (one != NULL && one->key != key)
    one = one->next;
  return one;
}

static struct communicator *add(struct meeting *meeting, uint64_t key, const char *name,
                                uint32_t slots, uint32_t ranks) {
  struct communicator *one = calloc(1, sizeof(*one));
  if (one == NULL || (one->heard = calloc(slots, sizeof(struct frame_slot *))) == NULL ||
      (one->local = calloc(slots, sizeof(bool))) == NULL) {
    meeting->failed = true; /* what others have heard of it would not be true */
    if (one != NULL)
      free(one->heard);
    free(one);
    return NULL;
  }
  one->key = key;
  one->slots = slots;
  one->ranks = ranks;
  one->answer = BOARD_ASKED;
  one->wait_s = meeting->board->words->terms.wait_s;
  if (meeting->in_vain && one->wait_s > AGAIN_S)
    one->wait_s = AGAIN_S;
  one->deadline_ms = meeting_now_ms() + one->wait_s * INT64_C(1000);
  snprintf(one->name, sizeof(one->name), "%s", name);
  one->next = meeting->first;
  meeting->first = one;
  return one;
}

static void communicator_free(struct communicator *one) {
  segment_remote_close(one->segment);
  if (one->asked != NULL)
    board_free(one->asked);
  for (uint32_t slot = 0; slot < one->slots; slot++)
    free(one->heard[slot]);
  free(one->heard);
  free(one->local);
  free(one->plane.logs);
  free(one);
}

/* ---- who is there ---- */

static void hear(struct communicator *one, uint32_t number, const struct frame_slot *slot) {
  if (one->slots != slot->slots || one->ranks != slot->ranks || one->heard[number] != NULL ||
      strcmp(one->name, slot->name) != 0) {
    one->unequal = true;
    return;
  }
  one->heard[number] = malloc(sizeof(*slot));
  if (one->heard[number] == NULL)
    return; /* it will be missing */
  *one->heard[number] = *slot;
  one->nheard++;
}

void communicators_introduced(void *context, uint64_t key, uint32_t number, const void *said,
                              size_t size) {
  struct meeting *meeting = context;
  struct frame_slot slot;
  if (!frame_read_slot(said, size, key, number, &slot))
    return;
  struct communicator *one = find(meeting, key);
  if (one == NULL)
    one = add(meeting, key, slot.name, slot.slots, slot.ranks);
  if (one != NULL && one->answer == BOARD_ASKED && number < one->slots)
    hear(one, number, &slot);
  else if (one != NULL && one->answer != BOARD_FOUND)
    one->again = true;
}

void communicators_ended(void *context, uint64_t key, uint32_t number, struct plane_fate fate,
                         bool lost) {
  struct communicator *one = find(context, key);
  (void)lost;
  if (one == NULL || number >= one->slots || one->local[number] || one->heard[number] == NULL)
    return;
  free(one->heard[number]);
  one->heard[number] = NULL;
  one->nheard--;
  if (one->answer != BOARD_FOUND || one->segment == NULL)
    return;
  segment_remote_end(one->segment, number, (uint32_t)fate.how << 16 | (uint32_t)fate.number);
  segment_remote_ring(one->segment);
}

/* ---- answers ---- */

/* The ranks of this machine are in no team of others. */
static void leave_team(struct meeting *meeting, struct communicator *one) {
  for (uint32_t slot = 0; one->in_team && slot < one->slots; slot++)
    if (one->local[slot])
      agent_say_ended(meeting->agent, one->key, slot, (struct plane_fate){.how = END_UNKNOWN});
  if (one->in_team)
    agent_remove_team(meeting->agent, one->key);
  one->in_team = false;
  segment_remote_close(one->segment);
  one->segment = NULL;
}

static void answer_ranks(struct meeting *meeting, struct communicator *one) {
  if (one->asked != NULL)
    board_say(one->asked, one->answer, one->reason);
  if (one->answer != BOARD_FOUND)
    leave_team(meeting, one);
}

static void ring_team(struct plane *plane) {
  segment_remote_ring(
      ((struct communicator *)((char *)plane - offsetof(struct communicator, plane)))->segment);
}

static int by_key_then_slot(const void *a, const void *b, void *context) {
  const uint32_t *x = a, *y = b;
  const struct communicator *one = context;
  int32_t kx = one->heard[*x]->introduction.key, ky = one->heard[*y]->introduction.key;
  if (kx != ky)
    return kx < ky ? -1 : 1;
  return (*x > *y) - (*x < *y);
}

/* As interpose/comm/activation.c orders the ranks. */
static bool say_ranks(struct meeting *meeting, struct communicator *one) {
  uint32_t *slot_of = calloc(one->slots, sizeof(*slot_of)), nranks = 0;
  for (uint32_t slot = 0; slot_of != NULL && slot < one->slots; slot++)
    if (one->heard[slot] != NULL)
      slot_of[nranks++] = slot;
  if (slot_of != NULL)
    qsort_r(slot_of, nranks, sizeof(*slot_of), by_key_then_slot, one);
  bool said = slot_of != NULL && agent_say_ranks(meeting->agent, one->key, nranks, slot_of);
  free(slot_of);
  return said;
}

/* Takes the slots of the other machines' ranks. */
static bool take_slots(struct communicator *one) {
  bool taken = true;
  for (uint32_t slot = 0; taken && slot < one->slots; slot++) {
    const struct frame_slot *heard = one->heard[slot];
    if (heard != NULL && !one->local[slot])
      taken =
          segment_remote_take(one->segment, slot, heard->host, &heard->introduction, one->reason);
  }
  return taken;
}

static bool enter_team(struct meeting *meeting, struct communicator *one) {
  one->plane = (struct plane){.nranks = one->slots,
                              .team = segment_remote_team(one->segment),
                              .logs = calloc(one->slots, sizeof(struct plane_log *)),
                              .ring = ring_team};
  for (uint32_t slot = 0; one->plane.logs != NULL && slot < one->slots; slot++)
    one->plane.logs[slot] = segment_remote_log(one->segment, slot);
  return one->plane.logs != NULL &&
         agent_add_team(meeting->agent,
                        &(struct agent_team){.key = one->key, .plane = &one->plane});
}

static void settle(struct meeting *meeting, struct communicator *one, enum board_answer answer,
                   const char *reason) {
  one->answer = answer;
  snprintf(one->reason, sizeof(one->reason), "%s", reason);
  if (answer == BOARD_FOUND && one->segment != NULL) {
    if (one->nheard == one->ranks && say_ranks(meeting, one) && take_slots(one)) {
      segment_remote_complete(one->segment);
    } else {
      one->answer = BOARD_LOST; /* the other machines count on this one */
      meeting->failed = true;
    }
  }
  answer_ranks(meeting, one);
}

/* child: 0 is all. */
static void tell_children(struct meeting *meeting, uint32_t child, const struct communicator *one,
                          enum board_answer answer, const char *reason) {
  struct frame_head head = frame_head(FRAME_ANSWER, LINKS_PARENT);
  head.key = one->key;
  head.detail = answer;
  for (uint32_t link = 0; link < AGENT_LINKS_MAX; link++) {
    uint32_t machine = meeting->machines[link] - 1;
    if (meeting->machines[link] != 0 && machine != LINKS_PARENT && (child == 0 || child == machine))
      links_send(meeting->links, machine, &head, reason, strlen(reason));
  }
}

/* All machines get one answer, before what any of them does because of it, and behind who is there.
 */
static void answer_all(struct meeting *meeting, struct communicator *one, enum board_answer answer,
                       const char *reason) {
  agent_poll(meeting->agent, (uint64_t)meeting_now_ms());
  tell_children(meeting, 0, one, answer, reason);
}

/* Of ranks that have not been told of nobody knows: what others have found is not with them. */
void communicators_answered(struct meeting *meeting, uint64_t key, enum board_answer answer,
                            const char *reason) {
  struct communicator *one = find(meeting, key);
  if (one == NULL || one->answer != BOARD_ASKED)
    return;
  answer_all(meeting, one, answer, reason);
  settle(meeting, one, one->asked != NULL && !one->told ? BOARD_OFF : answer, reason);
}

void communicators_repeat(struct meeting *meeting, uint32_t machine) {
  agent_poll(meeting->agent, (uint64_t)meeting_now_ms());
  for (const struct communicator *one = meeting->first; one != NULL; one = one->next)
    if (one->answer != BOARD_ASKED)
      tell_children(meeting, machine, one, one->answer, one->reason);
}

/* The root. */
static void decide(struct meeting *meeting, struct communicator *one) {
  char reason[FRAME_TEXT_BYTES] = "";
  enum board_answer answer = BOARD_OFF;
  if (one->unequal)
    snprintf(reason, sizeof(reason), "its machines do not agree on how many ranks it has");
  else if (one->nheard == one->ranks)
    answer = BOARD_FOUND;
  else if (meeting_now_ms() < one->deadline_ms)
    return;
  else {
    meeting->in_vain = true;
    reason_missing(meeting, one, reason);
  }
  answer_all(meeting, one, answer, reason);
  settle(meeting, one, answer, reason);
}

/* A machine without a parent: nobody has heard of its ranks. */
static void give_up(struct meeting *meeting, struct communicator *one) {
  char reason[FRAME_TEXT_BYTES];
  meeting->in_vain = true;
  reason_alone(meeting, one, reason);
  settle(meeting, one, BOARD_OFF, reason);
}

void communicators_decide(struct meeting *meeting) {
  int64_t now = meeting_now_ms();
  for (struct communicator *one = meeting->first; one != NULL; one = one->next) {
    if (one->answer == BOARD_ASKED && links_is_root(meeting->links))
      decide(meeting, one);
    else if (one->answer == BOARD_ASKED && one->asked != NULL && !one->told &&
             now >= one->deadline_ms)
      give_up(meeting, one);
    else if (one->answer != BOARD_ASKED && one->again)
      answer_all(meeting, one, one->answer, one->reason);
    one->again = one->again && one->answer == BOARD_ASKED;
  }
}

static const char way_is_lost[] = "the link to the other machines is lost";

void communicators_lose_parent(struct meeting *meeting) {
  for (struct communicator *one = meeting->first; one != NULL; one = one->next)
    if (one->answer == BOARD_ASKED)
      communicators_answered(meeting, one->key, BOARD_LOST, way_is_lost);
}

/* ---- the ranks of this machine ---- */

static void hear_local(struct meeting *meeting, struct communicator *one) {
  for (uint32_t slot = 0; slot < one->slots; slot++) {
    struct frame_slot own = {.version = FRAMES_VERSION, .slots = one->slots, .ranks = one->ranks};
    if (!segment_remote_introduction(one->segment, slot, &own.introduction))
      continue;
    memcpy(own.name, one->name, sizeof(own.name));
    memcpy(own.host, meeting->host, sizeof(own.host));
    one->local[slot] = true;
    one->nlocal++;
    hear(one, slot, &own);
  }
}

/* Strangers may have taken all descriptors that there are: there is one for it nevertheless. */
static void open_segment(const struct meeting *meeting, struct communicator *one, char *reason) {
  enum { AHEAD = 64 }; /* they go on taking them meanwhile */
  uint32_t open = 1;
  for (const struct communicator *other = meeting->first; other != NULL; other = other->next)
    open += other->segment != NULL;
  descriptors_allow(open + AHEAD);
  one->segment = segment_remote_open(one->name, one->slots, reason);
  descriptors_allow(open);
}

static void read_asked(struct meeting *meeting, struct board_communicator *asked) {
  char name[BOARD_NAME_SIZE], reason[ATTACHMENT_REASON_SIZE];
  memcpy(name, asked->name, sizeof(name));
  name[sizeof(name) - 1] = '\0';
  uint64_t key = frame_key(name);
  struct communicator *one = find(meeting, key);
  if (one != NULL && one->asked != NULL)
    return;
  if (key == 0 || asked->slots < 2 || asked->slots > PLANE_RANKS_MAX) {
    board_say(asked, BOARD_OFF, "it is no communicator");
    return;
  }
  if (one == NULL)
    one = add(meeting, key, name, asked->slots, asked->ranks);
  if (one == NULL)
    return;
  one->asked = asked;
  if (one->answer != BOARD_ASKED) { /* this machine came too late, and nobody has its ranks */
    one->answer = BOARD_OFF;
    answer_ranks(meeting, one);
    return;
  }
  open_segment(meeting, one, reason);
  if (one->segment == NULL) {
    reason[FRAME_TEXT_BYTES - 1] = '\0';
    board_say(asked, BOARD_OFF, reason);
    return;
  }
  hear_local(meeting, one);
}

/* Whoever has a way to the root hears of them. */
static void tell_local(struct meeting *meeting, struct communicator *one) {
  if (one->segment == NULL || one->told || one->answer != BOARD_ASKED ||
      !meeting_is_linked(meeting))
    return;
  one->told = one->in_team = enter_team(meeting, one);
  meeting->failed = meeting->failed || !one->told;
  for (uint32_t slot = 0; one->told && slot < one->slots; slot++)
    if (one->local[slot] && one->heard[slot] != NULL &&
        !agent_introduce(meeting->agent, one->key, slot, one->heard[slot]->introduction.identity,
                         one->heard[slot], sizeof(struct frame_slot)))
      meeting->failed = true;
}

void communicators_read_board(struct meeting *meeting, bool all) {
  struct board_words *words = meeting->board->words;
  uint32_t asked = atomic_load(&words->asked);
  for (int i = 0; (all || asked != meeting->asked) && i < BOARD_COMMUNICATORS; i++)
    if (atomic_load(&words->communicators[i].answer) == BOARD_ASKED)
      read_asked(meeting, &words->communicators[i]);
  meeting->asked = asked;
  for (struct communicator *one = meeting->first; one != NULL; one = one->next) {
    tell_local(meeting, one);
    if (meeting->lost && one->answer == BOARD_ASKED)
      communicators_answered(meeting, one->key, BOARD_OFF, way_is_lost);
  }
}

/* What a rank has written before it ended is told first. */
static void look_who_ended(struct meeting *meeting, struct communicator *one, int64_t now) {
  for (uint32_t slot = 0; slot < one->slots; slot++) {
    if (!one->local[slot] || segment_remote_is_alive(one->segment, slot))
      continue;
    uint32_t fate = segment_remote_fate(one->segment, slot);
    agent_poll(meeting->agent, (uint64_t)now);
    agent_say_ended(
        meeting->agent, one->key, slot,
        (struct plane_fate){.how = (enum plane_end)(fate >> 16), .number = (int)(fate & 0xffff)});
    one->local[slot] = false;
    one->nlocal--;
    free(one->heard[slot]);
    one->heard[slot] = NULL;
    one->nheard--;
  }
}

static uint32_t count_waiting(const struct meeting *meeting) {
  uint32_t count = 0;
  for (const struct communicator *one = meeting->first; one != NULL; one = one->next)
    if (one->in_team && one->answer == BOARD_FOUND)
      count += segment_remote_waiting(one->segment);
  return count;
}

void communicators_look(struct meeting *meeting, bool all) {
  int64_t now = meeting_now_ms();
  if (count_waiting(meeting) > 0)
    meeting->waited_ms = now;
  agent_say_waits(meeting->agent,
                  meeting->waited_ms != 0 && now - meeting->waited_ms < STILL_WAITS_MS);
  for (struct communicator **link = &meeting->first; *link != NULL;) {
    struct communicator *one = *link;
    if (one->in_team && all)
      look_who_ended(meeting, one, now);
    if (one->in_team && one->nlocal == 0)
      leave_team(meeting, one);
    if (one->nheard == 0 && one->nlocal == 0) {
      *link = one->next;
      communicator_free(one);
    } else {
      link = &one->next;
    }
  }
}

bool communicators_are_awake(const struct meeting *meeting) {
  const struct communicator *one = meeting->first;
  while (one != NULL && one->answer != BOARD_ASKED)
    one = one->next;
  return one != NULL || agent_is_awake(meeting->agent);
}

void communicators_end(struct meeting *meeting) {
  while (meeting->first != NULL) {
    struct communicator *one = meeting->first;
    meeting->first = one->next;
    if (one->in_team)
      agent_remove_team(meeting->agent, one->key);
    communicator_free(one);
  }
}
