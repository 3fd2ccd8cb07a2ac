/* A port on 127.0.0.1 for the ranks of one job (MASTER_PORT), which no other launcher of nccl-join
 * takes meanwhile.
 *
 * That a port is free can be seen, but not kept until rank 0 listens there: who binds it to keep it
 * keeps rank 0 out too, unless rank 0 asks for SO_REUSEADDR. So launchers agree among themselves by
 * an abstract socket named after the port (unix(7)): it belongs to a network namespace, as ports
 * do, and is gone with the process that holds it. Only even ports are given out, because a program
 * under torchrun may listen at the one behind.
 */
#ifndef NCCL_JOIN_TOOLS_PORT_H
#define NCCL_JOIN_TOOLS_PORT_H

/* Returns the port, from 10240 to 30238, or 0 if there is none.
 *
 * *hold becomes a descriptor that keeps the port, -1 if there is none; it is closed at exec. The
 * caller owns it and closes it when the job has ended; the end of the process does so, too. Any
 * thread. */
int port_take(int *hold);

#endif
