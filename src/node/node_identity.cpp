// SPDX-License-Identifier: BSD-3-Clause
#include "node/node_identity.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <string_view>

#include "base/hash.hpp"

namespace offbeat {

NodeIdentity NodeIdentity::of_this_process() {
  NodeIdentity identity;
  utsname system{};
  uname(&system);
  identity.host_name = fnv1a(system.nodename);

  // Two hosts of a carelessly configured cluster can have the same name, but no two kernels have the same
  // boot_id.
  char boot_id[64];
  struct stat process_namespace {};
  const int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (file < 0) return identity;
  const ssize_t length = read(file, boot_id, sizeof boot_id);
  close(file);
  if (length <= 0 || stat("/proc/self/ns/pid", &process_namespace) != 0) return identity;
  const std::uint64_t kernel = fnv1a({boot_id, static_cast<std::size_t>(length)}, identity.host_name);
  const ino_t inode = process_namespace.st_ino;
  identity.kernel = fnv1a({reinterpret_cast<const char*>(&inode), sizeof inode}, kernel);
  return identity;
}

}  // namespace offbeat
