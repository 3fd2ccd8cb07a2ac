/* Atomics that are counted. The growth benchmark (growth.mk) compiles core/'s sources once more
 * with this header included in front of them (-include), so that what a rank reads and writes of
 * the shared logs is counted without a change to them. The objects do what they always do.
 */
#ifndef TOOLS_BENCH_COUNTED_H
#define TOOLS_BENCH_COUNTED_H

#include <stdatomic.h>
#include <stddef.h>

/* Before each access, whatever memory it is to. An access that reads and writes is both. */
void counted_read(const volatile void *object, size_t size);
void counted_write(const volatile void *object, size_t size);

#define COUNT_READ(object) counted_read((object), sizeof(*(object)))
#define COUNT_WRITE(object) counted_write((object), sizeof(*(object)))
#define COUNT_BOTH(object) (COUNT_READ(object), COUNT_WRITE(object))

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_exchange
#undef atomic_exchange_explicit
#undef atomic_fetch_add
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub
#undef atomic_fetch_and
#undef atomic_fetch_or
#undef atomic_compare_exchange_strong

#define atomic_load_explicit(object, order)                                                        \
  (COUNT_READ(object), __atomic_load_n((object), (int)(order)))
#define atomic_load(object) atomic_load_explicit(object, memory_order_seq_cst)
#define atomic_store_explicit(object, value, order)                                                \
  (COUNT_WRITE(object), __atomic_store_n((object), (value), (int)(order)))
#define atomic_store(object, value) atomic_store_explicit(object, value, memory_order_seq_cst)
#define atomic_exchange_explicit(object, value, order)                                             \
  (COUNT_BOTH(object), __atomic_exchange_n((object), (value), (int)(order)))
#define atomic_exchange(object, value) atomic_exchange_explicit(object, value, memory_order_seq_cst)
#define atomic_fetch_add_explicit(object, value, order)                                            \
  (COUNT_BOTH(object), __atomic_fetch_add((object), (value), (int)(order)))
#define atomic_fetch_add(object, value)                                                            \
  atomic_fetch_add_explicit(object, value, memory_order_seq_cst)
#define atomic_fetch_sub(object, value)                                                            \
  (COUNT_BOTH(object), __atomic_fetch_sub((object), (value), __ATOMIC_SEQ_CST))
#define atomic_fetch_and(object, value)                                                            \
  (COUNT_BOTH(object), __atomic_fetch_and((object), (value), __ATOMIC_SEQ_CST))
#define atomic_fetch_or(object, value)                                                             \
  (COUNT_BOTH(object), __atomic_fetch_or((object), (value), __ATOMIC_SEQ_CST))
#define atomic_compare_exchange_strong(object, expected, desired)                                  \
  (COUNT_BOTH(object), __atomic_compare_exchange_n((object), (expected), (desired), 0,             \
                                                   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))

#endif
