#include "serve/versions.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "storage/checkpoint/store.h"

namespace leat::serve {
namespace {

// The age of a file by the wall clock; 0 if it is not known.
Duration AgeOf(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) return Duration{0};
  const auto written =
      std::chrono::seconds(found.st_mtim.tv_sec) + std::chrono::nanoseconds(found.st_mtim.tv_nsec);
  return std::max<Duration>(Duration{0}, UnixTime() - written);
}

}  // namespace

void Versions::Promote() {
  if (next_ == nullptr || in_use_) return;
  current_ = next_;
  next_ = nullptr;
}

protocol::Parameters* Versions::Begin() {
  std::lock_guard lock(mutex_);
  if (next_ != nullptr) return nullptr;
  return current_ == &sets_[0] ? &sets_[1].parameters : &sets_[0].parameters;
}

void Versions::Complete(protocol::Parameters* set, Time as_of, bool changed, uint64_t number) {
  std::lock_guard lock(mutex_);
  LEAT_CHECK(next_ == nullptr);
  Set* const written = set == &sets_[0].parameters ? &sets_[0] : &sets_[1];
  LEAT_CHECK(set == &written->parameters && written != current_);
  if (!changed && current_ != nullptr) {
    current_->version.as_of = as_of;
    return;
  }
  const uint64_t last = current_ != nullptr ? current_->version.number : 0;
  written->version = {.number = number != 0 ? number : last + 1, .as_of = as_of};
  next_ = written;
  Promote();
}

std::optional<Versions::InUse> Versions::Acquire() {
  std::lock_guard lock(mutex_);
  Promote();
  if (current_ == nullptr) return std::nullopt;
  in_use_ = true;
  return InUse{.parameters = &current_->parameters, .version = current_->version};
}

void Versions::Release() {
  std::lock_guard lock(mutex_);
  in_use_ = false;
  Promote();
}

std::optional<Version> Versions::newest() const {
  std::lock_guard lock(mutex_);
  if (next_ != nullptr) return next_->version;
  if (current_ != nullptr) return current_->version;
  return std::nullopt;
}

CheckpointWatch::CheckpointWatch(std::string directory, protocol::SliceTable table, Versions& versions,
                                 Duration interval)
    : directory_(std::move(directory)),
      table_(std::move(table)),
      versions_(versions),
      interval_(interval),
      thread_(StartThread([this] { Run(); })) {}

CheckpointWatch::~CheckpointWatch() {
  stop_.Set();
  thread_.join();
}

void CheckpointWatch::Run() {
  do {
    const Status status = Look();
    // The same message again says nothing new.
    if (!status.ok() && status.message() != last_error_) spdlog::warn("{}", status.message());
    last_error_ = status.message();
  } while (!stop_.Await(interval_));
}

Status CheckpointWatch::Look() {
  LEAT_ASSIGN_OR_RETURN(const auto newest, checkpoint::ReadNewest(directory_));
  if (newest.id == looked_at_) return {};
  LEAT_ASSIGN_OR_RETURN(const auto found, checkpoint::ReadIntact(directory_));
  if (!found.manifest) return {Code::kNotFound, directory_ + ": no complete checkpoint yet"};
  if (!found.damaged.empty()) spdlog::warn("{}", checkpoint::UsedInstead(found));
  const uint64_t id = found.manifest->id;
  if (id != served_) {
    LEAT_ASSIGN_OR_RETURN(const auto variables,
                          checkpoint::ReadVariables(directory_, *found.manifest, table_));
    protocol::Parameters* const set = versions_.Begin();
    // The predictor is about to come to the last version; the next look is soon enough.
    if (set == nullptr) return {};
    for (size_t v = 0; v < variables.size(); ++v) std::ranges::copy(variables[v], set->values(v).begin());
    const std::string manifest =
        directory_ + "/" + checkpoint::CheckpointName(id) + "/" + checkpoint::kManifestName;
    versions_.Complete(set, clock_.Now() - AgeOf(manifest), true, id);
    served_ = id;
    spdlog::info("checkpoint {} is served", id);
  }
  looked_at_ = newest.id;
  return {};
}

}  // namespace leat::serve
