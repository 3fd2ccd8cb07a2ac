/* What ncclGetLastError says of an error that nccl-join has returned: the line that its log has. So
 * a traceback of PyTorch, which asks for it, ends with it.
 */
#ifndef NCCL_JOIN_INTERPOSE_LAST_ERROR_H
#define NCCL_JOIN_INTERPOSE_LAST_ERROR_H

/* An error is about to be returned that is nccl-join's own, and has been logged. Until NCCL has
 * another one to tell, ncclGetLastError says that line. Any thread. */
void last_error_is_ours(void);

#endif
