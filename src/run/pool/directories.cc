#include "run/pool/directories.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <utility>

#include "base/bytes.h"
#include "base/path/paths.h"
#include "net/security/certificate.h"
#include "net/security/private_file.h"

namespace leat::pool {
namespace {

namespace fs = std::filesystem;

constexpr size_t kIdBytes = 8;
constexpr size_t kLargestFile = size_t{8} << 20;

// Whether there is a certificate that is good, and half of whose life is not over.
bool IsFresh(const fs::path& folder) {
  const auto files = net::ReadCertificateFolder(folder);
  if (!files.ok()) return false;
  const auto renewal = net::RenewalTime(files->certificate);
  return renewal.ok() && std::time(nullptr) < *renewal;
}

constexpr const char* kAgentLock = "agent.lock";
constexpr const char* kPool = "pool";

// Ok if it has an agent's lock, or nothing.
Status CheckAgentDirectory(const std::string& directory) {
  if (checkpoint::Exists(directory + "/" + kAgentLock)) return {};
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name == "lost+found") continue;  // in the root of a disk
    return {Code::kFailedPrecondition,
            directory + ": has '" + name + "' and is no agent's; an agent needs a new or empty directory"};
  }
  return error ? checkpoint::SystemError(directory, "read", error.value()) : Status();
}

// Agents end with all their processes, so nobody uses these any more.
void RemoveLeftSecrets(const std::string& directory) {
  std::error_code error;
  std::vector<std::filesystem::path> left;
  for (std::filesystem::directory_iterator at(directory + "/secrets", error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    const bool job = std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    if (job) left.push_back(at->path());
  }
  for (const auto& path : left) std::filesystem::remove_all(path, error);
}

// The id of a pool: a name that no other pool has. A pool makes it with its directory, and an agent keeps it
// in its own, because numbers of jobs and processes mean something in one pool only. kNotFound: there is no
// such file. kDataLoss: it has no id.
Result<std::string> ReadPoolId(const std::string& path) {
  constexpr uint64_t kMostBytes = 4096;
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, checkpoint::ReadFile(path, kMostBytes));
  std::string id(AsText(bytes));
  if (id.ends_with('\n')) id.pop_back();
  if (!IsPlainName(id)) return Status(Code::kDataLoss, path + " has no id of a pool");
  return id;
}

// Durable. kInvalidArgument: it is no id.
Status WritePoolId(const std::string& directory, const std::string& name, const std::string& id) {
  if (!IsPlainName(id)) return {Code::kInvalidArgument, "a pool has no id"};
  return checkpoint::ReplaceFile(directory, name, AsBytes(id + "\n"));
}

}  // namespace

Result<std::unique_ptr<JobStore>> JobStore::Open(const std::string& directory,
                                                 std::chrono::seconds certificate_life) {
  LEAT_RETURN_IF_ERROR(checkpoint::MakeDirectory(directory + "/jobs"));
  std::unique_ptr<JobStore> store(new JobStore(directory, certificate_life));
  const std::string lock = directory + "/lock";
  store->lock_ = net::Descriptor(open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (store->lock_.get() < 0) return checkpoint::SystemError(lock, "cannot be opened", errno);
  if (flock(store->lock_.get(), LOCK_EX | LOCK_NB) != 0)
    return Status(Code::kFailedPrecondition, "another pool runs in " + directory);
  if (!fs::exists(directory + "/id"))
    LEAT_RETURN_IF_ERROR(WritePoolId(directory, "id", net::RandomHex(kIdBytes)));
  LEAT_ASSIGN_OR_RETURN(store->id_, ReadPoolId(directory + "/id"));
  if (fs::exists(directory + "/run")) {
    LEAT_ASSIGN_OR_RETURN(const Bytes run, checkpoint::ReadFile(directory + "/run", kLargestFile));
    store->run_ = std::strtoull(std::string(AsText(run)).c_str(), nullptr, 10);
  }
  if (++store->run_ >= uint64_t{1} << 31)
    return Status(Code::kDataLoss, directory + "/run has no number of a start");
  LEAT_RETURN_IF_ERROR(
      checkpoint::ReplaceFile(directory, "run", AsBytes(std::to_string(store->run_) + "\n")));
  return store;
}

Result<std::vector<StoredJob>> JobStore::Read() const {
  std::vector<StoredJob> jobs;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory_ + "/jobs", error)) {
    if (entry.path().extension() != ".json") continue;
    LEAT_ASSIGN_OR_RETURN(const Bytes text, checkpoint::ReadFile(entry.path().string(), kLargestFile));
    auto job = FromJson<StoredJob>(AsText(text));
    if (!job.ok()) return job.status().With(entry.path().string());
    if (entry.path().stem().string() != std::to_string(job->record.id))
      return Status(Code::kDataLoss, entry.path().string() + " is job " + std::to_string(job->record.id));
    jobs.push_back(std::move(*job));
  }
  if (error) return checkpoint::SystemError(directory_ + "/jobs", "cannot be read", error.value());
  std::ranges::sort(jobs, {}, [](const StoredJob& job) { return job.record.id; });
  return jobs;
}

Status JobStore::Write(const StoredJob& job) {
  return checkpoint::ReplaceFile(directory_ + "/jobs", std::to_string(job.record.id) + ".json",
                                 AsBytes(ToJson(job)));
}

Status JobStore::Forget(StoredJob job) {
  const std::string id = std::to_string(job.record.id), aside = directory_ + "/forgotten";
  job.payload.token.clear();
  job.payload.environment.clear();
  LEAT_RETURN_IF_ERROR(checkpoint::MakeDirectory(aside));
  LEAT_RETURN_IF_ERROR(checkpoint::ReplaceFile(aside, id + ".json", AsBytes(ToJson(job))));
  std::error_code error;
  fs::remove(directory_ + "/jobs/" + id + ".json", error);
  for (const char* part : {"/authorities/", "/certificates/"}) {
    if (!error) fs::remove_all(directory_ + part + id, error);
  }
  if (error) return checkpoint::SystemError(directory_ + "/jobs/" + id + ".json", "remove", error.value());
  return {};
}

Result<Certificate> JobStore::Issue(JobId job, const std::string& name, const std::vector<std::string>& roles,
                                    const std::vector<std::string>& hosts) {
  const fs::path authority = fs::path(directory_) / "authorities" / std::to_string(job);
  const fs::path folder = fs::path(directory_) / "certificates" / std::to_string(job) / name;
  if (!fs::exists(authority)) {
    LEAT_RETURN_IF_ERROR(checkpoint::MakeDirectory(authority.parent_path().string()));
    LEAT_RETURN_IF_ERROR(net::CreateAuthority(authority));
  }
  if (!IsFresh(folder)) {
    LEAT_RETURN_IF_ERROR(checkpoint::MakeDirectory(folder.parent_path().string()));
    const fs::path next = folder.string() + ".new";
    std::error_code error;
    fs::remove_all(next, error);
    LEAT_RETURN_IF_ERROR(
        net::IssueCertificate(authority, next, {.roles = roles, .hosts = hosts, .valid = certificate_life_}));
    fs::remove_all(folder, error);
    fs::rename(next, folder, error);
    if (error) return checkpoint::SystemError(folder.string(), "rename", error.value());
  }
  LEAT_ASSIGN_OR_RETURN(const auto files, net::ReadCertificateFolder(folder));
  return Certificate{files.ca, files.certificate, files.key};
}

Result<checkpoint::File> OpenAgentDirectory(const std::string& directory) {
  LEAT_RETURN_IF_ERROR(checkpoint::MakeDirectory(directory));
  LEAT_RETURN_IF_ERROR(CheckAgentDirectory(directory));
  LEAT_ASSIGN_OR_RETURN(auto lock, checkpoint::File::Open(directory + "/" + kAgentLock, O_RDWR | O_CREAT));
  if (flock(lock.fd(), LOCK_EX | LOCK_NB) != 0)
    return Status(Code::kFailedPrecondition, directory + ": another agent uses it");
  for (const char* part : {"jobs", "logs", "secrets"})
    LEAT_RETURN_IF_ERROR(checkpoint::MakeDirectory(directory + "/" + part));
  // Jobs go through these, and cannot list them.
  for (const char* part : {"", "/jobs", "/secrets"}) {
    const std::string path = directory + part;
    if (chmod(path.c_str(), 0711) != 0) return checkpoint::SystemError(path, "change mode", errno);
  }
  RemoveLeftSecrets(directory);
  return lock;
}

Result<std::string> PoolOfAgentDirectory(const std::string& directory) {
  auto pool = ReadPoolId(directory + "/" + kPool);
  if (pool.status().code() != Code::kNotFound) return pool;
  std::error_code error;
  const bool empty = std::filesystem::is_empty(directory + "/jobs", error);
  if (error) return checkpoint::SystemError(directory + "/jobs", "read", error.value());
  if (empty) return std::string();
  return Status(Code::kFailedPrecondition,
                directory + ": has jobs of an unknown pool; copy the file 'id' of that pool's directory to " +
                    directory + "/" + kPool + ", or give the agent a new or empty directory");
}

Status GiveAgentDirectory(const std::string& directory, const std::string& pool) {
  return WritePoolId(directory, kPool, pool);
}

Status ProbeAgentDirectory(const std::string& directory) {
  constexpr size_t kProbe = 64 << 10;
  constexpr const char* kName = "probe";
  // root may write into the space that is reserved for it, and jobs may not. Some file systems count nothing.
  struct statvfs disk {};
  if (statvfs(directory.c_str(), &disk) == 0 && disk.f_blocks > 0 &&
      (disk.f_bavail * disk.f_frsize < kProbe || (disk.f_files > 0 && disk.f_favail == 0)))
    return checkpoint::SystemError(directory, "write", ENOSPC);
  const Status written = checkpoint::ReplaceFile(directory, kName, std::vector<std::byte>(kProbe));
  std::error_code ignored;
  std::filesystem::remove(directory + "/" + kName, ignored);
  return written;
}

}  // namespace leat::pool
