/* The clients of NCCL that are tested here, as tests/clients/install has put them into the folder
 * $CLIENTS, and running them.
 *
 * Every test runs in a /dev/shm of its own where that is possible (tests/faults/place.h), and ends
 * with nothing of nccl-join in it.
 */
#ifndef TESTS_CLIENTS_CLIENT_H
#define TESTS_CLIENTS_CLIENT_H

#include "tests/join/run.h"

/* Begins a test that needs these (names of tests/clients/install, or "mpirun"), separated by
 * blanks. Skips it, with a line that says why, if one could not be had. */
void client_begin(const char *names);

/* Ends it. */
void client_end(void);

/* Runs a shell command in the root of the repository, for 400 seconds at most, and until nobody
 * has its output open any more. The result is the caller's. In the command:
 *   $B, $P, $R   build folder, libnccl-join.so, "nccl-join run"
 *   $PY, $BIN    Python with the clients, the folder of their commands
 *   $C           tests/clients
 *   $MPIRUN      mpirun with the options for ranks on this machine
 */
struct run *client_run(const char *command);

/* What the run has printed first must be on docs/clients.md. */
void client_assert_on_page(const struct run *run);

#endif
