#include "disk_recorder.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

namespace leat::power_cut {
namespace {

using Kind = Operation::Kind;

struct State {
  dev_t device;                     // device of the root
  std::map<ino_t, uint64_t> nodes;  // numbers of files and directories below the root, by inode
  uint64_t last_node = 0;
  std::vector<Operation> operations;
};
// Held while a recorded operation is carried out, so that operations are recorded in their order.
std::mutex mutex;
State* state = nullptr;  // guarded by mutex
std::atomic<bool> recording{false};

struct Failure {
  FailingFiles::What what;
  std::string part;
  int error;
};
Failure* failure = nullptr;  // guarded by mutex
std::atomic<bool> failing{false};

std::string PathOf(int fd) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t n = ::readlink(link.c_str(), path, sizeof(path));
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : std::string();
}

bool Fails(FailingFiles::What what, int fd) {
  if (!failing) return false;
  std::lock_guard lock(mutex);
  if (failure == nullptr || failure->what != what) return false;
  if ((PathOf(fd) + "$").find(failure->part) == std::string::npos) return false;
  errno = failure->error;
  return true;
}

// Locks the mutex if anything is recorded.
std::unique_lock<std::mutex> LockIfRecording() {
  return recording ? std::unique_lock(mutex) : std::unique_lock<std::mutex>();
}

// The functions below need the lock if it is to be had. Finds the node of a file or directory; false if it is
// not below the root.
bool Find(const struct stat& info, uint64_t* node) {
  if (state == nullptr || info.st_dev != state->device) return false;
  const auto found = state->nodes.find(info.st_ino);
  if (found == state->nodes.end()) return false;
  *node = found->second;
  return true;
}
bool FindFd(int fd, uint64_t* node) {
  struct stat info;
  return state != nullptr && ::fstat(fd, &info) == 0 && Find(info, node);
}
bool FindPath(const std::string& path, uint64_t* node) {
  struct stat info;
  return state != nullptr && ::stat(path.c_str(), &info) == 0 && Find(info, node);
}

// The directory that has the entry, and the entry's name; false if it is not below the root. The shared
// memory of SQLite's WAL is not on the disk.
bool FindEntry(const std::string& path, uint64_t* directory, std::string* name) {
  if (state == nullptr || path.ends_with("-shm")) return false;
  const std::filesystem::path p(path);
  *name = p.filename();
  return FindPath(p.parent_path(), directory);
}

void RecordCreate(uint64_t directory, const std::string& name, bool is_directory, ino_t inode) {
  state->nodes[inode] = ++state->last_node;
  state->operations.push_back({.kind = Kind::kCreate,
                               .node = state->last_node,
                               .directory = directory,
                               .is_directory = is_directory,
                               .name = name});
}

// Forgets a file or directory that is removed: another one may get its inode.
void Forget(const struct stat& info) {
  if (info.st_dev == state->device) state->nodes.erase(info.st_ino);
}

void RecordWrite(int fd, const void* data, ssize_t size, off_t offset) {
  uint64_t node = 0;
  if (size <= 0 || !FindFd(fd, &node)) return;
  const auto* bytes = static_cast<const std::byte*>(data);
  state->operations.push_back({.kind = Kind::kWrite,
                               .node = node,
                               .offset = static_cast<uint64_t>(offset),
                               .data = Bytes(bytes, bytes + size)});
}

// Locks the mutex if this file is recorded: a write to a pipe or a socket may wait for another thread.
std::unique_lock<std::mutex> LockIfRecorded(int fd) {
  auto lock = LockIfRecording();
  uint64_t node = 0;
  if (lock && !FindFd(fd, &node)) lock.unlock();
  return lock;
}

void RecordTruncate(int fd, uint64_t size) {
  uint64_t node = 0;
  if (FindFd(fd, &node)) state->operations.push_back({.kind = Kind::kTruncate, .node = node, .offset = size});
}

int Open(const char* path, int flags, mode_t mode) {
  uint64_t directory = 0;
  std::string name;
  auto lock = (flags & (O_CREAT | O_TRUNC)) != 0 ? LockIfRecording() : std::unique_lock<std::mutex>();
  const bool recorded = lock && FindEntry(path, &directory, &name);
  if (lock && !recorded) lock.unlock();
  struct stat info;
  const bool existed = recorded && ::stat(path, &info) == 0;
  const int fd = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
  if (fd < 0 || !recorded) return fd;
  if (!existed && ::fstat(fd, &info) == 0) {
    RecordCreate(directory, name, false, info.st_ino);
  } else if ((flags & O_TRUNC) != 0) {
    RecordTruncate(fd, 0);
  }
  return fd;
}

// Where a write at `offset` goes.
off_t PlaceOf(int fd, off_t offset) {
  struct stat info;
  const bool appends = (::fcntl(fd, F_GETFL) & O_APPEND) != 0 && ::fstat(fd, &info) == 0;
  return appends ? info.st_size : offset;
}

ssize_t WriteAt(int fd, const void* data, size_t size, off_t offset) {
  if (Fails(FailingFiles::What::kWrite, fd)) return -1;
  const auto lock = LockIfRecorded(fd);
  const off_t place = PlaceOf(fd, offset);
  const auto n = static_cast<ssize_t>(::syscall(SYS_pwrite64, fd, data, size, offset));
  if (lock) RecordWrite(fd, data, n, place);
  return n;
}

int Truncate(int fd, off_t size) {
  if (Fails(FailingFiles::What::kWrite, fd)) return -1;
  const auto lock = LockIfRecorded(fd);
  const int rc = static_cast<int>(::syscall(SYS_ftruncate, fd, size));
  if (rc == 0 && lock) RecordTruncate(fd, static_cast<uint64_t>(size));
  return rc;
}

int Sync(int fd) {
  if (Fails(FailingFiles::What::kSync, fd)) return -1;
  const auto lock = LockIfRecording();
  uint64_t node = 0;
  if (lock && FindFd(fd, &node)) state->operations.push_back({.kind = Kind::kSync, .node = node});
  return 0;
}

int Remove(int at, const char* path, int flags) {
  uint64_t directory = 0;
  std::string name;
  const bool absolute = path[0] == '/';
  const std::string whole = absolute || at == AT_FDCWD ? std::string(path) : PathOf(at) + "/" + path;
  const auto lock = LockIfRecording();
  const bool recorded = lock && FindEntry(whole, &directory, &name);
  struct stat info {};
  const bool known = recorded && ::lstat(whole.c_str(), &info) == 0;
  const int rc = static_cast<int>(::syscall(SYS_unlinkat, at, path, flags));
  if (rc == 0 && recorded)
    state->operations.push_back({.kind = Kind::kRemove, .directory = directory, .name = name});
  if (rc == 0 && known) Forget(info);
  return rc;
}

}  // namespace

Recorder::Recorder(const std::string& root) {
  struct stat info;
  if (::stat(root.c_str(), &info) != 0) std::abort();
  std::lock_guard lock(mutex);
  state = new State{.device = info.st_dev, .nodes = {{info.st_ino, 0}}, .operations = {}};
  recording = true;
}
Recorder::~Recorder() {
  std::lock_guard lock(mutex);
  recording = false;
  delete state;
  state = nullptr;
}
size_t Recorder::count() const {
  std::lock_guard lock(mutex);
  return state->operations.size();
}
std::vector<Operation> Recorder::operations() const {
  std::lock_guard lock(mutex);
  return state->operations;
}

FailingFiles::FailingFiles(What what, std::string part, int error) {
  std::lock_guard lock(mutex);
  failure = new Failure{what, std::move(part), error};
  failing = true;
}
FailingFiles::~FailingFiles() {
  std::lock_guard lock(mutex);
  failing = false;
  delete failure;
  failure = nullptr;
}

}  // namespace leat::power_cut

// ---- the C library's functions

namespace power_cut = leat::power_cut;

// Shared libraries find these, whatever the visibility of this build's own symbols.
#pragma GCC visibility push(default)
extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return power_cut::Open(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return power_cut::Open(path, flags, mode);
}
ssize_t write(int fd, const void* data, size_t size) {
  if (power_cut::Fails(power_cut::FailingFiles::What::kWrite, fd)) return -1;
  const auto lock = power_cut::LockIfRecorded(fd);
  const off_t at = lock ? power_cut::PlaceOf(fd, ::lseek(fd, 0, SEEK_CUR)) : -1;
  const auto n = static_cast<ssize_t>(::syscall(SYS_write, fd, data, size));
  if (at >= 0) power_cut::RecordWrite(fd, data, n, at);
  return n;
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  return power_cut::WriteAt(fd, data, size, offset);
}
ssize_t pwrite64(int fd, const void* data, size_t size, off64_t offset) {
  return power_cut::WriteAt(fd, data, size, offset);
}
int ftruncate(int fd, off_t size) noexcept {
  return power_cut::Truncate(fd, size);
}
int ftruncate64(int fd, off64_t size) noexcept {
  return power_cut::Truncate(fd, size);
}
int fsync(int fd) {
  return power_cut::Sync(fd);
}
int fdatasync(int fd) {
  return power_cut::Sync(fd);
}
int mkdir(const char* path, mode_t mode) noexcept {
  uint64_t directory = 0;
  std::string name;
  const auto lock = power_cut::LockIfRecording();
  const bool recorded = lock && power_cut::FindEntry(path, &directory, &name);
  const int rc = static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
  struct stat info;
  if (rc == 0 && recorded && ::stat(path, &info) == 0)
    power_cut::RecordCreate(directory, name, true, info.st_ino);
  return rc;
}
char* mkdtemp(char* pattern) noexcept {
  static unsigned count = 0;
  char* end = pattern + std::char_traits<char>::length(pattern) - 6;
  for (int tries = 0; tries < 100'000; ++tries) {
    std::snprintf(end, 7, "%06x", (static_cast<unsigned>(::getpid()) * 977 + ++count) & 0xffffff);
    if (::mkdir(pattern, 0700) == 0) return pattern;
    if (errno != EEXIST) return nullptr;
  }
  return nullptr;
}
int unlink(const char* path) noexcept {
  return power_cut::Remove(AT_FDCWD, path, 0);
}
int unlinkat(int at, const char* path, int flags) noexcept {
  return power_cut::Remove(at, path, flags);
}
int rmdir(const char* path) noexcept {
  return power_cut::Remove(AT_FDCWD, path, AT_REMOVEDIR);
}
int remove(const char* path) noexcept {
  const int rc = power_cut::Remove(AT_FDCWD, path, 0);
  return rc == 0 || errno != EISDIR ? rc : power_cut::Remove(AT_FDCWD, path, AT_REMOVEDIR);
}
int rename(const char* from, const char* to) noexcept {
  uint64_t directory = 0, target = 0;
  std::string name, new_name;
  const auto lock = power_cut::LockIfRecording();
  const bool recorded =
      lock && power_cut::FindEntry(from, &directory, &name) && power_cut::FindEntry(to, &target, &new_name);
  struct stat replaced {};
  const bool replaces = recorded && ::lstat(to, &replaced) == 0;
  const int rc = static_cast<int>(::syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to));
  if (rc == 0 && recorded) {
    if (replaces) power_cut::Forget(replaced);
    power_cut::state->operations.push_back({.kind = power_cut::Kind::kRename,
                                            .directory = directory,
                                            .target = target,
                                            .name = name,
                                            .to = new_name});
  }
  return rc;
}

}  // extern "C"
#pragma GCC visibility pop
