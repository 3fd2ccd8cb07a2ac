/* Programs whose source says where each call stands: the test (test_native_code.c) gives them what
 * to do and compares what is found in their machine code. */
#ifndef NCCL_JOIN_TESTS_INTERPOSE_PARTS_PLACES_H
#define NCCL_JOIN_TESTS_INTERPOSE_PARTS_PLACES_H

#ifdef __cplusplus
extern "C" {
#endif

extern void (*volatile places_site)(int number); /* the call with that number in the source */
extern int (*volatile places_choice)(int below); /* any number from 0 on */

extern void (*volatile places_call)(int number, const void *after); /* likewise; NULL: not told */

extern volatile int places_number;
int alike(int left);
int alone(void);
int asked(int number, int left);

/* What a call is in the program says this word, and not its arguments. */
#define ALIKE(number) (places_number = (number), alike(columns))
#define ALONE(number) (places_number = (number), alone()) /* without any */

#define SITE(number) places_site(number)
#define CHOICE(below) places_choice(below)
#define EXPORTED __attribute__((visibility("default"), noinline))

#ifdef __cplusplus
}
#endif

#endif
