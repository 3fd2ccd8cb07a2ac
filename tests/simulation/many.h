/* Sizes for many.c, included before all else: each of a thousand machines has the logs of all
 * ranks.
 */
#ifndef NCCL_JOIN_TESTS_SIMULATION_MANY_H
#define NCCL_JOIN_TESTS_SIMULATION_MANY_H

/* core/transport/plane.h */
#define PLANE_RING 8u
#define PLANE_RUN_AHEAD 4u
#define PLANE_TEXT 256u
#define PLANE_OPERATIONS 1u
#define PLANE_PAIRS 1u

/* core/unit */
#define UNIT_TABLE_BITS 7

/* core/place */
#define PLACE_TEXT_MAX 24u
#define PLACE_TABLE_PLACES 16u

/* core/predict: many times LAGS_CALM */
#define LEARNER_BODY_MAX 2048
#define HISTORY_SIZE 4096u
#define LAGS_TABLE_BITS 6
#define SHELF_BODY_MAX 64

/* tests/simulation/program.h */
#define PROGRAM_RANKS_MAX 10240
#define PROGRAM_TEAMS_MAX 1

#endif
