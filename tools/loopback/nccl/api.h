/* How an exported function is declared. As in NCCL each nccl function is a weak alias of a strong
 * pnccl one, so that a profiling layer can define its own and still reach this; calls between
 * exported functions go by their nccl name and so through the procedure linkage table, where a
 * layer in front sees them. */
#ifndef LOOPBACK_NCCL_API_H
#define LOOPBACK_NCCL_API_H

#define API_EXPORT __attribute__((visibility("default")))

/* After the definition of pnccl##name. */
#define API_ALIAS(name)                                                                            \
  extern __typeof__(pnccl##name) nccl##name                                                        \
      __attribute__((visibility("default"), weak, alias("pnccl" #name)))

#endif
