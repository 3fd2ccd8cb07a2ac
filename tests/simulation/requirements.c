/* What must come of random programs (run.h): one table.
 *
 * A goal speaks of what can be told. Not asked for:
 *   - that ranks which issue something by counts of their own steps (tree_counts_own_steps) meet
 *     those of the same iteration: after an uneven epoch their counts differ, and they must meet
 *     those of others in some order. Units of one point must meet even so;
 *   - that ranks which have no data in some epoch and come from the loop of training to another
 *     loop (an evaluation) at once meet those of the same epoch. A rank that is at the evaluation
 *     again, while another trains, may be in the next epoch, without data, or in one more round of
 *     the evaluation: both make the same calls from the same places. Points must be right even so;
 *   - that two points of one loop which look alike, and to each of which ranks come by a condition
 *     of their own, do not meet (tree_has_twins): `if (a) x(); if (b) x();`. Ranks that come to x
 *     three times by a, and by a, a, b, are even if b is a's other half in that round; if they are
 *     not, the third one of them meets another point. Until then all calls are equal, and where
 *     programs are even nobody may shadow. It must be told even so;
 *   - that nothing is told of even programs in which ranks take different halves of a branch in a
 *     loop, and it is not seen that each stays in its half (tree_has_halves): that one of them does
 *     not end the loop is known afterwards;
 *   - that ranks meet where the end of a loop is a branch in it (TRAIT_STATES), and its place does
 *     not say so: which of two branches comes first no place tells. What meets must be told even
 *     so;
 *   - that it is told, where several points are one place (wrappers) or none (the threads of an
 *     engine): docs/limits.md has two programs that nobody can tell apart, one of them even;
 *   - epochs, where nothing stands between them: they count as one (meetings.h);
 *   - anything but that nothing breaks, where ranks fail or yield too early (TRAIT_ANYHOW).
 */
#include "tests/simulation/run.h"

/* Whether the goals are asserted, all of them. */
static const bool all_goals = false;

#define EVEN (1u << IMBALANCE_NONE)
#define UNEVEN (1u << IMBALANCE_CONSTANT | 1u << IMBALANCE_VARYING)
#define VISIBLE (1u << SIGHT_VISIBLE)
#define BY_RANK (1u << SIGHT_BY_RANK_OUTSIDE | 1u << SIGHT_BY_RANK_INSIDE | 1u << SIGHT_OTHER_LOOP)
#define UNORDERED (1u << SIGHT_UNORDERED)
#define NOT_TOLD_APART (1u << SIGHT_WRAPPED | 1u << SIGHT_ENGINE)
#define TOLD_APART (VISIBLE | BY_RANK | UNORDERED)
#define HIDDEN (1u << SIGHT_HIDDEN)
#define ALL UINT32_MAX

/* The last two numbers of a line: the goal, and what is asserted until it is reached. A few
 * programs have most of what is not met, so that a hundred of other seeds have a multiple of it, or
 * none: of 28,366 from seed 7000000 on 1.4 % inside iterations, visible (goal 2), of the 30,000
 * from 5000000 on 2.3 %, of those that are asserted 1.3 %, and of the 150,000 from 3000000 on 2.1
 * %, where 28 of 1,014 programs have all of it, and the standard error is 0.5; of several teams
 * whose places are hidden, by rank, 5.7 to 10.1 % of three samples. */
const struct requirement requirements[REQUIREMENTS] = {
    {"hangs", ALL, ALL, 0, 0, MEASURE_HANGS, MEASURE_PROGRAMS, 0, 0},
    {"mismatches", ALL, ALL, 0, 0, MEASURE_MISMATCHES, MEASURE_PROGRAMS, 0, 0},
    {"even: shadows", ALL, EVEN, 0, TRAIT_ANYHOW, MEASURE_SHADOWS, MEASURE_REALS, 0, 0},
    {"even: yields", ALL, EVEN, 0, TRAIT_ANYHOW, MEASURE_YIELDS, MEASURE_REALS, 0, 0},
    {"even, visible or by rank: told", VISIBLE | BY_RANK, EVEN, 0, TRAIT_ANYHOW, MEASURE_TOLD_WHOLE,
     MEASURE_PROGRAMS, 0, 0},

    {"visible: silent", VISIBLE, UNEVEN, 0, TRAIT_ANYHOW, MEASURE_SILENT, MEASURE_PROGRAMS, 0, 0},
    {"visible, data in the first epoch: wrong", VISIBLE, UNEVEN, 0, TRAIT_ANYHOW,
     MEASURE_WRONG_WITH_DATA, MEASURE_WITH_DATA, 0, 0},
    {"visible, none in the first epoch: wrong", VISIBLE, UNEVEN, 0, TRAIT_ANYHOW,
     MEASURE_WRONG_WITHOUT, MEASURE_WITHOUT, 0.001, 0.001},
    {"by rank: silent", BY_RANK, UNEVEN, 0, TRAIT_ANYHOW, MEASURE_SILENT, MEASURE_PROGRAMS, 0, 0},
    {"order unknown: silent", UNORDERED, UNEVEN, 0, TRAIT_ANYHOW, MEASURE_SILENT, MEASURE_PROGRAMS,
     0.001, 0.001},
    {"shared by several, engine: silent", NOT_TOLD_APART, UNEVEN, 0, TRAIT_ANYHOW, MEASURE_SILENT,
     MEASURE_PROGRAMS, 0.25, 0.25}, /* no goal: that it grows is to be seen */
    {"hidden: silent", HIDDEN, UNEVEN, 0, TRAIT_ANYHOW, MEASURE_SILENT, MEASURE_PROGRAMS, 0.001,
     0.001},

    {"visible, one team: not met", VISIBLE, UNEVEN, 0,
     TRAIT_ANYHOW | TRAIT_SEVERAL | TRAIT_INSIDE | TRAIT_NO_DATA_FIRST | TRAIT_STATES,
     MEASURE_COMMON_UNMET, MEASURE_COMMON_INDICES, 0, 0},
    {"visible, by replica: not met", VISIBLE, UNEVEN, TRAIT_SEVERAL,
     TRAIT_ANYHOW | TRAIT_BY_RANK | TRAIT_INSIDE, MEASURE_COMMON_UNMET, MEASURE_COMMON_INDICES,
     0.001, 0.001},
    {"visible, by rank: not met", VISIBLE, UNEVEN, TRAIT_BY_RANK, TRAIT_ANYHOW,
     MEASURE_COMMON_UNMET, MEASURE_COMMON_INDICES, 0.02, 0.02},
    {"visible, inside iterations: not met", VISIBLE, UNEVEN, TRAIT_INSIDE, TRAIT_ANYHOW,
     MEASURE_COMMON_UNMET, MEASURE_COMMON_INDICES, 0.02, 0.02},
    {"several teams, by replica: not met", TOLD_APART, UNEVEN, TRAIT_SEVERAL,
     TRAIT_ANYHOW | TRAIT_BY_RANK | TRAIT_INSIDE, MEASURE_COMMON_UNMET, MEASURE_COMMON_INDICES,
     0.05, 0.05},
    {"several teams, by rank: not met", TOLD_APART, UNEVEN, TRAIT_BY_RANK, TRAIT_ANYHOW,
     MEASURE_COMMON_UNMET, MEASURE_COMMON_INDICES, 0.05, 0.05},
    {"several teams, not told apart: not met", NOT_TOLD_APART | HIDDEN, UNEVEN, TRAIT_SEVERAL,
     TRAIT_ANYHOW | TRAIT_INSIDE, MEASURE_COMMON_UNMET, MEASURE_COMMON_INDICES, 0.05, 0.15},
};

bool requirement_is_of(const struct requirement *requirement, struct row row) {
  return (requirement->sights >> row.sight & 1) != 0 &&
         (requirement->imbalances >> row.imbalance & 1) != 0 &&
         (requirement->traits == 0 || row_has(row, requirement->traits)) &&
         !row_has(row, requirement->without);
}

double requirement_limit(const struct requirement *requirement) {
  return all_goals ? requirement->goal : requirement->today;
}
