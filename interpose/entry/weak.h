/* Weak references to functions that came with a later NCCL than the one at hand: a program that is
 * linked so asks by them whether its NCCL has a function. By our exports they would all be there.
 *
 * The dynamic linker has bound them to us by the time that anything of ours can run, so they are
 * taken back: a reference that is weak, and bound to a function of ours that the real NCCL lacks,
 * becomes NULL again. For the objects that a program begins with; without NCCL among them, for the
 * program itself alone. In what is opened later such references stay bound to us, and a call
 * returns ncclInvalidUsage.
 */
#ifndef NCCL_JOIN_INTERPOSE_WEAK_H
#define NCCL_JOIN_INTERPOSE_WEAK_H

/* To be called before main, on its thread. Costs a process without NCCL one look-up and a walk over
 * the program's relocations. */
void weak_take_back(void);

#endif
