/* File names as APFS compares them, for tests on Linux. Load it with LD_PRELOAD.
 *
 * Below the folder $APFS_ROOT, a name finds the file whose name differs from it only in case or in
 * Unicode normalization, and a name that is not UTF-8 is refused with EILSEQ. A new file keeps the
 * name that it was given. The target of a symbolic link still has to be spelled exactly. Each
 * function of the C library below passes its arguments on in the registers in which they came, so
 * that one definition serves all of them (x86-64 and arm64).
 *
 * folding.h, which shim.py writes, lists the code points that are not their own folded form. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

struct folding { uint32_t letter, folded[FOLDED]; };
static const struct folding foldings[] = {
#include "folding.h"
};
struct entry { uint64_t number; int64_t offset; unsigned short size; unsigned char kind; char name[256]; };
extern long syscall(long number, ...);
extern char *getcwd(char *path, size_t size);

/* Decode the code point at *text and move *text behind it; -1 if it is not UTF-8. */
static int64_t decoded(const unsigned char **text) {
  static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
  const unsigned char first = *(*text)++;
  const int more = first < 0x80 ? 0 : first < 0xc0 ? -1 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : first < 0xf8 ? 3 : -1;
  if (more < 0) return -1;
  uint32_t letter = more ? first & (0x3f >> more) : first;
  for (int i = 0; i < more; i++, (*text)++) {
    if ((**text & 0xc0) != 0x80) return -1;
    letter = letter << 6 | (**text & 0x3f);
  }
  return letter < least[more] || letter > 0x10ffff || letter >> 11 == 0x1b ? -1 : letter;
}

static int by_letter(const void *letter, const void *folding) {
  const uint32_t a = *(const uint32_t *)letter, b = ((const struct folding *)folding)->letter;
  return (a > b) - (a < b);
}

/* Write the folded form of a name of at most 255 bytes; return whether the name is UTF-8. */
static int fold(const char *name, uint32_t *folded) {
  const unsigned char *text = (const unsigned char *)name;
  while (*text) {
    const int64_t letter = decoded(&text);
    if (letter < 0) return 0;
    const uint32_t wanted = (uint32_t)letter;
    const struct folding *found =
        bsearch(&wanted, foldings, sizeof foldings / sizeof *foldings, sizeof *foldings, by_letter);
    if (!found) *folded++ = wanted;
    for (int i = 0; found && i < FOLDED && found->folded[i]; i++) *folded++ = found->folded[i];
  }
  *folded = 0;
  return 1;
}

/* Replace the name at `path + start` by that of the file in its folder which APFS would find. */
static void find(char *path, size_t start, const uint32_t *wanted) {
  char folder[PATH_MAX], page[8192];
  uint32_t folded[256 * FOLDED];
  memcpy(folder, path, start);
  folder[start] = 0;
  const long opened = syscall(SYS_openat, -100, folder, 0200000 /* O_DIRECTORY */, 0);
  if (opened < 0) return;
  for (long size; (size = syscall(SYS_getdents64, opened, page, sizeof page)) > 0;)
    for (long at = 0; at < size;) {
      const char *name = page + at + 19;
      at += *(unsigned short *)(page + at + 16);
      size_t length = 0;
      if (!fold(name, folded)) continue;
      while (wanted[length] && wanted[length] == folded[length]) length++;
      if (wanted[length] == folded[length]) strcpy(path + start, name);
    }
  syscall(SYS_close, opened);
}

/* Return `path` as the file system spells it, in `held`; null with errno if APFS refuses it. */
static const char *spelled(int folder, const char *path, char *held) {
  static const char *root;
  const int before = errno;
  if (!root && !(root = getenv("APFS_ROOT"))) root = "";
  if (!path || !*path || !*root) return path;
  char whole[2 * PATH_MAX], name[NAME_MAX + 1], link[64];
  uint32_t folded[256 * FOLDED];
  size_t at = strlen(root);
  if (*path == '/') whole[0] = 0;
  else if (folder == -100) { if (!getcwd(whole, PATH_MAX)) return path; }
  else {
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    const long size = syscall(SYS_readlinkat, -100, link, whole, PATH_MAX - 1);
    whole[size < 0 ? 0 : size] = 0;
  }
  if (strlen(whole) + strlen(path) + 2 > PATH_MAX) return path;
  if (*path != '/') strcat(whole, "/");
  strcat(whole, path);
  if (strncmp(whole, root, at) || whole[at] != '/') return path;
  memcpy(held, whole, at);
  for (const char *rest = whole + at; *rest;) {
    while (*rest == '/') held[at++] = *rest++;
    const size_t length = strcspn(rest, "/");
    if (!length) break;
    if (length > NAME_MAX) return path;
    memcpy(name, rest, length);
    name[length] = 0;
    if (!fold(name, folded)) { errno = EILSEQ; return NULL; }
    strcpy(held + at, name);
    if (syscall(SYS_faccessat, -100, held, 0) < 0) find(held, at, folded);
    at += strlen(held + at);
    rest += length;
  }
  held[at] = 0;
  errno = before;
  return held;
}

#define REAL(name) \
  static long (*real)(long, long, long, long, long); \
  if (!real) real = (long (*)(long, long, long, long, long))dlsym(RTLD_NEXT, #name)
#define DEFINE(name) \
  long apfs_##name(long a, long b, long c, long d, long e) __asm__(#name); \
  long apfs_##name(long a, long b, long c, long d, long e)
#define PATH(name, folder, path, failed) \
  DEFINE(name) { \
    REAL(name); \
    char held[PATH_MAX]; \
    const char *there = spelled(folder, (const char *)path, held); \
    if (path && !there) return failed; \
    path = (long)there; \
    return real(a, b, c, d, e); \
  }
static const char *last(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* A file may be renamed to another spelling of its own name. */
#define TWO(name, folder, from, folder2, to) \
  DEFINE(name) { \
    REAL(name); \
    char held[PATH_MAX], held2[PATH_MAX]; \
    const char *old = spelled(folder, (const char *)from, held); \
    const char *new = old ? spelled(folder2, (const char *)to, held2) : NULL; \
    if (!new) return -1; \
    from = (long)old; \
    if (!strcmp(old, new) && new == held2) strcpy(strrchr(held2, '/') + 1, last((const char *)to)); \
    to = (long)new; \
    return real(a, b, c, d, e); \
  }
#define FIRST(name) PATH(name, -100, a, -1)
#define SECOND(name) PATH(name, (int)a, b, -1)
#define POINTER(name) PATH(name, -100, a, 0)

FIRST(open) FIRST(open64) FIRST(creat) FIRST(creat64) SECOND(openat) SECOND(openat64)
POINTER(fopen) POINTER(fopen64) POINTER(opendir) POINTER(realpath)
FIRST(stat) FIRST(stat64) FIRST(lstat) FIRST(lstat64) SECOND(fstatat) SECOND(fstatat64) SECOND(statx)
PATH(__xstat, -100, b, -1) PATH(__xstat64, -100, b, -1)
PATH(__lxstat, -100, b, -1) PATH(__lxstat64, -100, b, -1)
PATH(__fxstatat, (int)b, c, -1) PATH(__fxstatat64, (int)b, c, -1)
FIRST(access) SECOND(faccessat) FIRST(chmod) SECOND(fchmodat) FIRST(truncate) FIRST(truncate64)
FIRST(utime) FIRST(utimes) SECOND(utimensat) FIRST(statvfs) FIRST(statvfs64)
FIRST(mkdir) SECOND(mkdirat) FIRST(rmdir) FIRST(unlink) SECOND(unlinkat) FIRST(remove)
FIRST(readlink) SECOND(readlinkat) FIRST(chdir) PATH(symlink, -100, b, -1) PATH(symlinkat, (int)b, c, -1)
TWO(rename, -100, a, -100, b) TWO(renameat, (int)a, b, (int)c, d) TWO(renameat2, (int)a, b, (int)c, d)
TWO(link, -100, a, -100, b) TWO(linkat, (int)a, b, (int)c, d)
