/* Loops and order of calls as found in machine code, against what the source says, for every
 * compiler and level there is (parts/places.h). */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/places/native/native_code.h"
#include "interpose/places/native/native_object.h"
#include "tests/interpose/workshop.h"

enum { NUMBERS = 100, COPIES = 40, ROUNDS = 400 };

/* Of one function:
 *   2:1   call 2 stands in one loop           20:?  ... or nothing is known of it
 *   2:1!  and so does each copy of it, all of which are one
 *   1<4   1 is always followed by 4           !1<4  ... is not
 *   1^4   4 has always come through 1         !1^4
 *   1=4   they stand in the same loops        1|4   neither comes before the other
 *   1?0   nothing is known of 1
 *   1c0   the condition that leads to 1 is not known to be fixed; it is known to change in code that is
 *         not optimised
 *   1f0   it is not known to change; it is known to be fixed in such code
 *   1u0   neither
 *   1t0   it has a twin; 1b0: in another branch; 1n0: it has none. Code that is not optimised has none */
struct expectation {
  const char *function;
  const char *text;
};

static const struct expectation of_c[] = {
    {"nested", "1:0 2:1 3:2 4:1 5:0 1^5 1<5 1^3 2<4 2^4 2=4 2^3 2<5 3<4"},
    {"guarded", "1:0 2:1 3:0 1<2 2<3 1^2 2^3"},
    {"in_a_row", "1:1 2:1 3:0 1<3 2<3"},
    {"asking", "1:1! 2:1 3:0 4:0 1<4 2<4 1^2 2^4 3^1"},
    {"checked", "1:0 2:1 4:1 3:0 1^2"},
    {"accumulating", "2:1! 3:0"},
    {"remaining", "1:1 2:0 3:0 1<3 2<3"},
    {"repeating", "1:2 2:1 3:1 4:0 5:1 6:2 7:1 1<2 3<4 6<7 2<4 1<4 5<7"},
    {"leaving", "1:1 2:1 3:1 4:0 1^2 2^3 1^3 1<4 !1<2 !2<3 1=2 2=3"},
    {"once", "1:0 2:1 3:2 4:0 1<2 2<3 1<4 1^4 2^4 2^3 1^2"},
    {"choosing", "1:0 2:1 10:1 11:1 12:1 13:1 14:1 15:1 16:1 3:1 4:0 !2<3 2^3 10<3 12<3 11<12 11<3 "
                 "!11^12 10|12 10|14 13|15 15|16 !13<3 2^13 2^16 !16^3 1^4 1<4 10<4 2=3 2=16"},
    {"jumping", "1:0 2:0 3:2 4:0 5:0 1^2 1^5 !1<5 4<5 3<5 !2<5 !2<4 2^4 2^3 !4^5"},
    {"inlined", "1:1 2:2 3:1 4:0 1<3 1^3 1=3 1<4 2<3 1^2"},
    {"checking", "1:0 2:1 3:1 4:0 1<4 2<3 1^4 2^3 2=3 1^3 2<4"},
    {"rare", "1:0 2:1? 3:1 4:1 5:0 !3^4 3<4 1<5 2|3 !2^4 3=4"},
    {"alternatives", "1:0 2:1 3:1 4:0 5:0 6:0 1<4 1<6 !5^6 5<6 2|3 2<4 3<4 !2^4 4<6 1^6 !4<5 4^5"},
    {"returning", "1:0 2:1 3:0 4:1 5:1 6:0 1<2 2<3 1^3 3<4 4^5 !4<5 4<6 5<6 1^6 3^6 1<6 4^6 4=5"},
    {"restarting", "1?0 2?0"},
    {"deciding", "1:0 2:1 3:0 5:0 10:0 11:1 12:1 6:0 3<5 11=12 10<6"},
    {"shifting", "1:0 2:1 3:1 4:0 2=3 2<4 1<4"},
    {"jumping_out", "1:0 2:0 4:0 !1<4 1^4 2|4"},
    {"dividing", "6:0 1c0 2c0 3c0 4f0 5f0"},
    {"sharing", "3:1 1u0 2u0"},
    {"failing", "1:1 2:0"},
    {"branching", "1b0 2b0"},
    {"following", "1t0 2t0"},
    {"following_alone", "1t0 2t0"},
    {"accumulating_alone", "2:1! 3:0"},
    {"carrying", "1:1 2:0"},
    {"carrying_alone", "1:1 2:0"},
    {"carrying_on", "1:1 2:0 10:0"},
    {"carrying_on_alone", "1:1 2:0 10:0"},
    {"preparing", "1:1 2:0 3:1 4:0 5:0 3<4"},
    {"differing", "1n0 2n0"},
    {"holding", "1t0 2t0"},
    {"totalling", "1n0 2n0"},
    {"stepping", "1:1! 2:0"},
    {"conditions", "10:0 1f0 2f0 3c0 4c0 5u0 6u0 7c0 8c0 9c0 10u0"},
    {NULL, NULL},
};

static const struct expectation of_cc[] = {
    {"catching", "1:0 2:1 3:1 4:1 20:1? 5:1 6:0 2<3 3^4 2<5 3<5 4<5 1<6 2=5 2^5 1^6"},
    {"ending", "1:1 2:0"},
    {"scoped", "1:1 2:2 3:0 1^2"}, /* a return from within the loop may be left aside: then 1<3 */
    {"lambdas", "1:1 2:2 3:1 4:0 1<3 1^3 2<3 1=3 1<4"},
    {"resuming", "1?0 2?0 3?0"},
    {NULL, NULL},
};

/* ---- What is seen ---- */

static struct {
  const char *calls[COPIES]; /* return addresses: an optimiser may have made several of a call */
  uint32_t count;
} seen[NUMBERS];
static uint64_t state;
static uint32_t library_id; /* another may come to lie where one was */
static uint32_t nmoved;     /* calls in parts that are moved away, whose loops are known */

static uint32_t any(uint32_t below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33) % below;
}

static void site_of(int number, const void *after) {
  const char *call = after;
  for (uint32_t i = 0; i < seen[number].count; i++)
    if (seen[number].calls[i] == call)
      return;
  cr_assert_lt(seen[number].count, COPIES);
  seen[number].calls[seen[number].count++] = call;
}

static void site(int number) {
  site_of(number, __builtin_return_address(0));
}

static int choice(int below) {
  return below > 1 ? (int)any((uint32_t)below) : 0;
}

/* *is_moved: the call stands in a part that the compiler has moved away from its function. */
static uint32_t nodes_of_any(const char *call, struct place_node *nodes, bool *is_moved) {
  struct native_object object;
  struct native_part function;
  cr_assert(native_object_of(call, &object));
  cr_assert(native_function_at(&object, (const uint8_t *)call - 1, &function, is_moved));
  struct native_part owner, within = function;
  if (native_code_owner(call - 1, &owner)) {
    cr_assert(*is_moved);
    *is_moved = false;
    function = owner;
  }
  uint32_t count = native_code_nodes(function.begin, (size_t)(function.end - function.begin),
                                     call - 1, library_id, nodes, PLACE_NODES_MAX);
  nmoved += count > 1 && function.begin != within.begin;
  return count;
}

static uint32_t nodes_of(const char *call, struct place_node *nodes) {
  bool is_moved;
  return nodes_of_any(call, nodes, &is_moved);
}

/* ---- What is expected ---- */

static const char *where;
static bool is_plain;    /* not optimised */
static bool is_profiled; /* then rare ways may make two loops of one */

/* One call of the source is one of the code, and that one of no other call. */
static bool is_single(int number) {
  uint32_t users = 0;
  for (int other = 0; other < NUMBERS; other++)
    for (uint32_t i = 0; i < seen[other].count; i++)
      users += seen[other].calls[i] == seen[number].calls[0];
  return seen[number].count == 1 && users == 1;
}

/* An optimiser may not have made several calls of this one that stand in different loops, but where
 * it knows which ways are rare, and where twins say that these may be one: what it has put aside
 * then is not compared. */
static void check_one(int number, uint32_t depth) {
  struct place_node first[PLACE_NODES_MAX], nodes[PLACE_NODES_MAX];
  bool found = false;
  for (uint32_t i = 0; i < seen[number].count; i++) {
    struct place_node *of = found ? nodes : first;
    uint32_t count = nodes_of(seen[number].calls[i], of);
    if (is_profiled && count != depth + 1)
      return;
    if (count == depth && depth > 0 && of[count - 1].flags & PLACE_TWIN)
      continue;
    cr_assert_eq(count, depth + 1, "%s: a call %d has %u nodes", where, number, count);
    for (uint32_t node = 0; found && node < count; node++)
      cr_assert_eq(nodes[node].id, first[node].id, "%s: two calls %d", where, number);
    found = true;
  }
}

static void check_depth(int number, uint32_t depth, bool may_be_unknown) {
  struct place_node nodes[PLACE_NODES_MAX];
  cr_assert_gt(seen[number].count, 0, "%s: call %d was never made", where, number);
  bool found = may_be_unknown || is_profiled;
  for (uint32_t i = 0; i < seen[number].count; i++) {
    bool is_moved;
    uint32_t count = nodes_of_any(seen[number].calls[i], nodes, &is_moved);
    if (count == 0 && (may_be_unknown || is_moved))
      continue;
    bool is_peeled = seen[number].count > 1 && count > 0 && count <= depth; /* out of a loop */
    bool is_split = is_profiled && depth > 0 && count == depth + 2;
    cr_assert(count == depth + 1 || is_peeled || is_split, "%s: call %d has %u nodes", where,
              number, count);
    found |= count == depth + 1 || is_split;
    for (uint32_t node = 0; node < count; node++) {
      cr_assert_eq(nodes[node].flags & PLACE_LOOP, node < count - 1 ? PLACE_LOOP : 0);
      cr_assert_eq(nodes[node].flags & PLACE_ORDERED, PLACE_ORDERED, "%s: call %d", where, number);
    }
  }
  cr_assert(found, "%s: no call %d is in all its loops", where, number);
}

static void check_unknown(int number) {
  struct place_node nodes[PLACE_NODES_MAX];
  for (uint32_t i = 0; i < seen[number].count; i++)
    cr_assert_eq(nodes_of(seen[number].calls[i], nodes), 0, "%s: call %d", where, number);
}

static bool holds(char relation, struct place_node a, struct place_node b) {
  bool followed = a.order < b.order && b.since <= a.order;
  bool through = a.order < b.order && a.until >= b.order;
  bool back = b.order < a.order && (a.since <= b.order || b.until >= a.order);
  return relation == '<' ? followed : relation == '^' ? through : !followed && !through && !back;
}

static void check_relation(int a, char relation, int b, bool expected) {
  struct place_node of_a[PLACE_NODES_MAX];
  struct place_node of_b[PLACE_NODES_MAX];
  if (!is_single(a) || !is_single(b))
    return;
  uint32_t count_a = nodes_of(seen[a].calls[0], of_a);
  uint32_t count_b = nodes_of(seen[b].calls[0], of_b);
  uint32_t common = 0;
  if (count_a == 0 || count_b == 0)
    return;
  while (of_a[common].id == of_b[common].id)
    common++;
  cr_assert_lt(common, count_a < count_b ? count_a : count_b, "%s: %d and %d", where, a, b);
  bool is = relation == '=' ? common == count_a - 1 && common == count_b - 1
                            : holds(relation, of_a[common], of_b[common]);
  cr_assert_eq(is, expected, "%s: %s%d%c%d; %u [%u..%u] and %u [%u..%u]", where,
               expected ? "not " : "", a, relation, b, of_a[common].order, of_a[common].since,
               of_a[common].until, of_b[common].order, of_b[common].since, of_b[common].until);
}

static void check_condition(int number, char relation) {
  struct place_node nodes[PLACE_NODES_MAX];
  for (uint32_t i = 0; i < seen[number].count; i++) {
    uint32_t count = nodes_of(seen[number].calls[i], nodes);
    uint32_t flags = count == 0 ? 0 : nodes[count - 1].flags;
    char found = flags >> PLACE_TURN_SHIFT != 0 ? 'c' : flags & PLACE_FIXED ? 'f' : 'u';
    cr_assert(found == relation || (found == 'u' && !is_plain), "%s: call %d, condition %c", where,
              number, found);
  }
}

/* A compiler that makes more of a call may make twins of it. */
static void check_twins(int number, char relation) {
  struct place_node nodes[PLACE_NODES_MAX];
  for (uint32_t i = 0; i < seen[number].count; i++) {
    uint32_t count = nodes_of(seen[number].calls[i], nodes);
    uint32_t flags = count == 0 ? 0 : nodes[count - 1].flags;
    relation = is_plain ? 'n' : relation;
    char found = flags & PLACE_TWIN_BRANCH ? 'b' : flags & PLACE_TWIN ? 't' : 'n';
    cr_expect(found == relation || seen[number].count > 1, "%s: call %d, twin %c", where, number,
              found);
  }
}

static void check(const char *text) {
  while (*text != '\0') {
    bool expected = *text != '!';
    char *at;
    int a = (int)strtol(text + !expected, &at, 10);
    char relation = *at++;
    int b = (int)strtol(at, &at, 10);
    if (relation == ':')
      *at == '!' ? check_one(a, (uint32_t)b) : check_depth(a, (uint32_t)b, *at == '?');
    else if (relation == '?')
      check_unknown(a);
    else if (relation == 'c' || relation == 'f' || relation == 'u')
      check_condition(a, relation);
    else if (relation == 't' || relation == 'b' || relation == 'n')
      check_twins(a, relation);
    else
      check_relation(a, relation, b, expected);
    text = at + strcspn(at, " ");
    text += strspn(text, " ");
  }
}

static void run(void (*function)(int rows, int columns)) {
  memset(seen, 0, sizeof seen);
  for (int round = 0; round < ROUNDS; round++)
    function((int)any(round % 2 == 0 ? 5 : 30), (int)any(round % 2 == 0 ? 5 : 30));
}

static void check_library(const char *path, const char *name) {
  char text[256];
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  cr_assert_not_null(library, "%s", dlerror());
  *(void (**)(int))dlsym(library, "places_site") = site;
  *(int (**)(int))dlsym(library, "places_choice") = choice;
  void (**call)(int, const void *) = (void (**)(int, const void *))dlsym(library, "places_call");
  if (call != NULL)
    *call = site_of;
  const struct expectation *of = strchr(name, '+') != NULL ? of_cc : of_c;
  for (; of->function != NULL; of++) {
    void (*function)(int rows, int columns);
    *(void **)&function = dlsym(library, of->function);
    cr_assert_not_null((void *)(uintptr_t)function);
    snprintf(text, sizeof text, "%s, %s", name, of->function);
    where = text;
    run(function);
    check(of->text);
  }
  dlclose(library);
}

Test(native_code, loops_and_order_are_those_of_the_source, .timeout = 300) {
  struct outcome folder = workshop_run("printf %s $W/places");
  struct outcome built = workshop_run("tests/interpose/parts/places.sh $W/places");
  char path[WORKSHOP_OUTPUT];
  uint32_t count = 0;
  state = 5;
  for (char *name = strtok(built.output, "\n"); name != NULL; name = strtok(NULL, "\n"), count++) {
    path[0] = '\0';
    library_id++;
    is_profiled = strstr(name, "profile") != NULL;
    is_plain = strstr(name, "-O0") != NULL;
    workshop_append(path, sizeof path, folder.output);
    workshop_append(path, sizeof path, "/");
    workshop_append(path, sizeof path, name);
    workshop_append(path, sizeof path, ".so");
    check_library(path, name);
  }
  cr_assert_geq(count, 14, "%s", built.output);
  cr_assert_gt(nmoved, 0);
}
