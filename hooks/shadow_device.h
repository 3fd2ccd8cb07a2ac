/* What the shadows of one device own: its context, a stream (shadow_device.c), and device memory
 * (shadow_memory.c). Used by shadow.c, shadow_call.c and own_send.c; shadow.h says what the memory
 * is for and why buffers are kept.
 *
 * How memory is asked for: device_needs_begin, device_needs_send and device_needs_receive for each
 * member of the next unit, then device_allocate. After that the addresses hold until the next
 * device_needs_begin.
 */
#ifndef NCCL_JOIN_HOOKS_SHADOW_DEVICE_H
#define NCCL_JOIN_HOOKS_SHADOW_DEVICE_H

#include "hooks/alias.h"
#include "hooks/registrable.h"
#include "hooks/shadow.h"

/* A send buffer for every pattern that the table of contribution.c can give: zero; and one, the
 * lowest and the highest value of each datatype, although some of them look alike in memory. */
#define DEVICE_PATTERNS (1 + 3 * DATATYPES)

/* Kinds of memory: what is not registered, and of what is, what programs have beside each other. */
#define DEVICE_MEMORIES 6

/* Buffers that have become too small and may still be in use. Each is at most half of its
 * successor, unless memory is short; if there is no place for another, the stream is waited for. */
#define DEVICE_RETIRED 256

/* Every address is a multiple of this, as those of cudaMalloc are. NCCL's kernels move 16 bytes at
 * a time where addresses allow it. */
#define DEVICE_ALIGNMENT 256

/* Buffers are multiples of this, so that a run of slightly growing small units does not allocate
 * for each. */
#define DEVICE_GRANULE ((size_t)64 << 10)

/* Units between two marks on the stream. With both under way at most three times as many units are.
 */
#define DEVICE_MARK 128
#define DEVICE_MARKS 2

struct registration {
  ncclComm_t comm;
  void *handle;
};

struct buffer {
  CUdeviceptr address; /* 0: none */
  size_t bytes;        /* a multiple of DEVICE_GRANULE, or more */
  size_t block;        /* physical memory, if it is seen over and over (alias.h); 0: all of it */
  size_t needed;       /* by the unit being prepared */
  struct registrable registrable;     /* if it is such memory */
  struct registration *registrations; /* of it */
  unsigned nregistrations;
};

struct send_buffer {
  uint64_t pattern; /* repeated over all its bytes */
  struct buffer buffer;
};

/* Memory that looks alike. */
struct memory {
  unsigned look; /* core/unit/look.h, enum look_buffer; 0: not registered */
  struct send_buffer sends[DEVICE_PATTERNS];
  unsigned nsends;
  struct buffer receive;
  size_t received; /* bytes of the receive area handed to members of the unit being issued */
  struct buffer lent;
  size_t lent_out; /* bytes of it, in the unit for which it was lent last */
};

struct shadow {
  struct shadow *next; /* of those that are gone: shadow_kept.c */
  const struct cuda_driver *cuda;
  int number; /* of the device */
  CUdevice device;
  CUcontext context; /* the primary context, retained */
  CUstream stream;
  bool aliases; /* buffers of more than a block are blocks */

  CUevent marks[DEVICE_MARKS]; /* NULL: not made yet */
  unsigned nmarks, oldest;     /* under way, and which of them came first */
  unsigned unmarked;           /* units issued since the last one */

  struct memory memories[DEVICE_MEMORIES]; /* the first one: of what is not registered */
  unsigned nmemories;

  struct buffer retired[DEVICE_RETIRED];
  unsigned nretired;
  ncclResult_t (*deregister)(ncclComm_t comm, void *handle); /* NULL: nothing is registered */

  ncclComm_t no_child; /* where a split writes that there is none; perhaps later, from a thread of
                          NCCL's */
};

/* What a thread had before device_enter. */
struct device_entry {
  CUstreamCaptureMode mode;
};

/* A failed driver call. bytes: what was to be allocated, 0 if it was another call. */
struct device_failure {
  CUresult error;
  size_t bytes;
  bool stuck; /* memory could have been given back, but the stream did not pass within the limit */
};

/* Makes the device's context current, and calls allowed that a capture on another thread would
 * forbid. On success device_leave must follow on the same thread. */
CUresult device_enter(const struct shadow *device, struct device_entry *entry);
void device_leave(const struct shadow *device, struct device_entry *entry);

/* Context and stream; *failure on failure, then nothing is held. */
bool device_open(struct shadow *device, CUresult *failure);

/* The stream goes, unless it has not passed (done false); the context stays retained. Whether the
 * context is still there, and so the device memory. */
bool device_close(struct shadow *device, bool done);

void device_needs_begin(struct shadow *device);

/* The memory that looks so; NULL if there are too many kinds. Stays. */
struct memory *device_memory(struct shadow *device, unsigned look);

void device_needs_send(struct memory *memory, uint64_t pattern, size_t bytes);
void device_needs_receive(struct memory *memory, size_t bytes);

/* Makes all buffers as large as needed, and fills those that are new. Nothing is called if they
 * are. */
bool device_allocate(struct shadow *device, const struct shadow_limit *limit,
                     struct device_failure *failure);

/* Memory with the pattern, for as many bytes as were needed. */
const void *device_send(const struct memory *memory, uint64_t pattern);

/* The next piece of the receive area; pieces are handed out in the order of the needs. */
void *device_receive(struct memory *memory, size_t bytes);

/* They are handed out once more, from the first one on. */
void device_receive_again(struct shadow *device);

/* Lays a pattern down, before what comes into the stream next. In the device's context. */
CUresult device_fill(const struct shadow *device, void *address, size_t bytes, uint64_t pattern);

/* Registers what a member uses of a memory that is registered with its communicator, unless it is:
 * the send buffer of a pattern (NULL: none), the receive area, what has been lent. In the device's
 * context. */
ncclResult_t device_register(struct shadow *device, const struct nccl_calls *nccl,
                             struct memory *memory, const uint64_t *pattern, ncclComm_t comm);

/* The communicator is about to go (NULL: all are gone): what is registered with it goes with it. */
void device_forget(struct shadow *device, ncclComm_t comm);

/* A unit has been issued. Without events (no memory) nothing is counted. */
void device_mark(struct shadow *device);

/* Whether both marks are under way, and another is due. */
bool device_is_full(struct shadow *device);

/* Send buffers that are not shared: room for all pieces of the next unit, then each with its
 * pattern. They are used again by the unit after that; the stream keeps them apart. bytes: the sum
 * that device_add_piece makes. */
size_t device_add_piece(size_t bytes, size_t piece);
bool device_lend_begin(struct shadow *device, struct memory *memory, size_t bytes,
                       const struct shadow_limit *limit, struct device_failure *failure);
bool device_lend(struct shadow *device, struct memory *memory, uint64_t pattern, size_t bytes,
                 const void **address, struct device_failure *failure);

/* CUDA_SUCCESS once the stream has passed (also if the driver is gone), CUDA_ERROR_NOT_READY if the
 * limit came first. */
CUresult device_wait(const struct shadow *device, const struct shadow_limit *limit);

/* The same of another stream of the device's. */
CUresult device_wait_for(const struct shadow *device, CUstream stream,
                         const struct shadow_limit *limit);

/* Waits for all that there is in the context, whatever its stream: CUDA_SUCCESS,
 * CUDA_ERROR_NOT_READY if the limit came first, CUDA_ERROR_OUT_OF_MEMORY or
 * CUDA_ERROR_OPERATING_SYSTEM without memory or a thread, or what the driver says, also that it is
 * gone. CUDA has no question for that, only a wait without end. So a thread of its own waits while
 * this one looks; if the limit comes first, that thread is left behind. */
CUresult device_synchronise(const struct shadow *device, const struct shadow_limit *limit);

/* Gives all memory back. Only when the stream has passed. */
void device_free(struct shadow *device);

/* Device memory held now, see shadow_bytes. */
size_t device_bytes(const struct shadow *device);

/* One pause of a polling loop: false if the limit has come. *pause_ns begins at 0 and grows up to a
 * millisecond. */
bool limit_pause(const struct shadow_limit *limit, uint64_t *pause_ns);

/* ---- shadow_kept.c; any thread ---- */

/* A shadow that is gone but for its context and its buffers: others take from them. */
void device_keep(struct shadow *device);

/* All of them of a device, by their `next`: the caller frees them. */
struct shadow *device_take_all_kept(int number);

/* Takes a buffer of at least so many bytes that looks as told (core/unit/look.h), the smallest
 * there is; false if there is none. alias: it may be one (alias.h). Its content is undefined; its
 * `needed` stays. */
bool device_take_kept(const struct shadow *device, unsigned look, bool alias, size_t bytes,
                      struct buffer *buffer);

#endif
