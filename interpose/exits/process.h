/* How the process ends, and how it forks.
 *
 * Functions of ours in front of libc's see these ends before any exit handler runs: return from
 * main (entry/start.c), exit, quick_exit, and _exit and _Exit with status 0 (leave_is_over). An
 * exit handler, the backstop, sees ends that libc makes without them (errx, pthread_exit of the
 * last thread). Other ends by _exit, abort and signals are not seen: such a process vanishes, and
 * its peers notice by its lock.
 *
 * exit called in a signal handler looks like any other exit: there is no way to tell. Only where
 * the signal interrupted an NCCL call of the same thread does the process end without leaving,
 * because the state of that call is half changed.
 *
 * Nothing here runs in a constructor. A process that never makes a communicator (a shell, a
 * compiler, a data loader's worker) gets one more frame under main, a look of entry/weak.c at its
 * references before main, and nothing else.
 */
#ifndef NCCL_JOIN_INTERPOSE_PROCESS_H
#define NCCL_JOIN_INTERPOSE_PROCESS_H

/* From now on a forked child is off: its calls go straight to NCCL, it holds no attachment and
 * writes no line. To be called before the first attachment is made. Any thread, any number of
 * times. A child made by vfork, posix_spawn or a bare clone runs no fork handler: it must exec, as
 * everywhere. */
void process_watch_fork(void);

/* From now on leave_process is called when the process ends. To be called after the first
 * communicator has been made: exit handlers run in reverse order, and CUDA's, registered by then,
 * must find us done. Any thread, any number of times. */
void process_watch_exit(void);

/* Calls leave_process where that is due (leave.h), and returns the status that the process is to
 * end with. If several threads end the process at once, the first does so; the others wait for it
 * if they come with status 0, and go on if theirs is a failure. A thread that comes here again from
 * inside leave_process goes on. For entry/start.c and the functions that end a process. */
int process_leave(int status);

#endif
