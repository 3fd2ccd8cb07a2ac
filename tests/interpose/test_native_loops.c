/* Which loops count, and where that lies while a call is made in them (native_counters.h), in code
 * as compilers write it. */
#include <criterion/criterion.h>

#include <stdint.h>

#include "interpose/places/flow/flow.h"
#include "interpose/places/native/native_graph.h"
#include "interpose/places/native/native_operands.h"

#if defined(__x86_64__)

/* `site` stands behind the call that is looked at, to `loops_callee`. */
#define FUNCTION(name, text)                                                                       \
  __asm__(".text\n" #name ": .cfi_startproc\n" text ".cfi_endproc\n" #name "_end:\n");             \
  extern const uint8_t name[] __asm__(#name), name##_end[] __asm__(#name "_end");                  \
  extern const uint8_t name##_site[] __asm__(#name "_site");                                       \
  static const struct code name##_code = {#name, {name, name##_end}, name##_site}
#define CALL(name) "call loops_callee\n" #name "_site:\n"
#define CALL_OTHER "call loops_callee\n"
__asm__(".text\nloops_callee: ret\n");

struct code {
  const char *name;
  struct native_part part;
  const uint8_t *site;
};

/* The counter of the loop with so many around it. False: none is known. */
static bool find(const struct code *code, uint32_t depth, struct native_counter *counter) {
  struct native_object object;
  struct native_graph graph;
  bool found = false;
  cr_assert(native_object_of(code->part.begin, &object));
  cr_assert(native_graph_make(&graph, &object, code->part, native_decode_x86_64), "%s", code->name);
  for (uint32_t i = 0; i < graph.ncounters; i++)
    if (graph.counters[i].position == (uint32_t)(code->site - code->part.begin) - 1 &&
        graph.counters[i].depth == depth) {
      cr_expect(!found, "%s: two of them", code->name);
      *counter = graph.counters[i];
      found = true;
    }
  native_graph_drop(&graph);
  return found;
}

/* In a slot; reg: RSP, where `at` is from the CFA. */
static void check_slot(const struct code *code, uint32_t depth, uint32_t reg, int64_t at,
                       int64_t plus, int64_t step) {
  struct native_counter counter;
  cr_assert(find(code, depth, &counter), "%s: none is known", code->name);
  cr_expect(counter.variable.is_slot && counter.variable.reg == reg && counter.variable.at == at &&
                counter.plus == plus && counter.step == step,
            "%s: in slot %d of %u at %lld, plus %lld, step %lld", code->name,
            counter.variable.is_slot, counter.variable.reg, (long long)counter.variable.at,
            (long long)counter.plus, (long long)counter.step);
}

static void check_register(const struct code *code, uint32_t depth, uint32_t reg, int64_t plus,
                           int64_t step) {
  struct native_counter counter;
  cr_assert(find(code, depth, &counter), "%s: none is known", code->name);
  cr_expect(!counter.variable.is_slot && counter.variable.reg == reg && counter.plus == plus &&
                counter.step == step,
            "%s: in %s %u, plus %lld, step %lld", code->name,
            counter.variable.is_slot ? "slot of" : "register", counter.variable.reg,
            (long long)counter.plus, (long long)counter.step);
}

static void check_none(const struct code *code) {
  struct native_counter counter;
  cr_expect(!find(code, 0, &counter), "%s: there is one", code->name);
}

/* ---- where the counter lies ---- */

/* The register has something else in the inner loop. */
FUNCTION(loops_spilled,
         "push %rbp; push %rbx; sub $24, %rsp; mov %rdi, %rbp; mov %rsi, 8(%rsp)\n"
         "1: mov %rbp, 16(%rsp); mov (%rbp), %ebp; xor %ebx, %ebx\n"
         "2: mov %ebp, %edi\n" CALL(
             loops_spilled) "add $1, %ebx; cmp $7, %ebx; jne 2b\n"
                            "mov 16(%rsp), %rbp; add $4, %rbp; cmp 8(%rsp), %rbp; jne 1b\n"
                            "add $24, %rsp; pop %rbx; pop %rbp; ret\n");

Test(native_loops, count_what_lies_on_the_stack_meanwhile) {
  struct native_counter counter;
  check_slot(&loops_spilled_code, 0, RSP, -32, 0, 4);
  check_register(&loops_spilled_code, 1, RBX, 0, 1);
  cr_assert(find(&loops_spilled_code, 0, &counter));
  cr_expect_eq(counter.limit, NATIVE_LIMIT_VARIABLE);
  cr_expect(counter.limit_in.is_slot && counter.limit_in.reg == RSP && counter.limit_in.at == -40);
}

/* It saves registers behind a test, and pushes arguments of the call. */
FUNCTION(loops_wrapped,
         "test %edi, %edi; jle 9f; push %rbx; push %r12; sub $8, %rsp\n"
         "mov %edi, 4(%rsp); movl $0, (%rsp)\n"
         "1: sub $8, %rsp; push 0(%rsi)\n" CALL(
             loops_wrapped) "pop %rcx; pop %rcx; mov (%rsp), %eax; add $1, %eax; mov %eax, (%rsp)\n"
                            "cmp 4(%rsp), %eax; jl 1b\n"
                            "add $8, %rsp; pop %r12; pop %rbx\n"
                            "9: ret\n");

Test(native_loops, count_on_the_stack_of_functions_that_save_registers_behind_a_test) {
  check_slot(&loops_wrapped_code, 0, RSP, -32, 0, 1);
}

/* What follows the exit is reached by nothing, and falls into the loop. */
FUNCTION(loops_padded, "push %rbx; sub $16, %rsp; xor %ebx, %ebx; jmp 2f\n"
                       "9: add $16, %rsp; pop %rbx; ret; nopl 0(%rax)\n"
                       "1: mov 4(%rsp), %ebx; add $1, %ebx; cmp $5, %ebx; je 9b\n"
                       "2: mov %ebx, 4(%rsp); xor %ebx, %ebx\n" CALL(loops_padded) "jmp 1b\n");

/* rbp leads somewhere else, and half of a vector lies beside the counter. */
FUNCTION(
    loops_general,
    "push %rbp; push %rbx; sub $24, %rsp; mov %rdi, %rbp; movl $0, 12(%rsp)\n"
    "1: movl $5, 0x60(%rbp); movq %xmm0, (%rsp); movss %xmm0, 8(%rsp)\n" CALL(
        loops_general) "mov 12(%rsp), %ebx; add $1, %ebx; mov %ebx, 12(%rsp); cmp $6, %ebx; jl 1b\n"
                       "add $24, %rsp; pop %rbx; pop %rbp; ret\n");

/* ebp has half of it. */
FUNCTION(loops_narrow, "push %rbx; push %rbp; push %r12; push %r13; mov %rdi, %r12\n"
                       "1: mov %r12d, %ebp; mov %r12, %r13; xor %r12d, %r12d\n" CALL(
                           loops_narrow) "lea 8(%r13), %r12; cmp $400, %r12; jne 1b\n"
                                         "pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n");

/* Half of it is written over; on one way half of it is kept. */
FUNCTION(loops_halved,
         "push %rbx; sub $16, %rsp; mov %rdi, (%rsp)\n"
         "1: movl $0, 4(%rsp)\n" CALL(
             loops_halved) "mov (%rsp), %rbx; add $1, %rbx; mov %rbx, (%rsp); cmp $9, %rbx; jl 1b\n"
                           "add $16, %rsp; pop %rbx; ret\n");
FUNCTION(loops_either,
         "push %rbx; push %rbp; xor %ebx, %ebx\n"
         "1: mov %rbx, %rbp; test %eax, %eax; je 2f; mov %ebx, %ebp\n"
         "2: xor %ebx, %ebx\n" CALL(
             loops_either) "lea 1(%rbp), %rbx; cmp $9, %rbx; jl 1b; pop %rbp; pop %rbx; ret\n");

FUNCTION(loops_other,
         "push %rbx; push %rbp; xor %ebx, %ebx\n"
         "1: mov %ebx, %ebp; test %eax, %eax; je 2f; mov %rbx, %rbp\n"
         "2: xor %ebx, %ebx\n" CALL(
             loops_other) "lea 1(%rbp), %rbx; cmp $9, %rbx; jl 1b; pop %rbp; pop %rbx; ret\n");

/* Vectors, with VEX and EVEX; one of them is written to words beside the counter. */
FUNCTION(
    loops_vectors,
    "push %rbx; sub $80, %rsp; movl $0, 76(%rsp)\n"
    "1: vmulsd %xmm1, %xmm0, %xmm0; vmovups %ymm0, 32(%rsp); vmovsd %xmm0, 64(%rsp)\n"
    "vmovd %xmm0, 72(%rsp); vfmadd231ps %zmm1, %zmm2, %zmm3; vmovaps %ymm1, 32(%rdi)\n"
    "vextractf128 $1, %ymm0, 16(%rsp); vzeroupper; shlx %eax, %ecx, %edx; blsr %ecx, %edx\n"
    "rorx $3, %ecx, %edx; mulx %ecx, %edx, %esi\n" CALL(
        loops_vectors) "mov 76(%rsp), %ebx; add $1, %ebx; mov %ebx, 76(%rsp); cmp $6, %ebx; jl 1b\n"
                       "add $80, %rsp; pop %rbx; ret\n");
/* clang's of an array whose length is not known. */
FUNCTION(
    loops_array,
    "push %rbp; mov %rsp, %rbp; push %rbx; sub $24, %rsp; movl $0, -20(%rbp)\n"
    "1: mov %rsp, %rax; sub $64, %rax; mov %rax, %rsp; movl $0, (%rsp)\n" CALL(
        loops_array) "mov -20(%rbp), %eax; add $1, %eax; mov %eax, -20(%rbp); cmp $6, %eax; jl 1b\n"
                     "lea -8(%rbp), %rsp; pop %rbx; pop %rbp; ret\n");
/* g++'s without optimisation of do ... while (++i < n): it keeps how that compares. */
FUNCTION(loops_kept,
         "push %rbp; mov %rsp, %rbp; sub $16, %rsp; mov %edi, -8(%rbp); movl $0, -4(%rbp)\n"
         "1: " CALL(loops_kept) "addl $1, -4(%rbp); mov -4(%rbp), %eax; cmp -8(%rbp), %eax\n"
                                "setl %al; test %al, %al; jne 1b; leave; ret\n");

Test(native_loops, count_whatever_else_the_code_does) {
  struct native_counter counter;
  check_slot(&loops_padded_code, 0, RSP, -28, 0, 1);
  check_slot(&loops_general_code, 0, RSP, -36, 0, 1);
  check_register(&loops_narrow_code, 0, 13, 0, 8);
  check_slot(&loops_halved_code, 0, RSP, -32, 0, 1);
  check_register(&loops_either_code, 0, RBP, 0, 1);
  check_slot(&loops_vectors_code, 0, RSP, -20, 0, 1);
  check_slot(&loops_array_code, 0, RBP, -20, 0, 1);
  check_slot(&loops_kept_code, 0, RBP, -4, 0, 1);
  cr_expect(find(&loops_halved_code, 0, &counter) && counter.bits == 32);
  cr_expect(find(&loops_either_code, 0, &counter) && counter.bits == 32);
  cr_expect(find(&loops_other_code, 0, &counter) && counter.bits == 32);
}

/* Added to in front of the call, and kept in another register. */
FUNCTION(loops_copied, "push %rbx; push %rbp; push %r12; xor %ebx, %ebx; mov %edi, %ebp\n"
                       "1: lea 1(%rbx), %r12d; xor %ebx, %ebx\n" CALL(
                           loops_copied) "mov %r12d, %ebx; cmp %ebp, %r12d; jl 1b\n"
                                         "pop %r12; pop %rbp; pop %rbx; ret\n");

Test(native_loops, count_in_a_register_that_holds_more_than_the_counter) {
  check_register(&loops_copied_code, 0, 12, 1, 1);
}

/* gcc's of a loop whose rounds begin with a loop that may have none: control comes to 2 and to 3
 * from in front. */
FUNCTION(loops_entered,
         "push %rbx; push %rbp; push %r12; xor %ebx, %ebx; mov %edi, %ebp\n"
         "mov (%rsi), %r12d; test %r12d, %r12d; jle 3f\n"
         "2: " CALL(loops_entered) "sub $1, %r12d; jne 2b\n"
                                   "3: " CALL_OTHER "add $1, %ebx; cmp %ebp, %ebx; je 4f\n"
                                   "mov (%rsi), %r12d; test %r12d, %r12d; jg 2b; jmp 3b\n"
                                   "4: pop %r12; pop %rbp; pop %rbx; ret\n");

Test(native_loops, count_where_control_enters_them_at_two_places) {
  check_register(&loops_entered_code, 0, RBX, 0, 1);
}

/* gcc's of two loops whose numbers it counts as one: behind the inner one ebx is what the slot has.
 */
FUNCTION(loops_nested,
         "push %rbx; sub $16, %rsp; movl $4, 12(%rsp)\n"
         "1: mov 12(%rsp), %eax; lea -4(%rax), %ebx\n"
         "2: " CALL(loops_nested) "mov 12(%rsp), %eax; add $1, %ebx; cmp %eax, %ebx; jne 2b\n"
                                  "lea 4(%rbx), %eax; mov %eax, 12(%rsp); cmp $12, %ebx; jne 1b\n"
                                  "add $16, %rsp; pop %rbx; ret\n");

Test(native_loops, count_by_what_an_inner_one_has_ended_with) {
  check_slot(&loops_nested_code, 0, RSP, -20, 0, 4);
  check_register(&loops_nested_code, 1, RBX, 0, 1);
}

/* ---- the limit ---- */

__asm__(".data\n.balign 4\nloops_limit: .long 5\n");
extern int limit __asm__("loops_limit");

/* Read again behind the call alone. */
FUNCTION(loops_cached, "push %rbx; xor %ebx, %ebx; mov loops_limit(%rip), %eax\n"
                       "1: cmpl $0, (%rdi); jle 2f\n" CALL(
                           loops_cached) "mov loops_limit(%rip), %eax\n"
                                         "2: add $1, %ebx; cmp %eax, %ebx; jl 1b; pop %rbx; ret\n");

FUNCTION(loops_aside, "push %rbx; xor %ebx, %ebx; mov loops_limit(%rip), %eax\n"
                      "1: cmpl $0, (%rdi); jg 3f\n"
                      "2: add $1, %ebx; cmp %eax, %ebx; jl 1b; pop %rbx; ret\n"
                      "3: " CALL(loops_aside) "mov loops_limit(%rip), %eax; jmp 2b\n");

static void check_limit(const struct code *code) {
  struct native_counter counter;
  check_register(code, 0, RBX, 0, 1);
  cr_assert(find(code, 0, &counter));
  cr_expect(counter.limit == NATIVE_LIMIT_MEMORY && (uintptr_t)counter.number == (uintptr_t)&limit,
            "%s", code->name);
}

Test(native_loops, are_limited_by_a_word_that_is_read_on_some_ways) {
  check_limit(&loops_cached_code);
  check_limit(&loops_aside_code);
}

/* ---- two rounds ---- */

/* clang's of for (i = 5; i < 7; i++): it goes on while that was 5. */
FUNCTION(loops_twice,
         "push %rbx; mov $5, %ebx\n"
         "1: " CALL(loops_twice) "lea 1(%rbx), %eax; cmp $5, %ebx; mov %eax, %ebx; je 1b\n"
                                 "pop %rbx; ret\n");
/* gcc's: the first one sets it to 1. */
FUNCTION(loops_set, "push %rbx; xor %ebx, %ebx\n"
                    "1: " CALL(loops_set) "cmp $1, %ebx; je 2f; mov $1, %ebx; jmp 1b\n"
                                          "2: pop %rbx; ret\n");
/* What comes behind the test is the first round's. */
FUNCTION(loops_first,
         "push %rbx; xor %ebx, %ebx\n"
         "1: cmp $1, %ebx; je 2f; mov $1, %ebx\n" CALL(loops_first) "jmp 1b\n"
                                                                    "2: pop %rbx; ret\n");

/* clang's: the lowest bit of a byte, which the second one has as 0; in memory, and in a register.
 * The other bits of the register may be anything. */
FUNCTION(loops_bit,
         "push %rbx; sub $16, %rsp; xor %eax, %eax; mov $1, %al\n"
         "1: mov %eax, 4(%rsp)\n" CALL(loops_bit) "testb $1, 4(%rsp); mov $0, %eax; jne 1b\n"
                                                  "add $16, %rsp; pop %rbx; ret\n");
FUNCTION(loops_bit_loaded,
         "push %rbx; sub $16, %rsp; mov $1, %al\n"
         "1: mov %eax, 4(%rsp)\n" CALL(loops_bit_loaded) "mov 4(%rsp), %eax; test $1, %al\n"
                                                         "mov $0, %eax; jne 1b\n"
                                                         "add $16, %rsp; pop %rbx; ret\n");
/* Of a counter that bit is none: it may end the loop in any round; nor of a byte that is set to 2,
 * or of one more than the byte. */
FUNCTION(loops_odd, "push %rbx; xor %ebx, %ebx\n"
                    "1: " CALL(loops_odd) "add $2, %ebx; test $1, %bl; je 1b; pop %rbx; ret\n");
FUNCTION(loops_even, "push %rbx; mov $1, %ebx\n"
                     "1: " CALL(loops_even) "test $1, %bl; mov $2, %ebx; jne 1b; pop %rbx; ret\n");

FUNCTION(loops_next, "push %rbx; xor %ebx, %ebx\n"
                     "1: " CALL(loops_next) "lea 1(%rbx), %eax; test $1, %al; mov $1, %ebx; je 1b\n"
                                            "pop %rbx; ret\n");

static void check_bit(const struct code *code) {
  struct native_counter counter;
  check_slot(code, 0, RSP, -28, 0, 0);
  cr_assert(find(code, 0, &counter));
  cr_expect(counter.limit == NATIVE_LIMIT_NUMBER && counter.number == 0 && counter.bits == 8,
            "%s: %u bits, the second is %lld", code->name, counter.bits, (long long)counter.number);
}

static void check_two(const struct code *code, int64_t second, bool is_first) {
  struct native_counter counter;
  check_register(code, 0, RBX, 0, 0);
  cr_assert(find(code, 0, &counter));
  cr_expect(counter.limit == NATIVE_LIMIT_NUMBER && counter.number == second &&
                counter.is_first == is_first,
            "%s: the second is %lld", code->name, (long long)counter.number);
}

Test(native_loops, of_two_rounds_say_which_it_is) {
  check_two(&loops_twice_code, 6, false);
  check_two(&loops_set_code, 1, false);
  check_two(&loops_first_code, 1, true);
  check_bit(&loops_bit_code);
  check_bit(&loops_bit_loaded_code);
  check_none(&loops_odd_code);
  check_none(&loops_even_code);
  check_none(&loops_next_code);
}

/* ---- guards ---- */

/* `if (...) for (i = 0; i < 4; i++)`, and `for (i = 0; i < n; i++)`, in a loop: of both the test in
 * front leads where the inner loop ends. */
FUNCTION(
    loops_asked,
    "push %rbx; push %rbp; xor %ebp, %ebp\n"
    "1: test %rdi, %rdi; je 3f; xor %ebx, %ebx\n"
    "2: " CALL(loops_asked) "add $1, %ebx; cmp $4, %ebx; jne 2b\n"
                            "3: add $1, %ebp; cmp $9, %ebp; jne 1b; pop %rbp; pop %rbx; ret\n");
FUNCTION(
    loops_guarded,
    "push %rbx; push %rbp; xor %ebp, %ebp\n"
    "1: test %r12d, %r12d; jle 3f; xor %ebx, %ebx\n"
    "2: " CALL(loops_guarded) "add $1, %ebx; cmp %r12d, %ebx; jne 2b\n"
                              "3: add $1, %ebp; cmp $9, %ebp; jne 1b; pop %rbp; pop %rbx; ret\n");

/* Whether each round of the outer loop comes to the inner one. */
static bool each_round_comes(const struct code *code) {
  struct native_object object;
  struct native_graph graph;
  struct place_node nodes[4];
  uint32_t position = (uint32_t)(code->site - code->part.begin) - 1, block = 0;
  cr_assert(native_object_of(code->part.begin, &object));
  cr_assert(native_graph_make(&graph, &object, code->part, native_decode_x86_64));
  while (block + 1 < graph.nblocks && graph.blocks[block + 1].position <= position)
    block++;
  struct flow_graph edges = {graph.blocks, graph.edges, graph.nblocks, graph.nedges, graph.values};
  struct flow *flow = flow_analyse(&edges);
  cr_assert_not_null(flow);
  cr_assert_eq(flow_nodes(flow, block, 0, position, 1, nodes, 4), 3, "%s", code->name);
  flow_free(flow);
  native_graph_drop(&graph);
  return (nodes[1].flags & PLACE_ALWAYS) != 0;
}

Test(native_loops, from_a_number_to_a_number_have_no_guard) {
  cr_expect_not(each_round_comes(&loops_asked_code));
  cr_expect(each_round_comes(&loops_guarded_code));
}

/* ---- what counts nothing ---- */

FUNCTION(loops_skip,
         "push %rbx; xor %ebx, %ebx\n"
         "1: " CALL(loops_skip) "test %eax, %eax; je 1b; add $1, %ebx; cmp $9, %ebx; jl 1b\n"
                                "pop %rbx; ret\n");
FUNCTION(loops_add, "push %rbx; push %rbp; xor %ebx, %ebx\n"
                    "1: mov $3, %ebp\n"
                    "2: " CALL_OTHER "add $1, %ebx; sub $1, %ebp; jne 2b\n" CALL(
                        loops_add) "cmp $9, %ebx; jl 1b; pop %rbp; pop %rbx; ret\n");
FUNCTION(
    loops_taken,
    "sub $8, %rsp; movl $0, 4(%rsp)\n"
    "1: lea 4(%rsp), %rdi\n" CALL(
        loops_taken) "mov 4(%rsp), %eax; add $1, %eax; mov %eax, 4(%rsp); cmp $9, %eax; jl 1b\n"
                     "add $8, %rsp; ret\n");
/* The limit changes: before it is looked at, and behind that. */
FUNCTION(loops_moving,
         "push %rbx; push %rbp; xor %ebx, %ebx\n"
         "1: " CALL(loops_moving) "add $1, %ebx; add %eax, %ebp; cmp %ebp, %ebx; jl 1b\n"
                                  "pop %rbp; pop %rbx; ret\n");
FUNCTION(loops_later,
         "push %rbx; push %rbp; xor %ebx, %ebx\n"
         "1: cmp %ebp, %ebx; jge 2f\n" CALL(loops_later) "add $1, %ebx; add %eax, %ebp; jmp 1b\n"
                                                         "2: pop %rbp; pop %rbx; ret\n");
/* A vector covers it; a register of it is written by a conversion. */
FUNCTION(
    loops_over,
    "push %rbx; sub $80, %rsp; movl $0, 44(%rsp)\n"
    "1: vmovups %ymm0, 32(%rsp)\n" CALL(
        loops_over) "mov 44(%rsp), %ebx; add $1, %ebx; mov %ebx, 44(%rsp); cmp $6, %ebx; jl 1b\n"
                    "add $80, %rsp; pop %rbx; ret\n");
FUNCTION(loops_converted,
         "push %rbx; xor %ebx, %ebx\n"
         "1: vcvttsd2si %xmm0, %ebx\n" CALL(loops_converted) "add $1, %ebx; cmp $6, %ebx; jl 1b\n"
                                                             "pop %rbx; ret\n");
FUNCTION(loops_shifted,
         "push %rbx; xor %ebx, %ebx\n"
         "1: blsr %ecx, %ebx\n" CALL(loops_shifted) "add $1, %ebx; cmp $6, %ebx; jl 1b\n"
                                                    "pop %rbx; ret\n");
FUNCTION(loops_product,
         "push %rbx; xor %ebx, %ebx\n"
         "1: mulx %ecx, %ebx, %esi\n" CALL(loops_product) "add $1, %ebx; cmp $6, %ebx; jl 1b\n"
                                                          "pop %rbx; ret\n");
/* Another flag has been kept since. */
FUNCTION(
    loops_flags,
    "push %rbx; push %r12; xor %ebx, %ebx\n"
    "1: " CALL(loops_flags) "add $1, %ebx; cmp $6, %ebx; setl %r12b; cmp %eax, %edx; setl %cl\n"
                            "test %r12b, %r12b; jne 1b; pop %r12; pop %rbx; ret\n");
/* What is asked is whether it overflows. */
FUNCTION(loops_checked,
         "push %rbx; xor %ebx, %ebx\n"
         "1: " CALL(loops_checked) "test %eax, %eax; je 2f; add $1, %ebx; jno 1b; ud2\n"
                                   "2: pop %rbx; ret\n");
/* A word is written over in part; the stack is moved by what is not known. */
FUNCTION(loops_covered,
         "sub $24, %rsp; movl $0, 4(%rsp)\n"
         "1: " CALL(loops_covered) "mov 4(%rsp), %ebx; add $1, %ebx; mov %ebx, 4(%rsp)\n"
                                   "mov %rax, (%rsp); cmp $9, %ebx; jl 1b; add $24, %rsp; ret\n");
FUNCTION(loops_alloca, "sub $24, %rsp; movl $0, 4(%rsp)\n"
                       "1: sub %rax, %rsp\n" CALL(
                           loops_alloca) "mov 4(%rsp), %ebx; add $1, %ebx; mov %ebx, 4(%rsp); cmp "
                                         "$9, %ebx; jl 1b; add $24, %rsp; ret\n");

Test(native_loops, that_do_not_count_are_told) {
  check_none(&loops_skip_code);
  check_none(&loops_add_code);
  check_none(&loops_taken_code);
  check_none(&loops_moving_code);
  check_none(&loops_later_code);
  check_none(&loops_checked_code);
  check_none(&loops_covered_code);
  check_none(&loops_over_code);
  check_none(&loops_converted_code);
  check_none(&loops_shifted_code);
  check_none(&loops_product_code);
  check_none(&loops_flags_code);
  check_none(&loops_alloca_code);
}

#endif
