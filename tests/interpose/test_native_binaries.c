/* The analysis of machine code on all functions of large binaries: nothing but time and memory can
 * be known of the outcome beforehand, so what is checked is that it holds together. Lengths and
 * kinds of instructions are compared with objdump's. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "interpose/places/native/native_graph.h"
#include "tests/interpose/binary.h"
#include "tests/interpose/workshop.h"

enum { FUNCTIONS_MAX = 4000, NODES_MAX = FLOW_DEPTH_MAX + 1 };

/* Of large ones every n-th function. */
static const char *const paths[] = {"/usr/lib/x86_64-linux-gnu/libc.so.6",
                                    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
                                    "/usr/bin/python3.11", "/usr/lib/gcc/x86_64-linux-gnu/12/cc1",
                                    "/usr/lib/aarch64-linux-gnu/libc.so.6"};

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void check_nodes(const struct native_graph *graph, const struct flow *flow) {
  for (uint32_t block = 0; block < graph->nblocks; block++) {
    struct place_node nodes[NODES_MAX];
    uint32_t count = flow_nodes(flow, block, 0, 1, 1, nodes, NODES_MAX);
    cr_assert_leq(count, NODES_MAX);
    for (uint32_t i = 0; i < count; i++) {
      cr_assert_eq(nodes[i].flags & PLACE_LOOP, i + 1 < count ? PLACE_LOOP : 0);
      cr_assert_leq(nodes[i].since, nodes[i].order);
      cr_assert(nodes[i].until >= nodes[i].order || i + 1 == count);
      cr_assert(i == 0 || nodes[i].order == 0 || nodes[i - 1].order < nodes[i].order);
    }
  }
}

/* Whether the function's code could be followed. */
static bool check_function(const struct binary *binary, struct native_part function) {
  struct native_graph graph;
  if (!native_graph_make(&graph, &binary->object, function, native_decode_x86_64))
    return false;
  struct flow_graph edges = {graph.blocks, graph.edges, graph.nblocks, graph.nedges, NULL};
  struct flow *flow = flow_analyse(&edges);
  cr_assert_not_null(flow);
  check_nodes(&graph, flow);
  flow_free(flow);
  native_graph_drop(&graph);
  return true;
}

static void check_binary(const char *path) {
  struct binary binary;
  if (!binary_open(&binary, path))
    return;
  uint32_t count = binary_functions(&binary);
  uint32_t step = count / FUNCTIONS_MAX + 1;
  uint32_t seen = 0;
  uint32_t followed = 0;
  double slowest = 0;
  for (uint32_t i = 0; i < count; i += step) {
    double begin = seconds();
    followed += check_function(&binary, binary_function(&binary, i));
    double took = seconds() - begin;
    slowest = took > slowest ? took : slowest;
    seen++;
  }
  cr_assert_geq((double)followed, 0.98 * (double)seen, "%s: %u of %u", path, followed, seen);
  cr_assert_lt(slowest, 1.0, "%s: %f s", path, slowest);
  binary_close(&binary);
}

Test(native_binaries, nearly_all_functions_can_be_followed, .timeout = 300) {
#ifndef __x86_64__
  cr_skip("only for x86-64");
#endif
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
    check_binary(paths[i]);
  if (workshop_has_nccl())
    check_binary(getenv("NCCL_LIBRARY"));
}

/* ---- objdump's opinion ---- */

static int expected_kind(const char *text) {
  const char *prefixes[] = {"repz ", "bnd ", "notrack ", "rex.W ", "data16 ", "cs ", "ds "};
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
    if (strncmp(text, prefixes[i], strlen(prefixes[i])) == 0)
      return expected_kind(text + strlen(prefixes[i]));
  const char *operand = text + strcspn(text, " ");
  operand += strspn(operand, " ");
  if (strncmp(text, "jmp", 3) == 0 && *operand == '*')
    return operand[1] == '%' && strchr(operand, '(') == NULL ? NATIVE_JUMP_REGISTER
                                                             : NATIVE_JUMP_MEMORY;
  if (strncmp(text, "jmp", 3) == 0)
    return NATIVE_JUMP;
  if (text[0] == 'j' || strncmp(text, "loop", 4) == 0 || strncmp(text, "xbegin", 6) == 0)
    return NATIVE_BRANCH;
  if (strncmp(text, "call", 4) == 0)
    return NATIVE_CALL;
  if (strncmp(text, "ret", 3) == 0 || strncmp(text, "lret", 4) == 0 ||
      strncmp(text, "iret", 4) == 0)
    return NATIVE_RETURN;
  if (strncmp(text, "ud", 2) == 0 || strncmp(text, "hlt", 3) == 0 || strncmp(text, "int3", 4) == 0)
    return NATIVE_TRAP;
  return NATIVE_PLAIN;
}

/* A line of objdump's without addresses: bytes, then the instruction. */
static bool agrees(const char *line) {
  uint8_t bytes[32] = {0};
  uint32_t count = 0;
  struct native_instruction is;
  for (char *end; strspn(line, "0123456789abcdef") == 2 && line[2] == ' '; line += 3)
    bytes[count++ % 32] = (uint8_t)strtoul(line, &end, 16);
  line += strspn(line, " \t");
  if (strstr(line, "(bad)") != NULL || bytes[0] == 0x9B) /* FWAIT, shown as one with the next */
    return true;
  return native_decode_x86_64(bytes, sizeof bytes, &is) && is.length == count &&
         is.kind == expected_kind(line);
}

Test(native_binaries, instructions_are_those_of_objdump, .timeout = 300) {
  char line[512];
  uint64_t count = 0;
  FILE *lines = popen("for f in libc.so.6 libstdc++.so.6 libm.so.6; do objdump -dw "
                      "/usr/lib/x86_64-linux-gnu/$f 2>/dev/null; done | "
                      "sed -n 's/^ *[0-9a-f]*:\\t//p'",
                      "r");
  cr_assert_not_null(lines);
  for (; fgets(line, sizeof line, lines) != NULL; count++)
    cr_assert(agrees(line), "%s", line);
  pclose(lines);
  if (count == 0)
    cr_skip("no objdump");
}

/* ---- the same for aarch64 ---- */

static int expected_kind_aarch64(const char *name) {
  static const struct {
    const char *name;
    int kind;
  } kinds[] = {{"b", NATIVE_JUMP},
               {"bl", NATIVE_CALL},
               {"blr", NATIVE_CALL},
               {"br", NATIVE_JUMP_REGISTER},
               {"braa", NATIVE_JUMP_REGISTER},
               {"brab", NATIVE_JUMP_REGISTER},
               {"blraa", NATIVE_CALL},
               {"blrab", NATIVE_CALL},
               {"ret", NATIVE_RETURN},
               {"retaa", NATIVE_RETURN},
               {"retab", NATIVE_RETURN},
               {"cbz", NATIVE_BRANCH},
               {"cbnz", NATIVE_BRANCH},
               {"tbz", NATIVE_BRANCH},
               {"tbnz", NATIVE_BRANCH},
               {"brk", NATIVE_TRAP},
               {"udf", NATIVE_TRAP}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(name, kinds[i].name) == 0)
      return kinds[i].kind;
  return strncmp(name, "b.", 2) == 0 || strncmp(name, "bc.", 3) == 0 ? NATIVE_BRANCH : NATIVE_PLAIN;
}

/* "  23f50:\tb4000300 \tcbz\tx0, 23fb0 <name>": kind, and where it goes to, which is the last
 * number before the name. */
static bool agrees_aarch64(const char *line, bool *is_branch) {
  unsigned long address, bits;
  char name[32], operands[256] = "";
  if (sscanf(line, " %lx: %8lx %31s %255[^<\n]", &address, &bits, name, operands) < 3)
    return true;
  uint32_t word = (uint32_t)bits;
  struct native_instruction is;
  if (!native_decode_aarch64((const uint8_t *)&word, sizeof word, &is) || is.length != sizeof word)
    return false;
  int kind = name[0] == '.' ? is.kind : expected_kind_aarch64(name); /* .inst: not known to it */
  *is_branch = is.has_target;
  if (is.kind != kind || is.has_target != (strchr(line, '<') != NULL && kind != NATIVE_PLAIN))
    return false;
  while (operands[0] != '\0' && operands[strlen(operands) - 1] == ' ')
    operands[strlen(operands) - 1] = '\0';
  const char *last = strrchr(operands, ' ');
  return !is.has_target ||
         strtoul(last != NULL ? last : operands, NULL, 16) == address + (uint64_t)is.target;
}

Test(native_binaries, instructions_for_aarch64_are_those_of_objdump, .timeout = 300) {
  char line[512];
  uint64_t count = 0, targets = 0;
  FILE *lines =
      popen("for f in libc.so.6 libstdc++.so.6 libm.so.6; do aarch64-linux-gnu-objdump -dw "
            "/usr/aarch64-linux-gnu/lib/$f 2>/dev/null; done | grep '^ *[0-9a-f]*:'",
            "r");
  cr_assert_not_null(lines);
  for (; fgets(line, sizeof line, lines) != NULL; count++) {
    bool is_branch = false;
    cr_assert(agrees_aarch64(line, &is_branch), "%s", line);
    targets += is_branch;
  }
  pclose(lines);
  if (count == 0)
    cr_skip("no objdump for aarch64");
  cr_assert_gt(targets, count / 20);
  printf("   aarch64: %lu instructions, %lu with a target\n", (unsigned long)count,
         (unsigned long)targets);
}
