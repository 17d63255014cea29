#include "run/pool/job_store.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <utility>

#include "base/bytes.h"
#include "net/security/certificate.h"
#include "net/security/private_file.h"
#include "run/pool/pool_id.h"
#include "storage/checkpoint/file.h"

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

}  // namespace leat::pool
