/* The table of settings. See settings.h.
 *
 * A new setting is a row here and a field in struct settings (settings.h), and comes with the code
 * that acts on it: a setting that does nothing would be a promise, an unknown one is an error.
 */
#include "core/settings/settings_private.h"

#include <string.h>

static const struct word switch_words[] = {{"1", true}, {"0", false}, {NULL, 0}};
static const struct word early_exit_words[] = {
    {"join", EARLY_EXIT_JOIN}, {"throw", EARLY_EXIT_THROW}, {NULL, 0}};
static const struct word unsure_words[] = {{"warn", UNSURE_WARN}, {"stop", UNSURE_STOP}, {NULL, 0}};
static const struct word epochs_words[] = {
    {"warn", EPOCHS_WARN}, {"mix", EPOCHS_MIX}, {"wait", EPOCHS_WAIT}, {NULL, 0}};
static const struct word divisor_words[] = {{"initial", DIVISOR_INITIAL},
                                            {"active", DIVISOR_ACTIVE},
                                            {"active-sum", DIVISOR_ACTIVE_SUM},
                                            {NULL, 0}};
static const struct word lossy_words[] = {
    {"error", LOSSY_ERROR}, {"zero", LOSSY_ZERO}, {"last", LOSSY_LAST}, {NULL, 0}};
static const struct word resync_words[] = {
    {"none", RESYNC_NONE}, {"broadcasts", RESYNC_BROADCASTS}, {NULL, 0}};
static const struct word memory_words[] = {
    {"plain", SHADOW_MEMORY_PLAIN}, {"alias", SHADOW_MEMORY_ALIAS}, {NULL, 0}};
const struct word settings_kind_words[] = {
    {"allgather", LOSSY_ALLGATHER}, {"alltoall", LOSSY_ALLTOALL}, {"gather", LOSSY_GATHER},
    {"scatter", LOSSY_SCATTER},     {"send", LOSSY_SEND},         {NULL, 0}};
static const struct word report_words[] = {{REPORT_LINE, 0}, {REPORT_OFF, 0}, {NULL, 0}};
static const struct word level_words[] = {{"WARN", LOG_LEVEL_WARN},
                                          {"INFO", LOG_LEVEL_INFO},
                                          {"TRACE", LOG_LEVEL_TRACE},
                                          {"ERROR", LOG_LEVEL_ERROR},
                                          {NULL, 0}};

const char *const settings_built_in_exits[SETTINGS_BUILT_IN_EXITS + 1] = {
    "MPI_Finalize", "MPI_Barrier", "ProcessGroupNCCL", NULL};

#define FIELD(name) offsetof(struct settings, name)

/* 1800 s and 1000 iterations are PyTorch's numbers (the time-out of a process group; the
 * iterations of a joined rank after which Join warns); a year is as good as for ever, and still
 * bounded. */
const struct setting settings_table[] = {
    {"NCCL_JOIN", TYPE_SWITCH, OF_EACH_RANK, FIELD(enabled), "1", switch_words, 0, 0, NULL,
     "0: every call goes straight to NCCL"},
    {"NCCL_JOIN_EARLY_EXIT", TYPE_WORD, OF_ALL_RANKS, FIELD(early_exit), "join", early_exit_words,
     0, 0, NULL,
     "throw: when the first rank leaves, all ranks stop at the same collective, with an error"},
    {"NCCL_JOIN_DIVISOR", TYPE_WORD, OF_ALL_RANKS, FIELD(divisor), "initial", divisor_words, 0, 0,
     NULL,
     "what averages divide by: all ranks, or those that are active; active-sum: large sums of "
     "floats are scaled to match"},
    {"NCCL_JOIN_DIVISOR_MIN", TYPE_NUMBER, OF_ALL_RANKS, FIELD(divisor_min), "1024", NULL, 1,
     1000000000, "elements", "how large a sum active-sum scales: gradients, not counters"},
    {"NCCL_JOIN_LOSSY", TYPE_LOSSY, OF_ALL_RANKS, FIELD(lossy), "error", lossy_words, 0, 0, NULL,
     "what the active ranks get where they need data of a joined rank (kinds: allgather, alltoall, "
     "gather, scatter, send): an error on every rank, zeros, or what the joined rank's send buffer "
     "holds now"},
    {"NCCL_JOIN_RESYNC", TYPE_WORD, OF_ALL_RANKS, FIELD(resync), "none", resync_words, 0, 0, NULL,
     "broadcasts: when all have joined, the buffers that the program broadcast at its start are "
     "broadcast again, from the last joiner (docs/programs.md says for which programs that is "
     "safe)"},
    {"NCCL_JOIN_SHADOW_MEMORY", TYPE_WORD, OF_EACH_RANK, FIELD(shadow_memory), "plain",
     memory_words, 0, 0, NULL,
     "alias: a joined rank needs 2 MiB of device memory for each large buffer, whatever its size "
     "(NCCL 2.24.3 and later; tried on a GPU over sockets alone)"},
    {"NCCL_JOIN_EXIT_ON", TYPE_NAMES, OF_ALL_RANKS, FIELD(exit_on), "", NULL, 0, 0, NULL,
     "functions of libraries whose call means leaving the loop, as that of "
     "MPI_Barrier and MPI_Finalize does, and what PyTorch's legacy backend "
     "(ProcessGroupNCCL) makes a communicator of all ranks with"},
    {"NCCL_JOIN_HOOK", TYPE_PATHS, OF_EACH_RANK, FIELD(hooks), "", NULL, 0, 0, NULL,
     "plug-ins, called in this order for every shadow and when all have joined"},
    {"NCCL_JOIN_PLACES", TYPE_SWITCH, OF_ALL_RANKS, FIELD(places), "1", switch_words, 0, 0, NULL,
     "1: where in the program a call stands is part of what is compared (docs/places.md)"},
    {"NCCL_JOIN_UNSURE", TYPE_WORD, OF_ALL_RANKS, FIELD(unsure), "warn", unsure_words, 0, 0, NULL,
     "where nothing tells which of two collectives goes first, or whether they are one, and where "
     "NCCL_JOIN_EPOCHS=warn sees that epochs mix (docs/places.md says when): warn chooses, or goes "
     "on, and says so; stop ends the job with an error instead"},
    {"NCCL_JOIN_EPOCHS", TYPE_WORD, OF_ALL_RANKS, FIELD(epochs), "warn", epochs_words, 0, 0, NULL,
     "where a rank begins another round of the outermost loop of its program, or of one in that "
     "which has another one in it (models that are trained in turn; wait: with one communicator "
     "in the process), and nothing that all ranks come to is between the two: mix goes on, as "
     "without nccl-join; warn does, too, and says so "
     "if ranks have begun it at different collectives; wait waits for all ranks, so that their "
     "epochs do not mix, which an even program does once a round, too; as far as these loops say "
     "their rounds (docs/places.md says when)"},
    {"NCCL_JOIN_SKEW_WARN", TYPE_NUMBER, OF_EACH_RANK, FIELD(skew_warn), "1000", NULL, 0,
     1000000000, "shadow iterations",
     "warn once when a rank has joined for longer than this; 0: never"},
    {"NCCL_JOIN_STALL_WARN", TYPE_NUMBER, OF_EACH_RANK, FIELD(stall_warn_s), "60", NULL, 0,
     31536000, "seconds",
     "warn once when ranks wait in nccl-join (not only on their devices) and none has moved for so "
     "long, with a table of who is where; 0: never"},
    {"NCCL_JOIN_TIMEOUT", TYPE_NUMBER, OF_EACH_RANK, FIELD(timeout_s), "1800", NULL, 1, 31536000,
     "seconds", "how long a rank waits for the others before it gives up"},
    {"NCCL_JOIN_MACHINES", TYPE_SWITCH, OF_ALL_RANKS, FIELD(machines), "1", switch_words, 0, 0,
     NULL, "1: ranks of several machines find each other and join, too (docs/machines.md)"},
    {"NCCL_JOIN_MACHINES_WAIT", TYPE_NUMBER, OF_EACH_RANK, FIELD(machines_wait_s), "30", NULL, 1,
     3600, "seconds",
     "how long the machines of a communicator look for each other when it is made; of a job's "
     "later ones, where "
     "some were not found, 1 s"},
    {"NCCL_JOIN_MACHINES_SILENCE", TYPE_NUMBER, OF_EACH_RANK, FIELD(machines_silence_s), "10", NULL,
     1, 3600, "seconds", "after how long without a sign of life a machine counts as dead"},
    {"NCCL_JOIN_MACHINES_PORTS", TYPE_PORTS, OF_EACH_RANK, FIELD(machines_ports), "61000-65535",
     NULL, 0, 0, NULL,
     "at which ports the machines reach each other: one on each, of eight on the machine that "
     "makes a "
     "job's first id"},
    {"NCCL_JOIN_MACHINES_CHILDREN", TYPE_NUMBER, OF_EACH_RANK, FIELD(machines_children), "16", NULL,
     1, 16, "machines",
     "how many machines have a link to the same one, towards the one that makes a job's first id; "
     "there it is "
     "said for all"},
    {"NCCL_JOIN_MACHINES_SECRET", TYPE_PATH, OF_EACH_RANK, FIELD(machines_secret), "", NULL, 0, 0,
     NULL,
     "a file with at least 32 random bytes, the same on all machines, which nobody else may read: "
     "instead of a secret in the id, and for ids without one (NCCL_COMM_ID)"},
    {"NCCL_JOIN_RENDEZVOUS", TYPE_ADDRESS, OF_EACH_RANK, FIELD(rendezvous), "", NULL, 0, 0, NULL,
     "where the machines meet, whatever the id says: a machine of the job, and the first of eight "
     "ports there; with NCCL_JOIN_MACHINES_SECRET"},
    {"NCCL_JOIN_DEBUG", TYPE_WORD, OF_EACH_RANK, FIELD(log_level), "WARN", level_words, 0, 0, NULL,
     "what is logged, in the format of NCCL's log"},
    {"NCCL_JOIN_DEBUG_FILE", TYPE_FORMAT, OF_EACH_RANK, FIELD(log_file), "", NULL, 0, 0, NULL,
     "where the log goes instead of stderr; its folder must be there"},
    {"NCCL_JOIN_TRACE", TYPE_PATH, OF_EACH_RANK, FIELD(trace_folder), "", NULL, 0, 0, NULL,
     "folder for one trace file (JSON lines) per rank; it is made if it is missing"},
    {"NCCL_JOIN_TRACE_SIZE", TYPE_NUMBER, OF_EACH_RANK, FIELD(trace_mib), "16", NULL, 1, 65536,
     "MiB", "how large a trace file becomes: of a longer run it has the last collectives"},
    {"NCCL_JOIN_REPORT", TYPE_FOLDER, OF_EACH_RANK, FIELD(report), "line", report_words, 0, 0, NULL,
     "what is told when all ranks have left, if their inputs were uneven: one line in the log, "
     "with how "
     "much each rank has shadowed and what that has cost; the same as JSON in a file of a folder, "
     "too; "
     "or nothing"},
    {.name = NULL},
};
