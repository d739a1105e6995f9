/* SPDX-License-Identifier: BSD-3-Clause
 *
 * spammer SECONDS [FILE]: sends letters with two open files to every abstract socket that is made while it runs and
 * whose name the kernel has chosen (5 hexadecimal digits): as user 65534 where it is started as root. It ends after
 * that time or when it is told to (SIGTERM), with the line
 *
 *     user 65534: 5 letters sent, 1034 refused
 *
 * No MPI program. Sockets that were there before it are not those of the job, and are left alone.
 */
#define _GNU_SOURCE /* memfd_create */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { DIGITS = 5, NAMES = 1 << (4 * DIGITS), COPIES = 2, LETTERS = 20 };

static char was_there[NAMES], table[1 << 22];
static volatile sig_atomic_t is_over;
static long sent, refused;

static void end(int signal) {
  (void)signal;
  is_over = 1;
}

/* Who may write to a socket is refused for other reasons only: it is full, or gone by now. */
static void post(int from, int file, const char *name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  memcpy(address.sun_path + 1, name, DIGITS);
  char byte = 0;
  struct iovec text = {&byte, 1};
  union {
    struct cmsghdr alignment;
    char bytes[CMSG_SPACE(COPIES * sizeof(int))];
  } control;
  struct msghdr letter = {&address, offsetof(struct sockaddr_un, sun_path) + 1 + DIGITS, &text, 1,
                          &control, sizeof control, 0};
  struct cmsghdr *files = CMSG_FIRSTHDR(&letter);
  *files = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
  files->cmsg_len = CMSG_LEN(COPIES * sizeof(int));
  for (int k = 0; k < COPIES; ++k) memcpy(CMSG_DATA(files) + k * sizeof file, &file, sizeof file);
  for (int k = 0; k < LETTERS; ++k) {
    if (sendmsg(from, &letter, MSG_NOSIGNAL) == 1) ++sent;
    else if (errno == EPERM || errno == EPIPE) ++refused;
    else return;
  }
}

/* The sockets of this machine; each is posted to, or only noted where there is no socket to post from. */
static void look(int sockets, int from, int file) {
  size_t length = 0;
  ssize_t more;
  lseek(sockets, 0, SEEK_SET);
  while ((more = read(sockets, table + length, sizeof table - 1 - length)) > 0) length += (size_t)more;
  table[length] = 0;
  for (const char *name = table; (name = strstr(name, " @")) != NULL;) {
    name += 2;
    int digits = 0;
    while (isxdigit((unsigned char)name[digits])) ++digits;
    if (digits != DIGITS || name[DIGITS] != '\n') continue;
    const long number = strtol(name, NULL, 16);
    if (from < 0) was_there[number] = 1;
    else if (!was_there[number]) post(from, file, name);
  }
}

int main(int argc, char **argv) {
  if (geteuid() == 0 && (setgroups(0, NULL) || setgid(65534) || setuid(65534))) return 77;
  const time_t until = time(NULL) + (argc > 1 ? atol(argv[1]) : 1);
  signal(SIGTERM, end);
  const int sockets = open("/proc/net/unix", O_RDONLY), file = memfd_create("spam", 0);
  const int from = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  if (sockets < 0 || file < 0 || from < 0 || ftruncate(file, 1 << 26)) return 77;
  look(sockets, -1, file);
  puts("ready");
  fflush(stdout);
  while (!is_over && time(NULL) < until) look(sockets, from, file);
  printf("user %ld: %ld letters sent, %ld refused\n", (long)getuid(), sent, refused);
  return 0;
}
