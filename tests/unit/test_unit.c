/* Units and the unit table: equality, hashes, texts; symbols that never lie. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/unit/unit.h"
#include "hooks/contribution.h"
#include "tests/unit/traces.h"

static struct member allreduce(uint64_t count) {
  return (struct member){
      .count = count, .root = ROOT_NONE, .reduction = 0, .kind = MEMBER_ALLREDUCE, .datatype = 7};
}

static struct unit single(const struct member *member) {
  return (struct unit){member, 1};
}

Test(unit, every_field_tells_units_apart) {
  struct member a = allreduce(1024), b[7];
  for (int i = 0; i < 7; i++)
    b[i] = a;
  b[1].count = 1025;
  b[2].comm = 1;
  b[3].root = 0;
  b[4].reduction = 1;
  b[5].kind = MEMBER_REDUCE;
  b[6].datatype = 8;
  cr_expect(unit_equal(single(&a), single(&b[0])));
  cr_expect_eq(unit_hash(single(&a)), unit_hash(single(&b[0])));
  for (int i = 1; i < 7; i++) {
    cr_expect_not(unit_equal(single(&a), single(&b[i])), "field %d", i);
    cr_expect_neq(unit_hash(single(&a)), unit_hash(single(&b[i])), "field %d", i);
    bool same = unit_coarse_hash(single(&a)) == unit_coarse_hash(single(&b[i]));
    cr_expect_eq(same, i == 1, "field %d", i);
  }
}

Test(unit, order_and_number_of_members_tell_units_apart) {
  struct member ab[3] = {allreduce(1), allreduce(2), allreduce(3)};
  struct member ba[3] = {allreduce(2), allreduce(1), allreduce(3)};
  cr_expect_not(unit_equal((struct unit){ab, 3}, (struct unit){ba, 3}));
  cr_expect_neq(unit_hash((struct unit){ab, 3}), unit_hash((struct unit){ba, 3}));
  cr_expect_not(unit_equal((struct unit){ab, 3}, (struct unit){ab, 2}));
  cr_expect_neq(unit_hash((struct unit){ab, 3}), unit_hash((struct unit){ab, 2}));
  cr_expect_neq(unit_coarse_hash((struct unit){ab, 3}), unit_coarse_hash((struct unit){ab, 2}));
}

Test(unit, leave_is_a_unit_without_members) {
  struct unit leave = {NULL, 0};
  struct member member = allreduce(0);
  cr_expect(unit_is_leave(leave));
  cr_expect(unit_equal(leave, leave));
  cr_expect_not(unit_equal(leave, single(&member)));
  cr_expect_neq(unit_hash(leave), 0);
  cr_expect_neq(unit_coarse_hash(leave), 0);
}

/* Ranks of one job may run on different machines: the hash is part of what they exchange. */
Test(unit, hashes_do_not_change) {
  struct member member = allreduce(1024);
  cr_expect_eq(unit_hash(single(&member)), 0x385838eb34f6accu);
  cr_expect_eq(unit_coarse_hash(single(&member)), 0x12e399c4b73f4fa8u);
}

Test(unit, a_signature_is_the_hash_without_the_place) {
  struct member at_place[2] = {allreduce(1), allreduce(2)}, nowhere[2] = {at_place[0], at_place[1]};
  at_place[0].number = 77;
  for (uint32_t n = 1; n <= 2; n++) {
    cr_expect_neq(unit_hash((struct unit){at_place, n}), unit_hash((struct unit){nowhere, n}));
    cr_expect_eq(unit_signature((struct unit){at_place, n}), unit_hash((struct unit){nowhere, n}));
    cr_expect_eq(unit_signature((struct unit){nowhere, n}), unit_hash((struct unit){nowhere, n}));
  }
}

Test(unit, marks_say_what_they_are) {
  static const struct {
    uint32_t number;
    bool is_exit_point;
    const char *text;
  } marks[] = {
      {1, true, "a function that it leaves into (1)"},
      {MARK_EXIT_POINTS, true, "a function that it leaves into (40)"},
      {MARK_LOOP_BEGIN, false, "begin of a loop"},
      {MARK_LOOP_END, false, "end of a loop"},
      {MARK_STATE_DONE, false, "end of a resynchronisation"},
      {MARK_OWN_JOIN, false, "a join of the program's own"},
      {MARK_ROUND, false, "begin of a round"},
      {MARK_ROUND + 1, false, "mark 46"},
      {0, false, "mark 0"},
  };
  char text[64];
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
    struct member mark = mark_member((enum mark)marks[i].number);
    cr_expect_eq(unit_is_exit_point(single(&mark)), marks[i].is_exit_point, "%s", marks[i].text);
    cr_expect_str_eq(unit_describe(single(&mark), text, sizeof text), marks[i].text);
  }
  struct member member = allreduce(1);
  cr_expect_not(unit_is_exit_point(single(&member)));
}

Test(unit, describes_units_in_nccl_s_names) {
  char text[200];
  struct member member = allreduce(1024);
  cr_expect_str_eq(unit_describe(single(&member), text, sizeof text),
                   "allreduce(sum, float32, 1024)");
  member.reduction = REDUCTION_PREMULSUM;
  member.comm = 0xbeef;
  cr_expect_str_eq(unit_describe(single(&member), text, sizeof text),
                   "allreduce(premulsum, float32, 1024) on comm 0000beef");
  member = (struct member){
      .count = 8, .root = 0, .reduction = REDUCTION_NONE, .kind = MEMBER_BROADCAST, .datatype = 1};
  cr_expect_str_eq(unit_describe(single(&member), text, sizeof text),
                   "broadcast(root 0, uint8, 8)");
  member.kind = MEMBER_REDUCE;
  member.reduction = 2;
  cr_expect_str_eq(unit_describe(single(&member), text, sizeof text),
                   "reduce(max, root 0, uint8, 8)");
  member = (struct member){.comm = 0xc0ffee, .root = ROOT_NONE, .kind = MEMBER_SPLIT};
  cr_expect_str_eq(unit_describe(single(&member), text, sizeof text), "split on comm 00c0ffee");
  cr_expect_str_eq(unit_describe((struct unit){NULL, 0}, text, sizeof text), "leave");
  member =
      (struct member){.count = 3, .root = ROOT_NONE, .reduction = 77, .kind = 99, .datatype = 88};
  cr_expect_str_eq(unit_describe(single(&member), text, sizeof text),
                   "kind 99(reduction 77, datatype 88, 3)");
}

Test(unit, describes_groups_and_says_what_it_leaves_out) {
  struct member members[UNIT_MEMBERS_MAX];
  char text[300], whole[64];
  for (uint32_t i = 0; i < UNIT_MEMBERS_MAX; i++)
    members[i] = allreduce(i + 1);
  cr_expect_str_eq(unit_describe((struct unit){members, 2}, text, sizeof text),
                   "group{allreduce(sum, float32, 1); allreduce(sum, float32, 2)}");
  cr_expect_str_eq(unit_describe((struct unit){members, 1024}, text, 100),
                   "group{allreduce(sum, float32, 1); allreduce(sum, float32, 2); ... +1022 more}");
  cr_expect_str_eq(unit_describe((struct unit){members, 2}, text, sizeof whole - 3),
                   "group{allreduce(sum, float32, 1); ... +1 more}");
  for (size_t size = 1; size <= sizeof text; size++) {
    memset(text, 'x', sizeof text);
    cr_assert_eq(unit_describe((struct unit){members, 1024}, text, size), text);
    cr_assert_lt(strlen(text), size);
    if (size < sizeof text)
      cr_assert_eq(text[size], 'x', "wrote beyond %zu", size);
  }
}

/* ---- the table ---- */

static struct unit_table *table;
static void setup(void) {
  table = unit_table_create();
  cr_assert(table);
}
static void teardown(void) {
  unit_table_destroy(table);
}
TestSuite(unit_table, .init = setup, .fini = teardown);

static symbol_t intern(uint64_t count) {
  struct member member = allreduce(count);
  return unit_table_intern(table, single(&member));
}

static symbol_t find(uint64_t count) {
  struct member member = allreduce(count);
  return unit_table_find(table, single(&member));
}

Test(unit_table, equal_units_have_one_symbol) {
  struct member group[3] = {allreduce(1), allreduce(2), allreduce(3)};
  symbol_t one = intern(1), leave = unit_table_intern(table, (struct unit){NULL, 0});
  symbol_t three = unit_table_intern(table, (struct unit){group, 3});
  cr_expect_neq(one, SYMBOL_NONE);
  cr_expect(one != three && one != leave && three != leave);
  cr_expect_eq(intern(1), one);
  cr_expect_eq(unit_table_intern(table, (struct unit){group, 3}), three);
  cr_expect_eq(unit_table_find(table, (struct unit){NULL, 0}), leave);
  cr_expect_eq(find(2), SYMBOL_NONE);
}

Test(unit_table, members_are_copied) {
  struct member group[2] = {allreduce(1), allreduce(2)};
  symbol_t symbol = unit_table_intern(table, (struct unit){group, 2});
  struct unit unit;
  group[0].count = group[1].count = 9;
  cr_assert(unit_table_get(table, symbol, &unit));
  cr_expect_eq(unit.nmembers, 2);
  cr_expect_eq(unit.members[0].count, 1);
  cr_expect_eq(unit.members[1].count, 2);
}

Test(unit_table, units_that_differ_in_counts_share_a_coarse_symbol) {
  struct member other = allreduce(1);
  other.reduction = 2;
  symbol_t symbol = unit_table_intern(table, single(&other));
  cr_expect_neq(unit_table_coarse(table, intern(1)), 0);
  cr_expect_eq(unit_table_coarse(table, intern(1)), unit_table_coarse(table, intern(2)));
  cr_expect_neq(unit_table_coarse(table, intern(1)), unit_table_coarse(table, symbol));
  cr_expect_eq(unit_table_coarse(table, SYMBOL_NONE), 0);
}

Test(unit_table, holds_a_thousand_units) {
  symbol_t symbols[1024];
  for (uint64_t i = 0; i < 1024; i++)
    symbols[i] = intern(i + 1);
  for (uint64_t i = 0; i < 1024; i++)
    cr_expect_eq(find(i + 1), symbols[i]);
}

Test(unit_table, forgets_what_has_not_been_used_for_longest) {
  symbol_t kept = intern(2), symbol = intern(1);
  for (uint64_t i = 3; i <= 20000; i++) {
    intern(i);
    cr_assert_eq(intern(1), symbol, "interned all the time");
    const struct known_unit *known = unit_table_use(table, kept);
    cr_assert_not_null(known, "expected all the time");
    cr_assert_eq(known->members[0].count, 2);
  }
  cr_expect(unit_table_use(table, SYMBOL_NONE) == NULL);
  cr_expect_eq(find(3), SYMBOL_NONE);
  cr_expect_neq(find(20000), SYMBOL_NONE);
}

Test(unit_table, forgets_the_first_of_those_that_all_have_been_used) {
  for (int round = 0; round < 2; round++)
    for (uint64_t i = 0; i < UNIT_TABLE_PLACES; i++)
      intern(i + 1);
  cr_expect_neq(intern(5000), SYMBOL_NONE);
  cr_expect_eq(find(1), SYMBOL_NONE);
  cr_expect_neq(find(2), SYMBOL_NONE);
}

Test(unit_table, knows_how_members_look_until_they_look_like_nothing) {
  struct member group[2] = {allreduce(1), allreduce(2)};
  static const look_t alike[2] = {0, 0}, first[2] = {1, 0}, second[2] = {0, 2};
  for (uint32_t n = 1; n <= 2; n++) {
    symbol_t symbol = unit_table_intern(table, (struct unit){group, n});
    cr_assert(unit_table_set_looks(table, symbol, alike));
    cr_expect_null(unit_table_looks(table, symbol), "what is plain needs no memory");
    cr_assert(unit_table_set_looks(table, symbol, first));
    cr_assert_not_null(unit_table_looks(table, symbol));
    cr_expect_eq(memcmp(unit_table_looks(table, symbol), first, n * sizeof(look_t)), 0);
    cr_assert(unit_table_set_looks(table, symbol, second));
    cr_expect_eq(unit_table_looks(table, symbol) == NULL, n == 1);
    if (n == 2)
      cr_expect_eq(memcmp(unit_table_looks(table, symbol), second, sizeof second), 0);
    cr_assert(unit_table_set_looks(table, symbol, first));
    cr_assert(unit_table_set_looks(table, symbol, NULL));
    cr_expect_null(unit_table_looks(table, symbol));
  }
}

Test(unit_table, a_symbol_never_comes_to_mean_another_unit) {
  symbol_t old = intern(1);
  for (uint64_t i = 2; i < 5000; i++) {
    symbol_t symbol = intern(i);
    struct unit unit;
    cr_assert_neq(symbol, old);
    cr_assert(unit_table_get(table, symbol, &unit));
    cr_assert_eq(unit.members[0].count, i);
    if (unit_table_get(table, old, &unit))
      cr_assert_eq(unit.members[0].count, 1);
  }
  struct unit unit;
  cr_expect_not(unit_table_get(table, old, &unit));
  cr_expect_eq(unit_table_coarse(table, old), 0);
  cr_expect_neq(intern(1), old, "it comes back under a new symbol");
}

/* Against a plain array of what each symbol meant, with units of several members among them. */
Test(unit_table, keeps_its_index_through_random_use) {
  uint64_t state = 8;
  static symbol_t last[4000];
  for (int step = 0; step < 100000; step++) {
    uint32_t n = trace_random(&state, 4000);
    struct member members[3] = {allreduce(n + 1), allreduce(n), allreduce(7)};
    struct unit unit = {members, 1 + n % 3}, got;
    symbol_t found = unit_table_find(table, unit);
    cr_assert(found == SYMBOL_NONE || found == last[n]);
    if (last[n] && unit_table_get(table, last[n], &got))
      cr_assert(unit_equal(got, unit) && found == last[n]);
    if (trace_random(&state, 3) == 0)
      last[n] = unit_table_intern(table, unit);
  }
}

Test(unit_table, the_same_sequence_gives_the_same_symbols) {
  struct unit_table *other = unit_table_create();
  uint64_t state = 21;
  for (int i = 0; i < 20000; i++) {
    struct member member = allreduce(trace_random(&state, 3000));
    cr_assert_eq(unit_table_intern(table, single(&member)),
                 unit_table_intern(other, single(&member)));
    struct member probe = allreduce(trace_random(&state, 3000));
    (void)unit_table_find(table, single(&probe)); /* looking changes nothing */
  }
  unit_table_destroy(other);
}

Test(unit, kinds_have_names) {
  cr_expect_str_eq(member_kind_name(MEMBER_ALLREDUCE), "allreduce");
  cr_expect_str_eq(member_kind_name(MEMBER_SCATTER), "scatter");
  cr_expect_str_eq(member_kind_name(0), "unknown");
  cr_expect_str_eq(member_kind_name(200), "unknown");
}

Test(unit, a_member_of_no_kind_is_described_by_its_number) {
  struct member odd = {.count = 1, .root = ROOT_NONE, .reduction = REDUCTION_NONE};
  char text[64];
  unit_describe((struct unit){&odd, 1}, text, sizeof text);
  cr_expect_eq(strncmp(text, "kind 0(", 7), 0, "%s", text);
  cr_expect_str_eq(unit_describe((struct unit){&odd, 1}, NULL, 0), "");
}

Test(unit, the_size_of_a_datatype_is_that_of_its_one) {
  for (uint8_t datatype = 0; datatype < DATATYPES; datatype++)
    cr_expect_eq(datatype_size(datatype), contribution_one(datatype).size, "datatype %u", datatype);
  cr_expect_eq(datatype_size(DATATYPES), 0);
}

/* Not as other marks, and each round is a unit of its own. */
Test(unit, the_begin_of_a_round_has_a_place) {
  struct member second = round_member(0xfffffff7, 2), third = round_member(0xfffffff7, 3),
                end = mark_member(MARK_LOOP_END);
  cr_expect(unit_may_have_place(single(&second)) && unit_place(single(&second)) == 0xfffffff7);
  cr_expect_neq(unit_hash(single(&second)), unit_hash(single(&third)));
  cr_expect(!unit_may_have_place(single(&end)) && unit_place(single(&end)) == 0);
}
