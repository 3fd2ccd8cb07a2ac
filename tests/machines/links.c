/* The links of two agents, each in a process of its own (tools/agent/links.h). */
#include "tools/agent/links.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MESSAGES = 100, TURNS_MAX = 2000, TURN_MS = 10 };

/* What has happened on the links of one process. */
struct seen {
  struct links *links;
  uint32_t machine; /* of who has joined */
  int heard, lost;
  int heard_when_lost;
};

static void on_linked(void *context) {
  (void)context;
}
static void on_joined(void *context, uint32_t machine) {
  ((struct seen *)context)->machine = machine;
}
static void on_received(void *context, uint32_t machine, const struct frame *frame) {
  struct seen *seen = context;
  (void)machine;
  seen->heard += frame->head.kind == FRAME_TOLD;
}
static void on_lost(void *context, uint32_t machine) {
  struct seen *seen = context;
  (void)machine;
  seen->lost++;
  seen->heard_when_lost = seen->heard;
}

static bool open_links(struct seen *seen, const struct rendezvous *job) {
  char reason[FRAME_TEXT_BYTES];
  seen->links = links_open(job,
                           &(struct links_terms){.first_port = 20000,
                                                 .last_port = 30000,
                                                 .wait_s = 30,
                                                 .silence_s = 10,
                                                 .children = 4,
                                                 .host = "here"},
                           &(struct links_events){.context = seen,
                                                  .linked = on_linked,
                                                  .joined = on_joined,
                                                  .received = on_received,
                                                  .lost = on_lost},
                           reason);
  return seen->links != NULL;
}

static void tell(struct links *links, uint32_t machine, int times) {
  const struct frame_head head = frame_head(FRAME_TOLD, LINKS_PARENT);
  for (int i = 0; i < times; i++)
    links_send(links, machine, &head, "told", 4);
}

static void take_turn(struct links *links) {
  links_prepare(links, -1, TURN_MS);
  links_await(links);
  (void)links_hear(links, true);
}

/* The root, in this process, and its child. */
struct pair {
  struct rendezvous job;
  pid_t child;
  int steps; /* a pipe: written to by the root, read by the child */
  struct seen seen;
};

static void await_step(const struct pair *pair) {
  char byte;
  if (read(pair->steps, &byte, 1) != 1)
    _exit(1);
}

static _Noreturn void run_child(struct pair *pair) {
  await_step(pair);
  if (!open_links(&pair->seen, &pair->job))
    _exit(1);
  for (int turn = 0; turn < TURNS_MAX && !links_is_linked(pair->seen.links); turn++)
    take_turn(pair->seen.links);
  await_step(pair);
  tell(pair->seen.links, LINKS_PARENT, MESSAGES);
  await_step(pair);
  links_close(pair->seen.links);
  _exit(0);
}

/* There is a child afterwards. */
static void begin(struct pair *pair) {
  static const unsigned char loopback[RENDEZVOUS_ADDRESS_BYTES] = {
      [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
  int steps[2];
  cr_assert(rendezvous_make(&pair->job) && pipe(steps) == 0);
  memcpy(pair->job.address, loopback, sizeof loopback);
  pair->child = fork(); /* before there is any thread */
  pair->steps = steps[pair->child == 0 ? 0 : 1];
  if (pair->child == 0)
    run_child(pair);
  cr_assert(open_links(&pair->seen, &pair->job) && links_is_root(pair->seen.links));
  cr_assert_eq(write(pair->steps, "o", 1), 1);
  for (int turn = 0; turn < TURNS_MAX && pair->seen.machine == 0; turn++)
    take_turn(pair->seen.links);
  cr_assert_neq(pair->seen.machine, 0);
}

/* It tells of MESSAGES, and ZeroMQ's thread has taken them. */
static void let_tell(const struct pair *pair) {
  cr_assert_eq(write(pair->steps, "e", 1), 1);
  usleep(200000);
}

static void let_end(const struct pair *pair) {
  int status;
  cr_assert_eq(write(pair->steps, "x", 1), 1);
  cr_assert(waitpid(pair->child, &status, 0) == pair->child && status == 0);
}

/* Its connection takes nothing any more, while what it has said last has yet to be read. */
Test(machines_links, what_a_child_has_said_before_it_ended_is_heard) {
  struct pair pair = {.child = 0};
  const struct seen *seen = &pair.seen;
  begin(&pair);
  let_tell(&pair);
  let_end(&pair);
  usleep(200000); /* ZeroMQ's thread takes notice */
  tell(seen->links, seen->machine, 3);
  for (int turn = 0; turn < TURNS_MAX && seen->lost == 0; turn++)
    take_turn(seen->links);
  cr_expect_eq(seen->heard_when_lost, MESSAGES, "%d of %d", seen->heard_when_lost, MESSAGES);
  cr_expect_eq(seen->lost, 1);
  links_close(pair.seen.links);
}

/* To send takes notice of what has come, and no descriptor tells of it then. */
Test(machines_links, what_has_come_before_something_is_sent_is_heard) {
  struct pair pair = {.child = 0};
  begin(&pair);
  let_tell(&pair);
  tell(pair.seen.links, pair.seen.machine, 1);
  cr_expect(links_are_used(pair.seen.links));
  (void)links_hear(pair.seen.links, false);
  cr_expect_eq(pair.seen.heard, MESSAGES, "%d of %d", pair.seen.heard, MESSAGES);
  cr_expect_not(links_are_used(pair.seen.links));
  let_end(&pair);
  links_close(pair.seen.links);
}
