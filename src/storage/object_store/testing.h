// A store in memory, with faults on command, for tests.
#pragma once

#include <map>
#include <mutex>
#include <type_traits>

#include "storage/object_store/object_store.h"

namespace leat::object_store {

class MemoryStore final : public ObjectStore {
 public:
  explicit MemoryStore(Settings settings = {.bucket = "bucket", .prefix = "prefix"})
      : settings_(std::move(settings)) {}

  // All calls return it until it is ok again.
  void FailWith(Status status) {
    Locked([&] { failure_ = std::move(status); });
  }
  std::map<std::string, Bytes> objects() const {
    return Locked([&] { return objects_; });
  }
  void Set(const std::string& key, Bytes bytes) {
    Locked([&] { objects_[key] = std::move(bytes); });
  }
  void Begin(OpenUpload upload) {
    Locked([&] { open_.push_back(std::move(upload)); });
  }

  const Settings& settings() const override { return settings_; }
  Status Put(const std::string& key, ByteView body) override {
    return Locked([&] {
      if (failure_.ok()) objects_[key] = Bytes(body.begin(), body.end());
      return failure_;
    });
  }
  Status PutNew(const std::string& key, ByteView body) override {
    return Locked([&] {
      if (!failure_.ok()) return failure_;
      const auto [at, made] = objects_.try_emplace(key, body.begin(), body.end());
      const bool same = std::ranges::equal(at->second, body);
      return made || same ? Status() : Status(Code::kStale, key + ": there is one already");
    });
  }
  Status Upload(const std::string& key, uint64_t size, const ReadPiece& read) override {
    Bytes whole(size);
    LEAT_RETURN_IF_ERROR(read(0, whole));
    return Put(key, whole);
  }
  Result<Bytes> Get(const std::string& key, uint64_t limit) override {
    return Locked([&]() -> Result<Bytes> {
      if (!failure_.ok()) return failure_;
      const auto at = objects_.find(key);
      if (at == objects_.end()) return Status(Code::kNotFound, key);
      if (at->second.size() > limit) return Status(Code::kResourceExhausted, key);
      return at->second;
    });
  }
  Status Read(const std::string& key, uint64_t offset, std::span<std::byte> out) override {
    LEAT_ASSIGN_OR_RETURN(const Bytes whole, Get(key, uint64_t{1} << 40));
    if (offset + out.size() > whole.size()) return {Code::kInvalidArgument, key + ": InvalidRange"};
    std::ranges::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(offset),
                        static_cast<std::ptrdiff_t>(out.size()), out.begin());
    return {};
  }
  Result<uint64_t> Size(const std::string& key) override {
    LEAT_ASSIGN_OR_RETURN(const Bytes whole, Get(key, uint64_t{1} << 40));
    return uint64_t{whole.size()};
  }
  Result<std::vector<ObjectInfo>> List(const std::string& prefix) override {
    return Locked([&]() -> Result<std::vector<ObjectInfo>> {
      if (!failure_.ok()) return failure_;
      std::vector<ObjectInfo> found;
      for (const auto& [key, bytes] : objects_)
        if (key.starts_with(prefix)) found.push_back({key, bytes.size()});
      return found;
    });
  }
  Status Remove(const std::string& key) override {
    return Locked([&] {
      if (failure_.ok()) objects_.erase(key);
      return failure_;
    });
  }
  Result<std::vector<OpenUpload>> OpenUploads(const std::string& prefix) override {
    return Locked([&]() -> Result<std::vector<OpenUpload>> {
      if (!failure_.ok()) return failure_;
      std::vector<OpenUpload> found;
      for (const auto& upload : open_)
        if (upload.key.starts_with(prefix)) found.push_back(upload);
      return found;
    });
  }
  Status GiveUp(const OpenUpload& upload) override {
    return Locked([&] {
      if (failure_.ok()) std::erase(open_, upload);
      return failure_;
    });
  }
  void Abort() override { FailWith(Status(Code::kAborted, "given up")); }
  Counts counts() const override { return {}; }

 private:
  template <class F>
  std::invoke_result_t<F> Locked(F&& f) const {
    std::lock_guard lock(mutex_);
    return f();
  }

  const Settings settings_;
  mutable std::mutex mutex_;
  std::map<std::string, Bytes> objects_;
  std::vector<OpenUpload> open_;
  Status failure_;
};

}  // namespace leat::object_store
