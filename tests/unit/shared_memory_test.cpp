// SPDX-License-Identifier: BSD-3-Clause
// Memory that processes of one user share, and what another user can do about it. Tests with another user
// need root, and are skipped without; those with another process of the same user are not.
#include "node/shared_memory.hpp"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace offbeat {
namespace {

constexpr std::size_t bytes = 8192;
constexpr uid_t nobody = 65534;

bool is_root() { return geteuid() == 0; }

// Whether `action` held in another process, which is that of another user if one is named.
template <class Action>
bool holds_in_a_child(Action&& action, std::optional<uid_t> user = {}) {
  const pid_t child = fork();
  if (child == 0) {
    const bool changed = !user || (setgroups(0, nullptr) == 0 && setgid(*user) == 0 && setuid(*user) == 0);
    _exit(changed && action() ? 0 : 1);
  }
  int status = 1;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int open_descriptors() {
  int count = 0;
  for (int k = 0; k < 1024; ++k) count += fcntl(k, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

bool is_empty(const Refusals& refusals) { return refusals.begin() == refusals.end(); }

bool has(const Refusals& refusals, const char* call) {
  for (const Refusal& each : refusals) {
    if (std::strcmp(each.call, call) == 0) return true;
  }
  return false;
}

std::string text(const Refusals& refusals) {
  std::string all;
  for (const Refusal& each : refusals) all += std::string(each.call) + ": " + std::strerror(each.code) + "; ";
  return all;
}

Descriptor memory(std::size_t length = bytes) {
  Refusals refusals;
  Descriptor file = make_memory(length, refusals);
  EXPECT_TRUE(file) << text(refusals);
  return file;
}

// AArch64 has no such system call: its C library opens files with openat.
#ifdef SYS_open
constexpr unsigned open_call = SYS_open;
#else
constexpr unsigned open_call = SYS_openat;
#endif

// From now on this process cannot make that system call. False where there is no seccomp.
bool refuse(unsigned call) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = sizeof filter / sizeof *filter, .filter = filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// -- the memory

TEST(Memory, IsSharedWithAnotherProcessThroughProc) {
  const Descriptor file = memory();
  const MemoryOffer offer = offer_of(file);
  Refusals refusals;
  const SharedMemory mine = SharedMemory::map(file, bytes, refusals);
  ASSERT_TRUE(mine);
  EXPECT_TRUE(holds_in_a_child([&] {
    const SharedMemory theirs = SharedMemory::map(accept(offer, bytes, refusals), bytes, refusals);
    if (!theirs || !is_empty(refusals)) return false;
    static_cast<char*>(theirs.data())[bytes - 1] = 'x';
    return true;
  }));
  EXPECT_EQ(static_cast<char*>(mine.data())[bytes - 1], 'x');
}

// The process that fetches it is the parent of the one that has it, as Yama may demand.
TEST(Memory, IsSharedByPidfdWhereProcIsClosed) {
  const Descriptor file = memory();
  const int process = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  const int copy = static_cast<int>(syscall(SYS_pidfd_getfd, process, file.get(), 0));
  close(process);
  if (copy < 0) GTEST_SKIP() << "pidfd_getfd is refused here: " << std::strerror(errno);
  close(copy);
  if (!holds_in_a_child([] { return refuse(open_call); })) GTEST_SKIP() << "no seccomp here";
  EXPECT_TRUE(holds_in_a_child([&] {
    int offers[2];
    int ends[2];
    if (pipe(offers) != 0 || pipe(ends) != 0) return false;
    const pid_t child = fork();
    if (child == 0) {
      close(ends[1]);
      const MemoryOffer offer = offer_of(memory());  // nobody has it any more
      const Descriptor held = memory();
      const MemoryOffer good = offer_of(held);
      char end = 0;
      const bool sent = write(offers[1], &offer, sizeof offer) == sizeof offer &&
                        write(offers[1], &good, sizeof good) == sizeof good;
      _exit(sent && read(ends[0], &end, 1) == 0 ? 0 : 1);
    }
    MemoryOffer gone;
    MemoryOffer offer;
    Refusals refusals;
    const bool refused = read(offers[0], &gone, sizeof gone) == sizeof gone &&
                         read(offers[0], &offer, sizeof offer) == sizeof offer && refuse(SYS_openat) &&
                         refuse(open_call) && !accept(gone, bytes, refusals) &&
                         has(refusals, "/proc/PID/fd") && has(refusals, "pidfd_getfd");
    const bool found = refused && accept(offer, bytes, refusals);
    close(ends[1]);
    return found && waitpid(child, nullptr, 0) == child;
  }));
}

TEST(Memory, IsRefusedWhereItIsAnotherFile) {
  const Descriptor file = memory();
  const Descriptor other = memory();
  const MemoryOffer offer = offer_of(file);
  MemoryOffer wrong_device = offer;
  ++wrong_device.device;
  MemoryOffer wrong_inode = offer;
  ++wrong_inode.inode;
  MemoryOffer wrong_descriptor = offer;
  wrong_descriptor.descriptor = other.get();
  const int before = open_descriptors();
  for (const MemoryOffer& wrong : {wrong_device, wrong_inode, wrong_descriptor}) {
    Refusals refusals;
    EXPECT_FALSE(accept(wrong, bytes, refusals));
    EXPECT_TRUE(has(refusals, "/proc/PID/fd") && has(refusals, "pidfd_getfd")) << text(refusals);
  }
  Refusals refusals;
  EXPECT_TRUE(accept(offer, bytes, refusals)) << text(refusals);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Memory, IsRefusedWhereItIsTooShort) {
  const Descriptor file = memory();
  Refusals refusals;
  EXPECT_FALSE(accept(offer_of(file), bytes + 1, refusals));
  EXPECT_TRUE(has(refusals, "/proc/PID/fd") && has(refusals, "pidfd_getfd")) << text(refusals);
}

TEST(Memory, IsNotOpenedBeforeItIsKnownToBeTheOffer) {
  std::string path = testing::TempDir() + "offbeat-XXXXXX";
  const Descriptor file(mkstemp(path.data()));
  const Descriptor watch(inotify_init1(IN_NONBLOCK));
  ASSERT_GE(inotify_add_watch(watch.get(), path.c_str(), IN_OPEN), 0);
  unlink(path.c_str());
  MemoryOffer offer = offer_of(file);
  Refusals refusals;
  char event[4096];
  EXPECT_TRUE(accept(offer, 0, refusals));
  EXPECT_GT(read(watch.get(), event, sizeof event), 0) << "the watch sees that it is opened";
  ++offer.inode;
  EXPECT_FALSE(accept(offer, 0, refusals));
  EXPECT_LT(read(watch.get(), event, sizeof event), 0);
}

TEST(Memory, CannotBeShortened) {
  const Descriptor file = memory();
  if (fcntl(file.get(), F_GET_SEALS) < 0) GTEST_SKIP() << "no memfd here";
  EXPECT_EQ(ftruncate(file.get(), 0), -1);
  EXPECT_EQ(ftruncate(file.get(), 2 * bytes), -1);
  EXPECT_TRUE(holds_in_a_child([&] {
    Refusals refusals;
    const Descriptor theirs = accept(offer_of(file), bytes, refusals);
    return theirs && ftruncate(theirs.get(), bytes / 2) == -1 && errno == EPERM;
  }));
  struct stat status {};
  fstat(file.get(), &status);
  EXPECT_EQ(status.st_size, bytes);
}

TEST(Memory, IsOutOfReachOfAnotherUser) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  const Descriptor file = memory();
  const MemoryOffer offer = offer_of(file);
  EXPECT_TRUE(holds_in_a_child(
      [&] {
        Refusals refusals;
        close(file.get());  // which came with fork
        return !accept(offer, bytes, refusals) && has(refusals, "/proc/PID/fd") &&
               has(refusals, "pidfd_getfd");
      },
      nobody));
}

// -- the mailbox

// Sends a letter with `copies` copies of a descriptor. Returns 0, or the error number.
int post(int socket, const Mailbox::Name& to, std::size_t copies, int descriptor) {
  char byte = 0;
  iovec content{&byte, 1};
  std::vector<int> enclosed(copies, descriptor);
  std::vector<char> control(CMSG_SPACE(copies * sizeof(int)));
  sockaddr_un address = to.address;
  msghdr header{};
  header.msg_name = &address;
  header.msg_namelen = to.bytes;
  header.msg_iov = &content;
  header.msg_iovlen = 1;
  if (copies > 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(copies * sizeof(int));
    std::memcpy(CMSG_DATA(rights), enclosed.data(), copies * sizeof(int));
  }
  return sendmsg(socket, &header, MSG_NOSIGNAL) == 1 ? 0 : errno;
}

// A socket whose letters a mailbox can listen to, though it is none.
struct Impostor {
  Descriptor socket{::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)};
  Mailbox::Address address;
  Impostor() {
    address.outbox.bytes = sizeof address.outbox.address;
    auto* name = reinterpret_cast<sockaddr*>(&address.outbox.address);
    name->sa_family = AF_UNIX;
    EXPECT_EQ(bind(socket.get(), name, sizeof(sa_family_t)), 0);
    EXPECT_EQ(getsockname(socket.get(), name, &address.outbox.bytes), 0);
  }
};

struct Pair {
  Refusals refusals;
  Mailbox from{refusals};
  Mailbox to{refusals};
  Descriptor file = memory();
  MemoryOffer offer = offer_of(file);
};

TEST(Mailbox, GivesWhatItsSenderSends) {
  Pair pair;
  pair.to.listen_to(pair.from.address(), pair.refusals);
  EXPECT_TRUE(holds_in_a_child([&] {
    pair.from.send(pair.file, pair.to.address(), pair.refusals);
    return is_empty(pair.refusals);
  }));
  const SharedMemory theirs =
      SharedMemory::map(pair.to.take(pair.offer, bytes, pair.refusals), bytes, pair.refusals);
  ASSERT_TRUE(theirs) << text(pair.refusals);
  static_cast<char*>(theirs.data())[0] = 'x';
  char first = 0;
  EXPECT_EQ(pread(pair.file.get(), &first, 1, 0), 1);
  EXPECT_EQ(first, 'x');
  EXPECT_TRUE(is_empty(pair.refusals)) << text(pair.refusals);
}

TEST(Mailbox, WithoutALetterGivesNothingAtOnce) {
  Pair pair;
  EXPECT_FALSE(pair.to.take(pair.offer, bytes, pair.refusals));
  EXPECT_TRUE(has(pair.refusals, "socket"));
  pair.to.listen_to(pair.from.address(), pair.refusals);
  EXPECT_FALSE(pair.to.take(pair.offer, bytes, pair.refusals));
}

TEST(Mailbox, FindsTheFileBehindFiveOthers) {
  Pair pair;
  pair.to.listen_to(pair.from.address(), pair.refusals);
  for (int k = 0; k < 5; ++k) pair.from.send(memory(), pair.to.address(), pair.refusals);
  for (int k = 0; k < 2; ++k) pair.from.send(pair.file, pair.to.address(), pair.refusals);
  const int before = open_descriptors();
  EXPECT_TRUE(pair.to.take(pair.offer, bytes, pair.refusals)) << text(pair.refusals);
  EXPECT_FALSE(pair.to.take(pair.offer, bytes, pair.refusals)) << "what came behind it is thrown away, too";
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Mailbox, TakesNoOtherFileOfThatLength) {
  Pair pair;
  pair.to.listen_to(pair.from.address(), pair.refusals);
  MemoryOffer wrong_device = pair.offer;
  ++wrong_device.device;
  MemoryOffer wrong_inode = pair.offer;
  ++wrong_inode.inode;
  const int before = open_descriptors();
  for (const MemoryOffer& wrong : {wrong_device, wrong_inode}) {
    pair.from.send(pair.file, pair.to.address(), pair.refusals);
    EXPECT_FALSE(pair.to.take(wrong, bytes, pair.refusals));
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Mailbox, TakesNoFileThatIsTooShort) {
  Pair pair;
  pair.to.listen_to(pair.from.address(), pair.refusals);
  pair.from.send(pair.file, pair.to.address(), pair.refusals);
  EXPECT_FALSE(pair.to.take(pair.offer, bytes + 1, pair.refusals));
}

TEST(Mailbox, ClosesAllDescriptorsOfALetter) {
  Pair pair;
  const Impostor impostor;
  const Descriptor other = memory();
  pair.to.listen_to(impostor.address, pair.refusals);
  const int before = open_descriptors();
  for (const std::size_t copies : {0U, 1U, 2U, 3U, 200U}) {
    ASSERT_EQ(post(impostor.socket.get(), pair.to.address().inbox, copies, other.get()), 0);
  }
  EXPECT_FALSE(pair.to.take(pair.offer, bytes, pair.refusals));
  EXPECT_EQ(open_descriptors(), before);
  // More than there can be in ours, though each is the file.
  ASSERT_EQ(post(impostor.socket.get(), pair.to.address().inbox, 200, pair.file.get()), 0);
  EXPECT_FALSE(pair.to.take(pair.offer, bytes, pair.refusals));
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Mailbox, HasRoomForTheLettersOfALargeNode) {
  Pair pair;
  pair.to.listen_to(pair.from.address(), pair.refusals);
  for (int k = 0; k < 400; ++k) pair.from.send(pair.file, pair.to.address(), pair.refusals);
  EXPECT_TRUE(is_empty(pair.refusals)) << text(pair.refusals);
  EXPECT_TRUE(pair.to.take(pair.offer, bytes, pair.refusals));
}

TEST(Mailbox, SaysWhyThereIsNone) {
  EXPECT_TRUE(holds_in_a_child([] {
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};
    setrlimit(RLIMIT_NOFILE, &none);
    Refusals refusals;
    const Mailbox mailbox(refusals);
    return has(refusals, "socket") && mailbox.address().inbox.bytes == 0 &&
           mailbox.address().outbox.bytes == 0;
  }));
}

// All users without a number in a namespace have the same one there, so nobody could be told from a stranger.
TEST(Mailbox, IsNotMadeWhereThisUserHasNoNumber) {
  if (!holds_in_a_child([] { return unshare(CLONE_NEWUSER) == 0; }))
    GTEST_SKIP() << "no user namespaces here";
  EXPECT_TRUE(holds_in_a_child([] {
    Refusals refusals;
    return unshare(CLONE_NEWUSER) == 0 && Mailbox(refusals).address().inbox.bytes == 0 &&
           has(refusals, "socket");
  }));
}

TEST(Mailbox, GoesByTheEffectiveUser) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  EXPECT_TRUE(holds_in_a_child([] {
    if (seteuid(nobody) != 0) return false;
    Pair pair;
    pair.to.listen_to(pair.from.address(), pair.refusals);
    pair.from.send(pair.file, pair.to.address(), pair.refusals);
    return static_cast<bool>(pair.to.take(pair.offer, bytes, pair.refusals));
  }));
}

// A name of a socket may be another user's in another network namespace, or that user may have got hold of
// the name of a sender that has ended. Here it even has the right file.
TEST(Mailbox, TakesNothingFromAnotherUser) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  Pair pair;
  pair.to.listen_to(pair.from.address(), pair.refusals);
  EXPECT_TRUE(holds_in_a_child(
      [&] {
        pair.from.send(pair.file, pair.to.address(), pair.refusals);
        return is_empty(pair.refusals);
      },
      nobody));
  const Impostor impostor;
  Mailbox misled(pair.refusals);
  misled.listen_to(impostor.address, pair.refusals);
  EXPECT_TRUE(holds_in_a_child(
      [&] {
        for (const std::size_t copies : {0U, 1U, 2U, 200U}) {
          if (post(impostor.socket.get(), misled.address().inbox, copies, pair.file.get()) != 0) return false;
        }
        return true;
      },
      nobody));
  EXPECT_TRUE(is_empty(pair.refusals)) << text(pair.refusals);
  const int before = open_descriptors();
  EXPECT_FALSE(pair.to.take(pair.offer, bytes, pair.refusals));
  EXPECT_FALSE(misled.take(pair.offer, bytes, pair.refusals));
  EXPECT_EQ(open_descriptors(), before);
  // Nor is it in the way of what the sender itself sends.
  pair.from.send(pair.file, pair.to.address(), pair.refusals);
  EXPECT_TRUE(pair.to.take(pair.offer, bytes, pair.refusals));
}

class Stranger : public testing::TestWithParam<bool> {
 protected:
  // Whether a process of this user, or of another one, can get a letter into neither socket of a mailbox.
  static bool is_kept_out_of(const Mailbox& mailbox, const Descriptor& file) {
    return holds_in_a_child(
        [&] {
          const Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0));
          bool is_kept_out = true;
          for (const Mailbox::Name& name : {mailbox.address().inbox, mailbox.address().outbox}) {
            for (const std::size_t copies : {0U, 1U, 2U, 200U}) {
              const int error = post(socket.get(), name, copies, file.get());
              is_kept_out = is_kept_out && (error == EPERM || error == EPIPE);
            }
          }
          return is_kept_out;
        },
        GetParam() ? std::optional(nobody) : std::nullopt);
  }
};

TEST_P(Stranger, CannotWriteToAMailbox) {
  if (GetParam() && !is_root()) GTEST_SKIP() << "needs root";
  Pair pair;
  EXPECT_TRUE(is_kept_out_of(pair.to, pair.file)) << "before it listens";
  EXPECT_TRUE(is_kept_out_of(pair.from, pair.file));
  pair.to.listen_to(pair.from.address(), pair.refusals);
  EXPECT_TRUE(is_kept_out_of(pair.to, pair.file)) << "when it listens";
  EXPECT_TRUE(is_kept_out_of(pair.from, pair.file)) << "when it is listened to";
  const int before = open_descriptors();
  EXPECT_FALSE(pair.to.take(pair.offer, bytes, pair.refusals)) << "though a stranger sent the right file";
  EXPECT_EQ(open_descriptors(), before);
  Refusals refusals;
  pair.from.send(pair.file, pair.to.address(), refusals);
  EXPECT_TRUE(pair.to.take(pair.offer, bytes, refusals)) << text(refusals);
  EXPECT_TRUE(is_kept_out_of(pair.to, pair.file)) << "afterwards";
}

INSTANTIATE_TEST_SUITE_P(Process, Stranger, testing::Values(false, true), [](const auto& each) {
  return std::string(each.param ? "OfAnotherUser" : "OfThisUser");
});

}  // namespace
}  // namespace offbeat
