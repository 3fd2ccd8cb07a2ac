/* What the creator of an ncclUniqueId writes into it (core/machines/rendezvous.h). */
#include "core/machines/rendezvous.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <string.h>

/* An id as NCCL makes it. */
static void nccl_id(unsigned char id[RENDEZVOUS_ID_BYTES], const char *address) {
  uint64_t magic = UINT64_C(0x1122334455667788);
  struct sockaddr_in ipv4 = {.sin_family = AF_INET, .sin_port = htons(40000)};
  struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6, .sin6_port = htons(40000)};
  memset(id, 0, RENDEZVOUS_ID_BYTES);
  memcpy(id, &magic, sizeof magic);
  if (inet_pton(AF_INET, address, &ipv4.sin_addr) == 1)
    memcpy(id + 8, &ipv4, sizeof ipv4);
  else if (inet_pton(AF_INET6, address, &ipv6.sin6_addr) == 1)
    memcpy(id + 8, &ipv6, sizeof ipv6);
}

static void expect_address(const char *address) {
  unsigned char id[RENDEZVOUS_ID_BYTES], before[RENDEZVOUS_ID_BYTES];
  struct rendezvous made, read;
  char text[RENDEZVOUS_ADDRESS_TEXT];
  nccl_id(id, address);
  memcpy(before, id, sizeof id);
  cr_assert(rendezvous_make(&made));
  cr_assert(rendezvous_write(id, &made));
  cr_assert_eq(memcmp(id, before, 64), 0, "NCCL's bytes are as they were");
  cr_assert(rendezvous_read(id, &read));
  cr_assert_eq(memcmp(&made, &read, sizeof made), 0);
  rendezvous_address(read.address, text);
  cr_assert_str_eq(text, address);
}

Test(rendezvous, is_read_as_it_was_written) {
  expect_address("10.1.2.3");
  expect_address("fd00::1:2");
}

Test(rendezvous, a_job_keeps_the_address_that_it_has) {
  unsigned char first[RENDEZVOUS_ID_BYTES], second[RENDEZVOUS_ID_BYTES];
  struct rendezvous made, read;
  char text[RENDEZVOUS_ADDRESS_TEXT];
  nccl_id(first, "10.1.2.3");
  nccl_id(second, "10.1.2.4");
  cr_assert(rendezvous_make(&made));
  cr_assert(rendezvous_write(first, &made) && rendezvous_write(second, &made));
  cr_assert(rendezvous_read(second, &read));
  rendezvous_address(read.address, text);
  cr_assert_str_eq(text, "10.1.2.3");
}

static void expect_refused(unsigned char id[RENDEZVOUS_ID_BYTES]) {
  unsigned char before[RENDEZVOUS_ID_BYTES];
  struct rendezvous made, read;
  memcpy(before, id, sizeof before);
  cr_assert(rendezvous_make(&made));
  cr_assert_not(rendezvous_write(id, &made));
  cr_assert_eq(memcmp(id, before, sizeof before), 0);
  cr_assert_not(rendezvous_read(id, &read));
}

Test(rendezvous, an_id_of_nccl_comm_id_stays_as_it_is) {
  unsigned char id[RENDEZVOUS_ID_BYTES];
  uint64_t magic = UINT64_C(0x0280028002800280);
  nccl_id(id, "10.1.2.3");
  memcpy(id, &magic, sizeof magic);
  expect_refused(id);
}

Test(rendezvous, an_id_whose_last_bytes_are_used_stays_as_it_is) {
  unsigned char id[RENDEZVOUS_ID_BYTES];
  for (int at = 64; at < RENDEZVOUS_ID_BYTES; at++) {
    nccl_id(id, "10.1.2.3");
    id[at] = 1;
    expect_refused(id);
  }
}

Test(rendezvous, an_id_without_an_address_stays_as_it_is) {
  unsigned char id[RENDEZVOUS_ID_BYTES];
  nccl_id(id, "none");
  expect_refused(id);
  nccl_id(id, "0.0.0.0");
  expect_refused(id);
  nccl_id(id, "::");
  expect_refused(id);
}

Test(rendezvous, of_another_version_it_is_none) {
  unsigned char id[RENDEZVOUS_ID_BYTES];
  struct rendezvous made, read;
  nccl_id(id, "10.1.2.3");
  cr_assert(rendezvous_make(&made));
  cr_assert(rendezvous_write(id, &made));
  id[71]++;
  cr_assert_not(rendezvous_read(id, &read));
}

Test(rendezvous, jobs_differ) {
  struct rendezvous one, other;
  cr_assert(rendezvous_make(&one) && rendezvous_make(&other));
  cr_assert_neq(one.job, other.job);
  cr_assert_neq(memcmp(one.secret, other.secret, sizeof one.secret), 0);
}

/* ---- a secret that the site has given ---- */

Test(rendezvous, with_a_secret_of_the_site_the_number_follows_from_the_place) {
  const unsigned char secret[RENDEZVOUS_SECRET_BYTES] = {1, 2, 3};
  struct rendezvous one, same, other;
  rendezvous_of_secret(secret, "head:1", 6, &one);
  rendezvous_of_secret(secret, "head:1", 6, &same);
  rendezvous_of_secret(secret, "head:2", 6, &other);
  cr_expect_eq(memcmp(&one, &same, sizeof one), 0);
  cr_expect_neq(one.job, other.job);
  cr_expect_eq(memcmp(one.secret, secret, sizeof secret), 0);
  const unsigned char another[RENDEZVOUS_SECRET_BYTES] = {9};
  rendezvous_of_secret(another, "head:1", 6, &other);
  cr_expect_eq(one.job, other.job, "it is the name of a file that others see");
}

Test(rendezvous, an_id_that_nobody_has_marked_has_an_address_at_least) {
  const unsigned char secret[RENDEZVOUS_SECRET_BYTES] = {7};
  unsigned char id[RENDEZVOUS_ID_BYTES], second[RENDEZVOUS_ID_BYTES];
  struct rendezvous job, other;
  char text[RENDEZVOUS_ADDRESS_TEXT];
  nccl_id(id, "10.1.2.3");
  nccl_id(second, "10.1.2.4");
  cr_assert(rendezvous_of_id(id, secret, &job) && rendezvous_of_id(second, secret, &other));
  rendezvous_address(job.address, text);
  cr_expect_str_eq(text, "10.1.2.3");
  cr_expect_neq(job.job, other.job);
  memset(id, 0, sizeof id);
  cr_expect_not(rendezvous_of_id(id, secret, &job));
}
