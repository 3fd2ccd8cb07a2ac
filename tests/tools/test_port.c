#include <criterion/criterion.h>
#include <unistd.h>

#include "tools/port.h"

/* Two processes with the same number, in containers that share the network, begin to look at the
 * same port: as one process does that looks twice. */
Test(port, belongs_to_one_job_until_its_launcher_ends) {
  int holds[3];
  int first = port_take(&holds[0]), second = port_take(&holds[1]);
  cr_expect_gt(first, 0);
  cr_expect_eq(first % 2, 0, "the port behind it is another job's");
  cr_expect_eq(second % 2, 0);
  cr_expect_neq(first, second);
  close(holds[0]);
  cr_expect_eq(port_take(&holds[2]), first);
}
