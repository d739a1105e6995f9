// SPDX-License-Identifier: BSD-3-Clause
#include "node/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/file_size_limit.hpp"
#include "base/page_bytes.hpp"
#include "node/peer_process.hpp"

namespace offbeat {
namespace {

constinit std::atomic<std::size_t> mapped_bytes{0};

// Returns true if the file is the one that was offered. Numbers of processes and descriptors mean other files
// in other namespaces.
bool is_offered_file(const struct stat& file, const MemoryOffer& offer, std::size_t bytes) {
  return file.st_dev == offer.device && file.st_ino == offer.inode &&
         static_cast<std::uint64_t>(file.st_size) >= bytes;
}

bool is_offered_file(const Descriptor& file, const MemoryOffer& offer, std::size_t bytes) {
  struct stat status {};
  return fstat(file.get(), &status) == 0 && is_offered_file(status, offer, bytes);
}

Descriptor open_by_proc(const MemoryOffer& offer, std::size_t bytes) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", offer.pid, offer.descriptor);
  // The file is checked before it is opened: it may be a device, and opening a device can have side effects.
  struct stat status {};
  if (stat(path, &status) != 0) return Descriptor();
  errno = ENOENT;
  return Descriptor(is_offered_file(status, offer, bytes) ? open(path, O_RDWR | O_CLOEXEC) : -1);
}

Descriptor get_by_pidfd(const MemoryOffer& offer) {
  constexpr long pidfd_getfd = 438;  // like open_pidfd()
  const Descriptor process(open_pidfd(offer.pid));
  return Descriptor(process ? static_cast<int>(syscall(pidfd_getfd, process.get(), offer.descriptor, 0))
                            : -1);
}

// A message over a socket: one byte, and in `control` the sender's credentials and an open file.
struct SocketMessage {
  char byte = 0;
  iovec text{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  SocketMessage() {
    header.msg_iov = &text;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }

  // Sends the message to `to`, or to the peer of the socket if `to` is null. The user id is given explicitly
  // because the kernel would otherwise send the real one. Only root may give another user's id, and the
  // kernel refuses a user without a number in this namespace.
  bool send(const Descriptor& from, const Mailbox::Name* to, const Descriptor* file) {
    sockaddr_un address{};
    if (to != nullptr) {
      address = to->address;
      header.msg_name = &address;
      header.msg_namelen = to->bytes;
    }
    cmsghdr* enclosed = CMSG_FIRSTHDR(&header);
    const ucred sender{.pid = getpid(), .uid = geteuid(), .gid = getegid()};
    attach(enclosed, SCM_CREDENTIALS, &sender, sizeof sender);
    if (file != nullptr) {
      const int value = file->get();
      attach(CMSG_NXTHDR(&header, enclosed), SCM_RIGHTS, &value, sizeof value);
    } else {
      header.msg_controllen = CMSG_SPACE(sizeof sender);
    }
    return sendmsg(from.get(), &header, MSG_NOSIGNAL) == 1;
  }

  bool receive(const Descriptor& socket) { return recvmsg(socket.get(), &header, MSG_CMSG_CLOEXEC) >= 0; }

  // Calls `use` for each piece of control data of type `type` in a received message.
  template <class Piece, class Use>
  void for_each(int type, Use&& use) {
    for (cmsghdr* each = CMSG_FIRSTHDR(&header); each != nullptr; each = CMSG_NXTHDR(&header, each)) {
      if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != type) continue;
      const std::size_t pieces = (each->cmsg_len - CMSG_LEN(0)) / sizeof(Piece);
      for (std::size_t k = 0; k < pieces; ++k) {
        Piece piece;
        std::memcpy(&piece, CMSG_DATA(each) + k * sizeof piece, sizeof piece);
        use(piece);
      }
    }
  }

 private:
  static void attach(cmsghdr* where, int type, const void* data, std::size_t bytes) {
    where->cmsg_level = SOL_SOCKET;
    where->cmsg_type = type;
    where->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(where), data, bytes);
  }
};

// Lets the kernel choose a free name for the socket. Returns false and sets errno if it does not.
bool bind_to_free_name(const Descriptor& socket, Mailbox::Name& name) {
  Mailbox::Name given{.address = {.sun_family = AF_UNIX, .sun_path = {}}, .bytes = sizeof(sockaddr_un)};
  auto* address = reinterpret_cast<sockaddr*>(&given.address);
  if (bind(socket.get(), address, sizeof(sa_family_t)) != 0 ||
      getsockname(socket.get(), address, &given.bytes) != 0) {
    return false;
  }
  name = given;
  return true;
}

constexpr int mailbox_socket_type = SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

}  // namespace

void Refusals::add(const char* call, int code) {
  const bool known = std::any_of(begin(), end(), [&](const Refusal& each) {
    return std::strcmp(each.call, call) == 0 && each.code == code;
  });
  if (!known && count_ < refusals_.size()) refusals_[count_++] = {call, code};
}

Descriptor::~Descriptor() {
  if (value_ >= 0) close(value_);
}

SharedMemory SharedMemory::map(const Descriptor& file, std::size_t bytes, Refusals& refusals) {
  SharedMemory memory;
  if (!file) return memory;
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) {
    refusals.add("mmap", errno);
    return memory;
  }
  memory.data_ = data;
  memory.bytes_ = bytes;
  mapped_bytes.fetch_add(bytes, std::memory_order_relaxed);
  return memory;
}

void SharedMemory::prefer_huge_pages() { static_cast<void>(madvise(data_, bytes_, MADV_HUGEPAGE)); }

bool SharedMemory::give_back(void* first, std::size_t bytes) {
  return madvise(first, bytes, MADV_REMOVE) == 0;
}

SharedMemory::~SharedMemory() {
  if (data_ == nullptr) return;
  munmap(data_, bytes_);
  mapped_bytes.fetch_sub(bytes_, std::memory_order_relaxed);
}

Descriptor make_memory(std::size_t bytes, Refusals& refusals) {
  const FileSizeLimitIsError scope;
  const auto size = static_cast<off_t>(bytes);
  if (Descriptor file(memfd_create("offbeat", MFD_CLOEXEC | MFD_ALLOW_SEALING)); !file) {
    refusals.add("memfd_create", errno);
  } else if (ftruncate(file.get(), size) != 0) {
    refusals.add("ftruncate", errno);
  } else {
    // With these seals no process can remove pages that others have mapped. If sealing is refused, the others
    // check the length.
    static_cast<void>(fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
    return file;
  }
  Descriptor file(open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file) {
    refusals.add("/dev/shm", errno);
    return file;
  }
  // The pages are reserved now. If /dev/shm is too small, that is an error here; later it would be a SIGBUS.
  if (const int code = posix_fallocate(file.get(), 0, size); code != 0) {
    refusals.add("/dev/shm", code);
    return Descriptor();
  }
  return file;
}

bool has_address_space_for(std::size_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return true;
  std::size_t pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "re"); file != nullptr) {
    if (std::fscanf(file, "%zu", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  if (pages == 0) return true;
  const std::size_t ours = mapped_bytes.load(std::memory_order_relaxed);
  const std::size_t used = pages * page_bytes() - ours;
  constexpr std::size_t part = 4;
  return used < limit.rlim_cur && ours + bytes <= (limit.rlim_cur - used) / part;
}

bool can_give_pages_back(const Descriptor& file) {
  const int seals = fcntl(file.get(), F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

MemoryOffer offer_of(const Descriptor& file) {
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0) return {};
  return {.pid = getpid(), .descriptor = file.get(), .device = status.st_dev, .inode = status.st_ino};
}

Descriptor accept(const MemoryOffer& offer, std::size_t bytes, Refusals& refusals) {
  if (offer.descriptor < 0) return Descriptor();
  Descriptor file = open_by_proc(offer, bytes);
  if (file && is_offered_file(file, offer, bytes)) return file;
  refusals.add("/proc/PID/fd", file ? ENOENT : errno);
  file = get_by_pidfd(offer);
  if (file && is_offered_file(file, offer, bytes)) return file;
  refusals.add("pidfd_getfd", file ? ENOENT : errno);
  return Descriptor();
}

Mailbox::Mailbox(Refusals& refusals) {
  int pair[2] = {-1, -1};
  const int on = 1;
  // The size of the send buffer, which messages fill until they are taken. The kernel limits it to
  // net.core.wmem_max, whose default leaves room for 555 messages instead of 278.
  const int room = 1 << 20;
  Address mine;
  if (socketpair(AF_UNIX, mailbox_socket_type, 0, pair) == 0) {
    inbox_ = Descriptor(pair[0]);
    const Descriptor peer(pair[1]);
    outbox_ = Descriptor(socket(AF_UNIX, mailbox_socket_type, 0));
    // A user without a number in this user namespace shares one number with all strangers, so messages would
    // not show who sent them. A message to this process, which is never read, detects that.
    if (setsockopt(inbox_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0 &&
        SocketMessage().send(peer, nullptr, nullptr) && bind_to_free_name(inbox_, mine.inbox) && outbox_ &&
        shutdown(outbox_.get(), SHUT_RD) == 0 && bind_to_free_name(outbox_, mine.outbox)) {
      static_cast<void>(setsockopt(outbox_.get(), SOL_SOCKET, SO_SNDBUF, &room, sizeof room));
      address_ = mine;
      return;
    }
  }
  refusals.add("socket", errno);
}

void Mailbox::listen_to(const Address& sender, Refusals& refusals) {
  if (address_.inbox.bytes == 0 || sender.outbox.bytes == 0) return;
  const auto* name = reinterpret_cast<const sockaddr*>(&sender.outbox.address);
  if (connect(inbox_.get(), name, sender.outbox.bytes) != 0) refusals.add("socket", errno);
}

void Mailbox::send(const Descriptor& file, const Address& to, Refusals& refusals) const {
  if (!file || address_.outbox.bytes == 0 || to.inbox.bytes == 0) return;
  if (!SocketMessage().send(outbox_, &to.inbox, &file)) refusals.add("socket", errno);
}

Descriptor Mailbox::take(const MemoryOffer& offer, std::size_t bytes, Refusals& refusals) const {
  Descriptor found;
  if (address_.inbox.bytes == 0 || offer.descriptor < 0) return found;
  // In another network namespace the sender's name may belong to a stranger. So a message is not trusted
  // merely because it arrived, and the loop is bounded so that strangers cannot keep this rank here.
  constexpr int most_messages = 1000;
  for (int k = 0; k < most_messages; ++k) {
    SocketMessage message;
    if (!message.receive(inbox_)) break;
    bool is_ours = false;
    message.for_each<ucred>(SCM_CREDENTIALS, [&](const ucred& sender) { is_ours = sender.uid == geteuid(); });
    if ((message.header.msg_flags & MSG_CTRUNC) != 0)
      is_ours = false;  // offbeat's messages have one descriptor each
    message.for_each<int>(SCM_RIGHTS, [&](int descriptor) {
      Descriptor file(descriptor);
      if (is_ours && !found && is_offered_file(file, offer, bytes)) found = std::move(file);
    });
  }
  if (!found) refusals.add("socket", ENOMSG);
  return found;
}

}  // namespace offbeat
